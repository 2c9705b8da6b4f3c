-- Train a model that predicts how late a flight will leave. The table needs no preparation.
SELECT * FROM pgml.train(
    'flights',
    task          => 'regression',
    relation_name => 'flights',
    y_column_name => 'depdelayminutes',
    algorithm     => 'xgboost',
    hyperparams   => '{"n_estimators": 100}'
);

-- How good is the model? A quarter of the rows was held out from training, and the metrics are computed on those rows.
SELECT algorithm, hyperparams, round((metrics->>'r2')::numeric, 3) AS r2,
       round((metrics->>'mean_absolute_error')::numeric, 2) AS mean_absolute_error
FROM pgml.models;

-- Predict. The features are given as an array, and the result shows the predicted minutes beside the actual ones.
SELECT year, month, dayofmonth, departure, depdelayminutes,
       round(pgml.predict('flights', ARRAY[
           year, quarter, month, distance, dayofweek, dayofmonth, flight_number_operating_airline,
           originairportid, destairportid, flight_number_marketing_airline, departure])::numeric, 1) AS predicted
FROM flights
WHERE dayofweek = 5 AND departure >= 1800
ORDER BY originairportid, year, month, dayofmonth, departure, flight_number_marketing_airline
LIMIT 6;

-- A whole row can be given instead of an array: the function finds the features by column name. A prediction is a value like any other, and can be averaged.
SELECT dayofweek, count(*) AS flights, round(avg(depdelayminutes)::numeric, 1) AS average_delay,
       round(avg(pgml.predict('flights', flights))::numeric, 1) AS average_predicted
FROM flights
GROUP BY dayofweek
ORDER BY dayofweek;
