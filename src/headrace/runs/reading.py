"""How a run reads its videos: exact batches, decoded ahead on all cores."""

from collections.abc import Sequence
from typing import Final

from headrace.decode.decoding import ON_CPU, Decoding
from headrace.decode.protocol import OnError
from headrace.extraction.frames import FrameReader
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.marks import NO_MARKS, Marks
from headrace.video.stream_index import StreamIndex

_AHEAD_BYTES: Final = 1 << 30
"""Of decoded frames that may wait for the model."""


def batches_of(
    indexes: Sequence[StreamIndex],
    *,
    batch_size: int,
    stride: int = 1,
    max_batches: int | None = None,
    on_error: OnError = "raise",
    decoding: Decoding = ON_CPU,
    clock: Clock = SYSTEM_CLOCK,
    marks: Marks = NO_MARKS,
) -> FrameReader:
    """Return what reads the videos one after the other, in batches: see `FrameReader`.

    It opens all decoders of a run.
    """
    sizes = [index.info.upright_size for index in indexes]
    largest = max(height * width for height, width in sizes)
    return FrameReader(
        indexes,
        batch_size=batch_size,
        stride=stride,
        max_batches=max_batches,
        memory_budget=max(_AHEAD_BYTES, 4 * batch_size * largest * 3),
        on_error=on_error,
        decoding=decoding,
        clock=clock,
        marks=marks,
    )
