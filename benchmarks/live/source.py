"""Source and model of the live benchmarks, the same for all who take part.

A file that one thread decodes, as fast as its frames are taken or at a rate of one's own; and a
model as slow as is asked for.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch

from headrace.decode.open_decoder import open_decoder, open_index
from headrace.decode.protocol import DecodeJob
from headrace.live.drop_policy import DropPolicy
from headrace.live.source import Event, LiveFrame
from headrace.models.load import load_classifier
from headrace.planning.gop_ranges import split_video
from headrace.preprocess.levels import build_preprocess
from headrace.profiling.session import Pace
from headrace.runs.live.live_batches import ModelRunner
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.waitable_source import Waiter

NAME = "mobilenet_v2"


def classifier(*, threads: int, at_least: float = 0.0, waits: bool = False) -> ModelRunner:
    """Return mobilenet_v2 with random weights, warmed up, and the preprocessing it was made for.

    Args:
        threads: Of one operation of PyTorch; a setting of the whole process.
        at_least: Seconds that it takes for a batch; it is run again until they are over.
        waits: It computes nothing, and waits for so long: as for another device.
    """
    torch.set_num_threads(threads)
    model = load_classifier(NAME, "none")

    def run(batch: torch.Tensor) -> Any:
        if waits:
            sleep(at_least)
            return [0.0] * len(batch)
        began = perf_counter()
        found = model.run(batch)
        while perf_counter() - began < at_least:
            found = model.run(batch)
        return found

    prepare = build_preprocess("medium", model.input)
    run(prepare(np.zeros((1, 720, 1280, 3), np.uint8)))
    return ModelRunner(prepare=prepare, run=run)


class OneThread:
    """A `LiveSource` of one file, each time from its start."""

    def __init__(self, path: Path, rate: int | None = None) -> None:
        """Scan it; `rate` is in frames per second, None for as fast as they are taken."""
        self._index = open_index(path)
        self._rate = rate
        self.name = str(path)

    @property
    def base(self) -> Pace:
        """A schedule, or none."""
        return "full_speed" if self._rate is None else "schedule"

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None] = lambda event: None
    ) -> Generator[LiveFrame, None, None]:
        """See `LiveSource.frames`; each is decoded before it is due."""
        start_ns = None
        with closing(open_decoder(self._index)) as decoder:
            for stretch in split_video(0, self._index):
                for place, pixels in decoder.run(DecodeJob(stretch.wanted)):
                    moment_ns = waiter.clock.now_ns()
                    if self._rate is not None:
                        start_ns = moment_ns if start_ns is None else start_ns
                        moment_ns = start_ns + round(Fraction(place, self._rate) * 1_000_000_000)
                        waiter.until(moment_ns)
                    yield LiveFrame(
                        pixels=pixels,
                        source=number,
                        number=place,
                        run=0,
                        pts=int(self._index.pts[place]),
                        time_base=self._index.info.time_base,
                        arrived_ns=moment_ns,
                    )


STAGES = ("decode", "preprocess", "model")


def one_after_another(
    source: OneThread, engine: ModelRunner, count: int
) -> Iterator[tuple[LiveFrame, Any, int, dict[str, int]]]:
    """Yield so many frames, each with its answer, when it was there, and nanoseconds by stage.

    One thread decodes, waits until the frame is due, stacks, preprocesses and runs the model.
    """
    now_ns = SYSTEM_CLOCK.now_ns
    with closing(source.frames(0, Waiter())) as frames:
        for _ in range(count):
            moments = [now_ns()]
            frame = next(frames)
            moments.append(now_ns())
            batch = engine.prepare(np.stack([frame.pixels]))
            moments.append(now_ns())
            output = engine.run(batch)
            moments.append(now_ns())
            spent = [end - begin for begin, end in pairwise(moments)]
            yield frame, output, moments[-1], dict(zip(STAGES, spent, strict=True))


def in_threads(
    source: OneThread, engine: ModelRunner, count: int
) -> Iterator[tuple[Any, int, dict[str, int]]]:
    """Yield so many results of a live run, each with when it was there, and its stages' times."""
    overload = DropPolicy.chosen("keep-all", is_live=source.base != "full_speed")
    plan = LivePlan(sources=[source], model_runner=engine, overload=overload)
    with LivePipeline(plan) as flow:
        for item in islice(flow, count):
            yield item.value, SYSTEM_CLOCK.now_ns(), {s.stage: s.work_ns for s in item.spans}
