-- The examples of sql.md. `make test UPDATE=1` runs them and puts them and their output there; how a section is written is
-- said in tools/devkit/examples.py. Keep them to a statement or two, of built-in data sets, rounded and ordered, without
-- ids and times that differ from run to run.

--- setup
SELECT pgml.load_dataset('iris'), pgml.load_dataset('diabetes'), pgml.load_dataset('linnerud'), pgml.load_dataset('air_passengers');
CREATE TABLE flowers AS
SELECT sepal_length, sepal_width, petal_length, petal_width,
       (ARRAY['setosa', 'versicolor', 'virginica'])[target + 1] AS species
FROM pgml.iris;
SELECT pgml.train('flowers', 'classification', 'flowers', 'species', 'xgboost', '{"n_estimators": 10}');
SELECT pgml.train('sugar', 'regression', '(SELECT bmi, bp, s5, target FROM pgml.diabetes)', 'target', 'linear');
SELECT pgml.train('flights', 'forecast', 'pgml.air_passengers', 'passengers', time_column => 'month');
SELECT pgml.train_joint('body', 'regression', 'pgml.linnerud', ARRAY['weight', 'waist', 'pulse'], 'ridge');
SELECT pgml.train('parts', 'decomposition', '(SELECT chins, situps, jumps FROM pgml.linnerud)', algorithm => 'pca',
                  hyperparams => '{"n_components": 2}');

--- train_async, committed
SELECT pgml.train_async('sugar', algorithm => 'ridge');

--- wait, committed
SELECT pgml.wait(max(id), '1 min') FROM pgml.jobs;
SELECT project, algorithm, status, deployed, message FROM pgml.jobs;
-- error
SELECT pgml.wait(1000);

--- cancel, committed
SELECT pgml.train_async('flowers', algorithm => 'xgboost', hyperparams => '{"n_estimators": 1000000}');
SELECT pgml.cancel(max(id)) FROM pgml.jobs;
SELECT pgml.wait(max(id), '1 min') FROM pgml.jobs;
-- error
SELECT pgml.cancel(1000);

--- add
SELECT pgml.add(ARRAY[1.0, 2, 3], ARRAY[10.0, 20, 30]) AS pairs, pgml.add(ARRAY[1.0, 2, 3], 10) AS number;
-- error
SELECT pgml.add(ARRAY[1.0, 2, 3], ARRAY[10.0, 20]);

--- subtract
SELECT pgml.subtract(ARRAY[10.0, 20, 30], ARRAY[1.0, 2, 3]) AS pairs, pgml.subtract(ARRAY[10.0, 20, 30], 1) AS number;
-- error
SELECT pgml.subtract(ARRAY[10.0, 20, 30], ARRAY[1.0, 2]);

--- multiply
SELECT pgml.multiply(ARRAY[1.0, 2, 3], ARRAY[10.0, 20, 30]) AS pairs, pgml.multiply(ARRAY[1.0, 2, 3], 10) AS number;

--- divide
SELECT pgml.divide(ARRAY[10.0, 20, 30], ARRAY[2.0, 4, 5]) AS pairs, pgml.divide(ARRAY[10.0, 20, 30], 10) AS number;

--- dot_product
SELECT pgml.dot_product(ARRAY[1.0, 2, 3], ARRAY[4.0, 5, 6]);
-- error
SELECT pgml.dot_product(ARRAY[1.0, 2, 3], ARRAY[4.0, 5]);

--- cosine_similarity
SELECT pgml.cosine_similarity(ARRAY[1.0, 0], ARRAY[3.0, 0]) AS same, pgml.cosine_similarity(ARRAY[1.0, 0], ARRAY[0.0, 2]) AS across;

--- distance_l1
SELECT pgml.distance_l1(ARRAY[0.0, 0], ARRAY[3.0, 4]);

--- distance_l2
SELECT pgml.distance_l2(ARRAY[0.0, 0], ARRAY[3.0, 4]);

--- norm_l0
SELECT pgml.norm_l0(ARRAY[0.0, 3, -4]);

--- norm_l1
SELECT pgml.norm_l1(ARRAY[0.0, 3, -4]);

--- norm_l2
SELECT pgml.norm_l2(ARRAY[0.0, 3, -4]);

--- norm_max
SELECT pgml.norm_max(ARRAY[0.0, 3, -4]);

