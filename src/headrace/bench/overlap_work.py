"""What every variant of `bench overlap` does to a frame, and its stages as processes.

Frames and tensors stay in the memory that processes share.
"""

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
from headrace.models.load import load_classifier
from headrace.models.model import Model
from headrace.models.precision_support import operation_threads
from headrace.models.results import Labels
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.preprocess.spec import InputSpec, PrepLevel
from headrace.runs.model_setup import StartupTimer, ready_model
from headrace.runs.run_options import ComputeOptions
from headrace.runs.run_stages import Transfer
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.process_pipeline import ProcessStage
from headrace.sinks.painting import Overlay
from headrace.video.stream_index import StreamIndex

_QUALITY = 80
"""Of the JPEG, as the page of a live run has it."""


@dataclass(frozen=True, kw_only=True)
class FrameResult:
    """What came of one frame; equal in every variant."""

    number: int
    """0-based, of the frame."""
    name: str
    """Of the likeliest class."""
    confidence: float
    picture: int
    """CRC-32 of the picture that was shown."""


@dataclass(frozen=True, kw_only=True)
class FrameTimeline:
    """One frame on its way through all stages, by the clock in nanoseconds."""

    due_ns: int
    """When it was due; at full speed when it was asked for."""
    out_ns: int
    """When it had been shown."""
    work_ns: dict[str, int]
    """Stage -> work on it."""
    answer: FrameResult


class StageCosts:
    """The stages behind the decoder: preprocess, transfer, model, show."""

    def __init__(self, model: Model[Labels], compute: ComputeOptions) -> None:
        """Take a model that is ready."""
        self.model = model
        self.device = compute.device
        self.carrier = None if compute.device == "cpu" else Transfer(compute.device)
        self.prepare: Preprocess = build_preprocess(compute.prep_level, model.input)
        """Pictures uint8 [N, H, W, 3] -> what the model takes."""
        self.infer = model.run
        """What the model sees in a batch that lies on its device."""


class Show:
    """Draws what the model saw on a frame and encodes it, as for a page in a browser."""

    def __init__(self) -> None:
        """Nothing is drawn yet."""
        self._overlays: dict[tuple[int, int], Overlay] = {}

    def __call__(self, pixels: NDArray[np.uint8], labels: Labels, number: int) -> FrameResult:
        """Show one frame, uint8 [H, W, 3]; `labels` are of it alone."""
        size = pixels.shape[0], pixels.shape[1]
        overlay = self._overlays.setdefault(size, Overlay(size))
        name, confidence = labels.names[0][0], labels.confidence[0][0]
        drawn = overlay.draw(pixels, name, f"{confidence:.0%}   #{number}")
        file = io.BytesIO()
        Image.fromarray(drawn).save(file, "JPEG", quality=_QUALITY)
        picture = zlib.crc32(file.getbuffer())
        return FrameResult(number=number, name=name, confidence=confidence, picture=picture)


def ready_work(compute: ComputeOptions, clock: Clock) -> tuple[StageCosts, float]:
    """Return the stages with their model loaded and warm, and how many seconds that took.

    Raises:
        ConfigError: there is no such model, or its weights cannot be had.
        BackendError: the device is missing, or the model cannot run there.
    """
    watch = StartupTimer(clock)
    model = ready_model(
        lambda: load_classifier(compute.model_name, compute.weights),
        compute,
        batch_size=compute.batch_size,
        timer=watch,
    )
    return StageCosts(model, compute), sum(part.seconds for part in watch.parts)


def stages_of(
    indexes: Sequence[StreamIndex], compute: ComputeOptions, spec: InputSpec
) -> list[ProcessStage]:
    """Return what runs in a process each; the model's one also takes batches to its device."""
    return [
        ProcessStage(name="decode", make=decoding, argument=tuple(indexes)),
        ProcessStage(
            name="preprocess", make=_preparing, argument=(compute.prep_level, spec, compute.threads)
        ),
        ProcessStage(name="model", make=_inferring, argument=compute),
    ]


@contextmanager
def _preparing(argument: tuple[PrepLevel, InputSpec, int | None]) -> Iterator[Any]:
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
def _inferring(compute: ComputeOptions) -> Iterator[Any]:
    with operation_threads(compute.threads):
        ready, _ = ready_work(compute, SYSTEM_CLOCK)

        def work(memory: memoryview, frame: SharedFrame) -> SharedFrame:
            tensor = frame.tensor(memory)
            if ready.carrier is not None:
                tensor = ready.carrier.carry(tensor)
            return replace(frame, labels=ready.infer(tensor))

        yield work
