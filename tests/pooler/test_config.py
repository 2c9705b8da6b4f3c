"""Configurations as they are found in the world, and what is said of those that are wrong."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import os
import re
import socket
import stat
import subprocess
import textwrap
import urllib.request
from pathlib import Path

import pytest
import yaml

from devkit import places
from devkit.places import ROOT
from devkit.server import SUPERUSER, Server, environment, free_port
from tests.pooler.certificates import Authority
from tests.pooler.process import PASSWORD, PROGRAM, Pooler, ask
from tests.pooler.raw import Raw
from tests.pooler.secured import tls_settings, tree_with_tls

DEBIANS = Path("/etc/pgbouncer/pgbouncer.ini")

# The shape of PgCat's own examples: every key that they have, comments left out.
GENERAL = (
    "enable_prometheus_exporter=true;connect_timeout=5000;idle_timeout=30000;idle_client_in_transaction_timeout=0;"
    "healthcheck_timeout=1000;healthcheck_delay=30000;shutdown_timeout=60000;ban_time=60;log_client_connections=false;"
    "log_client_disconnections=false;autoreload=15000;worker_threads=5;tcp_keepalives_idle=5;tcp_keepalives_count=5;"
    "tcp_keepalives_interval=5"
).replace(";", "\n")
POOL = (
    "pool_mode='transaction';load_balancing_mode='random';default_role='primary';query_parser_enabled=true;"
    "primary_reads_enabled=true;sharding_function='pg_bigint_hash';idle_timeout=40000;connect_timeout=3000"
).replace(";", "\n")
PGCAT = """
[general]
host = "127.0.0.1"
port = @PORT@
prometheus_exporter_port = {metrics}
admin_username = "postgres"
admin_password = "{password}"
{general}
[pools.app]
{pool}
[pools.app.users.0]
username = "postgres"
password = "{password}"
pool_size = 2
min_pool_size = 1
statement_timeout = 400
{user}
[pools.app.shards.0]
servers = [{servers}]
database = "postgres"
"""


def with_pgcat_toml(server, servers=None, general="", pool="", user=""):
    """A pooler with a pgcat.toml."""
    text = PGCAT.format(
        metrics=free_port(),
        password=server.password,
        servers=servers or f'["127.0.0.1", {server.port}, "primary"]',
        general=f"{GENERAL}\n{general}",
        pool=f"{POOL}\n{pool}",
        user=user,
    )
    return Pooler(server, name="pgcat.toml", text=text)


def check(path, text=None, **environment):
    """What `howdah-pooler check` says of a configuration: whether it is good, and the text."""
    if text is not None:
        path.write_text(text)
    done = subprocess.run(
        [PROGRAM, "check", path], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    return done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    not os.access(DEBIANS, os.R_OK), reason=f"there is no {DEBIANS} of Debian's, or not for this account to read"
)
def test_debians_own_file_is_taken_as_it_is():
    good, said = check(DEBIANS)
    assert good, said
    assert "has no effect" not in said and "unknown setting" not in said


def test_the_settings_of_the_installed_pgbouncer_are_known_and_have_its_defaults(server, real_pgbouncer):
    """Those of TLS, of authentication by other services, and of its own buffers are none of this test's business."""
    page = (ROOT / "docs" / "reference" / "pooler-settings.md").read_text()
    ours = dict(re.findall(r"^\| `(\w+)` \| ([^|]*?)(?:; in `howdah.toml` [^|]*)? \| (?:yes|no) \|", page, re.M))
    without = set(re.findall(r"`(\w+)`", page.partition("of `pgbouncer.ini` have no effect: ")[2]))
    made = Pooler(server)
    made.port = real_pgbouncer
    defaults = {row["key"]: row["default"] for row in made.show("CONFIG")}
    made.folder.rmdir()
    compared = 0
    for key, default in defaults.items():
        if "_tls_" in key or key in {"auth_hba_file", "disable_pqexec"} | without:
            continue
        assert key in ours, f"{key} is a setting of PgBouncer that is not known here"
        # What is better or different here, each for a reason.
        if key in {"syslog_ident", "server_check_query", "auth_query", "user"}:
            continue
        assert ours[key].strip("`").replace("empty", "") == default, key
        compared += 1
    assert compared > 50


