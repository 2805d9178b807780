"""Signature of a feature model, and cache keys from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from headrace.cache.key import ChunkKey
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.index_store import VERSION
from headrace.decode.protocol import OnError
from headrace.extraction.extraction_options import WHOLE_FRAMES, shape_asked
from headrace.extraction.features.model_spec import (
    Sampling,
)
from headrace.planning.chunks import Chunk
from headrace.records import recorded
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

_KIND = "features 2"
"""Kind and version of keys; increase it when features of the same key change."""


@recorded
@dataclass(frozen=True, kw_only=True)
class ModelSignature:
    """Signature of a model, its layer and its numerics: see `feature_facts`."""

    shape: tuple[int, ...]
    """Shape of one feature, without the batch dimension; () is a single number."""
    layer: str
    """Layer of the features; empty for a custom model."""
    origin: str
    """Origin of the weights, for the record."""
    preprocess: Mapping[str, Any]
    model: Mapping[str, Any]
    numerics: Mapping[str, Any]
    """Groups of the cache key: see `ChunkKey`."""
    uncached: str | None = None
    """Reason results have no key and are not cached; None: they have a key."""
    is_training: bool = False
    """Whether a custom module was returned in training mode; it is run in evaluation mode."""


@dataclass(frozen=True, kw_only=True)
class KeyMaker:
    """Makes the cache keys of chunks."""

    facts: ModelSignature
    sampling: Sampling
    on_error: OnError
    decoding: DecoderConfig = ON_CPU
    shape: FrameFormat = WHOLE_FRAMES
    """Output format of frames; non-default parts are in the key."""

    def keys_of(
        self, chunks: Iterable[Chunk], index: StreamIndex, content: str
    ) -> dict[str, ChunkKey]:
        """Return name of each chunk → key of its result; empty if results are not cached.

        Args:
            chunks: Chunks of one video.
            index: Index of the video.
            content: Digest of the whole file: see `ContentDigests`.
        """
        if self.facts.uncached is not None:
            return {}
        starts, clip = self.sampling.starts(index), self.sampling.clip
        return {
            chunk.name: ChunkKey(
                kind=_KIND,
                content=content,
                selection={
                    "index_version": VERSION,
                    "starts": chunk.of(starts).tolist(),
                    "num_frames": None if clip is None else clip.num_frames,
                    "stride": None if clip is None else clip.stride,
                },
                decode={
                    **decode_facts(self.decoding, on_error=self.on_error),
                    **shape_asked(self.shape),
                },
                preprocess=self.facts.preprocess,
                model=self.facts.model,
                numerics=self.facts.numerics,
            )
            for chunk in chunks
        }


def decode_facts(decoding: DecoderConfig, *, on_error: str) -> dict[str, Any]:
    """Return the inputs of decoding: `ChunkKey.decode`.

    PyAV's version determines FFmpeg's, because the wheel contains it. torchcodec's version does
    not, but its FFmpeg versions give equal frames within a tolerance.
    """
    return {
        "backend": decoding.backend,
        "version": version("av" if decoding.backend == "pyav" else decoding.backend),
        "device": decoding.device.partition(":")[0],
        "on_error": on_error,
    }
