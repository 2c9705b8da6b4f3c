"""The metrics of models: what the queries for postgres_exporter give, and that alerts and the dashboard use nothing else."""

import json
import re

import promql_parser
import pytest
import yaml

from devkit.places import ROOT

FOLDER = ROOT / "monitoring"
# Labels that postgres_exporter and Prometheus add.
ADDED = {"server", "instance", "job"}


@pytest.fixture
def series(database):
    """The labels of each series, as the queries say and as the server answers."""
    database.sql(
        """
        SELECT pgml.load_dataset('iris');
        SELECT pgml.train('flowers', 'classification', 'pgml.iris', 'target', 'xgboost', '{"n_estimators": 2}');
        SELECT pgml.predict('flowers', i) FROM pgml.iris AS i;
        """
    )
    found = {}
    for name, entry in yaml.safe_load((FOLDER / "postgres-exporter-queries.yml").read_text()).items():
        usage = {column: one["usage"] for metric in entry["metrics"] for column, one in metric.items()}
        rows = json.loads(database.sql(f"SELECT json_agg(q) FROM ({entry['query']}) AS q"))
        assert rows and all(set(row) == set(usage) for row in rows), name
        labels = {column for column, kind in usage.items() if kind == "LABEL"}
        for column, kind in usage.items():
            assert kind == "LABEL" or all(isinstance(row[column], (int, float)) for row in rows), (name, column)
            assert (kind == "COUNTER") == column.endswith("_total"), (name, column)
            if kind != "LABEL":
                found[f"{name}_{column}"] = labels | ADDED
    return found


def test_alerts_and_panels_use_series_and_labels_that_exist(series):
    rules = yaml.safe_load((FOLDER / "prometheus-rules-models.yml").read_text())["groups"]
    asked = [
        (rule["alert"], rule["expr"], rule["annotations"]["summary"]) for group in rules for rule in group["rules"]
    ]
    for panel in json.loads((FOLDER / "grafana-models.json").read_text())["panels"]:
        asked += [(panel["title"], target["expr"], target["legendFormat"]) for target in panel["targets"]]
    for place, query, text in asked:
        query = query.replace("$__rate_interval", "5m")
        promql_parser.parse(query)
        names = set(re.findall(r"\bpgml_\w+", query))
        assert names and names <= set(series), (place, names)
        known = set().union(*(series[name] for name in names))
        used = set(re.findall(r"[{,]\s*(\w+)\s*(?:=|!)~?", query)) | set(re.findall(r"\$labels\.(\w+)", text))
        used |= {label.strip() for listed in re.findall(r"\bby \(([^)]*)\)", query) for label in listed.split(",")}
        used |= set(re.findall(r"{{(\w+)}}", text))
        assert used <= known, (place, used)
