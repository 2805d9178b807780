import threading
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import MediaError, StageError
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Item, Span, Stage
from headrace.testing.fake_clock import FakeClock
from runtime import in_time


def same(value):
    return value


def pipeline(source, *functions, workers=1, **options):
    """A pipeline of stages called "stage 1", "stage 2", ..."""
    stages = [
        Stage(name=f"stage {number}", function=function, workers=workers)
        for number, function in enumerate(functions, start=1)
    ]
    return Pipeline(source=source, stages=stages, **options)


@settings(max_examples=80)
@given(
    length=st.integers(0, 30),
    workers=st.lists(st.integers(1, 4), max_size=3),
    capacity=st.integers(1, 3),
)
def test_a_pipeline_returns_the_items_of_a_loop(length, workers, capacity):
    stages = [
        Stage(name=f"stage {number}", function=lambda value, n=number: (*value, n), workers=amount)
        for number, amount in enumerate(workers)
    ]
    line = Pipeline(source=((i,) for i in range(length)), stages=stages, capacity=capacity)
    assert in_time.outputs(line) == [(i, *range(len(workers))) for i in range(length)]


def test_a_later_result_waits_for_earlier_ones():
    second_done = threading.Event()

    def function(value):
        if value == 0:
            in_time.happens(second_done)
        else:
            second_done.set()
        return value

    assert in_time.outputs(pipeline(range(4), function, workers=2)) == [0, 1, 2, 3]


@pytest.mark.parametrize("items", [[(0, 1, 2)], [(2,), (1,), (0,)]], ids=["workers", "stages"])
def test_workers_and_stages_run_in_parallel(items):
    """Three workers meet, of one stage or of three, each with another item."""
    together = threading.Barrier(3)

    def meets_at(*those):
        def function(value):
            if value in those:
                together.wait(in_time.TIMEOUT_SECONDS)
            return value

        return function

    line = pipeline(range(3), *(meets_at(*those) for those in items), workers=4 - len(items))
    assert in_time.outputs(line) == [0, 1, 2]


def test_threads_are_named_by_their_stage():
    names = []

    def note(value):
        names.append(threading.current_thread().name)
        return value

    def source():
        yield note(0)

    stages = [Stage(name="prep", function=note)]
    in_time.outputs(Pipeline(source=source(), stages=stages, source_name="decode"))
    assert names == ["headrace-decode", "headrace-prep-0"]


def source_failing_after(items, error):
    yield from range(items)
    raise error


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_failing_stage_ends_the_run_at_its_item(stage, workers):
    error = ValueError("bad pixel")
    functions = [in_time.fails_on(5, error) if n == stage else same for n in (1, 2, 3)]
    got = []
    with pytest.raises(StageError) as caught:
        in_time.collect(pipeline(count(), *functions, workers=workers), got)
    assert got == [0, 1, 2, 3, 4]
    assert (caught.value.stage, caught.value.item) == (f"stage {stage}", 5)
    assert caught.value.__cause__ is error
    assert str(caught.value) == f"stage 'stage {stage}' failed on item 5: ValueError: bad pixel"
    assert not in_time.headrace_threads()


def test_a_failing_source_ends_the_run_after_its_items():
    error = OSError("unplugged")
    got = []
    with pytest.raises(StageError) as caught:
        in_time.collect(pipeline(source_failing_after(3, error), same, workers=2), got)
    assert got == [0, 1, 2]
    assert (caught.value.stage, caught.value.item) == ("source", None)
    assert caught.value.__cause__ is error
    with pytest.raises(StageError, match="'source' failed on item 0: TypeError"):
        in_time.outputs(pipeline(5, same))


def test_a_headrace_error_keeps_its_type_with_a_note():
    error = MediaError("cannot be decoded", source="a.mp4", pts=7)
    with pytest.raises(MediaError) as caught:
        in_time.outputs(pipeline(range(9), same, in_time.fails_on(2, error)))
    assert caught.value is error
    assert error.__notes__ == ["in stage 'stage 2', item 2"]


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), GeneratorExit()])
def test_no_exception_of_a_stage_is_lost(error):
    with pytest.raises(StageError) as caught:
        in_time.outputs(pipeline(range(9), in_time.fails_on(2, error)))
    assert caught.value.__cause__ is error


def test_the_failure_of_the_earliest_item_is_raised():
    later_failed = threading.Event()

    def function(value):
        if value == 1:
            later_failed.set()
        in_time.happens(later_failed)
        raise ValueError(value)

    with pytest.raises(StageError) as caught:
        in_time.outputs(pipeline(range(2), function, workers=2))
    assert caught.value.item == 0