--- normalize_l1
SELECT pgml.normalize_l1(ARRAY[1.0, 3]);

--- normalize_l2
SELECT pgml.normalize_l2(ARRAY[3.0, 4]);

--- normalize_max
SELECT pgml.normalize_max(ARRAY[1.0, -4]);

--- sum
SELECT pgml.sum(vector) FROM (VALUES (ARRAY[1, 5]::real[]), (ARRAY[2, -7])) AS vectors (vector);
-- error
SELECT pgml.sum(vector) FROM (VALUES (ARRAY[1, 5]::real[]), (ARRAY[2])) AS vectors (vector);

--- min
SELECT pgml.min(vector) FROM (VALUES (ARRAY[1, 5]::real[]), (ARRAY[2, -7])) AS vectors (vector);

--- max
SELECT pgml.max(vector) FROM (VALUES (ARRAY[1, 5]::real[]), (ARRAY[2, -7])) AS vectors (vector);

--- min_abs
SELECT pgml.min_abs(vector) FROM (VALUES (ARRAY[1, 5]::real[]), (ARRAY[2, -7])) AS vectors (vector);

--- max_abs
SELECT pgml.max_abs(vector) FROM (VALUES (ARRAY[1, 5]::real[]), (ARRAY[2, -7])) AS vectors (vector);

--- vector_abs
SELECT pgml.vector_abs(ARRAY[2, -7]::real[]);

--- vector_min
SELECT pgml.vector_min(ARRAY[1, 5]::real[], ARRAY[2, -7]::real[]);

--- vector_max
SELECT pgml.vector_max(ARRAY[1, 5]::real[], ARRAY[2, -7]::real[]);

--- vector_min_abs
SELECT pgml.vector_min_abs(ARRAY[1, 5]::real[], ARRAY[2, -7]::real[]);

--- vector_max_abs
SELECT pgml.vector_max_abs(ARRAY[1, 5]::real[], ARRAY[2, -7]::real[]);

--- load_dataset
SELECT * FROM pgml.load_dataset('wine');
-- error
SELECT * FROM pgml.load_dataset('boston');

--- train
SELECT * FROM pgml.train('grapes', 'regression', '(SELECT bmi, bp, s5, target FROM pgml.diabetes)', 'target', 'ridge',
                         hyperparams => '{"alpha": 0.1}');
-- error
SELECT * FROM pgml.train('grapes', 'regression', 'no_such_table', 'target', 'ridge');
-- error
SELECT * FROM pgml.train('grapes', 'regression', 'pgml.diabetes', 'tarket', 'ridge');
-- error
SELECT * FROM pgml.train('grapes', 'regression', 'pgml.diabetes', 'target', 'ridge', '{"alhpa": 0.1}');
-- error
SELECT * FROM pgml.train('grapes', 'regression', 'flowers', 'species', 'ridge');
-- error
SELECT * FROM pgml.train('raisins');
-- error
SELECT * FROM pgml.train('grapes', 'regression', 'pgml.diabetes', 'target', 'ridge', '{"alpha": -1}');
-- error
SELECT * FROM pgml.train('bunches', 'clustering', 'pgml.diabetes', NULL, 'ridge');
-- not shown
SET LOCAL ROLE pg_monitor;
-- error
SELECT * FROM pgml.train('sugar', algorithm => 'ridge');

--- train_joint
SELECT * FROM pgml.train_joint('both', 'regression', '(SELECT chins, situps, weight, waist FROM pgml.linnerud)',
                               ARRAY['weight', 'waist'], 'linear');
-- error
SELECT * FROM pgml.train_joint('groups', 'classification', 'pgml.linnerud', ARRAY['weight', 'waist'], 'linear');

--- predict
SELECT pgml.predict('flowers', ARRAY[6.7, 3.1, 5.6, 2.4]) AS by_array, pgml.predict('flowers', 6.7, 3.1, 5.6, 2.4) AS one_by_one,
       pgml.predict('flowers', '{6.7, 3.1, 5.6, 2.4}') AS by_text, pgml.predict(1, f) AS by_row
FROM flowers f LIMIT 1;
SELECT round(pgml.predict('sugar', d)::numeric, 1) AS predicted, target FROM pgml.diabetes d LIMIT 3;
-- error
SELECT pgml.predict('salt', ARRAY[0.06, 0.02, 0.02]);
-- error
SELECT pgml.predict('sugar', ARRAY[0.06, 0.02]);
-- error
SELECT pgml.predict('sugar', i) FROM pgml.iris i;
-- error
SELECT pgml.predict('body', ARRAY[5, 162, 60]);

