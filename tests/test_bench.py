"""What the benches have in common: reports, ratios, and the page made of them."""

import itertools
import json
import runpy
import subprocess
import sys

import pytest

from bench import publish, report
from bench.quality import score
from devkit.places import ROOT


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results in place of the repository's."""
    monkeypatch.setattr(report, "RESULTS", tmp_path / "bench" / "results")
    monkeypatch.setattr(publish, "RESULTS", tmp_path / "bench" / "results")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    monkeypatch.setattr(publish, "PAGE", tmp_path / "benchmarks.md")
    return tmp_path


def keep(results, name, median, target, day="2022-01-01", commit="1234567", load=0.0):
    made = report.Report(name, quick=False)
    made.content["commit"], made.content["machine"]["load_before"] = commit, load
    spread = report.Spread(median, median - 0.25, median + 0.25)
    made.add("this / that", spread, target=target, unit="times", contest=True)
    made.finish(folder_of(results, day) / f"{name}.json")


def folder_of(results, day="2022-01-01"):
    folder = results / "bench" / "results" / day
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_a_ratio_is_taken_round_by_round():
    spread = report.ratios([10, 30, 90], [10, 10, 10])
    assert (spread.median, spread.least, spread.greatest) == (3, 1, 9)


def test_the_first_round_does_not_count():
    values = iter([100.0, 1.0, 2.0])
    assert report.interleave({"side": lambda: next(values)}, 2) == {"side": [1.0, 2.0]}


def test_the_page_says_first_where_another_is_better(results):
    keep(results, "fast", 9.0, 2.0)
    keep(results, "slow", 0.5, 2.0)
    publish.publish({"fast": "what is fast", "slow": "what is slow", "gone": "what was not run"})
    page = publish.PAGE.read_text()
    lost = page[page.index("## Where Howdah loses") : page.index("## Bench by bench")]
    assert "| [slow](#slow) |  | this / that: " in lost
    assert "fast" not in lost
    assert "- `bench/run gone` has no stored result" in page
    assert "`bench/run fast`; 1 of 1 targets met" in page
    assert "`bench/run slow`; 0 of 1 targets met" in page


def test_the_page_says_what_speaks_against_a_result(results):
    keep(results, "fast", 9.0, 2.0, commit="1234567-dirty", load=99.0)
    publish.publish({"fast": "what is fast"})
    page = publish.PAGE.read_text()
    assert "`bench/run fast` (from a tree with changes that are not committed; beside other work (load 99.0 on" in page


def test_a_ratio_is_without_a_unit_and_the_same_loss_is_said_once(results):
    made = report.Report("one", quick=False)
    for case, median in (("copy: this / best", 0.5), ("copy: this / best for asyncio", 0.5), ("copy: CPU", 0.25)):
        made.add(case, report.Spread(median, median, median), unit="times", contest=True)
    made.finish(folder_of(results) / "one.json")
    publish.publish({"one": "what is one"})
    assert "| [one](#one) | copy | this / best: **0.5**<br>CPU: **0.25** |" in publish.PAGE.read_text()


def test_the_newest_result_counts(results):
    keep(results, "one", 0.5, 2.0, "2022-01-01")
    keep(results, "one", 3.0, 2.0, "2022-01-02")
    publish.publish({"one": "what is one"})
    assert "In no comparison is another better" in publish.PAGE.read_text()
    assert (folder_of(results, "2022-01-02") / "one.md").exists()


def test_a_contest_is_lost_when_the_other_side_is_better_in_every_round(results):
    made = report.Report("raced", quick=False)
    made.add("ours / theirs", report.Spread(0.9, 0.8, 0.97), contest=True)
    made.add("ours / another's", report.Spread(0.9, 0.8, 1.1), contest=True)
    made.add("our memory / theirs", report.Spread(1.2, 1.1, 1.3), at_most=True, contest=True)
    made.add("our speed / theirs", report.Spread(1.2, 1.1, 1.3), contest=True)
    made.finish(folder_of(results) / "raced.json")
    publish.publish({"raced": "a race"})
    page = publish.PAGE.read_text()
    lost = page[page.index("## Where Howdah loses") : page.index("## Bench by bench")]
    assert "ours / theirs" in lost and "our memory / theirs" in lost
    assert "our speed / theirs" not in lost and "ours / another's" not in lost


def test_what_was_left_out_and_what_was_tried_is_on_the_page(results):
    made = report.Report("short", quick=False)
    made.leave_out("huge pages", "there are none")
    made.content["tried"] = {"workers": [1, 2]}
    made.add("speed", report.Spread.of([1234567.0]), headline="how fast it is")
    made.table("By clients", ["clients", "rate"], [[1, report.Spread.of([1.0, 2.0, 3.0])]])
    made.finish(folder_of(results) / "short.json")
    publish.publish({"short": "a short run"})
    page = publish.PAGE.read_text()
    assert "- [short](#short): huge pages: there are none" in page
    assert "| how fast it is | **1,234,567** |  | [short](#short) |" in page
    details = (folder_of(results) / "short.md").read_text()
    assert "- tried: workers 1, 2" in details
    assert "| 1 | 2 (1 to 3) |" in details


