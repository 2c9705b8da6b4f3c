CREATE INDEX CONCURRENTLY customers_name ON shop.customers (name);
