"""What the server reports in a training, understood and shown."""

import io

from howdah.training import ProgressBar, TrainingProgress, read_report


def test_a_round_is_understood():
    message = "Round 25 of 100, rmse 0.500000, 15 s left"
    assert read_report(message) == TrainingProgress(message, None, 25, 100, "rmse", 0.5, 15)


def test_a_round_without_a_metric_is_understood():
    message = "Round 1 of 2, 0 s left"
    assert read_report(message) == TrainingProgress(message, None, 1, 2, None, None, 0)


def test_rows_are_understood():
    assert read_report("250000 rows read").rows_read == 250000


def test_anything_else_is_a_message():
    assert read_report("Deploying model id: 7") == TrainingProgress("Deploying model id: 7")


def test_the_bar_shows_what_is_done_and_ends_its_line():
    screen = io.StringIO()
    bar = ProgressBar(screen, width=4)
    bar(read_report("Deploying model id: 7"))
    assert screen.getvalue() == ""
    bar(read_report("Round 50 of 100, rmse 0.5, 3 s left"))
    bar.close()
    assert screen.getvalue() == "\r\x1b[K[##--] 50/100  rmse 0.500000  3 s left\n"
