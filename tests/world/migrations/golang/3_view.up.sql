CREATE TABLE IF NOT EXISTS totals (of bigint REFERENCES shop.customers, total numeric CHECK (total >= 0));
INSERT INTO totals SELECT id, id / 4.0 FROM shop.customers;
CREATE MATERIALIZED VIEW shop.sums AS SELECT name, total FROM shop.customers JOIN totals ON of = id;
