"""The HTTP port: /metrics as Prometheus' own parser reads it, /healthz, /readyz."""

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from devkit.places import ROOT
from devkit.server import SUPERUSER, free_port
from tests.pooler.process import Pooler, ask, wait_until
from tests.pooler.raw import Raw, query


class Measured(Pooler):
    """A pooler with an HTTP port."""

    def __init__(self, server, *arguments, **settings):
        self.http = free_port()
        super().__init__(server, *arguments, **{"metrics_port": self.http, **settings})

    def get(self, path):
        """The status and the body of an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def samples(self):
        """The metrics by family, as Prometheus' parser reads them."""
        status, text = self.get("/metrics")
        assert status == 200
        families = list(text_string_to_metric_families(text))
        names = [family.name for family in families]
        assert len(names) == len(set(names)), "each family stands once"
        return {family.name: family for family in families}


@pytest.fixture
def measured(server):
    with Measured(server, default_pool_size=2) as running:
        yield running


def value(family, name=None, **labels):
    """The sum of the samples with these labels."""
    name = name or family.samples[0].name
    return sum(
        sample.value
        for sample in family.samples
        if sample.name == name and all(sample.labels[label] == wanted for label, wanted in labels.items())
    )


def test_the_page_is_what_prometheus_reads_and_counts_what_went_through(measured):
    for _ in range(20):
        measured.psql("SELECT 1")
    measured.psql("SELECT pg_sleep(0.3)")
    families = measured.samples()
    assert all(family.documentation and family.type != "unknown" for family in families.values())
    assert value(families["howdah_pooler_queries"], database="postgres", user=SUPERUSER) == 21
    assert value(families["howdah_pooler_received_bytes"]) > 21 * 10
    durations = families["howdah_pooler_query_duration_seconds"]
    assert durations.type == "histogram"
    server = f"{measured.server.socket_folder}:{measured.server.port}"
    assert value(durations, "howdah_pooler_query_duration_seconds_count", server=server, database="postgres") == 21
    assert value(durations, "howdah_pooler_query_duration_seconds_bucket", le="0.25") == 20
    assert 0.3 < value(durations, "howdah_pooler_query_duration_seconds_sum") < 2
    waits = families["howdah_pooler_wait_duration_seconds"]
    assert value(waits, "howdah_pooler_wait_duration_seconds_count", database="postgres") == 21
    assert value(families["howdah_pooler_pool_size"], database="postgres") == 2
    assert families["process_cpu_seconds"].samples[0].value > 0
    assert families["process_resident_memory_bytes"].samples[0].value > 1_000_000


def test_the_share_of_pipelined_statements_and_why_others_were_not(server):
    server.run("pgbench", "-i", "-q", "postgres")
    with Measured(server, default_pool_size=2) as measured:
        measured.psql("SELECT 1")
        measured.wait_for_catalog()
        measured.pgbench("-n", "-S", "-c", "8", "-t", "200", "-M", "extended")
        measured.psql("BEGIN; UPDATE pgbench_branches SET bbalance = 0; COMMIT;")
        families = measured.samples()
        pipelined = value(families["howdah_pooler_pipelined_statements"], database="postgres", user=SUPERUSER)
        others = families["howdah_pooler_unpipelined_statements"]
        queries = value(families["howdah_pooler_queries"], database="postgres")
        # How many is a matter of the machine: on a busy one, shapes are found slow for a while.
        assert pipelined > 100
        assert pipelined + value(others, database="postgres") >= 0.99 * queries
        assert value(others, reason="new", database="postgres") > 0, "the first of a shape run alone"
        assert {sample.labels["reason"] for sample in others.samples} >= {"write", "transaction", "slow", "unknown"}
        durations = families["howdah_pooler_query_duration_seconds"]
        assert value(durations, "howdah_pooler_query_duration_seconds_count") == queries


def series(text):
    """Each sample's name with its labels, in the order of the page."""
    return [line.rpartition(" ")[0] for line in text.splitlines() if line and not line.startswith("#")]


def assert_is_sound(text):
    """No series stands on the page twice, and each name says whose it is."""
    found = series(text)
    twice = {name for name in found if found.count(name) > 1}
    assert not twice, sorted(twice)
    strange = {name for name in found if not name.startswith(("howdah_pooler_", "process_"))}
    assert not strange, sorted(strange)


@pytest.fixture
def over_cluster(steady_trio):
    """A pooler over a primary and its replicas, whose page says something of each of them."""
    text = steady_trio.toml("metrics_port = @HTTP@", "primary_reads = 'on'\npool_size = 3")
    measured = Measured(steady_trio.primary, name="howdah.toml", text=text)
    measured.text = text.replace("@HTTP@", str(measured.http))
    with measured, Raw(measured.port, "app") as client:

        def is_whole():
            client.sql("SELECT 1")
            families = measured.samples()
            used = {sample.labels["server"] for sample in families["howdah_pooler_query_duration_seconds"].samples}
            return len(used) == 3 and len(families["howdah_pooler_replica_lag_seconds"].samples) == 2

        wait_until(is_whole)
        yield measured


