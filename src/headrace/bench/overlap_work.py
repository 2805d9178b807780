"""Work on a frame, equal in all variants of `bench overlap`, and the process stages."""

import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.bench.overlap_decoding import SharedFrame, decoding
from headrace.models.device import operation_threads
from headrace.models.load import load_classifier
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.preprocess.spec import InputSpec, PrepLevel
from headrace.runs.live.live_batches import ModelRunner
from headrace.runs.model_setup import StartupTimer, ready_model
from headrace.runs.run_options import ComputeOptions
from headrace.runs.run_stages import Transfer
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.process_pipeline import ProcessStage
from headrace.sinks.painting import Overlay
from headrace.video.stream_index import StreamIndex

_QUALITY = 80
"""JPEG quality, as on the page of a live run."""


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


@dataclass(frozen=True, kw_only=True)
class FrameTimeline:
    """Timestamps of one frame through all stages, nanoseconds."""

    due_ns: int
    """Due time; at full speed, time of the request."""
    out_ns: int
    """Time it was shown."""
    work_ns: dict[str, int]
    """Stage → work on it."""
    answer: FrameResult


class ModelWork:
    """Stages of a model: preprocess, transfer, model."""

    def __init__(self, model: Model[Labels], compute: ComputeOptions) -> None:
        """Use a warmed-up model."""
        self.model = model
        self.prepare: Preprocess = build_preprocess(compute.prep_level, model.input)
        self.runner = ModelRunner(prepare=self.prepare, run=model.run, device=compute.device)
        self.carrier = None if compute.device == "cpu" else Transfer(compute.device)


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


def stages_of(
    indexes: Sequence[StreamIndex], compute: ComputeOptions, spec: InputSpec
) -> list[ProcessStage]:
    """Return the process stages; the model's stage also transfers batches."""
    return [
        ProcessStage(name="decode", make=decoding, argument=tuple(indexes)),
        ProcessStage(
            name="preprocess",
            make=_preprocess_stage,
            argument=(compute.prep_level, spec, compute.threads),
        ),
        ProcessStage(name="model", make=_model_stage, argument=compute),
    ]


@contextmanager
def _preprocess_stage(argument: tuple[PrepLevel, InputSpec, int | None]) -> Iterator[Any]:
    prep_level, spec, threads = argument
    preprocess = build_preprocess(prep_level, spec)

    def work(memory: memoryview, frame: SharedFrame) -> SharedFrame:
        tensor = preprocess(frame.pixels(memory)[None])
        frame = replace(frame, tensor_shape=tuple(tensor.shape))
        frame.tensor(memory).copy_(tensor)
        return frame

    with operation_threads(threads):
        preprocess(np.zeros((1, 64, 64, 3), np.uint8))
        yield work


@contextmanager
def _model_stage(compute: ComputeOptions) -> Iterator[Any]:
    with ready_work(compute, SYSTEM_CLOCK) as (stages, _):

        def work(memory: memoryview, frame: SharedFrame) -> SharedFrame:
            tensor = frame.tensor(memory)
            if stages.carrier is not None:
                tensor = stages.carrier.carry(tensor)
            return replace(frame, labels=stages.model.run(tensor))

        yield work