def test_pgcats_own_shape_serves(server):
    with with_pgcat_toml(server) as pooler:
        good, said = check(pooler.path)
        assert good and "statement_timeout" not in said and "min_pool_size" not in said, said
        assert pooler.psql("SELECT 5", "app", password=server.password) == "5"
        told = pooler.psql("SELECT pg_sleep(5)", "app", password=server.password, check=False)
        assert "query_timeout" in told.stderr, "statement_timeout of the user"
        assert pooler.psql("SHOW DATABASES", "pgcat", password=server.password).startswith("app|127.0.0.1|")
        shown = pooler.psql("SHOW CONFIG", "pgcat", password=server.password).splitlines()
        config = dict(line.split("|")[:2] for line in shown)
        assert (config["autoreload"], config["server_check_delay"], config["shutdown_timeout"]) == ("15", "30", "60")


def test_a_pool_of_pgcats_admits_its_own_users(server, tmp_path):
    text = with_pgcat_toml(server).text
    other = text[text.index("[pools.app]") :].replace("pools.app", "pools.other")
    good, said = check(
        tmp_path / "pgcat.toml", (text + other.replace("statement_timeout = 400\n", "")).replace("@PORT@", "1")
    )
    assert not good and "different statement_timeouts" in said
    text += other.replace('username = "postgres"', 'username = "stranger"').replace("timeout = 400", "timout = 400")
    with Pooler(server, name="pgcat.toml", text=text) as pooler:
        good, said = check(pooler.path)
        assert good and "pools.other.users.0.statement_timout is not supported and has no effect" in said
        told = pooler.psql("SELECT 5", "other", password=server.password, check=False)
        assert 'no pool configured for database: "other", user: "postgres"' in told.stderr


def test_a_database_cannot_have_the_consoles_name(tmp_path):
    for name in ("howdah", "pgbouncer", "pgcat"):
        good, said = check(tmp_path / "pgbouncer.ini", f"[databases]\n{name} = host=127.0.0.1\n[pgbouncer]\n")
        assert not good
        assert f"database {name}: this name belongs to the console; give the entry another name, and dbname=" in said


def test_howdah_toml_takes_variables_and_tells_the_nearest_name(tmp_path):
    text = """
    # ${NOT_THERE} in a comment does not matter
    [pooler]
    listen_port = "${PORT}"
    query_wait_timeout = "${WAIT:-7}"
    [databases.app]
    host = "localhost"
    [users.bob]
    password = 'a${PASS}b'
    """
    path = tmp_path / "howdah.toml"
    good, said = check(path, text, PORT="7777", PASS="'\"\\")
    assert good, said
    for wrong, known, complaint in (
        (text, {"PORT": "x", "PASS": ""}, '[pooler] listen_port = "x": expected a number from 0 to 65535'),
        (text, {"PORT": "1"}, "users: bob: password: the environment has no variable PASS"),
        ("[pooler]\nquery_wait_timout = 5", {}, "has no key query_wait_timout; did you mean query_wait_timeout?"),
    ):
        good, said = check(path, wrong, **known)
        assert not good and complaint in said
    good, said = check(tmp_path / "nowhere.toml")
    assert not good and "cannot read" in said


def test_limits_of_a_user_and_of_a_database_hold(server):
    databases = {"postgres": "max_db_client_connections=2", "other": "dbname=postgres"}
    with Pooler(server, databases) as pooler:
        pooler.path.write_text(
            pooler.path.read_text().replace(
                "[pgbouncer]", f"[users]\n{SUPERUSER} = query_timeout=0.3 max_user_client_connections=3\n[pgbouncer]"
            )
        )
        pooler.psql("RELOAD", "pgbouncer")
        assert "query_timeout" in pooler.psql("SELECT pg_sleep(5)", check=False).stderr
        with pooler.connect(), pooler.connect():
            assert "max_db_client_connections" in pooler.psql("SELECT 1", check=False).stderr
            with pooler.connect("other"):
                assert "max_user_client_connections" in pooler.psql("SELECT 1", "other", check=False).stderr
        row = next(row for row in pooler.show("USERS") if row["name"] == SUPERUSER)
        assert row["max_user_client_connections"] == "3"
        row = next(row for row in pooler.show("DATABASES") if row["name"] == "postgres")
        assert row["max_client_connections"] == "2"


