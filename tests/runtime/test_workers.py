"""Workers that are at several chunks at a time: only the guilty chunk is left out."""

import pytest

from headrace.runtime.workers import Work, work_through
from runtime import working

TOLD = {"a": "good", "b": "bad", "c": "good"}


@pytest.fixture
def through(tmp_path):
    """Have workers do three chunks, the second of which is bad; return why which are left out."""

    def run(function, workers=1):
        claims = tmp_path / "claims"
        claims.mkdir()
        done = []
        work = Work(
            function=function,
            argument={"notes": str(tmp_path / "notes")},
            claims=claims,
            workers=workers,
            stall_seconds=60.0,
        )
        outcome = work_through(work, TOLD, on_done=done.append)
        assert sorted([*done, *outcome.fallen]) == ["a", "b", "c"]
        return outcome.fallen

    return run


@pytest.mark.parametrize(
    ("function", "workers", "why"),
    [
        (
            working.begins_all_then_dies_of_the_second,
            2,
            "working on it crashed: the process ended by signal 11",
        ),
        (working.dies_in_the_model, 1, "the model on it crashed: the process ended by signal 6"),
        (working.runs_out_of_memory, 1, "memory ran out while it was worked on"),
        (
            working.is_killed,
            1,
            "it was killed, as where memory runs out: the process ended by signal 9",
        ),
    ],
)
def test_of_several_begun_chunks_only_the_guilty_one_is_left_out(through, function, workers, why):
    assert through(function, workers) == {"b": why}


def test_what_was_read_is_not_suspected_while_something_was_being_decoded(through, tmp_path):
    assert list(through(working.dies_when_all_but_the_second_are_read)) == ["b"]
    # All at once; the others, which were read, once more together; the suspect by itself.
    assert (tmp_path / "notes").read_text().splitlines() == ["a b c", "a c", "b"]
