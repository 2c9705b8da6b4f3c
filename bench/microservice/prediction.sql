\set id random(1, :rows)
SELECT pgml.predict('flights', year, quarter, month, distance, dayofweek, dayofmonth, flight_number_operating_airline, originairportid, destairportid, flight_number_marketing_airline, departure) FROM keyed WHERE id = :id;