def test_hosts_of_an_entry_in_turn_or_the_first_that_works(server):
    turn = f"host=127.0.0.1,localhost dbname=postgres password={server.password}"
    with Pooler(server, {"turn": turn, "first": f"{turn} load_balance_hosts=disable"}) as pooler:
        for database, hosts in {"turn": {"127.0.0.1", "localhost"}, "first": {"127.0.0.1"}}.items():
            with contextlib.ExitStack() as stack:
                # The connection that reads the catalog has its turn as well.
                for _ in range(3):
                    client = stack.enter_context(Raw(pooler.port, database))
                    client.sql("BEGIN")
                    assert client.value("SELECT 1") == "1"
                assert {row["addr"] for row in pooler.show("SERVERS") if row["database"] == database} == hosts


@pytest.mark.parametrize("order", ["round-robin", "disable"])
def test_a_login_is_not_refused_while_another_host_works(server, order):
    """One that answers, though others refuse or have names that nobody knows."""
    entry = f"dbname=postgres password={server.password} load_balance_hosts={order} port={server.port}"
    nobody = f"{entry} host=127.0.0.9,no-such-host.invalid,127.0.0.8"
    # Names may be looked up for each connection.
    ttl = {"dns_max_ttl": 0, "dns_nxdomain_ttl": 0} if order == "disable" else {}
    with Pooler(server, {"some": f"{nobody},localhost", "none": nobody}, **ttl) as pooler:
        for _ in range(4):
            assert pooler.psql("SELECT 1", "some") == "1"
            pooler.psql("RECONNECT", "pgbouncer")
        assert "cannot connect to 127.0.0." in pooler.psql("SELECT 1", "none", check=False).stderr


def test_the_socket_of_a_family_has_its_mode_and_all_addresses_are_listened_on(server):
    with Pooler(server, listen_addr="*", unix_socket_mode="0700", login_notify_message="be kind") as pooler:
        made = pooler.folder / f".s.PGSQL.{pooler.port}"
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        with socket.create_connection(("127.0.0.1", pooler.port)):
            pass
        if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
            with socket.create_connection(("::1", pooler.port)):
                pass
        assert "be kind" in pooler.psql("SELECT 1", check=False).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_root_becomes_the_user_that_the_file_names(server):
    account = places.server_user()
    made = Pooler(server, user=account.pw_name)
    os.chown(made.folder, account.pw_uid, account.pw_gid)
    with made as pooler:
        told = Path(f"/proc/{pooler.process.pid}/status").read_text()
        status = {name: value.split() for name, value in re.findall(r"^(\w+):(.*)$", told, re.M)}
        assert status["Uid"] == [str(account.pw_uid)] * 4
        assert status["Gid"] == [str(account.pw_gid)] * 4
        assert set(map(int, status["Groups"])) == set(os.getgrouplist(account.pw_name, account.pw_gid))
        assert pooler.psql("SELECT 1") == "1"


