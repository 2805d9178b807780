"""What a process that may be killed hands out as it goes, and leaves half written in its folder."""

import itertools
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.models.class_names import ClassNames
from headrace.report.folder import SESSION, write_checkpoint, write_run
from headrace.runs.checkpoints import Checkpoints
from headrace.runs.outputs import claim
from headrace.sinks.box_table import BoxTable
from headrace.sinks.coco import CocoFile
from headrace.sinks.prediction_table import PredictionTable
from headrace.testing.fake_clock import FakeClock
from headrace.text_file import partial_of
from report.recorded import record


def looked_at(seconds, on_record=None, cost=0.0):
    """Return at which of these seconds of a run a checkpoint was made."""
    clock, made = FakeClock(), []

    def keep(session):
        made.append(clock.now_ns() / 1e9)
        clock.advance(cost)
        if on_record is not None:
            on_record(session)

    checkpoints = Checkpoints(keep, clock)
    for second in seconds:
        clock.advance(max(0.0, second - clock.now_ns() / 1e9))
        checkpoints.look(record)
    return made


def test_checkpoints_come_as_the_age_doubles_then_every_ten_seconds():
    assert looked_at(range(45)) == [1, 2, 4, 8, 16, 26, 36]


def test_checkpoints_that_take_long_come_seldom():
    made = looked_at(range(200), cost=0.5)
    assert [after - before for before, after in itertools.pairwise(made)] == [50, 50, 50]


def test_a_checkpoint_is_of_a_run_that_was_ended_and_says_so():
    found = []
    looked_at([3], found.append)
    assert [session.outcome for session in found] == ["interrupted"]
    assert found[0].error.startswith("killed, or still running: recorded ")


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run():
    def full(session):
        raise ConfigError("no space left on device")

    assert looked_at([1, 2], full) == [1, 2]


def test_without_a_taker_nothing_is_recorded():
    clock = FakeClock()
    clock.advance(100)
    Checkpoints(None, clock).look(lambda: pytest.fail("nobody takes it"))


def test_a_checkpoint_takes_the_place_of_an_older_run(tmp_path):
    write_run(record(steps=5, pid=1, outputs=()), tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    write_checkpoint(record(steps=7, pid=2, outputs=()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [SESSION]
    last = write_run(record(steps=9, pid=2, outputs=()), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(last.outputs)


def test_what_a_killed_run_had_begun_is_removed(tmp_path: Path) -> None:
    """A killed run leaves what its sinks have begun: here they are open still."""
    pictures = tmp_path / "annotated" / "street"
    pictures.mkdir(parents=True)
    files = ("head.pt", "trace.json.gz", "annotated.mp4", "annotated-3.mp4")
    others = [pictures / "1.png", *(tmp_path / name for name in files)]
    for path in others:
        partial_of(path).write_bytes(b"half")
    with ExitStack() as sinks:
        sinks.enter_context(closing(BoxTable(tmp_path, [])))
        sinks.enter_context(closing(PredictionTable(tmp_path, [])))
        sinks.enter_context(closing(CocoFile(tmp_path, [], ClassNames(names=None))))
        assert len(list(tmp_path.rglob(".*.partial"))) == 9
        claim(tmp_path)
        assert list(tmp_path.rglob(".*.partial")) == []


def test_what_others_are_writing_there_stays(tmp_path: Path) -> None:
    theirs = [partial_of(tmp_path / name) for name in ("movie.mp4", "session.json.12-0")]
    for path in theirs:
        path.write_bytes(b"half")
    claim(tmp_path)
    assert all(path.exists() for path in theirs)
