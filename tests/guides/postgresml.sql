-- The table that docs/guide/postgresml.md speaks of and does not make.
CREATE TABLE flights AS
SELECT i % 12 + 1 AS month, i % 24 AS hour, (i * 7919) % 400 AS distance, (i % 24) * 2 + i % 12 AS delay
FROM generate_series(1, 500) AS i;
