-- The built-in data sets: pgml.load_dataset.
CREATE EXTENSION pgml;
\pset format unaligned
\pset footer off
CREATE FUNCTION attempt(statement text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    state := '00000';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
END $$;

SELECT * FROM pgml.load_dataset('breast_cancer');
SELECT * FROM pgml.load_dataset('diabetes');
SELECT * FROM pgml.load_dataset('digits');
SELECT * FROM pgml.load_dataset('iris');
SELECT * FROM pgml.load_dataset('linnerud');
SELECT * FROM pgml.load_dataset('wine');
SELECT attrelid::regclass AS "table", attname AS "column", format_type(atttypid, atttypmod) AS type
FROM pg_attribute
WHERE attrelid = ANY ('{pgml.breast_cancer, pgml.diabetes, pgml.digits, pgml.iris, pgml.linnerud, pgml.wine}'::regclass[])
    AND attnum > 0
ORDER BY attrelid::regclass::text, attnum;

-- A look at each.
SELECT * FROM pgml.iris LIMIT 2;
SELECT target, count(*), round(avg(petal_length)::numeric, 3) AS petal_length FROM pgml.iris GROUP BY 1 ORDER BY 1;
SELECT malignant, count(*), round(avg("mean radius")::numeric, 3) AS radius FROM pgml.breast_cancer GROUP BY 1 ORDER BY 1;
SELECT round(min(target)::numeric, 0) AS low, round(max(target)::numeric, 0) AS high, round(sum(bmi * bmi)::numeric, 4) AS
    unit FROM pgml.diabetes;
SELECT * FROM pgml.digits LIMIT 1;
SELECT target, count(*) FROM pgml.digits GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM pgml.digits WHERE array_dims(image) <> '[1:8][1:8]';
SELECT round(avg(chins)::numeric, 3) AS chins, round(avg(weight)::numeric, 3) AS weight FROM pgml.linnerud;
SELECT target, count(*), round(avg(proline)::numeric, 2) AS proline FROM pgml.wine GROUP BY 1 ORDER BY 1;

-- A limit; and the table is made anew each time.
SELECT * FROM pgml.load_dataset('iris', "limit" => 10);
SELECT count(*) FROM pgml.iris;
SELECT * FROM pgml.load_dataset('iris', "limit" => 0);
SELECT count(*) FROM pgml.iris;
SELECT * FROM pgml.load_dataset('iris', NULL, 1000, '{}');
SELECT count(*) FROM pgml.iris;
SELECT pgml.load_dataset('iris');

-- They can be learnt from as they are, names with blanks and images included.
SELECT * FROM pgml.train('iris', 'classification', 'pgml.iris', 'target', 'xgboost', '{"n_estimators": 5}');
SELECT * FROM pgml.train('cancer', 'classification', 'pgml.breast_cancer', 'malignant', 'xgboost', '{"n_estimators": 5}');
SELECT * FROM pgml.train('digits', 'classification', 'pgml.digits', 'target', 'xgboost', '{"n_estimators": 3}');
SELECT name, num_features, (metrics ->> 'accuracy')::float8 > 0.8 AS accurate
FROM pgml.models m INNER JOIN pgml.projects p ON p.id = m.project_id ORDER BY m.id;
SELECT count(*) > 1600 AS most FROM pgml.digits WHERE pgml.predict('digits', image) = target;
SELECT avg((pgml.predict('cancer', b) = malignant::int)::int) > 0.9 AS most FROM pgml.breast_cancer b;

-- What is refused, and leaves the table that there was.
\pset expanded on
SELECT * FROM attempt($$SELECT pgml.load_dataset('irsi')$$);
SELECT * FROM attempt($$SELECT pgml.load_dataset('stanfordnlp/imdb')$$);
SELECT * FROM attempt($$SELECT pgml.load_dataset('models')$$);
SELECT * FROM attempt('SELECT pgml.load_dataset(NULL)');
SELECT * FROM attempt($$SELECT pgml.load_dataset('iris', 'train')$$);
SELECT * FROM attempt($$SELECT pgml.load_dataset('iris', "limit" => -1)$$);
SELECT * FROM attempt($$SELECT pgml.load_dataset('iris', kwargs => '{"split": "train"}')$$);
SELECT * FROM attempt($$SELECT pgml.load_dataset('iris', kwargs => '[]')$$);
CREATE VIEW flowers AS SELECT * FROM pgml.iris;
SELECT * FROM attempt($$SELECT pgml.load_dataset('iris')$$);
SELECT count(*) FROM pgml.iris;
DROP TABLE pgml.wine;
CREATE VIEW pgml.wine AS SELECT 'red' AS colour;
SELECT * FROM attempt($$SELECT pgml.load_dataset('wine')$$);