def started(path):
    """What a pooler says that does not come up."""
    done = subprocess.run([PROGRAM, path], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 1
    return done.stderr


def test_one_address_is_enough(server):
    """Another may belong to the other machine of a pair; one named twice is one."""
    with Pooler(server, listen_addr="192.0.2.9, 127.0.0.1, localhost", pool_mode="Transaction") as pooler:
        assert pooler.psql("SELECT 1") == "1"
        assert "cannot listen on 192.0.2.9:" in pooler.log.read_text()


def test_an_entry_without_a_host_is_the_socket_in_unix_socket_dir(server, tmp_path):
    entry = f"[databases]\napp = port={server.port} dbname=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
    entry += "listen_port = @PORT@\nauth_type = any\nunix_socket_dir = "
    with Pooler(server, text=entry + str(server.socket_folder)) as pooler:
        assert pooler.psql("SELECT inet_server_port() IS NULL", "app") == "t"
    with Pooler(server, text=entry + str(tmp_path)) as pooler:
        assert f"cannot connect to {tmp_path}:{server.port}: No such file" in pooler.psql("", "app", check=False).stderr


def test_what_is_missing_or_taken_is_told_with_the_file_and_the_key(tmp_path):
    path = tmp_path / "pgbouncer.ini"
    lines = "[databases]\n[pgbouncer]\nlisten_addr = 127.0.0.1\nunix_socket_dir =\n"
    good, said = check(path, f"{lines}auth_file = {tmp_path}/nobody.txt\n")
    assert not good and f"{path}: auth_file = {tmp_path}/nobody.txt: cannot read the file: No such file" in said
    (tmp_path / "users.txt").write_text("a b\n")
    good, said = check(path, f"{lines}auth_file = {tmp_path}/users.txt\n")
    assert not good and f"{path}: auth_file = {tmp_path}/users.txt: line 1: " in said
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        path.write_text(f"{lines}listen_port = {port}\n")
        assert f"{path}: listen_addr, listen_port: cannot listen on 127.0.0.1:{port}: Address" in started(path)
        path.write_text(f"{lines}listen_port = {free_port()}\nmetrics_port = {port}\n")
        assert f"{path}: metrics_addr, metrics_port: cannot listen on 127.0.0.1:{port}: Address" in started(path)


def test_one_server_may_be_the_primary_and_the_replica_of_a_pgcat_toml(server):
    # PgCat's own example names it twice.
    twice = f'["127.0.0.1", {server.port}, "primary"], ["localhost", {server.port}, "replica"]'
    with with_pgcat_toml(server, twice, pool="query_parser_read_write_splitting = true") as pooler:
        with pooler.connect("app", password=server.password) as client:
            ask(client, "CREATE TABLE called_twice (a int)")
            assert ask(client, "SELECT count(*) FROM called_twice") == [(0,)]
            ask(client, "DROP TABLE called_twice")


def test_users_of_a_pgcat_pool_log_in_to_the_server_as_they_are_told(with_users, tmp_path):
    more = f"""server_username = "scram_user"
server_password = "{PASSWORD}"
[pools.app.users.1]
username = "second"
password = "its own"
server_username = "scram_user"
server_password = "{PASSWORD}"
pool_size = 3"""
    with with_pgcat_toml(with_users, user=more) as pooler:
        for user, password in (("postgres", with_users.password), ("second", "its own")):
            assert pooler.psql("SELECT current_user", "app", user=user, password=password) == "scram_user"
        assert "app|scram_user|" in pooler.psql("SHOW POOLS", "pgcat", password=with_users.password)
    mixed = more.replace(f'server_username = "scram_user"\nserver_password = "{PASSWORD}"\npool_size', "pool_size")
    text = with_pgcat_toml(with_users, user=mixed).text
    good, said = check(tmp_path / "pgcat.toml", text.replace("@PORT@", "6432"))
    assert not good and "pools.app: its users have different accounts on the servers" in said


@pytest.mark.parametrize(("where", "name"), [("general", "'$1'"), ("pool", "$1")])
def test_a_pgcat_toml_looks_passwords_up(with_users, where, name):
    asks = f"""auth_query = "SELECT usename, passwd FROM pg_shadow WHERE usename={name}"
auth_query_user = "{SUPERUSER}"
auth_query_password = "{with_users.password}"
"""
    # What a pool says counts for the pool, instead of what is said in general.
    general = asks if where == "general" else asks.replace("usename, passwd", "no, such")
    more = '[pools.app.users.1]\nusername = "scram_user"\npool_size = 2\n'
    with with_pgcat_toml(with_users, user=more, general=general, pool=asks if where == "pool" else "") as pooler:
        good, said = check(pooler.path)
        assert good and "auth_query" not in said, said
        assert pooler.psql("SELECT user", "app", user="scram_user", password=PASSWORD) == "scram_user"
        refused = pooler.psql("SELECT user", "app", user="scram_user", password="wrong", check=False)
        assert "password authentication failed" in refused.stderr


def test_a_configuration_with_which_nobody_can_log_in_is_told(tmp_path):
    path = tmp_path / "howdah.toml"
    remark = "no user can log in: there is no password (auth_file, or [users.NAME] in a howdah.toml), and no auth_user"
    entry = "[databases.app]\nhost = 'localhost'\n"
    good, said = check(path, entry)
    assert good and remark in said and f"{path} is valid: 1 database, 0 users" in said
    looks = f"[pooler]\nauth_user = 'looks'\n{entry}"
    for enough in (f"{entry}[users.bob]\npassword = 'x'\n", looks, f"[pooler]\nauth_type = 'any'\n{entry}"):
        good, said = check(path, enough)
        assert good and remark not in said, said
    # Who looks passwords up has to log in itself.
    missing = "auth_user looks has no password (auth_file, or [users.looks] in a howdah.toml)"
    assert check(path, looks)[1].count(missing) == 1
    assert missing not in check(path, f"{looks}[users.looks]\npassword = 'x'\n")[1]


def test_the_configurations_of_the_guide_to_the_pooler_are_good(tmp_path):
    """Copied as they stand, but for the places of their files."""
    authority = Authority(tmp_path)
    pair = authority.issue("pooler")
    guide = (ROOT / "docs" / "guide" / "pooler.md").read_text()
    places = {"server.crt": pair.cert, "server.key": pair.key, "root.crt": authority.root}
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", guide, re.MULTILINE)
    texts = [text for text in map(textwrap.dedent, blocks) if "[pooler]" in text or "[pgbouncer]" in text]
    assert len(texts) == 3
    for text in texts:
        for told, here in places.items():
            text = text.replace(f"/etc/pooler/{told}", str(here))
        name = "pgbouncer.ini" if "[pgbouncer]" in text else "howdah.toml"
        good, said = check(tmp_path / name, text, BOB_PASSWORD="secret")
        assert good and "no effect" not in said and "unknown setting" not in said, said


def test_the_steps_from_pgbouncer_are_those_of_the_guide(server, tmp_path):
    """A pgbouncer.ini as Debian's, checked, copied for a trial and served beside, by the guide's own lines."""
    tmp_path.chmod(0o755)
    (tmp_path / "userlist.txt").write_text(f'"app" "{PASSWORD}"\n"admin" "{PASSWORD}"\n')
    (tmp_path / "pgbouncer.ini").write_text(
        f"""
        [databases]
        app = host={server.socket_folder} port={server.port} dbname=postgres user={SUPERUSER}
        [pgbouncer]
        listen_addr = 127.0.0.1
        listen_port = 1
        pidfile = /nowhere/pgbouncer.pid
        logfile = /nowhere/pgbouncer.log
        unix_socket_dir = {tmp_path}
        auth_type = md5
        auth_file = {tmp_path}/userlist.txt
        admin_users = admin
        so_reuseport = 1
        """.replace(" " * 8, "")
    )
    guide = (ROOT / "docs" / "guide" / "pgbouncer.md").read_text()
    blocks = re.findall(r"(?:^    .*\n)+", guide, re.MULTILINE)[:3]
    port = free_port()
    lines = "".join(blocks).replace("/etc/pgbouncer", str(tmp_path)).replace("7432", str(port))
    lines = lines.replace("/tmp/trial", str(tmp_path / "trial")).replace("    howdah-pooler ", f"    {PROGRAM} ")
    # The pooler of the trial goes on behind the lines; a person's next line comes later.
    started = f"until grep -q 'is up' {tmp_path}/trial.log; do sleep 0.05; done\n"
    lines = lines.replace("trial.log &\n", f"trial.log &\n{started}").replace("psql ", "$psql -Xt ")
    script = f"set -e\ntrap 'kill $!' EXIT\n{lines}"
    known = environment() | {"PGPASSWORD": PASSWORD, "psql": str(server.tree.program("psql"))}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=known, cwd="/", timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "so_reuseport" in done.stdout + done.stderr
    assert "through howdah-pooler" in done.stdout
    assert re.search(rf"app +\| {SUPERUSER}", done.stdout), "SHOW POOLS"
    assert stat.S_IMODE((tmp_path / "trial.ini").stat().st_mode) == 0o600


def test_the_configuration_of_the_guide_to_production_serves(authority, certificate, tmp_path):
    """With the statements before it, as they stand but for addresses and places of files."""
    guide = (ROOT / "docs" / "guide" / "production.md").read_text()
    sql, text = (guide.split(f"```{language}\n")[1].split("```")[0] for language in ("sql", "toml"))
    for told, here in (("ca.pem", authority.root), ("pooler.pem", certificate.cert), ("pooler.key", certificate.key)):
        text = text.replace(f"/etc/howdah/{told}", str(here))
    good, said = check(tmp_path / "howdah.toml", text, POOLER_PASSWORD="...")
    assert good and "no effect" not in said and "no password" not in said and "unknown setting" not in said, said
    hba = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
    with tls_settings(authority, hba) as settings, Server(tree_with_tls(), settings) as server:
        server.psql("CREATE DATABASE app")
        server.psql(sql, database="app")
        server.psql("CREATE ROLE bob LOGIN PASSWORD 'b'; CREATE ROLE dba LOGIN PASSWORD 'd'")
        server.psql("CREATE ROLE gone LOGIN PASSWORD 'g' VALID UNTIL '2001-01-01'")
        text = re.sub(r"servers = .*", f'servers = [{{ host = "localhost", port = {server.port} }}]', text)
        text = text.replace("10.0.0.10", "127.0.0.1").replace("9127", str(free_port()))
        text = text.replace("[pooler]\n", "[pooler]\nlisten_port = @PORT@\n").replace("/run/howdah", str(tmp_path))
        text = text.replace("${POOLER_PASSWORD}", "...")
        with Pooler(server, name="howdah.toml", text=text) as pooler:
            assert pooler.psql("SELECT current_user", "app", "bob", "b", sslmode="require") == "bob"
            assert pooler.psql("SHOW POOLS", "howdah", "dba", "d", sslmode="require")
            for user, password in (("bob", "x"), ("gone", "g"), (SUPERUSER, server.password)):
                said = pooler.psql("SELECT 1", "app", user, password, check=False, sslmode="require").stderr
                assert "password authentication failed" in said, (user, said)
            # Nobody but the pooler may ask for secrets.
            denied = pooler.psql("SELECT pooler.users('dba')", "app", "bob", "b", check=False, sslmode="require")
            assert "permission denied" in denied.stderr


def test_the_file_for_kubernetes_runs_a_pooler_that_its_probes_find_and_its_end_stops(server, tmp_path):
    """As a Pod would be run, but for addresses; nothing of Kubernetes itself."""
    configuration, deployment, service = yaml.safe_load_all(
        (ROOT / "packaging" / "container" / "kubernetes.yaml").read_text()
    )
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    text = configuration["data"]["howdah.toml"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {name: ports[name] for name in ("postgres", "metrics")} == {
        "postgres": int(re.search(r"listen_port = (\d+)", text)[1]),
        "metrics": int(re.search(r"metrics_port = (\d+)", text)[1]),
    }
    assert service["spec"]["ports"][0]["targetPort"] == "postgres"
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert container["envFrom"][0]["secretRef"]["name"] == "howdah-pooler"
    (place,) = (mount["mountPath"] for mount in container["volumeMounts"])
    assert container["args"] == [f"{place}/{next(iter(configuration['data']))}"]
    metrics = free_port()
    text = re.sub(r"servers = .*", f'servers = [{{ host = "127.0.0.1", port = {server.port} }}]', text)
    text = text.replace(str(ports["metrics"]), str(metrics)).replace("${APP_PASSWORD}", "it's a secret")
    text = text.replace(f"listen_port = {ports['postgres']}", f'listen_port = @PORT@\nunix_socket_dir = "{tmp_path}"')
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    patience = int(re.search(r"shutdown_timeout = (\d+)", text)[1])
    assert pause + patience < pod["terminationGracePeriodSeconds"]
    text = text.replace(f"shutdown_timeout = {patience}", "shutdown_timeout = 1")
    server.psql(
        "DROP ROLE IF EXISTS app; CREATE ROLE app LOGIN PASSWORD 'it''s a secret'; CREATE DATABASE app OWNER app"
    )
    try:
        with Pooler(server, name="howdah.toml", text=text) as pooler:
            assert pooler.psql("SELECT current_user", "app", "app", "it's a secret") == "app"
            for probe in (container["readinessProbe"], container["livenessProbe"]):
                address = f"http://127.0.0.1:{metrics}{probe['httpGet']['path']}"
                with urllib.request.urlopen(address, timeout=10) as answer:
                    assert (probe["httpGet"]["port"], answer.status) == ("metrics", 200)
            with pooler.connect("app", "app", "it's a secret") as busy:
                ask(busy, "BEGIN")
                pooler.process.terminate()
                pooler.process.wait(10)
    finally:
        server.psql("DROP DATABASE app WITH (FORCE)")
        server.psql("DROP ROLE app")
