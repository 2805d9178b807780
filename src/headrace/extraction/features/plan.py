"""What an extraction of features will do, found out before anything is decoded or written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.extraction.features.chunks import ChunkSpec, feature_chunks
from headrace.extraction.features.facts import FeatureFacts
from headrace.extraction.features.request import FeatureOptions, weights_digest_of
from headrace.extraction.plan import ExtractionPlan
from headrace.extraction.videos import Videos
from headrace.video.loss import Loss
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class FeaturePlan(ExtractionPlan):
    """Which samples, in which chunks."""

    facts: FeatureFacts
    """Of the model."""
    starts: dict[int, NDArray[np.int64]]
    """Number of a video → first frame of each of its samples, int64, ascending."""
    chunks: tuple[ChunkSpec, ...]

    @classmethod
    def of(cls, options: FeatureOptions, videos: Videos, facts: FeatureFacts) -> "FeaturePlan":
        """Share the samples of all videos out over chunks.

        Raises:
            ConfigError: no video has a sample, or a time lies behind the end of one.
        """
        bytes_each = sample_bytes(options, facts)
        chunks = {
            number: feature_chunks(number, index, options.sampling, sample_bytes=bytes_each)
            for number, index in videos.indexes.items()
        }
        short = [number for number in chunks if not chunks[number]]
        if len(short) == len(chunks):
            raise ConfigError(_no_sample(options, videos.indexes[short[0]]))
        uncached = f"not kept in the cache: {facts.uncached}"
        training = f"{facts.origin} is in training mode; it is run in evaluation mode"
        return cls(
            request=options.request(videos.asked, weights_digest=weights_digest_of(facts)),
            facts=facts,
            starts={n: options.sampling.starts(index) for n, index in videos.indexes.items()},
            indexes=videos.indexes,
            chunks=tuple(chunk for each in chunks.values() for chunk in each),
            left_out=(*videos.left_out, *(_too_short(options, videos, each) for each in short)),
            notes=(
                *videos.notes,
                *([uncached] if facts.uncached else []),
                *([training] if facts.is_training else []),
            ),
        )

    @cached_property
    def samples(self) -> int:
        """Samples that are wanted."""
        return sum(chunk.samples for chunk in self.chunks)

    @cached_property
    def by_name(self) -> Mapping[str, ChunkSpec]:
        """Name of a chunk → the chunk, in order."""
        return {chunk.name: chunk for chunk in self.chunks}

    def without(self, done: Mapping[str, object]) -> Iterator[ChunkSpec]:
        """Yield the chunks that are not among those `done`, by name."""
        return (chunk for chunk in self.chunks if chunk.name not in done)


def sample_bytes(options: FeatureOptions, facts: FeatureFacts) -> int:
    """Return the bytes of one feature."""
    return prod(facts.shape) * np.dtype(options.numerics.dtype).itemsize


def _too_short(options: FeatureOptions, videos: Videos, number: int) -> Loss:
    index = videos.indexes[number]
    return Loss(source=str(index.source), index=None, cause=_no_sample(options, index))


def _no_sample(options: FeatureOptions, index: StreamIndex) -> str:
    clip = options.sampling.clip
    if clip is None:
        return (
            f"no frame of {index.source} is wanted by {str(options.sampling.selection)!r}; ask "
            "for others, as with --every 1"
        )
    return (
        f"{index.source} has {len(index)} frames, and a clip of {clip.num_frames} frames "
        f"{clip.stride} apart spans {clip.span}; take a shorter --clip-len or --stride"
    )
