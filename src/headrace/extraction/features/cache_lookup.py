"""Lookup of cached features before workers start."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from headrace.cache.content_digests import ContentDigests
from headrace.cache.key import ChunkKey
from headrace.cache.result_cache import Cache
from headrace.errors import CacheError, MediaError
from headrace.extraction.features.feature_result import ChunkResult, ResultInfo
from headrace.extraction.features.model_signature import KeyMaker
from headrace.planning.chunks import Chunk
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

_GROUP_BYTES: Final = 32 << 20
"""Max bytes of features per request to the cache."""
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

    def found(self, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        """Yield the cached results, in order.

        Cost: reads each new video once, for its digest.
        """
        if self.is_needed:
            for video, of_video in groupby(chunks, lambda chunk: chunk.video):
                for group in self._groups(list(of_video)):
                    yield from self._found(video, group)

    def content(self, video: int) -> str | None:
        """Return the content digest of a video; None for an unreadable file or an image sequence.

        Cost: reads the complete file, once for each of its versions.
        """
        if video not in self.contents:
            with suppress(MediaError), ContentDigests() as digests:
                source = Source(self.indexes[video].source.path)
                self.contents[video] = digests.of(source)
        return self.contents.get(video)

    def _found(self, video: int, chunks: Sequence[Chunk]) -> Iterator[ChunkResult]:
        keys = self._keys(video, chunks)
        entries = self.cache.get(keys.values())
        for chunk in chunks:
            arrays = entries.get(keys[chunk.name]) if chunk.name in keys else None
            if arrays is not None:
                try:
                    info = ResultInfo(is_cached=True, worker=WORKER)
                    yield ChunkResult.of_arrays(chunk, arrays, info)
                except CacheError:
                    continue  # another layout: computed and cached again

    def _keys(self, video: int, chunks: Sequence[Chunk]) -> dict[str, ChunkKey]:
        content = self.content(video)
        if content is None:
            return {}  # the worker that decodes the video reports the error
        return self.keys.keys_of(chunks, self.indexes[video], content)

    def _groups(self, chunks: list[Chunk]) -> Iterator[list[Chunk]]:
        group: list[Chunk] = []
        size = 0
        for chunk in chunks:
            if group and size + chunk.frames * self.sample_bytes > _GROUP_BYTES:
                yield group
                group, size = [], 0
            group.append(chunk)
            size += chunk.frames * self.sample_bytes
        yield group
