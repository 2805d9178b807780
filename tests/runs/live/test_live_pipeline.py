"""Pipeline of live runs: every frame is delivered, or dropped with a cause."""

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
from headrace.runtime.stage import DroppedItem
from headrace.testing.fake_clock import FakeClock
from runs.live.fake_sources import Endless, FakeSource
from runtime.in_time import TIMEOUT_SECONDS, happens, in_time

GONE = OpenError("cannot go on: the camera is gone", source="fake")


def means(batch):
    """Return the mean of each frame or clip: a custom model."""
    return batch.float().flatten(1).mean(dim=1)


def plan(*sources, run=means, overload="keep-all", staleness=None, **options):
    policy = DropPolicy.from_name(overload, is_live=True, max_staleness_seconds=staleness)
    runner = ModelRunner.of_callable(run)
    return LivePlan(sources=sources, model_runner=runner, overload=policy, **options)


def run_plan(live_plan, clock=None, **options):
    """Return the items of a run, and the completed pipeline."""
    pipeline = LivePipeline(live_plan, clock or FakeClock(), **options)

    def run():
        with pipeline:
            return list(pipeline)

    return in_time(run), pipeline


def numbers(items):
    return [[f.number for view in i.value.views for f in view] for i in items]


def test_every_frame_is_delivered_once_in_order_with_its_output():
    items, pipeline = run_plan(plan(FakeSource(count=20)))
    assert numbers(items) == [[k] for k in range(20)]
    assert [float(i.value.outputs[0]) for i in items] == list(range(20))
    counts = pipeline.conserved()
    assert (counts.arrived, counts.delivered, counts.in_flight) == (20, 20, 0)


@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=3),
    dropped=st.sets(st.integers(0, 30), max_size=8),
    overload=st.sampled_from(["keep-all", "keep-last"]),
    staleness=st.none() | st.sampled_from([0.001, 0.02, 1.0]),
    clips=st.none() | st.builds(ClipWindow, num_frames=st.integers(1, 4), hop=st.integers(1, 6)),
    work_ms=st.sampled_from([0, 5, 40]),
)
def test_every_arrived_frame_is_delivered_or_dropped(
    counts, dropped, overload, staleness, clips, work_ms
):
    clock = FakeClock()

    def slow(batch):
        clock.advance(work_ms / 1e3)
        return means(batch)

    sources = [FakeSource(count=count, dropped=tuple(dropped)) for count in counts]
    options = {"overload": overload, "staleness": staleness, "clips": clips}
    items, pipeline = run_plan(plan(*sources, run=slow, batch_size=3, **options), clock)
    flow = pipeline.conserved()
    assert flow.arrived == sum(counts)
    assert flow.in_flight == 0
    assert flow.delivered == sum(i.parts for i in items)
    assert flow.arrived == flow.delivered + sum(flow.dropped.values())
    shown = [(f.source, f.number) for i in items for v in i.value.views for f in v]
    if clips is None:
        assert len(set(shown)) == len(shown)
        for source in range(len(counts)):
            source_numbers = [number for s, number in shown if s == source]
            assert source_numbers == sorted(source_numbers)
    if overload == "keep-all" and staleness is None and clips is None:
        expected = [(s, k) for s, n in enumerate(counts) for k in range(n) if k not in dropped]
        assert sorted(shown) == expected


def test_a_stale_frame_is_never_shown():
    clock, turn, shown = FakeClock(), threading.Semaphore(1), []

    def slow(batch):
        assert turn.acquire(timeout=TIMEOUT_SECONDS)  # until the previous frame is shown
        clock.advance(0.03)
        return means(batch)

    def show(batch):
        shown.append((clock.now_ns() - batch.shown_ns) / 1e6)
        turn.release()

    source = FakeSource(count=60, interval_ms=0)
    items, pipeline = run_plan(plan(source, run=slow, staleness=0.1, show=show), clock)
    assert shown == [30, 60, 90]
    assert len(items) == 3
    dropped = pipeline.conserved().dropped
    assert {cause for _, cause in dropped} == {"stale"}
    assert ("show", "stale") not in dropped, "the model skips batches that would be stale"
    assert sum(spell.frames for spell in pipeline.drops.spells) == 57


class Gate:
    """A model that blocks in its first batch until it is opened."""

    def __init__(self):
        self.blocked, self.opened = threading.Event(), threading.Event()

    def __call__(self, batch):
        self.blocked.set()
        happens(self.opened)
        return means(batch)


def run_with_blocked_model(first, last, **options):
    """Return batches and drops of 40 frames; the model blocks from frame `first` to `last`."""
    gate = Gate()

    def on_frame(number):
        if number == first:
            happens(gate.blocked)
        if number == last:
            gate.opened.set()

    source = FakeSource(count=40, on_frame=on_frame)
    items, pipeline = run_plan(plan(source, run=gate, overload="keep-last", **options))
    return numbers(items), pipeline.conserved().dropped


def test_keep_last_delivers_the_newest_frames_and_drops_the_others():
    batches, dropped = run_with_blocked_model(1, 39)
    delivered = [number for batch in batches for number in batch]
    assert (delivered[0], delivered[-1]) == (0, 39)
    assert dropped == {("decode", "overflow"): 40 - len(delivered)}
    assert len(delivered) <= 6, "one in the model, one prepared, and their successors"


def test_an_overflow_drops_complete_clips():
    clips, dropped = run_with_blocked_model(4, 36, clips=ClipWindow(num_frames=4))
    for clip in clips:
        assert clip == list(range(clip[0], clip[0] + 4))
        assert clip[0] % 4 == 0
    assert set(dropped) == {("clips", "overflow")}
    assert dropped["clips", "overflow"] % 4 == 0


