"""Progress lines for a stderr that is not a terminal."""

from contextlib import nullcontext

import pytest
from rich.progress import Progress

from headrace.cli.progress import (
    ProgressLines,
    bar_columns,
    is_silenced,
    plain_text,
    progress,
    progress_line,
    silenced,
    waiting,
)
from headrace.testing.fake_clock import FakeClock


class Written:
    """Progress lines with a manual clock."""

    def __init__(self):
        self.clock, self.lines = FakeClock(), []
        self.progress = ProgressLines(self.lines.append, self.clock)

    def after(self, seconds, *update):
        """Advance the clock, then update the progress or only write a due line."""
        self.clock.advance(seconds)
        if update:
            self.progress.update(*update)
        else:
            self.progress.write_if_due()


@pytest.fixture
def no_lines():
    """Overrides the fixture of this folder: lines are written here."""


@pytest.fixture
def written():
    return Written()


STEPS = {
    "less than ten seconds": [(0.99, "decoding", done, 10) for done in range(10)],
    "a line every ten seconds": [(1, f"decoding {k} of 40", k, 40) for k in range(1, 41)],
    "a long turn with nothing new": [
        *((0, "2 workers", 0, 4), (10,), (20, "4 workers", 1, 4), (9,), (1,))
    ],
    "an estimate that was too short": [(0, "decoding", 0, 2), (1, "decoding", 1, 2), (60,)],
    "another phase": [
        *((100, "indexing", 50, 50), (10, "planning", 0, 0)),
        *((0, "timing", 0, 10), (10, "timing", 5, 10)),
    ],
    "what was done before": [(0, "extracting", 90, 100), (10, "extracting", 91, 100)],
}


def test_lines_are_at_least_ten_seconds_apart_and_have_an_estimate(holds):
    lines = []
    for name, steps in STEPS.items():
        written = Written()
        for step in steps:
            written.after(*step)
        lines += [f"# {name}", *written.lines, ""]
    holds("progress.txt", "\n".join(lines))


def test_texts_and_counts_of_a_bar_are_written():
    bar = Progress(disable=True)
    task = bar.add_task("running", total=6000, rate="?")
    bar.update(task, completed=2000, rate="200")
    columns = bar_columns("frames", "{task.fields[rate]} frames/s")
    assert plain_text(columns, bar.tasks[0]) == "running 2,000 of 6,000 frames 200 frames/s"
    assert plain_text((), bar.tasks[0]) == "running, 2,000 of 6,000"
    bar.add_task("starting", total=None)
    assert plain_text((), bar.tasks[1]) == "starting"


def test_without_a_terminal_no_bar_is_drawn_and_due_lines_are_written(capsys, monkeypatch):
    ticks = []
    monkeypatch.setattr("headrace.cli.progress.LINE_SECONDS", 0.0)
    monkeypatch.setattr(
        "headrace.runtime.synchronization.call_every",
        lambda tick, _: nullcontext(ticks.append(tick)),
    )
    with progress(is_quiet=False) as show:
        show("8 workers", 3, 13)
        assert capsys.readouterr().err == ""
        ticks[0]()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("8 workers, 3 of 13, ")


def test_quiet_and_json_write_nothing_and_start_no_thread(capsys, monkeypatch):
    monkeypatch.setattr("headrace.runtime.synchronization.call_every", None)
    for is_quiet in (True, False):
        with silenced(), progress(is_quiet=is_quiet) as show, waiting("x", is_quiet=is_quiet):
            assert is_silenced()
            show("timing", 1, 2)
    assert not is_silenced()
    with progress_line(is_quiet=True) as bar:
        bar.add_task("running", total=1)
    assert capsys.readouterr() == ("", "")
