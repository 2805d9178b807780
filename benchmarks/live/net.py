"""The model of the live benchmarks: the same for all who take part, and as slow as is asked for."""

from time import perf_counter, sleep
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.models.load import load_classifier
from headrace.preprocess.levels import build_preprocess
from headrace.runs.live.engine import Engine

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
