"""Fifty browsers, half of which stop reading: nobody is held, nothing is lost or piles up."""

import threading
import tracemalloc
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from headrace.live.drop_policy import DropPolicy
from headrace.models.results import Labels
from headrace.runs.live.live_batches import ModelRunner
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runs.live.sink_stage import LiveSinks, sink_batches
from headrace.runtime.clock import SYSTEM_CLOCK
from runs.live.fake_sources import FakeSource
from runtime.in_time import Call, happens, in_time
from sinks.web.faked_run import ask, connected, faked_run

FRAMES = 120
GREEDY = 25
WATCHING = 25
ASKED = b"GET /picture.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
MOST_KEPT = 48 << 20
"""Bytes. What the greedy ones asked for is 25 x 100 pictures of some 60 kB: 150 MB."""


class Large(FakeSource):
    """Pictures of 640x640 that do not compress away."""

    def frames(self, number, waiter, note):
        for frame in super().frames(number, waiter, note):
            pixels = frame.pixels.repeat(160, 0).repeat(128, 1)
            pixels[::2, 1::3] ^= 0x5F
            yield replace(frame, pixels=pixels)


def labels(batch):
    return Labels(names=(("cat",),) * len(batch), confidence=((0.9,),) * len(batch))


def watch(run, has_picture):
    """As the page does: the next picture when the last one came. Returns their numbers."""
    numbers = [0]
    with suppress(OSError):  # the run ends, and cuts who waits
        while True:
            reply = ask(run, f"/picture.jpg?after={numbers[-1]}")
            if reply.status == 200:
                numbers.append(int(reply.headers["picture-number"]))
                has_picture.set()
    return numbers[1:]


@pytest.mark.slow
def test_fifty_browsers_neither_hold_a_run_back_nor_lose_a_frame_nor_grow_its_memory():
    pictures = [threading.Event() for _ in range(WATCHING)]
    all_ask = threading.Event()

    def on_frame(number):
        if number == 1:
            happens(all_ask)
        if number == FRAMES // 2:
            for each in pictures:  # everybody who reads is served while the others do not
                happens(each)

    plan = LivePlan(
        sources=(Large(count=FRAMES, interval_ms=0, on_frame=on_frame),),
        model_runner=ModelRunner.of_callable(labels),
        overload=DropPolicy.from_name("keep-all", is_live=True),
    )

    def run_it():
        with ExitStack() as stack:
            run = stack.enter_context(faked_run())
            fan = LiveSinks([run.view], keeps_all=True, clock=SYSTEM_CLOCK).fan
            with (
                fan,
                LivePipeline(
                    replace(plan, show=lambda answered: fan.put(sink_batches(answered)))
                ) as flow,
            ):
                items = iter(flow)
                next(items)
                for _ in range(GREEDY):
                    greedy = stack.enter_context(connected(run, buffer=4096))
                    greedy.sendall(ASKED)
                watching = [Call(lambda e=each: watch(run, e)) for each in pictures]
                all_ask.set()
                tracemalloc.start()
                delivered = 1 + sum(1 for _ in items)
                _, most = tracemalloc.get_traced_memory()
                tracemalloc.stop()
        return flow.conserved(), delivered, fan.statistics()[0], most, watching

    found, delivered, page, most, watching = in_time(run_it)
    assert (found.arrived, found.delivered, delivered) == (FRAMES, FRAMES, FRAMES)
    assert (page.items, page.dropped) == (FRAMES, {})
    assert most < MOST_KEPT
    for each in watching:
        numbers = each.result()
        assert numbers == sorted(set(numbers))
