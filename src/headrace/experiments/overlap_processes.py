"""The stages of `bench overlap` in processes; frames and tensors stay in the memory they share."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.experiments.overlap_work import ready_work
from headrace.live.replayed import Replayed
from headrace.models.results import Labels
from headrace.models.threads import operation_threads
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.operations import PrepLevel
from headrace.preprocess.spec import InputSpec
from headrace.runs.options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.process_stage import ProcessStage
from headrace.runtime.waiter import Waiter
from headrace.video.stream_index import StreamIndex

_ALIGNED = 64


@dataclass(frozen=True, kw_only=True)
class SharedFrame:
    """What goes from process to process of a frame: where it lies, and what is known of it."""

    number: int
    due_ns: int
    size: tuple[int, int]
    """(height, width); its pixels lie at the start of the memory."""
    tensor_shape: tuple[int, ...] = ()
    """Of what the model takes, float32; it lies behind the pixels."""
    labels: Labels | None = None

    @staticmethod
    def bytes_of(pixel_bytes: int, tensor_bytes: int) -> int:
        """Return the memory that a frame and its tensor need."""
        return -(-pixel_bytes // _ALIGNED) * _ALIGNED + tensor_bytes

    def pixels(self, memory: memoryview) -> NDArray[np.uint8]:
        """Return the frame itself, uint8 [H, W, 3]."""
        height, width = self.size
        return np.frombuffer(memory, np.uint8, height * width * 3).reshape(height, width, 3)

    def tensor(self, memory: memoryview) -> torch.Tensor:
        """Return what the model takes, in this memory."""
        height, width = self.size
        return torch.frombuffer(
            memory,
            dtype=torch.float32,
            count=int(np.prod(self.tensor_shape)),
            offset=self.bytes_of(height * width * 3, 0),
        ).reshape(self.tensor_shape)


def stages_of(
    indexes: Sequence[StreamIndex], compute: ComputeOptions, spec: InputSpec
) -> list[ProcessStage]:
    """Return what runs in a process each; the model's one also takes batches to its device."""
    return [
        ProcessStage(name="decode", make=_decoding, argument=tuple(indexes)),
        ProcessStage(
            name="preprocess", make=_preparing, argument=(compute.prep_level, spec, compute.threads)
        ),
        ProcessStage(name="model", make=_inferring, argument=compute),
    ]


@contextmanager
def _decoding(indexes: tuple[StreamIndex, ...]) -> Iterator[Any]:
    def work(
        order: tuple[int, float | None], waiter: Waiter, memory: Callable[[], memoryview]
    ) -> Iterator[SharedFrame]:
        frames, speed = order
        for frame in Replayed(indexes, frames=frames, speed=speed).frames(0, waiter):
            height, width, _ = frame.pixels.shape
            shared = SharedFrame(number=frame.number, due_ns=frame.arrived_ns, size=(height, width))
            shared.pixels(memory())[:] = frame.pixels
            yield shared

    yield work


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
