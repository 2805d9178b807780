"""Timed steps of `bench preprocess`: decode, each level per device, transfer, infer."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import numpy as np
import torch

from headrace.bench.benchmark import Context
from headrace.bench.model_variants import (
    ModelRuns,
    cache_frames,
    check_frames_equal,
    decoding,
    on_device,
)
from headrace.bench.preprocess import (
    DECODE,
    INFER,
    LEVELS,
    MEAN_APART,
    MOST_APART,
    TRANSFER,
    Agreement,
    Place,
    PreprocessConfig,
    PreprocessRecord,
    TimedStep,
)
from headrace.bench.variant_benchmark import VariantSet, Work
from headrace.models.compute import Compute
from headrace.models.device import operation_threads
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.preprocess.levels import Frames, Preprocess, build_preprocess
from headrace.preprocess.spec import PrepLevel
from headrace.runs.run_options import ComputeOptions
from headrace.runs.run_stages import Transfer

Models = Mapping[Place, Model[Labels]]


@contextmanager
def prepare(config: PreprocessConfig, context: Context) -> Iterator[VariantSet[PreprocessRecord]]:
    """Check that all devices give equal tensors; yield every step on every device.

    Raises:
        ConfigError, MediaError: model or video is not available.
        BackendError: tensors differ between GPU and CPU.
    """
    cached = cache_frames(config.videos[0], config.batch_size, context.store)
    compute = ComputeOptions(
        model_name=config.model_name, weights=config.weights, batch_size=config.batch_size
    )
    runs = ModelRuns(compute=compute, cached=cached, seconds=config.seconds, clock=context.clock)
    load = partial(runs.load, frame_size=cached.index.info.upright_size)
    models: dict[Place, Model[Labels]] = {"cpu": load(Compute(device="cpu"))}
    if torch.get_num_threads() > 1:
        models["1 thread"] = models["cpu"]
    if torch.cuda.is_available():
        models["gpu"] = load(Compute(device="cuda"))
    levels = {level: build_preprocess(level, models["cpu"].input) for level in LEVELS}
    agreement = tuple(_agreements(runs, models, levels))
    works: dict[tuple[str, Place], Work] = {
        (DECODE, "cpu"): runs.flow(partial(decoding, cached.index, config.batch_size)),
        **_timed_passes(runs, models, levels),
    }
    steps = {
        f"{name}, {device}": TimedStep(way=f"{name}, {device}", name=name, place=device)
        for name, device in works
    }

    yield VariantSet(
        variants=dict(zip(steps, works.values(), strict=True)),
        settled=lambda variant: _threads(steps[variant].place),
        record=partial(
            PreprocessRecord,
            model=config.model_name,
            size=cached.index.info.upright_size,
            threads=torch.get_num_threads(),
            steps=tuple(steps.values()),
            compared=len(cached.batches),
            agreement=agreement,
        ),
    )


def _agreements(
    runs: ModelRuns, models: Models, levels: Mapping[PrepLevel, Preprocess]
) -> Iterator[Agreement]:
    """Yield the difference of each device's tensors from the CPU's, for one frame per batch."""
    frames, std = np.stack([batch[0] for batch in runs.cached.batches]), models["cpu"].input.std
    for device in [device for device in models if device != "cpu"]:
        for level, preprocess in levels.items():
            with _threads(device):
                tensors = _on_device(preprocess, device)(frames).cpu()
            most, mean = check_frames_equal(
                f"tensors of preprocessing ({level}) differ between {device} and the CPU",
                preprocess(frames),
                tensors,
                std,
                allowed=(MOST_APART, MEAN_APART),
                fix="preprocess on the CPU",
            )
            yield Agreement(level=level, place=device, most=most, mean=mean)


def _timed_passes(
    runs: ModelRuns, models: Models, levels: Mapping[PrepLevel, Preprocess]
) -> dict[tuple[str, Place], Work]:
    """Return the work of each step on cached batches."""
    batches = runs.cached.batches
    works: dict[tuple[str, Place], Work] = {
        (level, device): runs.passes(batches, _on_device(preprocess, device))
        for level, preprocess in levels.items()
        for device in models
    }
    tensors = [levels["medium"](batch) for batch in batches]
    for device, model in models.items():
        if device == "gpu":
            works[TRANSFER, device] = runs.passes(tensors, Transfer("cuda").carry)
        works[INFER, device] = runs.passes(on_device(tensors, model.compute.device), model.run)
    return works


def _threads(device: Place) -> AbstractContextManager[None]:
    return operation_threads(1 if device == "1 thread" else None)


def _on_device(preprocess: Preprocess, device: Place) -> Preprocess:
    """Return preprocessing of CPU frames on a device; for a GPU, with the transfer."""
    if device != "gpu":
        return preprocess
    carrier = Transfer("cuda")

    def transfer_and_preprocess(frames: Frames) -> torch.Tensor:
        tensor = preprocess(carrier.carry(frames))
        torch.cuda.current_stream().synchronize()  # so that the timing includes the GPU's work
        return tensor

    return transfer_and_preprocess
