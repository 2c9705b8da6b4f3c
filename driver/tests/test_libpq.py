"""Where a connection's parameters come from: what libpq makes of them, by psycopg, and what the driver does."""

import asyncio
import contextlib
import socket

import howdah
import howdah.dbapi
import psycopg
import pytest

SQL = """
    select current_user::text, current_database()::text, current_setting('application_name'), current_setting('work_mem'),
        current_setting('TimeZone'), current_setting('DateStyle')"""


@pytest.fixture
def where(spec, monkeypatch):
    """The server by libpq's variables, and nothing else of them."""
    for name in (
        "APPNAME",
        "OPTIONS",
        "TZ",
        "SERVICE",
        "SERVICEFILE",
        "HOSTADDR",
        "REQUIREAUTH",
        "SYSCONFDIR",
        "DATESTYLE",
    ):
        monkeypatch.delenv(f"PG{name}", raising=False)
    for name, value in (
        ("HOST", "host"),
        ("PORT", "port"),
        ("USER", "user"),
        ("PASSWORD", "password"),
        ("DATABASE", "database"),
    ):
        monkeypatch.setenv(f"PG{name}", str(spec[value]))
    monkeypatch.setenv("HOME", "/nonexistent")
    return spec


def outcome(connect, dsn):
    """What a session is like, or that there is none."""
    try:
        with connect(dsn) as connection:
            return connection.execute(SQL).fetchone()
    except (psycopg.Error, howdah.dbapi.Error, howdah.ClientConfigurationError):
        return "refused"


def both(dsn):
    """The same with both, whose sessions are alike."""
    theirs, ours = outcome(psycopg.connect, dsn), outcome(howdah.dbapi.connect, dsn)
    assert theirs == ours, dsn
    return ours


PARAMETERS = [
    "application_name=app",
    "fallback_application_name=fallback",
    "options=-c%20work_mem%3D2MB",
    "client_encoding=auto",
    "load_balance_hosts=random",
    "load_balance_hosts=disable",
    "load_balance_hosts=sometimes",
    "require_auth=scram-sha-256",
    "require_auth=password,scram-sha-256",
    "require_auth=none",
    "require_auth=md5",
    "require_auth=!password,!md5",
    "require_auth=!scram-sha-256",
    "require_auth=password,!md5",
    "require_auth=kerberos",
    "sslsni=1",
    "sslcertmode=disable",
    "sslcertmode=sometimes",
    "min_protocol_version=3.0",
    "gssdelegation=0",
    "keepalives_idle=5",
    "sslrootcert=system",
    "sslmode=require&sslrootcert=system",
    "sslmode=verify-full&sslrootcert=system",
    "target_session_attrs=any",
    "target_session_attrs=standby",
    "connect_timeout=5",
]


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_parameters(where, parameter):
    both(f"postgres://?{parameter}")


@pytest.mark.parametrize(
    "parameter", ["requirepeer=x", "sslsni=0", "gssencmode=require", "sslcertmode=require", "oauth_issuer=x"]
)
def test_what_the_driver_cannot_do_is_named(where, parameter):
    with pytest.raises(howdah.dbapi.OperationalError, match=parameter):
        howdah.dbapi.connect(f"postgres://?{parameter}&sslmode={'require' if 'cert' in parameter else 'prefer'}")


def test_an_address_in_place_of_a_host(where, monkeypatch):
    dsn = f"postgres://nowhere.invalid:{where['port']}"
    assert both(dsn) == "refused"
    assert both(f"{dsn}?hostaddr=127.0.0.1") != "refused"
    assert both(f"{dsn}?hostaddr=localhost") == "refused"
    assert both(f"{dsn},two.invalid:{where['port']}?hostaddr=127.0.0.1") == "refused"
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
    assert both(dsn) != "refused"


@pytest.mark.parametrize(
    "variables",
    [
        {"PGAPPNAME": "of the environment"},
        {"PGAPPNAME": ""},
        {"PGOPTIONS": "-c work_mem=3MB"},
        {"PGTZ": "Asia/Tokyo"},
        {"PGTZ": "default"},
        {"PGDATESTYLE": "SQL, DMY"},
        {"PGREQUIREAUTH": "md5"},
        {"PGREQUIREAUTH": "scram-sha-256"},
        {"PGLOADBALANCEHOSTS": "bad"},
        {"PGSERVICE": "missing"},
        {"PGSSLROOTCERT": "system"},
    ],
    ids=str,
)
def test_variables(where, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    both("")
    # What a DSN says comes first.
    both("postgres://?application_name=mine&options=-c%20work_mem%3D1MB&require_auth=scram-sha-256")


SERVICES = """\
# at the top
[other]
ldap://ldap.example/dc=x?desc?one?(cn=y)
[a]
dbname=template1
application_name=of the service
options=-c work_mem=5MB

[Case]
application_name=case
[a]
dbname=nowhere
[broken]
dbname
[nested]
service=a
[hash]
application_name=a;b #c
"""


@pytest.fixture
def services(where, tmp_path, monkeypatch):
    path = tmp_path / "services"
    path.write_text(SERVICES)
    monkeypatch.delenv("PGDATABASE")
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    return path


@pytest.mark.parametrize("service", ["a", "Case", "case", "broken", "nested", "hash", "missing"])
def test_services(services, monkeypatch, service):
    found = both(f"service={service}")
    assert both(f"postgres:///?service={service}") == found
    assert both(f"postgres://?service={service}") == found
    assert (found == "refused") == (service in ("case", "broken", "nested", "missing"))
    monkeypatch.setenv("PGSERVICE", service)
    assert both("") == found
    both("postgres:///postgres?application_name=mine")


def test_a_service_of_the_system(where, tmp_path, monkeypatch):
    (tmp_path / "pg_service.conf").write_text("[wide]\napplication_name=of the system\n")
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path))
    assert both("service=wide")[2] == "of the system"


def test_a_service_that_is_missing_is_named(services):
    with pytest.raises(howdah.ClientConfigurationError, match="a service of LDAP is not supported"):
        asyncio.run(howdah.connect(service="other"))
    with pytest.raises(howdah.ClientConfigurationError, match="definition of service 'missing' not found") as caught:
        asyncio.run(howdah.connect(service="missing"))
    assert str(services) in caught.value.hint


def test_errors_of_connecting_say_what_is_missing(where):
    for name in ("sslrootcert", "sslcert"):
        with pytest.raises(howdah.dbapi.OperationalError, match="/nowhere/file"):
            howdah.dbapi.connect(f"postgres://?sslmode=verify-ca&{name}=/nowhere/file&sslrootcert=/nowhere/file")
    with pytest.raises(howdah.ClientConfigurationError, match="password is expected to be a str"):
        asyncio.run(howdah.connect(password=b"secret"))
    hosts = f"127.0.0.1:1,{where['host']}:{where['port']}"
    with pytest.raises(howdah.TargetServerAttributeNotMatched, match="1 of 2 could be asked"):
        asyncio.run(howdah.connect(f"postgres://{hosts}/?target_session_attrs=standby"))


async def test_a_timeout_of_connecting_is_named():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(asyncio.TimeoutError, match=r"no connection within the timeout of 0\.2 seconds"):
            await howdah.connect(host="127.0.0.1", port=port, user="u", timeout=0.2)


async def test_cancelled_connects_leave_nothing_in_the_log(spec):
    seen = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
    for number in range(40):
        task = asyncio.ensure_future(howdah.connect(**spec))
        await asyncio.sleep(number * 0.0001)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).close()
    await asyncio.sleep(0.1)
    assert not seen
