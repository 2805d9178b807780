"""The steps that `bench preprocess` times: decode, each level in each place, transfer, infer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import torch

from headrace.bench.model_variants import (
    Batch,
    CachedFrames,
    ContinuousVariant,
    decoding,
    grey_levels_apart,
    on_device,
    passes,
    ready_classifier,
)
from headrace.bench.preprocess_record import (
    DECODE,
    INFER,
    LEVELS,
    TRANSFER,
    Agreement,
    Place,
    TimedStep,
)
from headrace.bench.variant_benchmark import Work
from headrace.models.compute import Compute
from headrace.models.model import Model
from headrace.models.precision_support import operation_threads
from headrace.models.results import Labels
from headrace.preprocess.levels import Frames, Preprocess, build_preprocess
from headrace.runs.run_options import ComputeOptions
from headrace.runs.run_stages import Transfer
from headrace.runtime.clock import Clock


class Steps:
    """What is timed, on frames that are held."""

    def __init__(
        self, compute: ComputeOptions, held: CachedFrames, seconds: float, clock: Clock
    ) -> None:
        """Load the model, to a GPU as well where there is one."""
        self._compute, self._held, self._seconds, self._clock = compute, held, seconds, clock
        self._models: dict[Place, Model[Labels]] = {"cpu": self._ready("cpu")}
        if torch.get_num_threads() > 1:
            self._models["1 thread"] = self._models["cpu"]
        if torch.cuda.is_available():
            self._models["gpu"] = self._ready("gpu")
        self._preprocess = {
            level: build_preprocess(level, self._models["cpu"].input) for level in LEVELS
        }
        self._decoding = ContinuousVariant(
            partial(decoding, held.index, compute.batch_size), seconds, clock
        )

    def _ready(self, place: Place) -> Model[Labels]:
        return ready_classifier(
            self._compute,
            self._clock,
            Compute(device="cuda" if place == "gpu" else "cpu"),
            picture_size=self._held.index.info.upright_size,
        ).model

    def agreement(self) -> Iterator[Agreement]:
        """Yield how far each place's tensors are from those of the CPU, of a frame a batch."""
        std = self._models["cpu"].input.std
        frames = np.stack([batch[0] for batch in self._held.batches])
        for place in [place for place in self._models if place != "cpu"]:
            for level, preprocess in self._preprocess.items():
                with _threads(place):
                    there = _placed(preprocess, place)(frames).cpu()
                most, mean = grey_levels_apart(preprocess(frames), there, std)
                yield Agreement(level=level, place=place, most=most, mean=mean)

    def variants(self) -> list[tuple[TimedStep, Work]]:
        """Return every step in every place with what does it for one turn."""
        found: list[tuple[TimedStep, Work]] = [(_step(DECODE, "cpu"), self._decoding)]
        for level, preprocess in self._preprocess.items():
            for place in self._models:
                run = _placed(preprocess, place)
                found.append((_step(level, place), self._passes(self._held.batches, run)))
        batches = [self._preprocess["medium"](batch) for batch in self._held.batches]
        for place, model in self._models.items():
            if place == "gpu":
                carry = Transfer("cuda").carry
                found.append((_step(TRANSFER, place), self._passes(batches, carry)))
            there = on_device(batches, model.compute.device)
            found.append((_step(INFER, place), self._passes(there, model.run)))
        return found

    def settled(self, variant: str) -> AbstractContextManager[object]:
        """Make ready for a turn: threads of one operation; decoding is under way."""
        if variant == _step(DECODE, "cpu").way:
            return self._decoding.begun()
        is_single = variant.endswith(", 1 thread")
        return _threads("1 thread" if is_single else "cpu")

    def _passes(self, batches: Sequence[Batch], run: Callable[[Batch], object]) -> Work:
        return passes(batches, run, seconds=self._seconds, clock=self._clock)


def _step(name: str, place: Place) -> TimedStep:
    return TimedStep(way=f"{name}, {place}", name=name, place=place)


def _threads(place: Place) -> AbstractContextManager[None]:
    return operation_threads(1 if place == "1 thread" else None)


def _placed(preprocess: Preprocess, place: Place) -> Preprocess:
    """Return preprocessing of frames that lie on the CPU; on a GPU it carries them there first."""
    if place != "gpu":
        return preprocess
    carrier = Transfer("cuda")

    def there(frames: Frames) -> torch.Tensor:
        tensor = preprocess(carrier.carry(frames))
        torch.cuda.current_stream().synchronize()  # so that it is timed here
        return tensor

    return there