def test_no_item_after_a_failure_reaches_a_later_stage():
    seen = []
    line = pipeline(count(), in_time.fails_on(3, ValueError()), lambda value: seen.append(value))
    with pytest.raises(StageError):
        in_time.outputs(line)
    assert seen == [0, 1, 2]


def endless(closed_in):
    try:
        yield from count()
    finally:
        closed_in.append(threading.current_thread().name)


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("workers", [1, 3])
def test_leaving_early_joins_threads_and_closes_the_source_in_its_thread(workers, error):
    closed_in = []

    line = pipeline(endless(closed_in), same, same, workers=workers)
    with in_time.left_by(error) as leave, line.run() as run:
        assert next(run).value == 0
        leave()
    assert closed_in == ["headrace-source"]
    assert not in_time.headrace_threads()


def test_a_closed_run_is_over():
    run = pipeline(count(), same).run()
    next(run)
    run.close()
    assert list(run) == []


def test_ctrl_c_while_waiting_for_an_item_ends_the_program():
    script = f"""
import signal, threading
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage
interrupted = threading.Event()
def slow(value):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    interrupted.wait({in_time.TIMEOUT_SECONDS})
class Interrupted(Exception): pass
def handler(number, frame):
    interrupted.set()
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
try:
    with Pipeline(source=range(9), stages=[Stage(name="slow", function=slow)]).run() as run:
        list(run)
except KeyboardInterrupt:
    print("interrupted,", threading.active_count(), "thread")
"""
    assert in_time.printed(script) == "interrupted, 1 thread\n"


def test_a_run_left_open_does_not_keep_the_program_from_ending():
    script = """
from itertools import count
from headrace.runtime.pipeline import Pipeline
run = Pipeline(source=count()).run()
print(next(run).value)
"""
    assert in_time.printed(script) == "0\n"


def test_each_item_has_a_span_per_stage():
    clock = FakeClock()

    def taking(seconds):
        def function(value):
            clock.advance(seconds)
            return value

        return function

    def source():
        clock.advance(1)
        yield "frame"

    line = pipeline(source(), taking(2), taking(3))
    with line.run(clock=clock) as run:
        items, stages = list(run), run.stages()
    second, edges = 1_000_000_000, {"source": (0, 1), "stage 1": (1, 3), "stage 2": (3, 6)}
    spans = tuple(Span(name, a * second, b * second) for name, (a, b) in edges.items())
    assert items == [Item(0, "frame", spans)]
    assert [(stage.name, stage.workers, stage.items) for stage in stages] == [
        (name, 1, 1) for name in ("source", "stage 1", "stage 2")
    ]
    assert [stage.busy_seconds for stage in stages] == [1.0, 2.0, 3.0]


def test_a_stage_starves_at_the_queue_before_it_and_blocks_at_the_one_behind():
    with pipeline(range(50), same, same, workers=2).run() as run:
        assert len(list(run)) == 50
        stages, queues = run.stages(), run.queues()
    assert [queue.name for queue in queues] == [stage.name for stage in stages]
    assert [queue.gets for queue in queues] == [stage.items for stage in stages] == [50, 50, 50]
    starved = [0.0, *(queue.starved_seconds for queue in queues[:2])]
    assert [stage.starved_seconds for stage in stages] == starved
    assert [stage.blocked_seconds for stage in stages] == [q.blocked_seconds for q in queues]


def test_the_last_queue_counts_how_long_the_consumer_waited():
    consumer, consumer_waits = threading.current_thread(), threading.Event()

    def source():
        in_time.happens(consumer_waits)
        clock.advance(4)
        yield 0

    class Waiting(FakeClock):
        """Signals when the consumer has read it, under the queue's lock."""

        def now_ns(self):
            now_ns = super().now_ns()
            if threading.current_thread() is consumer and in_time.headrace_threads():
                consumer_waits.set()
            return now_ns

    clock = Waiting()
    with pipeline(source()).run(clock=clock) as run:
        list(run)
        assert run.queues()[-1].starved_seconds == 4.0


def test_a_run_that_has_not_started_has_no_counts():
    run = pipeline(range(3), same).run()
    assert [(stage.items, stage.busy_seconds) for stage in run.stages()] == [(0, 0.0), (0, 0.0)]


@pytest.mark.parametrize(
    ("more", "expected"), [({}, [2, 2, 2]), ({"source_capacity": 6}, [6, 2, 2])]
)
def test_the_source_may_have_a_larger_capacity(more, expected):
    with pipeline(range(3), same, same, capacity=2, **more).run() as run:
        assert [queue.capacity for queue in run.queues()] == expected
        assert [item.value for item in run] == [0, 1, 2]
