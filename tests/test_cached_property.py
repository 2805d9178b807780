"""A cached property is computed once, and holds no lock during a fork."""

from threading import Event, Thread

from forked import in_a_fork
from headrace.cached_property import cached_property


class Slow:
    """An object whose value is computed until `go` is set."""

    def __init__(self) -> None:
        self.begun, self.go = Event(), Event()
        self.computed = 0

    @cached_property
    def value(self) -> int:
        """Twice the number of times it was computed."""
        self.begun.set()
        self.go.wait()
        self.computed += 1
        return 2 * self.computed


def test_it_is_computed_once_and_can_be_deleted() -> None:
    slow = Slow()
    slow.go.set()
    assert (slow.value, slow.value, slow.computed) == (2, 2, 1)
    del slow.value
    assert slow.value == 4
    assert Slow.value.__doc__ == "Twice the number of times it was computed."


def test_a_fork_computes_a_value_that_another_thread_is_computing() -> None:
    slow, other = Slow(), Slow()
    other.go.set()
    thread = Thread(target=lambda: slow.value)
    thread.start()
    slow.begun.wait()
    try:
        assert in_a_fork(lambda: other.value == 2)
    finally:
        slow.go.set()
        thread.join()
