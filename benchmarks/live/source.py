"""Source and model of the live benchmarks, the same for all who take part.

A file that one thread decodes, as fast as its frames are taken or at a rate of one's own; and a
model as slow as is asked for.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.open import open_decoder, open_index
from headrace.decode.protocol import DecodeJob
from headrace.live.events import Event
from headrace.live.frame import LiveFrame
from headrace.models.load import load_classifier
from headrace.planning.stretches import in_order
from headrace.preprocess.levels import build_preprocess
from headrace.profiling.session import Pace
from headrace.runs.live.live_batches import Engine
from headrace.runtime.waiter import Waiter

NAME = "mobilenet_v2"


class Net:
    """mobilenet_v2 with random weights, and the preprocessing it was made for."""

    def __init__(self, *, threads: int, at_least: float = 0.0, waits: bool = False) -> None:
        """Load it and warm it up.

        Args:
            threads: Of one operation of PyTorch; a setting of the whole process.
            at_least: Seconds that it takes for a batch; it is run again until they are over.
            waits: It computes nothing, and waits for so long: as for another device.
        """
        torch.set_num_threads(threads)
        self._model = load_classifier(NAME, "none")
        self._prepare = build_preprocess("medium", self._model.input)
        self._at_least = at_least
        self._waits = waits
        self.answer(np.zeros((1, 720, 1280, 3), np.uint8))

    def answer(self, pictures: NDArray[np.uint8]) -> Any:
        """Preprocess and run: uint8 [N, H, W, 3], RGB."""
        return self.run(self.prepare(pictures))

    def prepare(self, pictures: NDArray[np.uint8]) -> torch.Tensor:
        """Return what `run` takes, of pictures uint8 [N, H, W, 3], RGB."""
        return self._prepare(pictures)

    def run(self, batch: torch.Tensor) -> Any:
        """Run the model, as often as it takes."""
        if self._waits:
            sleep(self._at_least)
            return [0.0] * len(batch)
        began = perf_counter()
        found = self._model.run(batch)
        while perf_counter() - began < self._at_least:
            found = self._model.run(batch)
        return found

    def engine(self) -> Engine:
        """Return it as a live run of headrace takes it."""
        return Engine(prepare=self.prepare, run=self.run)


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
        self,
        number: int,
        waiter: Waiter,
        note: Callable[[Event], None] = lambda event: None,
    ) -> Generator[LiveFrame, None, None]:
        """See `LiveSource.frames`; each is decoded before it is due."""
        start_ns = None
        with closing(open_decoder(self._index)) as decoder:
            for stretch in in_order(0, self._index):
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