def test_each_series_of_a_cluster_stands_once_and_names_its_server(over_cluster, steady_trio):
    names = [f"{server.socket_folder}:{server.port}" for server in steady_trio.servers]
    assert_is_sound(over_cluster.get("/metrics")[1])
    families = over_cluster.samples()
    roles = {sample.labels["server"]: sample.labels["role"] for sample in families["howdah_pooler_server_role"].samples}
    assert roles == dict(zip(names, ["primary", "replica", "replica"], strict=True))
    for name, expected in (("pool_size", 9), ("server_up", 3), ("server_banned", 0)):
        family = families[f"howdah_pooler_{name}"]
        assert len(family.samples) == 3 and value(family) == expected, name
    clients = families["howdah_pooler_pool_clients"]
    assert all("server" not in sample.labels for sample in clients.samples), "clients belong to no server"
    assert value(clients, state="idle") == 1
    lags = families["howdah_pooler_replica_lag_seconds"].samples
    assert {sample.labels["server"] for sample in lags} == set(names[1:])
    shown = [row for row in over_cluster.show("POOLS") if row["database"] == "app"]
    assert len(shown) == 1 and int(shown[0]["sv_idle"]) >= 3, "one row for a pool, whichever its servers"


def test_query_time_and_wait_time_are_apart(server):
    with Measured(server, default_pool_size=1) as measured:
        with Raw(measured.port) as first, Raw(measured.port) as second:
            first.sql("BEGIN")
            second.send(query("SELECT 2"))
            # It waits for so long that no statement is taken for it.
            wait_until(lambda: value(measured.samples()["howdah_pooler_pool_longest_wait_seconds"]) > 1)
            assert value(measured.samples()["howdah_pooler_pool_clients"], state="waiting") == 1
            first.sql("COMMIT")
            second.until(b"Z")
        families = measured.samples()
        waits, queries = (families[f"howdah_pooler_{what}_duration_seconds"] for what in ("wait", "query"))
        assert value(waits, "howdah_pooler_wait_duration_seconds_sum") > 1
        assert value(queries, "howdah_pooler_query_duration_seconds_sum") < 1


def test_healthz_and_readyz_tell_the_truth(server):
    with Measured(server, default_pool_size=1) as measured:
        assert measured.get("/healthz") == (200, "ok\n")
        assert measured.get("/readyz") == (200, "ok\n")
        measured.psql("PAUSE", "pgbouncer")
        assert measured.get("/readyz") == (503, "paused\n")
        assert measured.get("/healthz") == (200, "ok\n")
        measured.psql("RESUME", "pgbouncer")
        assert measured.get("/readyz") == (200, "ok\n")
        with measured.connect() as busy:
            ask(busy, "BEGIN")
            measured.process.terminate()
            wait_until(lambda: measured.get("/readyz") == (503, "shutting down\n"))
            assert measured.get("/healthz") == (200, "ok\n")
            ask(busy, "COMMIT")
        measured.process.wait(10)


def test_a_pooler_that_reaches_no_server_is_not_ready(server):
    with Measured(server, {"postgres": f"port={free_port()}"}) as measured:
        assert measured.get("/readyz") == (200, "ok\n")
        measured.psql("SELECT 1", check=False)
        measured.psql("SELECT 1", "nowhere", check=False)
        assert value(measured.samples()["howdah_pooler_errors"], sqlstate="3D000", blame="client") == 1
        assert measured.get("/readyz") == (503, "no server can be reached\n")
        assert measured.get("/healthz")[0] == 200


def test_other_requests_are_refused(measured):
    assert measured.get("/")[0] == 404
    place = ("127.0.0.1", measured.http)

    def send(request):
        with socket.create_connection(place, timeout=10) as client:
            client.sendall(request)
            return client.makefile("rb").read()

    assert b"405 Method" in send(b"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"400 Bad" in send(b"\x00\x01\x02\r\n\r\n")
    head = send(b"HEAD /metrics HTTP/1.0\r\n\r\n")
    assert b"200 OK" in head and head.endswith(b"\r\n\r\n")


# The alerts and the dashboard in monitoring/: every metric and label that they use is on a pooler's page


RULES = ROOT / "monitoring" / "prometheus-rules.yml"
DASHBOARD = ROOT / "monitoring" / "grafana-dashboard.json"
# What Prometheus itself adds to each series.
ADDED = {"instance", "job"}


def queries():
    """The expressions of alerts and panels, with Grafana's variables replaced, and where each stands."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


def test_each_query_is_of_series_and_labels_that_exist(over_cluster):
    # What Prometheus makes of each scrape, and what is there when somebody has been told an error.
    page = {"up": ADDED, "howdah_pooler_errors_total": ADDED | {"sqlstate", "blame"}}
    for family in over_cluster.samples().values():
        for sample in family.samples:
            page[sample.name] = page.get(sample.name, ADDED) | set(sample.labels)
    wrong = []
    for place, expression in queries():
        promql_parser.parse(expression)
        names = set(re.findall(r"\b(?:howdah_pooler|process)_\w+|\bup\b", expression))
        known = set().union(*(page.get(name, ()) for name in names))
        used = set(re.findall(r"[{,]\s*(\w+)\s*(?:=|!)~?", expression))
        for listed in re.findall(r"\bby \(([^)]*)\)", expression):
            used |= {label.strip() for label in listed.split(",")}
        wrong += [(place, name) for name in sorted(names - set(page)) + sorted(used - known)]
        assert names, place
    assert not wrong


def test_each_legend_and_text_names_labels_that_its_query_keeps():
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            kept = re.search(r"\bby \(([^)]*)\)", rule["expr"])
            for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
                assert kept is None or label in kept[1], f"{rule['alert']} drops {label}"
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            kept = re.search(r"\bby \(([^)]*)\)", target["expr"])
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert kept is None or label in kept[1], f"{panel['title']} drops {label}"


def test_promtool_takes_the_alerts():
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([program, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "12 rules" in done.stdout, done.stdout + done.stderr
