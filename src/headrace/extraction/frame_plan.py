"""What an extraction of frames will do, found out before anything is decoded or written."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.request import Request
from headrace.extraction.videos import Videos
from headrace.planning.chunks import Chunk, chunks_of
from headrace.video.loss import Loss
from headrace.video.stream_index import StreamIndex

_CHUNK_PIXELS: Final = 1e9
"""That a chunk decodes, or might decode in the same time: some two seconds of one core."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FramePlan:
    """Which frames, in which chunks."""

    request: Request
    indexes: dict[int, StreamIndex]
    """Number of a video in the request → its frames; without those that cannot be opened."""
    wanted: dict[int, NDArray[np.int64]]
    """Number of a video → indices of its wanted frames, int64, ascending."""
    chunks: tuple[Chunk, ...]
    """In the order of the videos and their frames."""
    left_out: tuple[Loss, ...]
    """Videos that cannot be opened."""
    notes: tuple[str, ...]
    """What was decided, in words."""

    @classmethod
    def of(
        cls,
        options: FrameOptions,
        store: IndexStore,
        on_video: Callable[[str, int, int], None] = lambda name, done, of: None,
    ) -> "FramePlan":
        """Look up the index of every video, and share its wanted frames out over chunks.

        Cost: a video that was not seen before is read once, by workers where there are several.

        Args:
            options: What is asked.
            store: Where indexes are kept.
            on_video: Called with a name, how many are done and of how many.

        Raises:
            MediaError: a video cannot be opened, and this is to be an error, or none can.
            ConfigError: no frame is wanted; a time lies behind the end of a video; a picture would
                be too large for its format.
        """
        videos = Videos.of(
            options.sources,
            store,
            workers=options.processes,
            stall_seconds=options.stall_seconds,
            raises=options.on_error == "raise",
            on_video=on_video,
        )
        indexes = videos.indexes
        wanted = {number: options.selection.of(index) for number, index in indexes.items()}
        if not any(map(len, wanted.values())):
            raise ConfigError(
                f"no frame of {next(iter(indexes.values())).source} is wanted by "
                f"{str(options.selection)!r}; ask for others, as with --every 1"
            )
        return cls(
            request=options.request(videos.asked),
            indexes=indexes,
            wanted=wanted,
            chunks=tuple(
                chunk
                for number in indexes
                for chunk in _chunks(options, number, indexes[number], wanted[number])
            ),
            left_out=videos.left_out,
            notes=videos.notes,
        )

    @cached_property
    def frames(self) -> int:
        """Frames that are wanted."""
        return sum(map(len, self.wanted.values()))

    @cached_property
    def places(self) -> dict[int, int]:
        """Number of a video in the request → its place among those that could be opened."""
        return {number: place for place, number in enumerate(self.indexes)}


def _chunks(
    options: FrameOptions, number: int, index: StreamIndex, wanted: NDArray[np.int64]
) -> list[Chunk]:
    pictures = options.pictures
    size = pictures.size or index.info.upright_size
    pictures.check_size(size, str(index.source))
    return chunks_of(number, index, wanted, frame_cost=pictures.cost_of(size), most=_CHUNK_PIXELS)
