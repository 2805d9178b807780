"""Watching the workers of a launch, by hand and by a fake clock."""

import pytest

from headrace.runs.launch.watching import CalledOff, Watch
from headrace.runtime.child import Ending
from headrace.runtime.rendezvous import Rendezvous
from headrace.testing.fake_clock import FakeClock


@pytest.fixture
def watch(tmp_path):
    clock = FakeClock()
    place = Rendezvous(tmp_path, clock)
    names = ["a", "b", "c"]
    return Watch(names, place, clock, lambda _: None, lambda: None, lambda _: None)


def ending(name, exit_code):
    return Ending(name=name, exit_code=exit_code, has_timed_out=False, seconds=1, tail="")


def test_those_that_cannot_begin_are_named_in_their_order_whoever_ended_first(watch):
    watch.ended(ending("c", 2))
    watch.ended(ending("a", 2))
    assert watch.broken == ("a", "c")


def test_the_rest_is_called_off_once_all_are_heard_of(watch, tmp_path):
    watch.ended(ending("c", 2))
    watch.look()
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"ready": 7}\n')
    with pytest.raises(CalledOff):
        watch.look()


def test_one_that_ends_after_the_start_breaks_nothing(watch, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text('{"ready": 7}\n')
    watch.look()
    watch.ended(ending("a", 2))
    assert watch.broken == ()
