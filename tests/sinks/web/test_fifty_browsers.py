"""Fifty browsers, half of which stop reading: nothing is blocked, lost or accumulated."""

import threading
import tracemalloc
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from headrace.live.drop_policy import DropPolicy
from headrace.models.results import Labels
from headrace.runs.live.live_batches import LiveSinks, ModelRunner, sink_batches
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runtime.clock import SYSTEM_CLOCK
from runs.live.fake_sources import FakeSource
from runtime.in_time import Call, happens, in_time
from sinks.web.faked_run import connected, faked_run, fetch

FRAMES = 120
BLOCKED = 25
READING = 25
REQUESTS = b"GET /picture.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
MAX_MEMORY_BYTES = 48 << 20
"""The blocked browsers request 25 x 100 images of about 60 kB: 150 MB."""


class Large(FakeSource):
    """Source of 640x640 frames that compress badly."""

    def frames(self, number, waiter, note):
        for frame in super().frames(number, waiter, note):
            pixels = frame.pixels.repeat(160, 0).repeat(128, 1)
            pixels[::2, 1::3] ^= 0x5F
            yield replace(frame, pixels=pixels)


def labels(batch):
    return Labels(names=(("cat",),) * len(batch), confidence=((0.9,),) * len(batch))


def watch(run, has_image):
    """Request images one after another, as the page does; return their numbers."""
    numbers = [0]
    with suppress(OSError):  # the end of the run ends waiting requests
        while True:
            reply = fetch(run, f"/picture.jpg?after={numbers[-1]}")
            if reply.status == 200:
                numbers.append(int(reply.headers["picture-number"]))
                has_image.set()
    return numbers[1:]


@pytest.mark.slow
def test_fifty_browsers_do_not_block_a_run_lose_frames_or_grow_memory():
    images = [threading.Event() for _ in range(READING)]
    all_requested = threading.Event()

    def on_frame(number):
        if number == 1:
            happens(all_requested)
        if number == FRAMES // 2:
            for has_image in images:  # reading browsers are served beside blocked ones
                happens(has_image)

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
                for _ in range(BLOCKED):
                    connection = stack.enter_context(connected(run, buffer=4096))
                    connection.sendall(REQUESTS)
                watching = [Call(lambda e=event: watch(run, e)) for event in images]
                all_requested.set()
                tracemalloc.start()
                delivered = 1 + sum(1 for _ in items)
                _, peak_bytes = tracemalloc.get_traced_memory()
                tracemalloc.stop()
        return flow.conserved(), delivered, fan.statistics()[0], peak_bytes, watching

    counts, delivered, page, peak_bytes, watching = in_time(run_it)
    assert (counts.arrived, counts.delivered, delivered) == (FRAMES, FRAMES, FRAMES)
    assert (page.items, page.dropped) == (FRAMES, {})
    assert peak_bytes < MAX_MEMORY_BYTES
    for call in watching:
        numbers = call.result()
        assert numbers == sorted(set(numbers))
