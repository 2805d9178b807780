"""A process that hangs ends itself."""

from headrace.runtime.child import Call
from headrace.runtime.children import run_children
from headrace.runtime.stall import has_stalled
from runtime.child_functions import resting, stalling


def test_one_that_hangs_ends_and_tells_where():
    [ending] = run_children([Call(name="worker", function=stalling, argument=0.2)])
    assert ending.exit_code == 1
    assert has_stalled(ending.tail)
    assert "in stalling" in ending.tail


def test_one_that_rests_is_left_alone():
    [ending] = run_children([Call(name="worker", function=resting, argument=0.2)])
    assert ending.is_good
    assert not has_stalled(ending.tail)
