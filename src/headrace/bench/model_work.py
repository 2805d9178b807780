"""Model on frames of a video: its stages, cached batches, and checks of equal results."""

import io
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from PIL import Image

from headrace.bench.benchmark import Context
from headrace.bench.config import (
    BenchmarkConfig,
    allowed_difference,
    compute_options_of,
    indexes_of,
)
from headrace.bench.variant_benchmark import ContinuousWork, Work, for_seconds
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError, ConfigError
from headrace.extraction.frame_reader import FrameReader
from headrace.models.compute import Compute, Device
from headrace.models.device import check_available, operation_threads, transfer
from headrace.models.load import load_classifier
from headrace.models.model import Model, prepare
from headrace.models.results import Labels
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.preprocess.spec import InputSpec, PrepLevel
from headrace.profiling.number_format import gibibytes
from headrace.runs.live.live_batches import ModelRunner
from headrace.runs.model_setup import StartupTimer, ready_model
from headrace.runs.run_options import ComputeOptions
from headrace.runs.run_stages import Transfer
from headrace.runtime.clock import Clock
from headrace.sinks.painting import Overlay
from headrace.video.frame_format import FrameFormat
from headrace.video.frames import FrameBatch
from headrace.video.stream_index import StreamIndex

_QUALITY: Final = 80
"""JPEG quality, as on the page of a live run."""
_BATCHES: Final = 4
"""Cached batches: together larger than the CPU caches."""
_MOST_BYTES: Final = 1 << 28
"""Max bytes of cached frames, if more than one batch."""
_SHARE: Final = 0.25
"""Max share of free memory for one batch of decoded frames; preprocessing takes more."""

Batch = TypeVar("Batch", torch.Tensor, NDArray[np.uint8])


class ModelWork:
    """Stages of a model: preprocess, transfer, model."""

    def __init__(self, model: Model[Labels], compute: ComputeOptions) -> None:
        """Use a warmed-up model."""
        self.model = model
        self.prepare: Preprocess = build_preprocess(compute.prep_level, model.input)
        self.runner = ModelRunner(prepare=self.prepare, run=model.run, device=compute.device)
        self.carrier = None if compute.device == "cpu" else Transfer(compute.device)


@dataclass(frozen=True, kw_only=True)
class FrameResult:
    """Result of one frame; equal for all variants."""

    number: int
    """0-based frame number."""
    name: str
    """Top class."""
    confidence: float
    picture: int
    """CRC-32 of the displayed image."""


class Show:
    """Draws labels on a frame and encodes it, as for a browser page."""

    def __init__(self) -> None:
        """Start without overlays; they are created by frame size."""
        self._overlays: dict[tuple[int, int], Overlay] = {}

    def __call__(self, pixels: NDArray[np.uint8], labels: Labels, number: int) -> FrameResult:
        """Show one frame, uint8 [H, W, 3]; `labels` has one row."""
        size = pixels.shape[0], pixels.shape[1]
        overlay = self._overlays.setdefault(size, Overlay(size))
        name, confidence = labels.names[0][0], labels.confidence[0][0]
        drawn = overlay.draw(pixels, name, f"{confidence:.0%}   #{number}")
        file = io.BytesIO()
        Image.fromarray(drawn).save(file, "JPEG", quality=_QUALITY)
        picture = zlib.crc32(file.getbuffer())
        return FrameResult(number=number, name=name, confidence=confidence, picture=picture)


