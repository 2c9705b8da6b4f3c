-- A transaction of five statements, one of which runs a trigger, as applications note when a row has changed.
\set id random(1, 1000)
BEGIN;
SELECT v FROM stamped WHERE id = :id;
UPDATE stamped SET v = v + 1 WHERE id = :id;
SELECT v FROM stamped WHERE id = :id;
UPDATE plain SET v = v + 1 WHERE id = :id;
SELECT v FROM plain WHERE id = :id;
COMMIT;