--- predict_label
SELECT pgml.predict_label('flowers', ARRAY[6.7, 3.1, 5.6, 2.4]);
-- error
SELECT pgml.predict_label('sugar', ARRAY[0.06, 0.02, 0.02]);

--- predict_proba
SELECT pgml.predict_proba('flowers', ARRAY[6.7, 3.1, 5.6, 2.4])::numeric(4, 3)[];
-- error
SELECT pgml.predict_proba('sugar', ARRAY[0.06, 0.02, 0.02]);

--- predict_joint
SELECT pgml.predict_joint('body', ARRAY[5, 162, 60])::numeric(5, 1)[] AS weight_waist_pulse;
-- error
SELECT pgml.predict_joint('flowers', ARRAY[6.7, 3.1, 5.6, 2.4]);

--- predict_batch
SELECT round(p::numeric, 1) AS predicted FROM pgml.predict_batch('sugar', ARRAY[[0.06, 0.02, 0.02], [-0.05, 0, 0]]::real[]) p;
-- error
SELECT * FROM pgml.predict_batch('sugar', ARRAY[0.06, 0.02, 0.02, 0.01]::real[]);

--- predict_agg
SELECT species, pgml.predict_agg('flowers', sepal_length, sepal_width, petal_length, petal_width) AS classes
FROM (SELECT *, row_number() OVER (PARTITION BY species) FROM flowers) f WHERE row_number <= 5
GROUP BY species ORDER BY species;

--- decompose
SELECT pgml.decompose('parts', ARRAY[5, 162, 60])::numeric(6, 2)[];
-- error
SELECT pgml.decompose('sugar', ARRAY[0.06, 0.02, 0.02]);

--- explain
SELECT feature, value, round(contribution::numeric, 2) AS contribution FROM pgml.explain('sugar', 0.06, 0.02, 0.02);
-- error
SELECT * FROM pgml.explain('parts', ARRAY[5, 162, 60]);
-- not shown
SET LOCAL ROLE pg_monitor;
-- error
SELECT * FROM pgml.explain('sugar', 0.06, 0.02, 0.02);

--- explain_batch
SELECT pgml.explain_batch('sugar', ARRAY[[0.06, 0.02, 0.02], [-0.05, 0, 0]]::real[])::numeric(6, 2)[];

--- deploy
SELECT * FROM pgml.train('sugar', algorithm => 'xgboost', automatic_deploy => false);
SELECT * FROM pgml.deploy('sugar', 'most_recent');
SELECT * FROM pgml.deploy('sugar', 'rollback');
SELECT * FROM pgml.train('sugar', algorithm => 'ridge', automatic_deploy => false);
SELECT deploy.* FROM pgml.trained_models m, pgml.deploy('sugar', 'canary', model_id => m.id, share => 0.5)
WHERE m.name = 'sugar' AND m.algorithm = 'ridge';
-- error
SELECT * FROM pgml.deploy(1000);
-- error
SELECT * FROM pgml.deploy('body', 'rollback');
-- error
SELECT * FROM pgml.deploy('body', 'best_score', 'xgboost');
-- not shown
SET LOCAL ROLE pg_monitor;
-- error
SELECT * FROM pgml.deploy('body', 'best_score');

--- model_for
SELECT m.algorithm, count(*) AS keys
FROM generate_series(1, 1000) AS key, pgml.trained_models m WHERE m.id = pgml.model_for('sugar', key) GROUP BY 1 ORDER BY 1;
SELECT key, pgml.predict(pgml.model_for('sugar', key), ARRAY[0.06, 0.02, 0.02])::numeric(6, 2)
FROM unnest(ARRAY['ann', 'bob', 'cid', 'dan']) AS key;
-- error
SELECT pgml.model_for('sweet', 1);

--- shadow_of
SELECT deploy.* FROM pgml.trained_models m, pgml.deploy('sugar', 'shadow', model_id => m.id)
WHERE m.name = 'sugar' AND m.algorithm = 'ridge';
SELECT m.algorithm FROM pgml.trained_models m WHERE m.id = pgml.shadow_of('sugar');

