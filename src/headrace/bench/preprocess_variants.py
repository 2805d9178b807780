"""Timed steps of `bench preprocess`: decode, each level per device, transfer, infer."""

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
    grey_level_difference,
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
    """Steps on cached frames."""

    def __init__(
        self, compute: ComputeOptions, cached: CachedFrames, seconds: float, clock: Clock
    ) -> None:
        """Load the model, also to a GPU if there is one."""
        self._compute, self._held, self._seconds, self._clock = compute, cached, seconds, clock
        self._models: dict[Place, Model[Labels]] = {"cpu": self._load_model("cpu")}
        if torch.get_num_threads() > 1:
            self._models["1 thread"] = self._models["cpu"]
        if torch.cuda.is_available():
            self._models["gpu"] = self._load_model("gpu")
        self._preprocess = {
            level: build_preprocess(level, self._models["cpu"].input) for level in LEVELS
        }
        self._decoding = ContinuousVariant(
            partial(decoding, cached.index, compute.batch_size), seconds, clock
        )

    def _load_model(self, device: Place) -> Model[Labels]:
        return ready_classifier(
            self._compute,
            self._clock,
            Compute(device="cuda" if device == "gpu" else "cpu"),
            picture_size=self._held.index.info.upright_size,
        ).model

    def agreement(self) -> Iterator[Agreement]:
        """Yield the difference of each device's tensors from the CPU's, one frame per batch."""
        std = self._models["cpu"].input.std
        frames = np.stack([batch[0] for batch in self._held.batches])
        for device in [device for device in self._models if device != "cpu"]:
            for level, preprocess in self._preprocess.items():
                with _threads(device):
                    placed_batches = _on_device(preprocess, device)(frames).cpu()
                max_difference, mean = grey_level_difference(
                    preprocess(frames), placed_batches, std
                )
                yield Agreement(level=level, place=device, most=max_difference, mean=mean)

    def variants(self) -> list[tuple[TimedStep, Work]]:
        """Return every step on every device, each with the work of a repetition."""
        steps: list[tuple[TimedStep, Work]] = [(_step(DECODE, "cpu"), self._decoding)]
        for level, preprocess in self._preprocess.items():
            for device in self._models:
                run = _on_device(preprocess, device)
                steps.append((_step(level, device), self._passes(self._held.batches, run)))
        batches = [self._preprocess["medium"](batch) for batch in self._held.batches]
        for device, model in self._models.items():
            if device == "gpu":
                carry = Transfer("cuda").carry
                steps.append((_step(TRANSFER, device), self._passes(batches, carry)))
            placed_batches = on_device(batches, model.compute.device)
            steps.append((_step(INFER, device), self._passes(placed_batches, model.run)))
        return steps

    def settled(self, variant: str) -> AbstractContextManager[object]:
        """Return the context of a repetition: intra-op threads, or a running decoder."""
        if variant == _step(DECODE, "cpu").way:
            return self._decoding.begun()
        is_single = variant.endswith(", 1 thread")
        return _threads("1 thread" if is_single else "cpu")

    def _passes(self, batches: Sequence[Batch], run: Callable[[Batch], object]) -> Work:
        return passes(batches, run, seconds=self._seconds, clock=self._clock)


def _step(name: str, device: Place) -> TimedStep:
    return TimedStep(way=f"{name}, {device}", name=name, place=device)


def _threads(device: Place) -> AbstractContextManager[None]:
    return operation_threads(1 if device == "1 thread" else None)


def _on_device(preprocess: Preprocess, device: Place) -> Preprocess:
    """Return preprocessing of CPU frames on a device; for a GPU it includes the transfer."""
    if device != "gpu":
        return preprocess
    carrier = Transfer("cuda")

    def placed_batches(frames: Frames) -> torch.Tensor:
        tensor = preprocess(carrier.carry(frames))
        torch.cuda.current_stream().synchronize()  # so that the timing includes it
        return tensor

    return placed_batches