def test_a_quick_run_is_not_published(results):
    keep(results, "one", 0.5, 2.0)
    made = report.Report("one", quick=True)
    made.finish(folder_of(results, "2022-01-02") / "one.json")
    publish.publish({"one": "what is one"})
    assert "| [one](#one) |  | this / that: " in publish.PAGE.read_text()


def test_the_page_of_the_repository_is_made_of_its_results_and_short():
    pages = {ROOT / "docs" / "benchmarks.md", *(path.with_suffix(".md") for path in publish.RESULTS.glob("*/*.json"))}
    before = {path: path.read_text() if path.exists() else None for path in pages}
    try:
        publish.publish(runpy.run_path(str(ROOT / "bench" / "run"))["BENCHES"])
        for path, text in before.items():
            assert (path.read_text() if path.exists() else None) == text, f"{path}: `bench/run publish` renews it"
    finally:
        for path, text in before.items():
            if text is not None:
                path.write_text(text)
    text = publish.PAGE.read_text()
    assert len(text.splitlines()) < 160
    sections = text.split("\n### ")[1:]
    assert [section.splitlines()[0] for section in sections if "\n![" not in section] == [], "benches without a plot"


def test_each_round_begins_with_another_side():
    order = []
    report.interleave({name: lambda name=name: order.append(name) or 1.0 for name in "abc"}, 2)
    assert "".join(order) == "abcbcacab"


def test_every_bench_says_where_its_settings_are():
    names = runpy.run_path(str(ROOT / "bench" / "run"))["BENCHES"]
    assert set(publish.SETTINGS) == set(names)
    for file in itertools.chain(*publish.SETTINGS.values()):
        assert (ROOT / file).is_file(), file


def test_without_results_there_is_no_page(results):
    with pytest.raises(publish.Problem, match="bench/run all"):
        publish.publish({"one": "what is one"})
    assert not publish.PAGE.exists()


def test_a_plot_is_kept_with_its_points(results):
    made = report.Report("drawn", quick=True)
    spread = report.Spread(20.0, 19.0, 22.0)
    made.plot("rates", "Rates", "clients", "a second", {"ours": [(1, 2.0), (10, spread)]}, log_x=True)
    made.finish(results / "drawn.json")
    kept = json.loads((results / "drawn.json").read_text())["plots"][0]["series"]
    assert kept == {"ours": [[1, 2.0], [10, 20.0, 19.0, 22.0]]}


def test_a_bench_that_is_not_there_is_named():
    command = [sys.executable, str(ROOT / "bench" / "run"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no bench nothing" in done.stderr
    assert "predict-point" in done.stderr


def test_the_figure_of_a_regression_is_r2_and_that_of_probabilities_how_much_of_the_log_loss_is_gone():
    learnt, unseen = [1.0, 3.0], [1.0, 2.0, 3.0]
    nothing = score.of_nothing("regression", learnt, unseen)
    for predicted, skill in ((unseen, 1), ([2.0, 2.0, 2.0], 0)):
        assert score.together([score.judged("regression", unseen, predicted)], [nothing]) == {"skill": skill}
    nothing = score.of_nothing("classification", ["a", "a", "a", "b"], ["a", "b"])
    no_better = score.judged("classification", ["a", "b"], [[0.75, 0.25]] * 2, ["a", "b"])
    assert score.together([no_better], [nothing]) == {"skill": 0, "auc": 0.5}
    perfect = score.together([score.judged("classification", ["a", "b"], [[1, 0], [0, 1]], ["a", "b"])], [nothing])
    assert perfect["skill"] > 0.999
    assert perfect["auc"] == 1
    assert score.together([None], [nothing]) is None


def test_a_class_that_no_training_row_had_costs_the_same_whoever_predicts():
    known = score.judged("classification", ["c"], [[0.5, 0.5]], ["a", "b"])["loss"]
    known_by_another = score.judged("classification", ["c"], [[1.0, 0.0, 0.0]], ["a", "b", "c"])["loss"]
    assert known == pytest.approx(known_by_another, rel=1e-3)


def test_a_ratio_of_small_figures_is_not_blown_up():
    assert score.ratio(0.72, 0.8) == pytest.approx(0.9)
    assert score.ratio(0.04, 0.05) == pytest.approx(0.98)
    assert score.ratio(None, 0.5) == 0
    assert score.ratio(-300.0, 0.8) == 0