@contextmanager
def ready_work(compute: ComputeOptions, clock: Clock) -> Iterator[tuple[ModelWork, float]]:
    """Yield the stages with a loaded, warmed-up model, and the seconds to prepare it.

    The threads of PyTorch are set for the block.

    Raises:
        ConfigError: the model is unknown, or its weights are not available.
        BackendError: the device is missing, or the model cannot run there.
    """
    with operation_threads(compute.threads):
        timer = StartupTimer(clock)
        model = ready_model(
            lambda: load_classifier(compute.model_name, compute.weights),
            compute,
            batch_size=compute.batch_size,
            timer=timer,
        )
        yield ModelWork(model, compute), sum(part.seconds for part in timer.parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class CachedFrames:
    """Decoded frames of a video in batches of equal size."""

    index: StreamIndex
    """Index of the video."""
    batches: tuple[NDArray[np.uint8], ...]
    """Batches, uint8 [N, H, W, 3]; consecutive frames, batches spread over the video."""

    @property
    def num_frames(self) -> int:
        """Frames of all batches."""
        return sum(map(len, self.batches))

    def prepared(self, level: PrepLevel, spec: InputSpec) -> tuple[torch.Tensor, ...]:
        """Return preprocessed batches, float32 [N, 3, h, w], on the CPU."""
        preprocess = build_preprocess(level, spec)
        return tuple(preprocess(batch) for batch in self.batches)


def cache_frames(video: str, batch_size: int, store: IndexStore | None = None) -> CachedFrames:
    """Decode up to 4 batches, fewer of large frames; short videos repeat frames.

    Raises:
        MediaError: the video cannot be opened, or a frame is damaged.
        ConfigError: the video has no duration, or a batch does not fit into the memory.
    """
    (index,) = indexes_of([video], store)
    height, width = index.info.upright_size
    batch_bytes = batch_size * height * width * 3
    free = psutil.virtual_memory().available
    if batch_bytes > _SHARE * free:
        raise ConfigError(
            f"a batch of {batch_size} frames of {height}x{width} takes {gibibytes(batch_bytes)} "
            f"before preprocessing, but only {gibibytes(free)} are free; use a smaller --batch-size"
        )
    count = max(1, min(_BATCHES, _MOST_BYTES // batch_bytes, len(index) // batch_size))
    batches: list[NDArray[np.uint8]] = []
    with closing(open_decoder(index, FrameFormat(size=(height, width)))) as decoder:
        for start in (len(index) * number // count for number in range(count)):
            wanted = tuple(range(start, min(len(index), start + batch_size)))
            frames = np.stack([f for _, f in decoder.run(DecodeJob(wanted, goes_on=False))])
            batches.append(np.resize(frames, (batch_size, *frames.shape[1:])))
    return CachedFrames(index=index, batches=tuple(batches))


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelRuns:
    """Models of one configuration, and their repetitions on cached frames."""

    compute: ComputeOptions
    cached: CachedFrames
    seconds: float
    """Approximate duration of a repetition."""
    clock: Clock

    def load(self, compute: Compute | None = None, **more: Any) -> Model[Labels]:
        """Return the model, loaded and warmed up; `more` are arguments of `prepare`.

        Raises:
            ConfigError, BackendError: the model is not available, or cannot run with `compute`.
        """
        return prepare(
            partial(load_classifier, self.compute.model_name, self.compute.weights),
            compute or self.compute.compute(),
            batch_size=self.compute.batch_size,
            clock=self.clock,
            **more,
        )

    def batches(self, spec: InputSpec) -> tuple[torch.Tensor, ...]:
        """Return preprocessed batches on the model's device, so that transfers are not timed."""
        return on_device(self.cached.prepared(self.compute.prep_level, spec), self.compute.device)

    def passes(self, batches: Sequence[Batch], run: Callable[[Batch], object]) -> Work:
        """Return work that runs batch after batch and returns the number of frames."""

        def frames(batch: Batch) -> int:
            run(batch)
            return len(batch)

        return for_seconds(batches, frames, seconds=self.seconds, clock=self.clock)

    def flow(self, begin: Callable[[], AbstractContextManager[Iterator[float]]]) -> ContinuousWork:
        """Return work that runs continuously; `begin`: see `ContinuousWork`."""
        return ContinuousWork(begin=begin, seconds=self.seconds)


@contextmanager
def model_runs(
    config: BenchmarkConfig, batch_size: int, seconds: float, context: Context
) -> Iterator[ModelRuns]:
    """Check the device, cache frames of the video, and set the threads for the block.

    Raises:
        BackendError: the device is missing.
        MediaError, ConfigError: see `cache_frames`.
    """
    compute = compute_options_of(config, batch_size)
    check_available(compute.compute())
    context.on_progress("decoding frames and loading the model", 0, 0)
    cached = cache_frames(config.videos[0], batch_size, context.store)
    with operation_threads(compute.threads):
        yield ModelRuns(compute=compute, cached=cached, seconds=seconds, clock=context.clock)


def check_frames_equal(
    problem: str,
    first: torch.Tensor,
    second: torch.Tensor,
    std: Sequence[float],
    allowed: tuple[float, float],
    fix: str,
) -> tuple[float, float]:
    """Return the max and mean difference of normalised frames on the CPU, in grey levels.

    Args:
        problem: Start of the error message.
        first: Frames, float32 [N, 3, H, W].
        second: The same frames by another variant.
        std: Standard deviations of the normalisation.
        allowed: Max and mean difference allowed.
        fix: End of the error message.

    Raises:
        BackendError: a difference is larger than allowed.
    """
    grey_levels = 255 * torch.tensor(std).reshape(1, 3, 1, 1)
    difference = (first - second).abs().nan_to_num(nan=inf) * grey_levels
    most, mean = float(difference.max()), float(difference.mean())
    if most > allowed[0] or mean > allowed[1]:
        raise BackendError(
            f"{problem}: by {most:.2g} grey levels, {mean:.2g} on average; at most {allowed[0]:g} "
            f"and {allowed[1]:g} are allowed, so nothing was timed; {fix}"
        )
    return most, mean


def on_device(batches: Sequence[torch.Tensor], device: Device) -> tuple[torch.Tensor, ...]:
    """Return the batches on the model's device, so that transfers are not timed."""
    return tuple(transfer(batch, device) for batch in batches)


def scores(model: Model[Any], batch: torch.Tensor) -> torch.Tensor:
    """Return the class scores of a batch: float32 [N, classes], CPU."""
    with model.computing():
        logits: torch.Tensor = model.module(batch)
        return logits.float().cpu()


def check_scores_equal(
    problem: str,
    score_first: Callable[[torch.Tensor], torch.Tensor],
    score_second: Callable[[torch.Tensor], torch.Tensor],
    batches: Sequence[torch.Tensor],
    device: Device,
    *,
    fix: str,
) -> float:
    """Return the largest |difference| of two variants ÷ the largest |score|; NaN is infinite.

    Args:
        problem: Start of the error message.
        score_first: Function from a batch to its scores.
        score_second: The same for the other variant.
        batches: Batches, at least one.
        device: Device of the models; a GPU has a wider tolerance.
        fix: End of the error message.

    Raises:
        BackendError: the difference exceeds the tolerance of the device.
    """
    max_difference = largest = 0.0
    for batch in batches:
        first, second = score_first(batch), score_second(batch)
        difference = (first - second).abs().nan_to_num(nan=inf)
        max_difference = max(max_difference, float(difference.max()))
        largest = max(largest, float(first.abs().max()))
    max_difference /= largest or 1.0
    allowed = allowed_difference(device)
    if max_difference > allowed:
        raise BackendError(
            f"{problem}: by {max_difference:.2g} of the largest score; at most {allowed:g} is "
            f"allowed, so nothing was timed; {fix}"
        )
    return max_difference


def endless(index: StreamIndex, batch_size: int) -> Generator[FrameBatch, None, None]:
    """Yield batches of a looping video, decoded on all cores, as in a run."""
    while True:
        with closing(iter(FrameReader([index], batch_size=batch_size))) as batches:
            yield from batches


@contextmanager
def decoding(index: StreamIndex, batch_size: int) -> Iterator[Iterator[int]]:
    """Yield an endless iterator over the frame counts of decoded batches."""
    with closing(endless(index, batch_size)) as batches:
        yield map(len, batches)
