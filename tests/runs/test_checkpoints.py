"""The record of a run is handed out as it goes, for a process that may be killed."""

import itertools

import pytest

from headrace.errors import ConfigError
from headrace.report.folder import SESSION, write_checkpoint, write_run
from headrace.runs.checkpoints import Checkpoints
from headrace.testing.fake_clock import FakeClock
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
