// The shop by node-postgres: node shop.js URL BASE. Prints what it reads.
const { Pool, types } = require("pg");

types.setTypeParser(types.builtins.INT8, Number);

async function main(url, base) {
  const pool = new Pool({ connectionString: url, max: 4 });
  const say = (name, value) => console.log(name, JSON.stringify(value));
  const rows = async (text, values) => (await pool.query(text, values)).rows;
  const transaction = async (steps) => {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      const result = await steps((text, values) => client.query(text, values));
      await client.query("COMMIT");
      return result;
    } catch (error) {
      await client.query("ROLLBACK");
      return error.code;
    } finally {
      client.release();
    }
  };
  const customers = Array.from({ length: 8 }, (_, number) => base + number);
  await Promise.all(
    customers.map((id) =>
      transaction(async (query) => {
        await query("INSERT INTO customers (customer_id, name, email) VALUES ($1, $2, $3)", [id, `name ${id}`, `${id}@example.org`]);
        for (const order of [1, 2]) {
          const made = await query("INSERT INTO orders (customer_id, order_id, total) VALUES ($1, $2, $3) RETURNING order_id, status", [id, order, order * 10]);
          await query("INSERT INTO lines SELECT $1, $2, n, 'p' || n, n FROM generate_series(1, 2) n", [id, made.rows[0].order_id]);
        }
      }),
    ),
  );
  say("one", await rows("SELECT c.name, o.order_id, l.line, l.price FROM customers c JOIN orders o USING (customer_id) JOIN lines l USING (customer_id, order_id) WHERE c.customer_id = $1 ORDER BY 2, 3", [base]));
  say("named", (await pool.query({ name: "by-id", text: "SELECT name FROM customers WHERE customer_id = $1", values: [base + 1] })).rows);
  for (const id of customers) say("named", (await pool.query({ name: "by-id", text: "SELECT name FROM customers WHERE customer_id = $1", values: [id] })).rows[0].name);
  say("any", await rows("SELECT customer_id FROM customers WHERE customer_id = ANY($1) ORDER BY 1", [customers]));
  say("any of one", await rows("SELECT order_id FROM orders WHERE customer_id = ANY($1::bigint[]) ORDER BY 1", [[base + 2]]));
  say("update any", (await pool.query("UPDATE orders SET status = 'seen' WHERE customer_id = ANY($1)", [[base + 2]])).rowCount);
  say("upsert", await rows("INSERT INTO customers (customer_id, name, email) VALUES ($1, $2, $3) ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name RETURNING customer_id, name", [base, "again", "x"]));
  say("duplicate", await transaction(async (query) => {
    await query("UPDATE customers SET balance = 99 WHERE customer_id = $1", [base]);
    await query("INSERT INTO customers (customer_id, name, email) VALUES ($1, 'n', 'e')", [base]);
  }));
  say("kept", await rows("SELECT balance FROM customers WHERE customer_id = $1", [base]));
  say("savepoint", await transaction(async (query) => {
    await query("SAVEPOINT before");
    await query("INSERT INTO orders (customer_id, order_id) VALUES ($1, 50)", [base]);
    await query("ROLLBACK TO SAVEPOINT before");
    await query("INSERT INTO orders (customer_id, order_id) VALUES ($1, 51)", [base]);
    await query("RELEASE SAVEPOINT before");
    return (await query("SELECT order_id FROM orders WHERE customer_id = $1 ORDER BY 1", [base])).rows;
  }));
  say("locked", await transaction(async (query) => {
    const { rows: [row] } = await query("SELECT balance FROM customers WHERE customer_id = $1 FOR UPDATE", [base + 3]);
    await query("UPDATE customers SET balance = $2 WHERE customer_id = $1", [base + 3, Number(row.balance) + 7]);
    return (await query("SELECT balance FROM customers WHERE customer_id = $1", [base + 3])).rows;
  }));
  say("report", await rows("SELECT status, count(*), sum(total) FROM orders WHERE customer_id BETWEEN $1 AND $2 GROUP BY 1 ORDER BY 1", [base, base + 99]));
  say("country", await transaction(async (query) => {
    const found = await query("SELECT name FROM countries WHERE code = $1", ["th"]);
    await query("UPDATE customers SET country = 'th' WHERE customer_id = $1", [base + 4]);
    return found.rows;
  }));
  say("batch", (await pool.query("INSERT INTO lines SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::numeric[]) RETURNING line", [[base + 5, base + 5], [1, 1], [8, 9], ["x", "y"], [1, 2]])).rows);
  say("null", await rows("SELECT name FROM customers WHERE customer_id = $1 AND country IS NULL", [base + 6]));
  say("error", await pool.query("SELECT 1 / 0 FROM customers WHERE customer_id = $1", [base]).catch((error) => error.code));
  say("delete", await transaction(async (query) => {
    await query("DELETE FROM lines WHERE customer_id = $1", [base + 7]);
    return (await query("DELETE FROM orders WHERE customer_id = $1 RETURNING order_id", [base + 7])).rows.length;
  }));
  await pool.end();
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