--- predict_shadow
SELECT prediction::numeric(6, 2), shadow::numeric(6, 2), error FROM pgml.predict_shadow('sugar', ARRAY[0.06, 0.02, 0.02]);

--- delete_model
SELECT pgml.delete_model(1);
SELECT count(*) AS models FROM pgml.models WHERE id = 1;
-- error
SELECT pgml.delete_model(1000);

--- delete_project
SELECT pgml.delete_project('flowers');
-- error
SELECT pgml.delete_project('flowers');

--- rename_project
SELECT pgml.rename_project('sugar', 'glucose');
SELECT round(pgml.predict('glucose', ARRAY[0.06, 0.02, 0.02])::numeric, 1) AS predicted;
-- error
SELECT pgml.rename_project('glucose', 'body');

--- grant
SELECT pgml.grant('sugar', 'pg_monitor', 'see');
SELECT project, grantee, privilege FROM pgml.grants WHERE project = 'sugar' ORDER BY 2;
-- error
SELECT pgml.grant('sugar', 'nobody_at_all', 'see');
-- error
SELECT pgml.grant('sugar', 'pg_monitor', 'read');
-- not shown
SET LOCAL ROLE pg_monitor;
-- error
SELECT pgml.grant('sugar', 'pg_monitor', 'train');

--- revoke
SELECT pgml.revoke('sugar', 'public', 'predict');
SELECT project, grantee, privilege FROM pgml.grants WHERE project = 'sugar' ORDER BY 2;

--- has_privilege
SELECT pgml.has_privilege('sugar', 'train');
-- error
SELECT pgml.has_privilege('sugar', 'read');

--- set_owner
SELECT pgml.set_owner('sugar', 'pg_monitor');
SELECT name, owner FROM pgml.projects WHERE name = 'sugar';
-- error
SELECT pgml.set_owner('body', 'nobody_at_all');

--- snapshot
SELECT relation LIKE 'pgml.snapshot_%' AS made, y_column_name FROM pgml.snapshot('flowers', 'species');
SELECT c->>'name' AS name, c->>'pg_type' AS type, round((c->'statistics'->>'max')::numeric, 1) AS max
FROM (SELECT columns FROM pgml.snapshots ORDER BY id DESC LIMIT 1) s, jsonb_array_elements(s.columns) c;
-- error
SELECT * FROM pgml.snapshot('flowers', 'colour');

--- hyperparameters
SELECT name, "default", allowed, description FROM pgml.hyperparameters() WHERE algorithm = 'ridge' AND task = 'regression';

--- reset_stat_models
SELECT pgml.reset_stat_models(1);

--- version
SELECT pgml.version();

--- xgboost_version
SELECT pgml.xgboost_version();

--- evaluate
SELECT jsonb_pretty(jsonb_object_agg(metric, round(value::numeric, 3)))
FROM jsonb_each_text(pgml.evaluate('flowers', 'flowers') - 'rows_used' - 'classes') AS m (metric, value);
SELECT metrics->'rows_used' AS rows_used, metrics->'rows' AS rows, round((metrics->'f1')::numeric, 3) AS f1
FROM pgml.evaluate('flowers', '(SELECT * FROM flowers WHERE sepal_length > 5)', rows => 'held_out') AS metrics;
-- error
SELECT pgml.evaluate('flowers', 'pgml.iris');

--- held_out
SELECT species, count(*) FILTER (WHERE pgml.held_out('flowers', f)) AS held_out, count(*) AS rows
FROM flowers f GROUP BY species ORDER BY species;
-- error
SELECT pgml.held_out('flowers', i) FROM pgml.iris i LIMIT 1;

--- compare
SELECT algorithm, deployed, round((metrics->>'r2')::numeric, 3) AS r2, metrics->>'rows' AS rows
FROM pgml.compare('sugar', 'pgml.diabetes') ORDER BY algorithm LIMIT 1;

--- confusion_matrix
SELECT * FROM pgml.confusion_matrix('flowers', 'flowers') LIMIT 6;

--- roc_curve
SELECT round(threshold::numeric, 2) AS threshold, round(fpr::numeric, 3) AS fpr, round(tpr::numeric, 3) AS tpr
FROM pgml.roc_curve('flowers', 'flowers') WHERE class = 'virginica' AND threshold < 0.5 LIMIT 3;

