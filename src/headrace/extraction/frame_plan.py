"""What an extraction of frames will do, found out before anything is decoded or written."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.plan import ExtractionPlan
from headrace.extraction.videos import Videos
from headrace.planning.chunks import Chunk, chunks_of
from headrace.video.stream_index import StreamIndex

_CHUNK_PIXELS: Final = 1e9
"""That a chunk decodes, or might decode in the same time: some two seconds of one core."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FramePlan(ExtractionPlan):
    """Which frames, in which chunks."""

    wanted: dict[int, NDArray[np.int64]]
    """Number of a video → indices of its wanted frames, int64, ascending."""
    chunks: tuple[Chunk, ...]

    @classmethod
    def of(cls, options: FrameOptions, videos: Videos) -> "FramePlan":
        """Share the wanted frames of all videos out over chunks.

        Raises:
            ConfigError: no frame is wanted; a time lies behind the end of a video; a picture would
                be too large for its format.
        """
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


def _chunks(
    options: FrameOptions, number: int, index: StreamIndex, wanted: NDArray[np.int64]
) -> list[Chunk]:
    pictures = options.pictures
    size = pictures.size or index.info.upright_size
    pictures.check_size(size, str(index.source))
    return chunks_of(number, index, wanted, frame_cost=pictures.cost_of(size), most=_CHUNK_PIXELS)
