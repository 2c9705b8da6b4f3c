-- The tables that docs/guide/models.md speaks of and does not make.
CREATE TABLE diamonds AS
SELECT i * 0.01 AS carat, (ARRAY['Fair', 'Good', 'Very Good', 'Premium', 'Ideal'])[1 + i % 5] AS cut,
    (ARRAY['IF', 'VS1', 'SI2'])[1 + i % 3] AS clarity, 100 * i + 10 * (i % 5) + i % 3 AS price
FROM generate_series(20, 219) AS i;
CREATE TABLE customers AS
SELECT i AS customer_id, i % 3 + 1 AS importance, date '2026-01-01' + i AS measured_at, i % 7 AS calls,
    i % 7 > 3 AS churned
FROM generate_series(1, 200) AS i;
