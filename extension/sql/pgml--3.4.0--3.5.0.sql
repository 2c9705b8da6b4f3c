-- From pgml 3.4.0 to 3.5.0.
--
-- Everything is schema-qualified: the script must mean the same whatever the search_path of who runs it.

\echo Use "ALTER EXTENSION pgml UPDATE" to load this file. \quit

--
-- Outliers
--

ALTER TYPE pgml.task ADD VALUE 'anomaly';
ALTER TYPE pgml.algorithm ADD VALUE 'isolation_forest';
ALTER TYPE pgml.algorithm ADD VALUE 'local_outlier_factor';
ALTER TYPE pgml.algorithm ADD VALUE 'one_class_svm';
ALTER TYPE pgml.algorithm ADD VALUE 'robust_covariance';
ALTER TYPE pgml.algorithm ADD VALUE 'ecod';
ALTER TYPE pgml.algorithm ADD VALUE 'hbos';
