\set airport random(10135, 16600)
\set year random(2018, 2021)
\set month random(1, 12)
\set day random(1, 28)
SELECT pgml.predict('flights', ARRAY[year, quarter, month, distance, dayofweek, dayofmonth, flight_number_operating_airline, originairportid, destairportid, flight_number_marketing_airline, departure]) FROM flights WHERE (originairportid, year, month, dayofmonth) >= (:airport, :year, :month, :day) ORDER BY originairportid, year, month, dayofmonth LIMIT 1;