--- precision_recall_curve
SELECT round("precision"::numeric, 3) AS "precision", round(recall::numeric, 3) AS recall
FROM pgml.precision_recall_curve('flowers', 'flowers') WHERE class = 'virginica' LIMIT 3;

--- calibration_curve
SELECT bin, rows, round(predicted::numeric, 2) AS predicted, round(actual::numeric, 2) AS actual
FROM pgml.calibration_curve('flowers', 'flowers', bins => 4) WHERE class = 'versicolor';

--- residual_quantiles
SELECT label, quantile, round(residual::numeric) AS residual
FROM pgml.residual_quantiles('sugar', 'pgml.diabetes', ARRAY[0.05, 0.5, 0.95]);

--- learning_curve
SELECT l.round, l.part, l.metric, round(l.value::numeric, 2) AS value
FROM pgml.deployed_models d, pgml.learning_curve(d.id) l WHERE d.name = 'flowers' AND l.round IN (1, 10)
ORDER BY l.part, l.round;
-- error
SELECT pgml.learning_curve(1000);

--- describe
SELECT pgml.describe(id, 'Three kinds of iris.', ARRAY['botany', 'demo']) FROM pgml.deployed_models WHERE name = 'flowers';
SELECT name, description, tags FROM pgml.deployed_models WHERE 'demo' = ANY (tags);
-- error
SELECT pgml.describe(id, tags => ARRAY['demo', 'demo']) FROM pgml.deployed_models WHERE name = 'flowers';

--- card
SELECT line FROM pgml.deployed_models d, regexp_split_to_table(pgml.card(d.id), '\n') WITH ORDINALITY l (line, n)
WHERE d.name = 'sugar' AND line !~ 'model \d|snapshot|At:|Seconds|By:|Decision' AND line <> '' ORDER BY n LIMIT 9;

--- watch
SELECT pgml.watch('sugar', 'pgml.diabetes', thresholds => '{"drift": 0.5, "unseen": null}') ->> 'drift' AS drift;
SELECT relation_name, period FROM pgml.watches;
-- error
SELECT pgml.watch('sugar', 'pgml.diabetes', thresholds => '{"drifts": 0.5}');

--- check
-- not shown
SELECT pgml.watch('sugar', '(SELECT bmi + 0.05 AS bmi, bp, s5, target FROM pgml.diabetes)');
SELECT what, name, round(value::numeric, 2) AS value, round(threshold::numeric, 2) AS threshold, crossed
FROM pgml.check('sugar') WHERE what IN ('rows', 'drift');
-- error
SELECT pgml.check('flowers');

--- unwatch
SELECT pgml.unwatch('sugar');

--- feature_importance
SELECT feature, round(gain::numeric, 1) AS gain, weight, round(cover::numeric, 1) AS cover FROM pgml.feature_importance('flowers');

--- coefficients
SELECT class, feature, round(coefficient::numeric, 2) AS coefficient, round(unscaled::numeric, 2) AS unscaled FROM pgml.coefficients('sugar');

--- permutation_importance
SELECT feature, round(importance::numeric, 2) AS importance, round(std_dev::numeric, 2) AS std_dev
FROM pgml.permutation_importance('sugar', 'pgml.diabetes', repeats => 10);

--- predict_interval
SELECT round(prediction), round(lower) AS lower, round(upper) AS upper FROM pgml.predict_interval('sugar', ARRAY[0.05, 0.02, 0.03], 0.9);
-- error
SELECT pgml.predict_interval('sugar', ARRAY[0.05, 0.02, 0.03], coverage => 90);

--- drift
SELECT feature, round(psi::numeric, 2) AS psi, round(ks::numeric, 2) AS ks, rows, p_value < 0.001 AS beyond_chance
FROM pgml.drift('sugar', '(SELECT bmi, bp + 0.05 AS bp, s5 FROM pgml.diabetes)');

--- leaderboard
SELECT task, algorithm FROM pgml.train('choice', 'regression', 'pgml.diabetes', 'target', 'auto',
    hyperparams => '{"algorithms": ["ridge"]}', time_budget => '1 s');
SELECT rank, algorithm, metric, round(score::numeric, 2) AS score, folds FROM pgml.leaderboard('choice') LIMIT 1;

