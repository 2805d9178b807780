"""Decoder process of `bench overlap`, without PyTorch, and its shared frames."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.live.realtime_source import LoadGenerator
from headrace.models.results import Labels
from headrace.runtime.waitable_source import Waiter
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch

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


@contextmanager
def decoding(indexes: tuple[StreamIndex, ...]) -> Iterator[Any]:
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
