"""The demo: its flights are the same everywhere, the real ones load, and README.md shows what it really prints."""

import contextlib
import zipfile

import pytest

from demo import tour
from devkit import Problem, flights, postgres, regress
from devkit.server import Server

# The last of these was cancelled, the second is a month on; the header has more columns, as the real one does.
ON_TIME = """"Year","Quarter","Month","DayofMonth","DayOfWeek","FlightDate","Flight_Number_Marketing_Airline",\
"Operating_Airline ","Flight_Number_Operating_Airline","OriginAirportID","Origin","DestAirportID","CRSDepTime",\
"DepTime","DepDelayMinutes","Distance",
2019,1,1,4,5,2019-01-04,"3280","9E","3280",11953,"GNV",10397,"1400","1353",0.00,300.00,
2019,1,2,5,2,2019-02-05,"17","DL","1021",13487,"MSP",11193,"0935","0950",15.00,596.00,
2019,1,1,6,7,2019-01-06,"3281","9E","3281",13487,"MSP",11193,"1503","",,596.00,
"""


@contextlib.contextmanager
def emptied(server, name):
    """A database that is gone afterwards."""
    try:
        yield name
    finally:
        server.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def digest(server, database):
    return server.psql("SELECT md5(string_agg(f::text, ',')) FROM (SELECT * FROM flights) AS f", database)


def test_the_flights_are_the_same_on_every_postgresql(server):
    with emptied(server, "flights_digest") as database:
        flights.fill(server, database, 20_000)
        assert digest(server, database) == "68d601da407b851a236d1070f71bf5ff"


def test_the_flights_are_made_once(server):
    with emptied(server, "flights_once") as database:
        flights.fill(server, database, 1000)
        server.psql("DELETE FROM flights WHERE year = 2018", database)
        before = digest(server, database)
        flights.fill(server, database, 1000)
        assert digest(server, database) == before


def test_the_real_flights_load_from_csv_zip_and_folder(server, tmp_path, monkeypatch):
    (tmp_path / "one.csv").write_text(ON_TIME)
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("On_Time.csv", ON_TIME)
        archive.writestr("readme.html", "<html>")
    for path, copies in (("one.csv", 1), ("two.zip", 1), ("", 2)):
        monkeypatch.setenv("HOWDAH_FLIGHTS_CSV", str(tmp_path / path))
        with emptied(server, "flights_real") as database:
            flights.fill(server, database)
            rows = server.psql("SELECT * FROM flights ORDER BY month", database).splitlines()
            assert rows == [
                *["0|2019|1|1|300|5|4|3280|11953|10397|3280|1400"] * copies,
                *["15|2019|1|2|596|2|5|1021|13487|11193|17|935"] * copies,
            ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not there"),
        ("", "lacks a column"),
        ("Year,Month\n2019,1\n", "lacks a column.*depdelayminutes"),
        (ON_TIME.splitlines()[0], "has no flight"),
        (ON_TIME.replace("596.00", "far"), "could not be copied in"),
    ],
    ids=["missing", "empty", "another_header", "no_rows", "not_a_number"],
)
def test_a_file_that_is_not_of_flights_is_refused_and_leaves_no_table(server, tmp_path, monkeypatch, text, message):
    path = tmp_path / "flights.csv"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("HOWDAH_FLIGHTS_CSV", str(path))
    with emptied(server, "flights_bad") as database:
        with pytest.raises(Problem, match=message):
            flights.fill(server, database)
        assert server.psql("SELECT to_regclass('flights') IS NULL", database) == "t"


def test_readme_shows_what_the_demo_prints(request):
    with Server(postgres.tree(postgres.NEWEST)) as server:
        flights.fill(server, flights.DATABASE, flights.ROWS)
        printed = tour.markdown(server, flights.DATABASE)
    if request.config.getoption("--update-expected"):
        tour.into_readme(printed)
    if not tour.agree(tour.in_readme(), printed):
        difference = regress.unified(tour.in_readme(), printed, "README.md", "the demo")
        pytest.fail(f"README.md shows another tour than the demo gives:\n{difference}", pytrace=False)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (" 4 | 12.3 ", " 4 |  12.4 ", True),
        (" 4 | 12.3 ", " 4 | 13.3 ", False),
        (" 4 | 12.3 ", " 5 | 12.3 ", False),
        ("r2 | 0.837", "r2 | 0.837\n", False),
    ],
)
def test_tours_agree_but_for_the_last_digits(shown, printed, same):
    assert tour.agree(shown, printed) == same
