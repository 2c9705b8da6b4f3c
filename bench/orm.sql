-- A transaction as an object-relational mapper makes it: two rows are read, one is changed.
\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
BEGIN;
SELECT aid, bid, abalance, filler FROM pgbench_accounts WHERE aid = :aid;
SELECT bid, bbalance, filler FROM pgbench_branches WHERE bid = 1 + :aid / (100000 * :scale + 1);
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
COMMIT;
