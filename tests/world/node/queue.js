// pg-boss: node queue.js URL fill COUNT, or node queue.js URL work COUNT.
const PgBoss = require("pg-boss");
const { Pool } = require("pg");

async function main(url, what, count) {
  const pool = new Pool({ connectionString: url, max: 3 });
  const boss = new PgBoss({ connectionString: url, max: 5 });
  boss.on("error", (error) => console.error("pg-boss:", error.message));
  await boss.start();
  await boss.createQueue("jobs");
  if (what === "fill") {
    for (let number = 0; number < count / 2; number++) await boss.send("jobs", { number });
    const rest = [];
    for (let number = Math.ceil(count / 2); number < count; number++) rest.push({ name: "jobs", data: { number } });
    await boss.insert(rest);
  } else {
    await boss.work("jobs", { pollingIntervalSeconds: 0.5, batchSize: 10 }, async (jobs) => {
      for (const job of jobs) await pool.query("INSERT INTO done VALUES ($1)", [job.data.number]);
    });
    const done = async () => (await pool.query("SELECT count(DISTINCT number)::int AS done FROM done")).rows[0].done;
    while ((await done()) < count) await new Promise((go) => setTimeout(go, 50));
  }
  await boss.stop({ graceful: true, wait: true });
  await pool.end();
}

const [url, what, count] = process.argv.slice(2);
main(url, what, Number(count)).catch((error) => {
  console.error(error);
  process.exit(1);
});
