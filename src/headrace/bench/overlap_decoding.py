"""The decoder of `bench overlap` in a process of its own, without PyTorch; and its frames."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.live.realtime_file import LoadGenerator
from headrace.models.results import Labels
from headrace.runtime.waitable_source import Waiter
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch

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

    def tensor(self, memory: memoryview) -> "torch.Tensor":
        """Return what the model takes, in this memory."""
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
    """Give a `SourceWork` that plays the videos; its order is `LoadGenerator`'s (frames, speed)."""

    def work(
        order: tuple[int, float | None], waiter: Waiter, memory: Callable[[], memoryview]
    ) -> Iterator[SharedFrame]:
        frames, speed = order
        for frame in LoadGenerator(indexes, frames=frames, speed=speed).frames(0, waiter):
            height, width, _ = frame.pixels.shape
            shared = SharedFrame(number=frame.number, due_ns=frame.arrived_ns, size=(height, width))
            shared.pixels(memory())[:] = frame.pixels
            yield shared

    yield work
