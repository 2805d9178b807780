"""RowSet: the rows of a manifest on the videos that could be opened."""

import math
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, MediaError
from headrace.loaders.manifest import Manifest
from headrace.loaders.video_set import VideoSet, population_for, raise_all, warn_skipped
from headrace.sampling.frame_times import FrameTimes
from headrace.sampling.population import Population
from headrace.sampling.rows import Rows, RowSampler
from headrace.sampling.sampler import Sampler, SamplerContext, adapted, check_order
from headrace.video.frames_played import first_at
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSet:
    """The rows that can be sampled, and what the manifest says of them."""

    manifest: Manifest
    rows: Rows
    skipped: tuple[MediaError, ...]
    """Why other rows cannot: their videos show nothing in their time. Rows of videos that cannot be
    opened are not among them."""

    @classmethod
    def open(cls, manifest: Manifest, videos: VideoSet, *, skip_bad: bool) -> "RowSet":
        """Return the rows of the videos that were opened; some 30 microseconds a row.

        Args:
            manifest: The rows.
            videos: Its videos, opened.
            skip_bad: Leave out rows in whose time their video shows nothing instead of raising.

        Raises:
            MediaError: a row has no frame, and such rows are not to be skipped.
            ConfigError: none has.
        """
        opened = {number: place for place, number in enumerate(videos.number.tolist())}
        parts: list[_Part] = []
        bad: list[MediaError] = []
        for row, number in enumerate(manifest.video.tolist()):
            if number not in opened:
                continue
            part = _Part.of(manifest, row, opened[number], videos)
            if part.first < part.stop:
                parts.append(part)
                continue
            bad.append(part.error(manifest, videos))
        if not skip_bad:
            raise_all(bad, f"{len(manifest)} rows")
        if not parts:
            raise ConfigError(
                f"no row of {manifest.name} has a frame to sample; the first: {[*bad, '-'][0]}"
            )
        return cls(manifest=manifest, rows=_rows(parts, videos, manifest), skipped=tuple(bad))

    def adapted(self, sampler: Sampler, use: SamplerContext) -> Sampler:
        """Return a sampler of these rows, in frames of their videos, for a use of the videos.

        Raises:
            ConfigError: it is no sampler, or of no such use, or cannot sample from such rows.
        """
        found = adapted(sampler, self.use(use))
        population = population_for(found.traits, self.rows)
        check_order(found.order(population, 0), found, population)
        return RowSampler(sampler=found, rows=self.rows, population=population)

    def decoded_gop_lengths(self, videos: VideoSet) -> NDArray[np.int64]:
        """Return the frames of each GOP that is decoded, as far as it lies in a row; int64."""
        decoded, rows = videos.decoded_population, self.rows
        if decoded is videos.population:
            return rows.population.gop_lengths
        ends = rows.first + rows.population.frames_per_video
        inside = np.searchsorted(decoded.gop_start, [rows.first + 1, ends]).T.tolist()
        parts = zip(rows.first, ends, inside, strict=True)
        return np.concatenate(
            [
                np.diff(decoded.gop_start[slice(*places)], prepend=first, append=end)
                for first, end, places in parts
            ]
        )

    def use(self, use: SamplerContext) -> SamplerContext:
        """Return a use of the videos as one of these rows."""
        return replace(
            use,
            videos=self.rows.number,
            videos_given=len(self.manifest),
            paths=tuple(
                str(self.manifest.videos[self.manifest.video[row]])
                for row in self.rows.number.tolist()
            ),
        )

    def columns(self, rows: NDArray[np.int64]) -> Mapping[str, torch.Tensor | list[str]]:
        """Return what the manifest says of rows: numbers as tensors, texts as lists."""
        return {
            name: list(values) if values.dtype == object else torch.from_numpy(values)
            for name, values in self.manifest.values(rows).items()
        }


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Frames [first, stop) of a video that a row is."""

    row: int
    video: int
    """Place among those that were opened."""
    first: int
    stop: int
    end: int | None
    """The first tick behind it; None: it goes on to the end of the video."""

    @classmethod
    def of(cls, manifest: Manifest, row: int, video: int, videos: VideoSet) -> "_Part":
        index = videos.indexes[video]
        start, end = manifest.segments[row]
        first = first_at(index, start) if start else 0
        if end is None:
            return cls(row=row, video=video, first=first, stop=len(index), end=None)
        behind = math.ceil(end / index.info.time_base)
        return cls(row=row, video=video, first=first, stop=first_at(index, end), end=behind)

    def gop_lengths(self, index: StreamIndex) -> NDArray[np.int64]:
        """Return how many frames of each GOP belong to it."""
        inside = slice(*np.searchsorted(index.gop_start, (self.first + 1, self.stop)))
        return np.diff(index.gop_start[inside], prepend=self.first, append=self.stop)

    def durations(self, index: StreamIndex) -> NDArray[np.float64]:
        """Return how long each frame is shown, in seconds."""
        ticks = index.duration[self.first : self.stop]
        return np.asarray(ticks * np.float64(index.info.time_base), np.float64)

    def times(self, videos: VideoSet) -> FrameTimes:
        """Return when its frames are shown."""
        return videos.times(self.video, self.first, self.stop, self.end)

    def error(self, manifest: Manifest, videos: VideoSet) -> MediaError:
        """Return what to say of it where it has no frame."""
        index = videos.indexes[self.video]
        start, end = manifest.segments[self.row]
        until = "its end" if end is None else f"{float(end):g} s"
        return MediaError(
            f"{manifest.places.where(self.row)} is of {float(start):g} s to {until} of "
            f"{index.source}, in which no frame begins; its frames begin from "
            f"{index.seconds(0):.3f} s to {index.seconds(len(index) - 1):.3f} s: correct the row",
            source=str(index.source),
        )


def _rows(parts: list[_Part], videos: VideoSet, manifest: Manifest) -> Rows:
    indexes = [videos.indexes[each.video] for each in parts]
    gops = [each.gop_lengths(index) for each, index in zip(parts, indexes, strict=True)]
    times = [each.times(videos) for each in parts]
    names = [
        f"{manifest.places.where(each.row)} ({index.source})"
        for each, index in zip(parts, indexes, strict=True)
    ]

    def timed() -> Population:
        durations = [each.durations(index) for each, index in zip(parts, indexes, strict=True)]
        return Population.of(gops, durations, times=times, names=names)

    begin = videos.population.video_start
    return Rows(
        number=np.array([each.row for each in parts], np.int64),
        first=np.array([begin[each.video] + each.first for each in parts], np.int64),
        population=Population.of(gops, times=times, names=names),
        timed=timed,
    )


Given = Iterable[Source | str | os.PathLike[str]] | Manifest
"""Paths of videos, or a manifest whose rows are sampled as if each were a video."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledSet:
    """Videos that were opened and, of a manifest, its rows on them."""

    videos: VideoSet
    rows: RowSet | None

    @classmethod
    def open(
        cls,
        given: Given,
        *,
        skip_bad: bool,
        index_store: IndexStore | None,
        rank: int = 0,
        ranks: int = 1,
    ) -> "SampledSet":
        """Open the index of every video; the first rank warns of what is left out.

        Raises as `VideoSet.open` and `RowSet.open` do.
        """
        videos = VideoSet.open(
            given.videos if isinstance(given, Manifest) else given,
            skip_bad=skip_bad,
            index_store=index_store,
            rank=rank,
            ranks=ranks,
        )
        rows = None
        of = f"{len(videos.indexes) + len(videos.skipped)} videos"
        if isinstance(given, Manifest):
            rows = RowSet.open(given, videos, skip_bad=skip_bad)
            of += f" and {len(given)} rows"
        opened = cls(videos=videos, rows=rows)
        if rank == 0:
            warn_skipped(opened.skipped, of)
        return opened

    @property
    def skipped(self) -> tuple[MediaError, ...]:
        """Why videos that cannot be read, and rows without a frame, are left out; with the file."""
        return self.videos.skipped + (() if self.rows is None else self.rows.skipped)

    @property
    def population(self) -> Population:
        """The frames that are sampled; of rows, what lies in two of them counts twice."""
        return self.videos.population if self.rows is None else self.rows.rows.population

    def timed_population(self) -> Population:
        """Return the same with durations; 8 bytes a frame."""
        return (self.videos if self.rows is None else self.rows.rows).timed_population()

    @property
    def checksum(self) -> int:
        """A number that others, or another order of them, are most unlikely to share."""
        of_videos = self.videos.checksum
        if self.rows is None:
            return of_videos
        return zlib.crc32(self.rows.rows.checksum.to_bytes(4, "little"), of_videos)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is said of each row."""
        return () if self.rows is None else tuple(self.rows.manifest.columns)

    def use(self, *, batch_size: int | None, ranks: int) -> SamplerContext:
        """Return what a sampler of them is used for."""
        use = self.videos.use(seed=None, batch_size=batch_size, ranks=ranks)
        return use if self.rows is None else self.rows.use(use)

    def frames_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids, among all frames of the videos, of ids in `population`."""
        return places if self.rows is None else self.rows.rows.frames_of(places)

    def said(self, places: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return the row of each frame, by its id in `population`, and its columns by name.

        A number is a number, a label in words that of its class, a text a text.
        """
        which = self.population.video_of(places)
        if self.rows is None:
            return [{"row": int(each)} for each in self.videos.number[which]]
        rows = self.rows.rows.number[which]
        columns = {n: each.tolist() for n, each in self.rows.manifest.values(rows).items()}
        return [
            {"row": int(row), **{name: values[k] for name, values in columns.items()}}
            for k, row in enumerate(rows)
        ]
