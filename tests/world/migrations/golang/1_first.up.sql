CREATE SCHEMA shop;
SET search_path = shop, public;
CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);
CREATE FUNCTION shout(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN upper($1) || '; $'; END $$;
INSERT INTO customers (name) SELECT shout('c' || i) FROM generate_series(1, 100) AS i;
