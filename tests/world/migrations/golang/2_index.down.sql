DROP INDEX CONCURRENTLY shop.customers_name;
