"""Sources in, answers out: nothing is lost without a cause, whatever happens."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import OpenError, StageError
from headrace.live.drop_policy import DropPolicy
from headrace.live.live_source import ClipWindow
from headrace.runs.live.live_batches import ModelRunner
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runtime.item import DroppedItem
from headrace.testing.fake_clock import FakeClock
from runs.live.fake_sources import Endless, FakeSource
from runtime.in_time import TIMEOUT_SECONDS, happens, in_time

GONE = OpenError("cannot go on: the camera is gone", source="fake")


def means(batch):
    """What a model of one's own may be: a number for each picture, or clip."""
    return batch.float().flatten(1).mean(dim=1)


def plan(*sources, run=means, overload="keep-all", staleness=None, **options):
    chosen = DropPolicy.from_name(overload, is_live=True, max_staleness_seconds=staleness)
    engine = ModelRunner.of_callable(run)
    return LivePlan(sources=sources, model_runner=engine, overload=chosen, **options)


def flowed(made, clock=None, **options):
    """The items that came out, and the flow, over."""
    flow = LivePipeline(made, clock or FakeClock(), **options)

    def run():
        with flow:
            return list(flow)

    return in_time(run), flow


def numbers(items):
    return [[f.number for view in i.value.views for f in view] for i in items]


def test_every_frame_comes_out_once_in_order_with_its_answer():
    items, flow = flowed(plan(FakeSource(count=20)))
    assert numbers(items) == [[k] for k in range(20)]
    assert [float(i.value.outputs[0]) for i in items] == list(range(20))
    found = flow.conserved()
    assert (found.arrived, found.delivered, found.in_flight) == (20, 20, 0)


@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=3),
    dropped=st.sets(st.integers(0, 30), max_size=8),
    overload=st.sampled_from(["keep-all", "keep-last"]),
    staleness=st.none() | st.sampled_from([0.001, 0.02, 1.0]),
    clips=st.none() | st.builds(ClipWindow, num_frames=st.integers(1, 4), hop=st.integers(1, 6)),
    work_ms=st.sampled_from([0, 5, 40]),
)
def test_what_arrived_is_delivered_or_dropped(counts, dropped, overload, staleness, clips, work_ms):
    clock = FakeClock()

    def slow(batch):
        clock.advance(work_ms / 1e3)
        return means(batch)

    sources = [FakeSource(count=count, dropped=tuple(dropped)) for count in counts]
    made = plan(
        *sources, run=slow, overload=overload, staleness=staleness, clips=clips, batch_size=3
    )
    items, flow = flowed(made, clock)
    found = flow.conserved()
    assert found.arrived == sum(counts)
    assert found.in_flight == 0
    assert found.delivered == sum(i.parts for i in items)
    assert found.arrived == found.delivered + sum(found.dropped.values())
    shown = [(f.source, f.number) for i in items for v in i.value.views for f in v]
    if clips is None:
        assert len(set(shown)) == len(shown)
        for source in range(len(counts)):
            own = [number for s, number in shown if s == source]
            assert own == sorted(own)
    if overload == "keep-all" and staleness is None and clips is None:
        wanted = [(s, k) for s, n in enumerate(counts) for k in range(n) if k not in dropped]
        assert sorted(shown) == wanted


def test_what_is_too_old_is_never_shown():
    clock, turn, shown = FakeClock(), threading.Semaphore(1), []

    def slow(batch):
        assert turn.acquire(timeout=TIMEOUT_SECONDS)  # until the one before was shown
        clock.advance(0.03)
        return means(batch)

    def show(answered):
        shown.append((clock.now_ns() - answered.shown_ns) / 1e6)
        turn.release()

    source = FakeSource(count=60, interval_ms=0)
    items, flow = flowed(plan(source, run=slow, staleness=0.1, show=show), clock)
    assert shown == [30, 60, 90]
    assert len(items) == 3
    dropped = flow.conserved().dropped
    assert {cause for _, cause in dropped} == {"stale"}
    assert ("show", "stale") not in dropped, "none was begun that would not be done in time"
    assert sum(spell.frames for spell in flow.drops.spells) == 57


