DROP MATERIALIZED VIEW shop.sums; DROP TABLE shop.totals;