def test_a_fast_source_never_drops_the_frames_of_a_slow_one():
    """While the model blocks, a slow source sends one frame, then a fast one fifty."""
    gate, is_there = Gate(), threading.Event()

    def slow(number):
        if number == 1:
            happens(gate.blocked)  # frame 0 is in the model
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
    items, pipeline = run_plan(plan(*sources, run=gate, overload="keep-last"))
    slow_numbers, fast_numbers = (
        [i.value.views[0][0].number for i in items if i.source == source] for source in (0, 1)
    )
    assert (slow_numbers[0], slow_numbers[-1]) == (0, 2)
    assert fast_numbers[-1] == 49
    assert len(fast_numbers) <= 5
    by_source = {(spell.source, spell.cause) for spell in pipeline.drops.spells}
    assert (1, "overflow") in by_source


def test_no_clip_contains_a_gap():
    window = ClipWindow(num_frames=3, hop=1)
    items, pipeline = run_plan(plan(FakeSource(count=12, dropped=(5,)), clips=window))
    assert numbers(items) == [[k, k + 1, k + 2] for k in (0, 1, 2, 6, 7, 8, 9)]
    assert pipeline.conserved().dropped == {("decode", "damaged"): 1}


def test_the_other_sources_continue_after_a_failure():
    sources = [FakeSource(count=5, error=GONE), FakeSource(count=30)]
    items, pipeline = run_plan(plan(*sources))
    assert len(items) == 35
    assert [progress.error for progress in pipeline.progress] == [GONE, None]
    assert pipeline.conserved().dropped == {("decode", "source failed"): 1}


def test_a_failure_before_the_first_frame_or_of_all_sources_ends_the_run():
    at_once, only, later = (FakeSource(count=n, error=GONE) for n in (0, 4, 9))
    for sources in ((at_once, Endless(count=3)), (only,), (only, later)):
        with pytest.raises(OpenError, match="the camera is gone"):
            run_plan(plan(*sources))


@pytest.mark.parametrize("max_seconds", [0.05, 100.0])
def test_max_seconds_ends_a_waiting_source(max_seconds):
    items, pipeline = run_plan(plan(Endless(count=3), max_seconds=max_seconds))
    counts = pipeline.conserved()
    assert (counts.in_flight, counts.delivered) == (0, counts.arrived)
    assert len(items) <= 3


def test_a_run_without_a_frame_in_max_seconds_is_an_error():
    silent = (Endless(count=0, name="rtsp://a"), Endless(count=0, name="rtsp://b"))
    with pytest.raises(OpenError, match=r"rtsp://a, rtsp://b sent no frame within 2\.5 s"):
        run_plan(plan(*silent, max_seconds=2.5))


def test_a_source_that_starts_after_max_seconds_ends_too():
    is_over = threading.Event()

    class Late(LivePipeline):
        def _stop_after(self, seconds, waiter):
            yield from super()._stop_after(seconds, waiter)
            is_over.set()

        def _read(self, number, waiter):
            happens(is_over)
            yield from super()._read(number, waiter)

    late = Late(plan(Endless(count=0), max_seconds=2.5), FakeClock())
    with late as pipeline, pytest.raises(OpenError, match="sent no frame"):
        in_time(lambda: list(pipeline))


def test_a_run_ends_with_its_sources_before_max_seconds():
    class Patient(FakeClock):
        def wait_until(self, condition, moment_ns):
            condition.wait(0.01)  # time stands still: only a wake-up ends the wait for the deadline

    patient = Patient()
    items, _ = run_plan(plan(FakeSource(count=3, interval_ms=0), max_seconds=1e6), patient)
    assert len(items) == 3


def test_a_model_that_fails_ends_the_run():
    def broken(batch):
        raise ValueError("no such layer")

    with pytest.raises(StageError, match="no such layer"):
        run_plan(plan(Endless(count=3), run=broken))


def test_a_damaged_frame_with_an_error_is_not_a_failed_source():
    class Damaged(FakeSource):
        def frames(self, number, waiter, note):
            yield DroppedItem("damaged", GONE)
            yield from super().frames(number, waiter, note)

    items, pipeline = run_plan(plan(Damaged(count=3)))
    assert numbers(items) == [[0], [1], [2]]
    assert pipeline.progress[0].error is None
    assert pipeline.conserved().dropped == {("decode", "damaged"): 1}
    assert not pipeline.drops.spells, "the source reports it"


def test_the_stride_drops_frames_without_an_event():
    items, pipeline = run_plan(plan(FakeSource(count=10), stride=4))
    assert numbers(items) == [[0], [4], [8]]
    assert pipeline.conserved().dropped == {("decode", "stride"): 7}
    assert not pipeline.drops.spells


def test_batches_mix_sources_and_each_frame_has_its_source():
    items, _ = run_plan(plan(*[FakeSource(count=8) for _ in range(3)], batch_size=4))
    shown = [(f.source, f.number) for i in items for v in i.value.views for f in v]
    assert sorted(shown) == [(s, k) for s in range(3) for k in range(8)]
    assert all(torch.is_tensor(output) for i in items for output in i.value.outputs)


def test_an_overload_is_one_event_with_its_dropped_frames():
    clock, events = FakeClock(), []

    def slow(batch):
        clock.advance(0.05)
        return means(batch)

    overloaded = plan(FakeSource(count=400), run=slow, staleness=0.02)
    _, pipeline = run_plan(overloaded, clock, on_event=events.append)
    [event] = [event for event in events if event.kind == "overloaded"]
    assert event.source is None
    assert event.words.startswith("frames arrive faster than they are processed; ")
    assert 0 < event.frames <= pipeline.conserved().arrived
    assert event in pipeline.events, "for the page and the report"
