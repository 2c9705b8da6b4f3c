-- A table of flights with the columns of the US Department of Transportation's on-time data, all real as a model sees
-- them, filled with as many rows as the psql variable "rows" says. Every value is a function of the row's number, so
-- the same number of rows is the same table everywhere.
--
-- What there is to learn: delays grow over the day; June to August and the holidays are worse; hubs are worse than
-- small airports; Fridays are worse; regional flights (numbers from 3000) suffer more; snow delays the north in
-- winter, thunderstorms the south on summer afternoons; 2020 was empty. The noise has a heavy tail, as delays have.

DROP TABLE IF EXISTS flights;

CREATE TABLE flights (
    depdelayminutes                 real NOT NULL,
    year                            real NOT NULL,
    quarter                         real NOT NULL,
    month                           real NOT NULL,
    distance                        real NOT NULL,
    dayofweek                       real NOT NULL,
    dayofmonth                      real NOT NULL,
    flight_number_operating_airline real NOT NULL,
    originairportid                 real NOT NULL,
    destairportid                   real NOT NULL,
    flight_number_marketing_airline real NOT NULL,
    departure                       real NOT NULL
);

-- A number from 0 up to 1, decided by i and salt. Only sums, products and square roots are made of it, which every
-- machine rounds alike.
CREATE OR REPLACE FUNCTION pg_temp.dice(i bigint, salt bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE AS 'SELECT ((hashint8extended(i, salt) >> 11) + 4503599627370496) / 9007199254740992.0::float8';

-- OFFSET 0 keeps each step from being computed anew wherever the next one uses it.
INSERT INTO flights
SELECT greatest(0, round(minutes * (0.3 + 0.525 / sqrt(sqrt(1 - luck))) - 5)),
    year, (month + 2) / 3, month, distance, dayofweek, dayofmonth,
    number, 10135 + 111 * origin, 10135 + 111 * dest,
    CASE WHEN number >= 3000 AND luck_number < 0.3 THEN number - 1500 ELSE number END,
    100 * hour + 5 * floor(12 * luck_minute)
FROM (
    SELECT *,
        8 * (0.4 + 1.8 * hour_of_18 * hour_of_18)
          * (ARRAY[1.10, 1.05, 0.95, 0.90, 1.00, 1.35, 1.45, 1.30, 0.75, 0.80, 0.85, 1.20]::float8[])[month]
          * (ARRAY[1.10, 0.90, 0.90, 1.10, 1.30, 0.85, 1.05]::float8[])[dayofweek]
          * (CASE WHEN origin < 8 THEN 1.5::float8 ELSE 0.6 END + 0.6 * pg_temp.dice(origin, 21))
          * (0.8 + 0.4 * pg_temp.dice(dest, 22))
          * CASE WHEN number >= 3000 THEN 1.3::float8 ELSE 1.0 END
          * CASE WHEN year = 2020 THEN 0.45::float8 WHEN year = 2019 THEN 1.1 ELSE 1.0 END
        + CASE WHEN month IN (12, 1, 2) AND north > 0.6 THEN 60 * (north - 0.6) ELSE 0 END
        + CASE WHEN month BETWEEN 6 AND 8 AND hour BETWEEN 15 AND 20 AND north < 0.5 THEN 16 ELSE 0 END
        + CASE WHEN (month = 12 AND dayofmonth >= 20) OR (month = 7 AND dayofmonth <= 7) THEN 12 ELSE 0 END
        + CASE WHEN distance < 400 THEN 3 ELSE 0 END AS minutes
    FROM (
        SELECT *,
            extract(year FROM day)::int AS year, extract(month FROM day)::int AS month,
            extract(day FROM day)::int AS dayofmonth, extract(isodow FROM day)::int AS dayofweek,
            5 + floor(18 * hour_of_18)::int AS hour,
            pg_temp.dice(origin, 12) AS north,
            70 + round(2600 * sqrt(
                (pg_temp.dice(origin, 11) - pg_temp.dice(dest, 11)) * (pg_temp.dice(origin, 11) - pg_temp.dice(dest, 11))
                + 0.4 * (pg_temp.dice(origin, 12) - pg_temp.dice(dest, 12))
                      * (pg_temp.dice(origin, 12) - pg_temp.dice(dest, 12)))) AS distance
        FROM (
            SELECT *, (origin + step) % 60 AS dest
            FROM (
                SELECT date '2018-01-01' + ((i - 1) * 1461 / :rows)::int AS day,
                    -- Sixty airports, the first of them the busiest.
                    floor(60 * pg_temp.dice(i, 1) * pg_temp.dice(i, 2))::int AS origin,
                    1 + floor(59 * pg_temp.dice(i, 3))::int AS step,
                    (pg_temp.dice(i, 4) + pg_temp.dice(i, 5)) / 2 AS hour_of_18,
                    1 + floor(6999 * pg_temp.dice(i, 6))::int AS number,
                    pg_temp.dice(i, 7) AS luck, pg_temp.dice(i, 8) AS luck_minute, pg_temp.dice(i, 9) AS luck_number
                FROM generate_series(1, :rows::bigint) AS i
                OFFSET 0
            ) AS dice
            OFFSET 0
        ) AS route
        OFFSET 0
    ) AS flight
    OFFSET 0
) AS flight;

CREATE INDEX flights_by_origin_and_day ON flights (originairportid, year, month, dayofmonth);

ANALYZE flights;
