"""Signature of a feature model, cache keys from it, and the lookup of results by these keys."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate, groupby
from typing import Any, Final

from headrace.cache.cache_url import Cache
from headrace.cache.content_digests import ContentDigests
from headrace.cache.key import ChunkKey
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.index_store import VERSION
from headrace.decode.protocol import OnError
from headrace.errors import CacheError, MediaError
from headrace.extraction.extraction_options import (
    WHOLE_FRAMES,
    OutputSpec,
    shape_asked,
    shape_of_asked,
)
from headrace.extraction.features.feature_result import ChunkResult, ResultInfo
from headrace.extraction.features.model_spec import SampleSpec
from headrace.planning.chunks import Chunk
from headrace.records import recorded
from headrace.video.frame_format import FrameFormat
from headrace.video.source import Source
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
    """Whether a custom module was in training mode when built; it runs in evaluation mode."""


@dataclass(frozen=True, kw_only=True)
class KeyMaker:
    """Makes the cache keys of chunks."""

    facts: ModelSignature
    sampling: SampleSpec
    on_error: OnError
    decoding: DecoderConfig = ON_CPU
    shape: FrameFormat = WHOLE_FRAMES
    """Output format of frames; non-default parts are in the key."""

    @classmethod
    def of(
        cls, request: OutputSpec, facts: ModelSignature, decode: str, *, raises: bool
    ) -> "KeyMaker":
        """Return the maker of an extraction's keys.

        Args:
            request: Request of the extraction.
            facts: Signature of its model.
            decode: Value of `--decode`.
            raises: Whether bad media is an error.
        """
        return cls(
            facts=facts,
            sampling=SampleSpec.of_asked(request.asked),
            on_error="raise" if raises else "conceal" if request.conceals else "skip",
            decoding=DecoderConfig.parse(decode),
            shape=shape_of_asked(request.asked),
        )

    def key_of(self, starts: Sequence[int], content: str) -> ChunkKey:
        """Return the key of a chunk's result.

        Args:
            starts: First frame of each sample of the chunk, ascending.
            content: Digest of the whole file: see `ContentDigests`.
        """
        clip = self.sampling.clip
        return ChunkKey(
            kind=_KIND,
            content=content,
            selection={
                "index_version": VERSION,
                "starts": starts,
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


_GROUP_BYTES: Final = 32 << 20
"""Bytes of features per request to the cache."""
WORKER: Final = "cache"
"""Worker name of results from the cache."""


@dataclass(eq=False)
class Lookup:
    """Looks up chunks in a cache."""

    indexes: Mapping[int, StreamIndex]
    keys: KeyMaker
    cache: Cache
    sample_bytes: int
    contents: dict[int, str]
    """Video number → content digest, if known; filled here."""

    @property
    def is_needed(self) -> bool:
        """Whether results are cached at all."""
        return self.keys.facts.uncached is None and not self.cache.is_none

    def results(self, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        """Yield the cached results, in order.

        Cost: reads each new video once, for its digest.
        """
        if not self.is_needed:
            return
        ends = accumulate(chunk.frames * self.sample_bytes for chunk in chunks)
        ended = zip(chunks, ends, strict=True)
        by_request = groupby(ended, lambda pair: (pair[0].video, pair[1] // _GROUP_BYTES))
        for (video, _), group in by_request:
            yield from self._results_of(video, [chunk for chunk, _ in group])

    def content(self, video: int) -> str | None:
        """Return the content digest of a video; None for an unreadable file or an image sequence.

        Cost: reads the complete file, once for each of its versions.
        """
        if video not in self.contents:
            with suppress(MediaError), ContentDigests() as digests:
                source = Source(self.indexes[video].source.path)
                self.contents[video] = digests.of(source)
        return self.contents.get(video)

    def _results_of(self, video: int, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        content = self.content(video)
        if content is None:
            return  # the worker that decodes the video reports the error
        starts = self.keys.sampling.starts(self.indexes[video])
        keys = {chunk: self.keys.key_of(chunk.of(starts).tolist(), content) for chunk in chunks}
        entries = self.cache.get(keys.values())
        for chunk, key in keys.items():
            if key in entries:
                info = ResultInfo(is_cached=True, worker=WORKER)
                with suppress(CacheError):  # an entry of another layout is computed again
                    yield ChunkResult.of_arrays(chunk, entries[key], info)
