"""The alerts and the dashboard in monitoring/: every metric and label that they use is on a pooler's page."""

import json
import re
import shutil
import subprocess

import promql_parser
import pytest
import yaml

from devkit.places import ROOT
from devkit.server import free_port
from tests.pooler.process import ask, wait_until
from tests.pooler.test_metrics import Measured

RULES = ROOT / "monitoring" / "prometheus-rules.yml"
DASHBOARD = ROOT / "monitoring" / "grafana-dashboard.json"
# What Prometheus itself adds to each series, and the series that it makes of each scrape.
ADDED = {"instance", "job"}
SCRAPE = {"up": ADDED}


@pytest.fixture
def page(steady_trio):
    """The labels of each series on the page of a pooler over a primary and its replicas."""
    http = free_port()
    text = steady_trio.toml(f"metrics_port = {http}", "primary_reads = 'on'")
    with (
        Measured(steady_trio.primary, name="howdah.toml", text=text) as measured,
        measured.connect("app") as client,
    ):
        measured.http = http

        def is_whole():
            ask(client, "SELECT 1")
            families = measured.samples()
            roles = {sample.labels["role"] for sample in families["howdah_pooler_server_role"].samples}
            return roles == {"primary", "replica"} and families["howdah_pooler_replica_lag_seconds"].samples

        wait_until(is_whole)
        series = {}
        for family in measured.samples().values():
            for sample in family.samples:
                series.setdefault(sample.name, set(ADDED)).update(sample.labels)
    # Nobody has been told an error.
    series.setdefault("howdah_pooler_errors_total", ADDED | {"sqlstate", "blame"})
    return series | SCRAPE


def queries():
    """The expressions of alerts and panels, with Grafana's variables replaced, and where each stands."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


def test_each_query_is_of_series_and_labels_that_exist(page):
    wrong = []
    for place, query in queries():
        promql_parser.parse(query)
        names = set(re.findall(r"\b(?:howdah_pooler|process)_\w+|\bup\b", query))
        known = set().union(*(page.get(name, ()) for name in names))
        used = set(re.findall(r"[{,]\s*(\w+)\s*(?:=|!)~?", query))
        for listed in re.findall(r"\bby \(([^)]*)\)", query):
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
