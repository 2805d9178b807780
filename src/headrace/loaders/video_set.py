"""VideoSet: indexes of many videos, and the population of their frames."""

import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import scan_ahead
from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import ConfigError, MediaError, SkippedVideosWarning
from headrace.sampling.population import FrameTimes, Population
from headrace.video.frame_format import Fit, ResizeFit
from headrace.video.frames import FrameLoss
from headrace.video.source import Source, check_is_list
from headrace.video.stream_index import StreamIndex

_MAX_NAMED = 3
"""Max files named in one message."""


def raise_all(errors: Sequence[MediaError], of: str) -> None:
    """Raise the first error, with the names of the next ones and the number of the rest.

    Args:
        errors: One per unusable video, row or clip; empty: nothing is raised.
        of: Total with its noun: "11 videos".
    """
    if not errors:
        return
    first, *others = errors
    if not others:
        raise first
    message = f"{first}; and {len(others)} more of {of} cannot be used: {_names(others)}"
    raise type(first)(message, source=first.source, pts=first.pts) from first


def _located(error: MediaError, where: str) -> MediaError:
    """Return an error with a location at the end of its message."""
    located = type(error)(f"{error} ({where})", source=error.source, pts=error.pts)
    located.__cause__ = error
    return located


def warn_skipped(
    errors: Sequence[MediaError | FrameLoss], counts: str, listed: str = "skipped_videos"
) -> None:
    """Warn once of skipped media: their number, the first names, and the attribute with all.

    Args:
        errors: One per skipped video, row or clip; empty: no warning.
        counts: Their number among all, with the noun: "2 of 11 videos".
        listed: Attribute that lists all of them.
    """
    if errors:
        are = "is" if len(errors) == 1 else "are"
        warnings.warn(
            f"{counts} cannot be used and {are} skipped: {_names(errors)}; "
            f"`{listed}` lists all of them, with reasons",
            SkippedVideosWarning,
            stacklevel=frames_of_headrace(),
        )


def _names(errors: Sequence[MediaError | FrameLoss]) -> str:
    names = ", ".join(error.source for error in errors[:_MAX_NAMED])
    more = len(errors) - _MAX_NAMED
    return f"{names} and {more} more" if more > 0 else names