class Gate:
    """A model that is stuck in its first batch until it is let through."""

    def __init__(self):
        self.stuck, self.opened = threading.Event(), threading.Event()

    def __call__(self, batch):
        self.stuck.set()
        happens(self.opened)
        return means(batch)


def stuck(first, last, **options):
    """What comes of 40 frames while a model is stuck between frame `first` and `last`."""
    gate = Gate()

    def on_frame(number):
        if number == first:
            happens(gate.stuck)
        if number == last:
            gate.opened.set()

    source = FakeSource(count=40, on_frame=on_frame)
    items, flow = flowed(plan(source, run=gate, overload="keep-last", **options))
    return numbers(items), flow.conserved().dropped


def test_keep_last_takes_the_newest_frame_and_counts_the_others():
    batches, dropped = stuck(1, 39)
    seen = [number for batch in batches for number in batch]
    assert (seen[0], seen[-1]) == (0, 39)
    assert dropped == {("decode", "overflow"): 40 - len(seen)}
    assert len(seen) <= 6, "the model, a batch made ready, and those it freed the way for"


def test_clips_that_are_too_many_end_whole_and_tear_no_other():
    clips, dropped = stuck(4, 36, clips=ClipWindow(num_frames=4))
    for clip in clips:
        assert clip == list(range(clip[0], clip[0] + 4))
        assert clip[0] % 4 == 0
    assert set(dropped) == {("clips", "overflow")}
    assert dropped["clips", "overflow"] % 4 == 0


def test_a_fast_source_never_drops_the_frames_of_a_slow_one():
    """While the model is stuck a slow source gives one frame, then a fast one fifty."""
    gate, is_there = Gate(), threading.Event()

    def slow(number):
        if number == 1:
            happens(gate.stuck)  # frame 0 is in the model
        if number == 2:
            is_there.set()  # frame 1 waits for its turn

    def fast(number):
        happens(is_there)
        if number == 49:
            gate.opened.set()

    sources = (
        FakeSource(count=3, interval_ms=0, on_frame=slow),
        FakeSource(count=50, interval_ms=0, on_frame=fast),
    )
    items, flow = flowed(plan(*sources, run=gate, overload="keep-last"))
    own = {n: [i.value.views[0][0].number for i in items if i.source == n] for n in (0, 1)}
    assert own[0][0] == 0
    assert own[0][-1] == 2
    assert own[1][-1] == 49
    assert len(own[1]) <= 5
    by_source = {(spell.source, spell.cause) for spell in flow.drops.spells}
    assert (1, "overflow") in by_source


def test_no_clip_holds_a_frame_before_and_one_behind_a_gap():
    made = plan(FakeSource(count=12, dropped=(5,)), clips=ClipWindow(num_frames=3, hop=1))
    items, flow = flowed(made)
    assert numbers(items) == [[k, k + 1, k + 2] for k in (0, 1, 2, 6, 7, 8, 9)]
    assert flow.conserved().dropped == {("decode", "damaged"): 1}


def test_a_source_that_fails_later_ends_alone():
    sources = [FakeSource(count=5, error=GONE), FakeSource(count=30)]
    items, flow = flowed(plan(*sources))
    assert len(items) == 35
    assert [reading.error for reading in flow.progress] == [GONE, None]
    assert flow.conserved().dropped == {("decode", "source failed"): 1}


def test_a_failure_ends_the_run_where_nothing_is_left_to_wait_for():
    """Before the first frame; that of the only one; that of all of them."""
    at_once, only, later = (FakeSource(count=n, error=GONE) for n in (0, 4, 9))
    for sources in ((at_once, Endless(count=3)), (only,), (only, later)):
        with pytest.raises(OpenError, match="the camera is gone"):
            flowed(plan(*sources))


