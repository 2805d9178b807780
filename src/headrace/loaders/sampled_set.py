"""SampledSet: opened videos, with the rows of a manifest if one is given."""

import math
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, MediaError
from headrace.loaders.manifest import Manifest
from headrace.loaders.video_set import VideoSet, raise_all, warn_skipped
from headrace.sampling.clip_shape import check_lengths
from headrace.sampling.derived_samplers import Rows, RowSampler
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler, SamplerContext, bind_sampler, check_order
from headrace.video.frames_played import first_at
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

Given = Iterable[Source | str | os.PathLike[str]] | Manifest
"""Paths of videos, or a manifest, whose rows are sampled like videos."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledSet:
    """Opened videos, and the rows of a manifest that can be sampled."""

    videos: VideoSet
    manifest: Manifest | None = None
    """None: a list of videos was given."""
    rows: Rows | None = None
    """Rows of the manifest that have a frame; None without a manifest."""
    skipped_rows: tuple[MediaError, ...] = ()
    """Errors of rows without a frame; rows of videos that cannot be opened are not included."""

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
        """Open the index of every video; the first rank warns of skipped videos and rows.

        Raises the errors of `VideoSet.open` and `of_rows`.
        """
        videos = VideoSet.open(
            given.videos if isinstance(given, Manifest) else given,
            skip_bad=skip_bad,
            index_store=index_store,
            where=partial(_location_of, given) if isinstance(given, Manifest) else None,
            rank=rank,
            ranks=ranks,
        )
        sampled = cls(videos=videos)
        totals = {"videos": (videos.skipped, len(videos.indexes) + len(videos.skipped))}
        if isinstance(given, Manifest):
            sampled = cls.of_rows(given, videos, skip_bad=skip_bad)
            totals["rows"] = sampled.skipped_rows, len(given)
        if rank == 0:
            counts = (f"{len(bad)} of {of} {noun}" for noun, (bad, of) in totals.items() if bad)
            warn_skipped(sampled.skipped, " and ".join(counts))
        return sampled

    @classmethod
    def of_rows(cls, manifest: Manifest, videos: VideoSet, *, skip_bad: bool) -> "SampledSet":
        """Return the rows of a manifest on its opened videos, in about 30 µs per row.

        Args:
            manifest: The rows.
            videos: The opened videos of the manifest.
            skip_bad: Skip rows without a frame, instead of raising.

        Raises:
            MediaError: a row has no frame, and `skip_bad` is false.
            ConfigError: no row has a frame.
        """
        opened = {number: position for position, number in enumerate(videos.number.tolist())}
        segments: list[_Segment] = []
        bad: list[MediaError] = []
        for row, number in enumerate(manifest.video.tolist()):
            if number not in opened:
                continue
            segment = _Segment.of(manifest, row, opened[number], videos)
            if segment.first < segment.stop:
                segments.append(segment)
            else:
                bad.append(segment.error(manifest, videos))
        if not skip_bad:
            raise_all(bad, f"{len(manifest)} rows")
        if not segments:
            raise ConfigError(
                f"no row of {manifest.name} has a frame to sample; the first: {[*bad, '-'][0]}"
            )
        rows = _rows(segments, videos, manifest)
        return cls(videos=videos, manifest=manifest, rows=rows, skipped_rows=tuple(bad))

    @property
    def skipped(self) -> tuple[MediaError, ...]:
        """Errors of unreadable videos, and of rows without a frame; each names the file."""
        return self.videos.skipped + self.skipped_rows

    @property
    def population(self) -> Population:
        """Population of frames to sample; a frame in two rows counts twice."""
        return self.videos.population if self.rows is None else self.rows.population

    def timed_population(self) -> Population:
        """Return the population with durations, at 8 bytes per frame."""
        return (self.videos if self.rows is None else self.rows).timed_population()

    @property
    def checksum(self) -> int:
        """Checksum of the videos and rows, in their order."""
        of_videos = self.videos.checksum
        if self.rows is None:
            return of_videos
        return zlib.crc32(self.rows.checksum.to_bytes(4, "little"), of_videos)

    @property
    def classes(self) -> Mapping[str, tuple[str, ...]]:
        """Column of text labels → names of its classes."""
        return {} if self.manifest is None else self.manifest.classes

    @property
    def decoded_gop_lengths(self) -> NDArray[np.int64]:
        """int64 [GOPs]: frames of each decoded GOP that may be sampled."""
        decoded, rows = self.videos.decoded_population, self.rows
        if rows is None:
            return decoded.gop_lengths
        if decoded is self.videos.population:
            return rows.population.gop_lengths
        stops = rows.first + rows.population.frames_per_video
        bounds = zip(rows.first.tolist(), stops.tolist(), strict=True)
        return np.concatenate([_lengths_inside(decoded.gop_start, *frames) for frames in bounds])

    def sampler_context(
        self, *, seed: int | None, batch_size: int | None, ranks: int
    ) -> SamplerContext:
        """Return the context for a sampler of this set; arguments as for `SamplerContext`."""
        videos, manifest = self.videos, self.manifest
        if manifest is None or self.rows is None:
            numbers, given = videos.number, len(videos.indexes) + len(videos.skipped)
            paths = [str(index.source) for index in videos.indexes]
        else:
            numbers, given = self.rows.number, len(manifest)
            paths = [str(manifest.videos[manifest.video[row]]) for row in numbers.tolist()]
        return SamplerContext(
            videos=numbers,
            videos_given=given,
            paths=tuple(paths),
            seed=seed,
            batch_size=batch_size,
            ranks=ranks,
        )

    def bind(
        self, sampler: Sampler, *, seed: int | None, batch_size: int | None, ranks: int
    ) -> Sampler:
        """Bind a sampler to this set; it then samples frame ids of the videos.

        Arguments are as for `SamplerContext`.

        Raises:
            ConfigError: the object is not a sampler, does not suit the context, or cannot sample
                these rows; or a video is too short for its clips (names the file).
        """
        context = self.sampler_context(seed=seed, batch_size=batch_size, ranks=ranks)
        sampler = bind_sampler(sampler, context)
        if self.rows is None:
            population = self.videos.population
            lengths = population.frames_per_video
            check_lengths(sampler.traits.frames_needed, lengths, population.name)
            return sampler
        rows, is_timed = self.rows, sampler.traits.needs_durations
        population = rows.timed_population() if is_timed else rows.population
        check_order(sampler.order(population, 0), sampler, population)
        return RowSampler(sampler=sampler, rows=self.rows, population=population)

    def frames_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert frame ids of `population` to frame ids of the videos."""
        return ids if self.rows is None else self.rows.frames_of(ids)

    def columns(self, rows: NDArray[np.int64]) -> Mapping[str, torch.Tensor | list[str]]:
        """Return the manifest's columns of some rows: numbers as tensors, texts as lists."""
        if self.manifest is None:
            return {}
        return {
            name: list(values) if values.dtype == object else torch.from_numpy(values)
            for name, values in self.manifest.values(rows).items()
        }

    def entries(self, ids: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return the row number and the columns of each frame, by its id in `population`.

        Numbers stay numbers, text labels are class numbers, and other texts stay texts.
        """
        videos = self.population.video_of(ids)
        if self.manifest is None or self.rows is None:
            return [{"row": number} for number in self.videos.number[videos].tolist()]
        rows = self.rows.number[videos]
        columns = {name: values.tolist() for name, values in self.manifest.values(rows).items()}
        return [
            {"row": row, **{name: values[k] for name, values in columns.items()}}
            for k, row in enumerate(rows.tolist())
        ]


def _location_of(manifest: Manifest, video: int) -> str:
    """Return the location of a video's first row: `line 7 of labels.csv`."""
    return manifest.places.where(int(np.argmax(manifest.video == video)))


@dataclass(frozen=True, kw_only=True)
class _Segment:
    """Segment of a row: frames [first, stop) of its video."""

    row: int
    video: int
    """Position among the opened videos."""
    first: int
    stop: int
    end: int | None
    """First tick after the segment; None: the segment ends with the video."""

    @classmethod
    def of(cls, manifest: Manifest, row: int, video: int, videos: VideoSet) -> "_Segment":
        index = videos.indexes[video]
        start, end = manifest.segments[row]
        first = first_at(index, start) if start else 0
        if end is None:
            return cls(row=row, video=video, first=first, stop=len(index), end=None)
        tick = math.ceil(end / index.info.time_base)
        return cls(row=row, video=video, first=first, stop=first_at(index, end), end=tick)

    def error(self, manifest: Manifest, videos: VideoSet) -> MediaError:
        """Return the error of a segment without a frame."""
        index = videos.indexes[self.video]
        start, end = manifest.segments[self.row]
        until = "its end" if end is None else f"{float(end):g} s"
        return MediaError(
            f"{manifest.places.where(self.row)} has no frame: no frame of {index.source} starts "
            f"from {float(start):g} s to {until}; frames start from {index.seconds(0):.3f} s to "
            f"{index.seconds(len(index) - 1):.3f} s; correct the row",
            source=str(index.source),
        )


def _lengths_inside(gop_start: NDArray[np.int64], first: int, stop: int) -> NDArray[np.int64]:
    """Return the number of frames of each GOP in frames [first, stop), int64."""
    inside = slice(*np.searchsorted(gop_start, (first + 1, stop)))
    return np.diff(gop_start[inside], prepend=first, append=stop)


def _rows(segments: list[_Segment], videos: VideoSet, manifest: Manifest) -> Rows:
    indexes = [videos.indexes[segment.video] for segment in segments]
    gops = [
        _lengths_inside(index.gop_start, segment.first, segment.stop)
        for segment, index in zip(segments, indexes, strict=True)
    ]
    times = [
        videos.times(segment.video, segment.first, segment.stop, segment.end)
        for segment in segments
    ]
    names = [
        f"{manifest.places.where(segment.row)} ({index.source})"
        for segment, index in zip(segments, indexes, strict=True)
    ]

    starts = videos.population.video_start
    return Rows(
        number=np.array([segment.row for segment in segments], np.int64),
        first=np.array([starts[segment.video] + segment.first for segment in segments], np.int64),
        population=Population.of(gops, times=times, names=names),
        timed=partial(_timed, segments, indexes, gops, times=times, names=names),
    )


def _timed(
    segments: list[_Segment], indexes: list[StreamIndex], gops: list[NDArray[np.int64]], **of: Any
) -> Population:
    durations = [
        index.duration[segment.first : segment.stop] * np.float64(index.info.time_base)
        for segment, index in zip(segments, indexes, strict=True)
    ]
    return Population.of(gops, durations, **of)
