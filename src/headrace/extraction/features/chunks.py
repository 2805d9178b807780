"""Chunks of samples: each is one row of the results, done whole or not at all."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.extraction.features.sampling import Sampling
from headrace.planning.chunks import chunk_name, chunks_of, frames_between
from headrace.video.stream_index import StreamIndex

MOST_SAMPLES: Final = 256
MOST_BYTES: Final = 4 << 20
"""Of the features of a chunk: a cache keeps entries up to 8 MB, and they are held in memory."""
_CHUNK_PIXELS: Final = 1e9
"""That a chunk decodes: some two seconds of one core."""


@dataclass(frozen=True, kw_only=True)
class ChunkSpec:
    """Samples of one video that one worker does in one go."""

    video: int
    """Place of the video in the list that was asked for."""
    start: int
    stop: int
    """It is for the samples whose first frame is in [start, stop)."""
    samples: int
    """How many these are."""

    @property
    def name(self) -> str:
        """What it is known by, in this and in later runs."""
        return chunk_name(self.video, self.start, self.stop)

    def of(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the starts of all samples of its video that it is for, int64; a view."""
        return frames_between(starts, self.start, self.stop)


def feature_chunks(
    video: int,
    index: StreamIndex,
    sampling: Sampling,
    *,
    sample_bytes: int,
    sample_pixels: float = 0.0,
) -> list[ChunkSpec]:
    """Cut a video into chunks of about equal cost, at keyframes where that suffices.

    At most 256 samples and 4 MB of features make a chunk; a single feature may be larger. The
    borders follow from the arguments alone, never from workers or machine. Where samples of one GOP
    fall into several chunks, who does them one after the other decodes it once.

    Args:
        video: Place of the video in the list that was asked for.
        index: Its frames.
        sampling: Which samples.
        sample_bytes: Bytes of a feature.
        sample_pixels: What the model does with a sample, in pixels that might be decoded in the
            same time.
    """
    starts = sampling.starts(index)
    most = max(1, min(MOST_SAMPLES, MOST_BYTES // max(1, sample_bytes)))
    height, width = index.info.upright_size
    clip = 0.0 if sampling.clip is None else float(sampling.frames_per_sample * height * width)
    planned = chunks_of(video, index, starts, frame_cost=sample_pixels + clip, most=_CHUNK_PIXELS)
    return [
        ChunkSpec(video=video, start=int(piece[0]), stop=int(piece[-1]) + 1, samples=len(piece))
        for chunk in planned
        for piece in np.array_split(chunk.of(starts), -(-chunk.frames // most))
    ]
