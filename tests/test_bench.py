"""What the benches have in common: reports, ratios, and the page made of them."""

import json
import subprocess
import sys

import pytest

from bench import publish, report
from devkit.places import ROOT


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results in place of the repository's."""
    monkeypatch.setattr(report, "RESULTS", tmp_path / "bench" / "results")
    monkeypatch.setattr(publish, "RESULTS", tmp_path / "bench" / "results")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    monkeypatch.setattr(publish, "PAGE", tmp_path / "benchmarks.md")
    return tmp_path


def keep(results, name, median, target, day="2022-01-01"):
    made = report.Report(name, quick=False)
    made.add("this / that", report.Spread(median, median - 1, median + 1), target=target, unit="times")
    folder = results / "bench" / "results" / day
    folder.mkdir(parents=True, exist_ok=True)
    made.finish(folder / f"{name}.json")


def test_a_ratio_is_taken_round_by_round():
    spread = report.ratios([10, 30, 90], [10, 10, 10])
    assert (spread.median, spread.least, spread.greatest) == (3, 1, 9)


def test_the_first_round_does_not_count():
    values = iter([100.0, 1.0, 2.0])
    assert report.interleave({"side": lambda: next(values)}, 2) == {"side": [1.0, 2.0]}


def test_the_page_says_first_where_we_lose(results):
    keep(results, "fast", 9.0, 2.0)
    keep(results, "slow", 1.5, 2.0)
    publish.publish({"fast": "what is fast", "slow": "what is slow", "gone": "what was not run"})
    page = publish.PAGE.read_text()
    lost = page[page.index("## Where we lose") : page.index("## In short")]
    assert "| slow | this / that |" in lost
    assert "fast" not in lost
    assert "No result is kept of `bench/run gone`." in page
    assert "| [fast](#fast) | 1 of 1 |" in page
    assert "`bench/run slow`" in page


def test_the_newest_result_counts(results):
    keep(results, "one", 1.0, 2.0, "2022-01-01")
    keep(results, "one", 3.0, 2.0, "2022-01-02")
    publish.publish({"one": "what is one"})
    assert "No target was missed." in publish.PAGE.read_text()


def test_without_results_there_is_no_page(results):
    with pytest.raises(publish.Problem, match="bench/run all"):
        publish.publish({"one": "what is one"})
    assert not publish.PAGE.exists()


def test_a_plot_is_kept_with_its_points(results):
    made = report.Report("drawn", quick=True)
    made.plot("rates", "Rates", "clients", "a second", {"ours": [(1, 2.0), (10, 20.0)]}, log_x=True)
    made.finish(results / "drawn.json")
    assert json.loads((results / "drawn.json").read_text())["plots"][0]["series"] == {"ours": [[1, 2.0], [10, 20.0]]}


def test_a_bench_that_is_not_there_is_named():
    command = [sys.executable, str(ROOT / "bench" / "run"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no bench nothing" in done.stderr
    assert "predict-point" in done.stderr
