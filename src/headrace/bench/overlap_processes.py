"""Processes of `bench overlap` and their shared frames; the decoder process has no PyTorch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.live.realtime_source import LoadGenerator
from headrace.models.results import Labels
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.process_pipeline import ProcessStage
from headrace.runtime.waitable_source import Waiter
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch

    from headrace.preprocess.spec import InputSpec, PrepLevel
    from headrace.runs.run_options import ComputeOptions

_ALIGNED = 64
"""Alignment of the tensor in shared memory, bytes."""


@dataclass(frozen=True, kw_only=True)
class SharedFrame:
    """Message about one frame between processes; pixels and tensor lie in shared memory."""

    number: int
    due_ns: int
    size: tuple[int, int]
    """(height, width); pixels at the start of the memory."""
    tensor_shape: tuple[int, ...] = ()
    """Shape of the model input, float32, stored after the pixels."""
    labels: Labels | None = None

    @staticmethod
    def bytes_of(pixel_bytes: int, tensor_bytes: int) -> int:
        """Return the bytes of a frame and its tensor."""
        return -(-pixel_bytes // _ALIGNED) * _ALIGNED + tensor_bytes

    def pixels(self, memory: memoryview) -> NDArray[np.uint8]:
        """Return the pixels, uint8 [H, W, 3]."""
        height, width = self.size
        return np.frombuffer(memory, np.uint8, height * width * 3).reshape(height, width, 3)

    def tensor(self, memory: memoryview) -> "torch.Tensor":
        """Return the model input in this memory."""
        import torch

        height, width = self.size
        return torch.frombuffer(
            memory,
            dtype=torch.float32,
            count=int(np.prod(self.tensor_shape)),
            offset=self.bytes_of(height * width * 3, 0),
        ).reshape(self.tensor_shape)


def stages_of(
    indexes: Sequence[StreamIndex], compute: "ComputeOptions", spec: "InputSpec"
) -> list[ProcessStage]:
    """Return the process stages; the model's stage also transfers batches."""
    return [
        ProcessStage(name="decode", make=_decoder_stage, argument=tuple(indexes)),
        ProcessStage(
            name="preprocess",
            make=_preprocess_stage,
            argument=(compute.prep_level, spec, compute.threads),
        ),
        ProcessStage(name="model", make=_model_stage, argument=compute),
    ]


@contextmanager
def _preprocess_stage(argument: "tuple[PrepLevel, InputSpec, int | None]") -> Iterator[Any]:
    from headrace.models.device import operation_threads
    from headrace.preprocess.levels import build_preprocess

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
def _model_stage(compute: "ComputeOptions") -> Iterator[Any]:
    from headrace.bench.model_work import ready_work

    with ready_work(compute, SYSTEM_CLOCK) as (stages, _):

        def work(memory: memoryview, frame: SharedFrame) -> SharedFrame:
            tensor = frame.tensor(memory)
            if stages.carrier is not None:
                tensor = stages.carrier.carry(tensor)
            return replace(frame, labels=stages.model.run(tensor))

        yield work


@contextmanager
def _decoder_stage(indexes: tuple[StreamIndex, ...]) -> Iterator[Any]:
    """Yield a `SourceWork` that plays the videos; its argument is (frames, speed), as for
    `LoadGenerator`."""

    def work(
        order: tuple[int, float | None], waiter: Waiter, memory: Callable[[], memoryview]
    ) -> Iterator[SharedFrame]:
        frames, speed = order
        for frame in LoadGenerator(indexes, num_frames=frames, speed=speed).frames(0, waiter):
            height, width, _ = frame.pixels.shape
            shared = SharedFrame(number=frame.number, due_ns=frame.arrived_ns, size=(height, width))
            shared.pixels(memory())[:] = frame.pixels
            yield shared

    yield work