--- groups
SELECT task, algorithm FROM pgml.train('petals', 'regression', 'pgml.iris', 'petal_width', group_by => 'target');
SELECT groups, rows, fallback, held_out, metric, score > fallback_score AS better FROM pgml.groups('petals');
-- error
SELECT * FROM pgml.groups('sugar');

--- load_transformer
-- error
SELECT * FROM pgml.load_transformer('minilm', 'all-MiniLM-L6-v2');

--- embed
-- error
SELECT pgml.embed('sugar', 'a text');

--- rank
-- error
SELECT * FROM pgml.rank('sugar', 'a question', ARRAY['an answer', 'another']);

--- chunk
SELECT * FROM pgml.chunk('recursive_character', 'The cat sat. The dog ran.', '{"chunk_size": 14, "chunk_overlap": 4}');
-- error
SELECT * FROM pgml.chunk('nltk', 'The cat sat.');

--- forecast
SELECT time::date AS month, round(mean) AS mean, round(lower) AS lower, round(upper) AS upper FROM pgml.forecast('flights', horizon => 3);
-- error
SELECT * FROM pgml.forecast('sugar');

--- backtest
SELECT cutoff::date, steps, round(mase::numeric, 2) AS mase, round(smape::numeric, 1) AS smape FROM pgml.backtest('flights', cutoffs => 2);
-- error
SELECT * FROM pgml.backtest('flights', cutoffs => 2, horizon => 143);

--- sklearn_f1_score
SELECT pgml.sklearn_f1_score(ARRAY[1, 0, 1, 1], ARRAY[1, 0, 0, 1]);
-- error
SELECT pgml.sklearn_f1_score(ARRAY[1, 0, 1], ARRAY[1, 0]);

--- sklearn_r2_score
SELECT pgml.sklearn_r2_score(ARRAY[3, -0.5, 2, 7], ARRAY[2.5, 0.0, 2, 8]);

--- sklearn_regression_metrics
SELECT pgml.sklearn_regression_metrics(ARRAY[3, -0.5, 2, 7], ARRAY[2.5, 0.0, 2, 8]);

--- sklearn_classification_metrics
SELECT pgml.sklearn_classification_metrics(ARRAY[0, 1, 2, 2], ARRAY[0, 2, 2, 2], 3);

--- import_model
SELECT project, task, algorithm, deployed
FROM pgml.import_model('irises', pgml.export_model('flowers'), sample => '[5.1, 3.5, 1.4, 0.2]', expected => '"setosa"');
SELECT pgml.predict_label('irises', 5.1, 3.5, 1.4, 0.2);
-- error
SELECT pgml.import_model('irises', pgml.export_model('flowers'), sample => '[5.1, 3.5, 1.4, 0.2]', expected => '"virginica"');
-- error
SELECT pgml.import_model('irises', 'nonsense');

--- export_model
SELECT substr(pgml.export_model('flowers', format => 'json'), 1, 12) AS begins;
-- error
SELECT pgml.export_model('flowers', format => 'lightgbm');

--- export_sql
-- not shown
SELECT pgml.train('small', 'regression', '(SELECT bmi, target FROM pgml.diabetes)', 'target', 'xgboost',
                  '{"n_estimators": 1, "max_depth": 1}');
SELECT pgml.export_sql('small');
-- error
SELECT pgml.export_sql('sugar');

--- import_postgresml
-- not shown
CREATE SCHEMA postgresml;
-- not shown
CREATE TABLE postgresml.projects AS SELECT 1 AS id, 'old' AS name, 'regression' AS task;
-- not shown
CREATE TABLE postgresml.snapshots AS SELECT 1 AS id, NULL::jsonb AS columns;
-- not shown
CREATE TABLE postgresml.models AS
SELECT 1 AS id, 1 AS project_id, 1 AS snapshot_id, 3 AS num_features, 'ridge' AS algorithm, 'python' AS runtime,
       '{}'::jsonb AS hyperparams, 'successful' AS status, '{}'::jsonb AS metrics;
-- not shown
CREATE TABLE postgresml.files AS SELECT 1 AS model_id, 'estimator.rmp' AS path, 0 AS part, '\x80042e'::bytea AS data;
-- not shown
CREATE TABLE postgresml.deployments AS SELECT 1 AS id, 1 AS project_id, 1 AS model_id;
SELECT * FROM pgml.import_postgresml();
-- error
SELECT * FROM pgml.import_postgresml('nothing');
