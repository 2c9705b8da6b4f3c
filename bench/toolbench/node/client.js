// One of node's drivers in a process of its own, told what to do by lines of JSON, as bench/toolbench/client.py is.
//
// node client.js pg|pg-native URL CONNECTIONS
//
// Statements are named, and so prepared once a connection; rows are arrays of values.

const pg = require("pg");
const readline = require("readline");

const [driver, url, count] = process.argv.slice(2);
const Client = driver === "pg-native" ? pg.native && pg.native.Client : pg.Client;
if (!Client) {
  console.error("pg-native is not built");
  process.exit(3);
}

let clients = [];
let statement = null;

const ask = (client) => client.query(statement).then((result) => result.rows.length);

async function open({ name, query }) {
  while (clients.length < Number(count)) {
    const client = new Client({ connectionString: url });
    await client.connect();
    clients.push(client);
  }
  statement = { name, text: query, rowMode: "array" };
  return { rows: await ask(clients[0]) };
}

async function run(seconds) {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const end = start + seconds * 1000;
  const latencies = [];
  let rows = 0;
  await Promise.all(
    clients.map(async (client) => {
      let before = performance.now();
      while (before < end) {
        const found = await ask(client);
        const now = performance.now();
        rows += found;
        latencies.push(now - before);
        before = now;
      }
    }),
  );
  const wall = (performance.now() - start) / 1000;
  const used = process.cpuUsage(cpu);
  latencies.sort((a, b) => a - b);
  const at = (part) => latencies[Math.min(latencies.length - 1, Math.floor(part * latencies.length))];
  return {
    queries: latencies.length / wall,
    rows: rows / wall,
    cpu: (used.user + used.system) / rows,
    mean: latencies.reduce((sum, each) => sum + each, 0) / latencies.length,
    p50: at(0.5),
    p99: at(0.99),
  };
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    const answer = "open" in command ? await open(command.open) : await run(command.run);
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
  await Promise.all(clients.map((client) => client.end()));
})();