@pytest.mark.parametrize("max_seconds", [0.05, 100.0])
def test_the_time_that_is_left_ends_a_source_that_waits(max_seconds):
    items, flow = flowed(plan(Endless(count=3), max_seconds=max_seconds))
    found = flow.conserved()
    assert (found.in_flight, found.delivered) == (0, found.arrived)
    assert len(items) <= 3


def test_a_run_that_saw_no_frame_in_its_time_says_so():
    silent = (Endless(count=0, name="rtsp://a"), Endless(count=0, name="rtsp://b"))
    with pytest.raises(OpenError, match=r"rtsp://a, rtsp://b sent no frame within 2\.5 s"):
        flowed(plan(*silent, max_seconds=2.5))


def test_a_source_that_begins_when_the_time_is_over_ends_as_well():
    is_over = threading.Event()

    class Late(LivePipeline):
        def _stop_after(self, seconds, waiter):
            yield from super()._stop_after(seconds, waiter)
            is_over.set()

        def _read(self, number, waiter):
            happens(is_over)
            yield from super()._read(number, waiter)

    late = Late(plan(Endless(count=0), max_seconds=2.5), FakeClock())
    with late as flow, pytest.raises(OpenError, match="sent no frame"):
        in_time(lambda: list(flow))


def test_sources_that_end_do_not_wait_for_the_time_that_is_left():
    class Patient(FakeClock):
        def wait_until(self, condition, moment_ns):
            condition.wait(0.01)  # nobody moves it: only a wake-up ends the wait for the deadline

    patient = Patient()
    items, _ = flowed(plan(FakeSource(count=3, interval_ms=0), max_seconds=1e6), patient)
    assert len(items) == 3


def test_a_model_that_fails_ends_the_run():
    def broken(batch):
        raise ValueError("no such layer")

    with pytest.raises(StageError, match="no such layer"):
        flowed(plan(Endless(count=3), run=broken))


def test_a_damaged_frame_with_its_error_is_no_failure_of_its_source():
    class Damaged(FakeSource):
        def frames(self, number, waiter, note):
            yield DroppedItem("damaged", GONE)
            yield from super().frames(number, waiter, note)

    items, flow = flowed(plan(Damaged(count=3)))
    assert numbers(items) == [[0], [1], [2]]
    assert flow.progress[0].error is None
    assert flow.conserved().dropped == {("decode", "damaged"): 1}
    assert not flow.drops.spells, "a source tells of that itself"


def test_every_nth_frame_is_taken_and_the_others_counted():
    items, flow = flowed(plan(FakeSource(count=10), stride=4))
    assert numbers(items) == [[0], [4], [8]]
    assert flow.conserved().dropped == {("decode", "stride"): 7}
    assert not flow.drops.spells, "nobody needs to hear of what was asked for"


def test_batches_hold_one_size_and_say_the_source_of_each_frame():
    items, _ = flowed(plan(*[FakeSource(count=8) for _ in range(3)], batch_size=4))
    shown = [(f.source, f.number) for i in items for v in i.value.views for f in v]
    assert sorted(shown) == [(s, k) for s in range(3) for k in range(8)]
    assert all(torch.is_tensor(out) for i in items for out in i.value.outputs)


def test_an_overload_is_told_of_once_with_what_it_cost():
    clock, told = FakeClock(), []

    def slow(batch):
        clock.advance(0.05)
        return means(batch)

    made = plan(FakeSource(count=400), run=slow, staleness=0.02)
    _, flow = flowed(made, clock, on_event=told.append)
    [event] = [event for event in told if event.kind == "overloaded"]
    assert event.source is None
    assert event.words.startswith("overload: frames arrive faster than they are processed; ")
    assert 0 < event.frames <= flow.conserved().arrived
    assert event in flow.events, "the page and the report list it"