def frames_of_headrace() -> int:
    """Return the `stacklevel` of the first caller outside headrace."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("headrace."):
        frame, level = frame.f_back, level + 1
    return level


_CODEC_FRAMES = 8
"""Frames of memory per codec. Measured: one thread takes about 10 MB for H.264 at 720p."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VideoSet:
    """Indexes of many videos, and the population of their frames. Holds no open file."""

    indexes: tuple[StreamIndex, ...]
    """Indexes of the videos that can be read, in the order given."""
    number: NDArray[np.int64]
    """int64 [indexes]: position of each video in the given list."""
    skipped: tuple[MediaError, ...]
    """Errors of videos that cannot be read."""
    refused: tuple[Source, ...]
    """Videos that cannot be read, in the order of `skipped`."""

    @classmethod
    def open(
        cls,
        videos: Iterable[Source | str | os.PathLike[str]],
        *,
        skip_bad: bool = False,
        index_store: IndexStore | None = None,
        on_progress: Callable[[int], None] = lambda done: None,
        where: Callable[[int], str] | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> "VideoSet":
        """Open the index of every video. New videos are scanned in parallel, known ones not read.

        Args:
            videos: Paths of the videos.
            skip_bad: Skip files that cannot be opened as video, instead of raising.
            index_store: Store of the indexes; None: the user's cache folder.
            on_progress: Called after each video with the number of opened videos.
            where: Position of a video → its location, for errors: "line 3 of videos.csv". None: the
                videos have no locations.
            rank: Rank of this process among `ranks` that open the same videos now and share the
                work.
            ranks: Number of processes.

        Raises:
            ConfigError: there is no video, or none can be read; or `videos` is a single path.
            OpenError, ScanError: videos cannot be read, and `skip_bad` is false: the error of the
                first, with the names of the next ones. It is raised after all videos were tried.
        """
        check_is_list(videos)
        sources = [Source.of(video) for video in videos]
        open_one = scan_ahead(
            sources,
            index_store or IndexStore(),
            raises=False,
            rank=rank,
            ranks=ranks,
            on_scanned=lambda name, done, of: on_progress(done),
        )
        opened, bad, refused = dict[int, StreamIndex](), [], []
        for number, source in enumerate(sources):
            try:
                opened[number] = open_one(source)
            except MediaError as error:
                bad.append(error if where is None else _located(error, where(number)))
                refused.append(source)
        if len({source for source in sources if type(source) is Source}) < len(sources):
            on_progress(len(sources))  # includes duplicates, and sources that are not plain files
        if not skip_bad:
            raise_all(bad, f"{len(sources)} videos")
        if not opened:
            given = f"{len(bad)} that cannot be read; the first: {bad[0]}" if bad else "none"
            raise ConfigError(f"at least one video is needed to sample from, got {given}")
        return cls(
            indexes=tuple(opened.values()),
            number=np.array([*opened], np.int64),
            skipped=tuple(bad),
            refused=tuple(refused),
        )

    @cached_property
    def population(self) -> Population:
        """Population of the frames of all videos."""
        return self._population(None)

    def common_size(self) -> tuple[int, int]:
        """Return the (height, width) of all videos.

        Raises:
            ConfigError: sizes differ.
        """
        first = self.indexes[0]
        for index in self.indexes:
            if index.info.upright_size != first.info.upright_size:
                raise ConfigError(
                    f"frames of a batch must have one size: {first.source} has "
                    f"{first.info.upright_size}, {index.source} {index.info.upright_size} "
                    "(height, width); give a size"
                )
        return first.info.upright_size

    def check_fit(self, fit: Fit | ResizeFit) -> None:
        """Check that proxies support a fit: a stretched proxy has lost the aspect ratio.

        Raises:
            ConfigError: a video is read from a stretched proxy; names the video.
        """
        for index in self.indexes:
            if isinstance(index, ProxyIndex):
                index.check_fit(fit)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """int64 [indexes, 2]: (height, width) of each original video's upright frames."""
        return np.array([index.original_size for index in self.indexes], np.int64)

    @property
    def codec_bytes(self) -> int:
        """Estimated bytes of the codec of the largest video: reference frames in YUV 4:2:0."""
        sides = (index.info.upright_size for index in self.indexes)
        return _CODEC_FRAMES * max(height * width for height, width in sides) * 3 // 2

    @cached_property
    def decoded_population(self) -> Population:
        """Population of the same frames, with the GOPs that are decoded: of proxies, if any."""
        if not any(index.decoded_gop_lengths is not index.gop_lengths for index in self.indexes):
            return self.population
        return Population.of([index.decoded_gop_lengths for index in self.indexes])

    def timed_population(self) -> Population:
        """Return the population with durations, for uniform sampling in time; 8 bytes per frame."""
        return self._population(
            [index.duration * np.float64(index.info.time_base) for index in self.indexes]
        )

    def times(
        self, video: int, first: int = 0, stop: int | None = None, end: int | None = None
    ) -> FrameTimes:
        """Return the presentation times of frames [first, stop), up to tick `end`; a view.

        `stop` None: the end of the video. `end` None: the end of the last frame.
        """
        index = self.indexes[video]
        stop = len(index) if stop is None else stop
        last_end = int(index.pts[stop - 1]) + max(1, int(index.duration[stop - 1]))
        return FrameTimes(
            pts=index.pts[first:stop],
            end=last_end if end is None else min(end, last_end),
            time_base=index.info.time_base,
        )

    def _population(self, durations: list[NDArray[np.float64]] | None) -> Population:
        return Population.of(
            [index.gop_lengths for index in self.indexes],
            durations,
            times=[self.times(video) for video in range(len(self.indexes))],
            names=[str(index.source) for index in self.indexes],
        )

    @cached_property
    def checksum(self) -> int:
        """Checksum of file names, sizes in bytes, lengths and GOPs, in order.

        Does not include folders and modification times, so that videos may be moved or copied.
        """
        files = [
            f"{index.source.path.name}/{index.source.stream}/{index.fingerprint.size}"
            for index in self.indexes
        ]
        return zlib.crc32(os.fsencode("/".join(files)), frames_checksum(self.population))

    def pts_seconds(
        self, video: NDArray[np.int64], index: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the presentation times of frames `index` of `video`, int64 of the same shape."""
        times = np.empty(index.shape, np.float64)
        for number in np.unique(video):
            mask = video == number
            times[mask] = self.indexes[number].seconds_of(index[mask])
        return times


def frames_checksum(population: Population) -> int:
    """Return a checksum of the videos' lengths and GOPs, in order."""
    return zlib.crc32(population.video_start.tobytes() + population.gop_start.tobytes())
