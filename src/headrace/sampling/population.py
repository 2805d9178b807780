"""Population of frames to sample, numbered over all videos, and their display times."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.video.timebase import early_seconds, exact_number

Seconds = tuple[Fraction, ...]
"""Times relative to a frame, in seconds; below 0: before it."""

_MAX_SECONDS = 10**9
"""Max time in seconds; its ticks fit into 64 bits in any time base."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameTimes:
    """Display times of the frames of one video, or of a part of it.

    A frame counts as shown from a microsecond before its time, or from one tick before if frames
    are shown for four ticks or more, because containers round times to ticks.
    """

    pts: NDArray[np.int64]
    """int64 [frames], ascending: presentation time in ticks."""
    end: int
    """End of the last frame: the first tick at which no frame is shown."""
    time_base: Fraction
    """Seconds per tick."""

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def seconds(self) -> Fraction:
        """Duration in seconds, from the first frame to the end of the last."""
        return (self.end - int(self.pts[0])) * self.time_base

    def ticks_after(self, seconds: Seconds) -> NDArray[np.int64]:
        """Return `seconds` in ticks, int64 [T], to add to the pts of a frame."""
        return _ticks(seconds, self.time_base, self._early)

    @property
    def slack_ticks(self) -> int:
        """Ticks by which frame times may be rounded: 0 or 1."""
        return int(self._early >= self.time_base)

    @property
    def _early(self) -> Fraction:
        return early_seconds(len(self.pts), self.end - int(self.pts[0]), self.time_base)

    def shown_at(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame shown at each of `ticks`; the first before the start, the last after."""
        frames = np.searchsorted(self.pts, ticks, "right") - 1
        return np.asarray(np.clip(frames, 0, len(self.pts) - 1), np.int64)

    def is_outside(self, ticks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which `ticks` are before the first frame, or at or after the end of the last."""
        return np.asarray((ticks < self.pts[0]) | (ticks >= self.end), np.bool_)

    def num_starts(self, seconds: Seconds) -> int:
        """Return the number of frames at which a clip can start; they are the first ones.

        `seconds` are the clip's frame times relative to its start, ascending. A clip can start at a
        frame if a frame is shown at all of these times after it.
        """
        last = int(self.ticks_after(seconds)[-1])
        return int(np.searchsorted(self.pts, self.end - last, "left"))


def seconds_of(name: str, values: object) -> Seconds:
    """Return times as exact fractions.

    Raises:
        ConfigError: there is no time, or one is not a number or is beyond 10**9 seconds; `name` is
            their name in the message.
    """
    if not isinstance(values, tuple | list | np.ndarray) or not len(values):
        raise ConfigError(f"{name} must be seconds, as in (-0.2, -0.1, 0.0), got {values!r}")
    seconds = tuple(exact_number(f"each of {name}", value) for value in values)
    if max(map(abs, seconds)) > _MAX_SECONDS:
        raise ConfigError(f"{name} must be at most 10**9 seconds away, got {values!r}")
    return seconds


@lru_cache(maxsize=256)
def _ticks(seconds: Seconds, time_base: Fraction, early: Fraction) -> NDArray[np.int64]:
    ticks = np.array([(time + early) // time_base if time else 0 for time in seconds], np.int64)
    ticks.setflags(write=False)
    return ticks


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Frames of many videos, numbered together: `Population.of([index.gop_lengths, ...])`.

    A *frame id* counts frames over all videos, in presentation order in each; a *GOP id* counts
    GOPs in the same way. Ranges are half-open.
    Takes 8 bytes per GOP and per video; with durations, also 8 bytes per frame. Lookups bisect, and
    accept arrays of any shape.
    """

    gop_start: NDArray[np.int64]
    """int64 [GOPs + 1], ascending: frame id of each GOP's first frame; the last entry is
    `num_frames`."""
    video_start: NDArray[np.int64]
    """int64 [videos + 1], ascending: frame id of each video's first frame; the last entry is
    `num_frames`."""
    shown_until: NDArray[np.float64] | None = None
    """float64 [frames], ascending: cumulated display durations in seconds, up to the end of each
    frame, over all videos."""
    times: Sequence[FrameTimes] | None = None
    """Display times of each video's frames; needed to sample by time."""
    names: Sequence[str] | None = None
    """Name of each video in messages; None: its number."""

    @classmethod
    def of(
        cls,
        gop_lengths: Sequence[NDArray[np.int64]],
        durations_seconds: Sequence[NDArray[np.float64]] | None = None,
        *,
        times: Sequence[FrameTimes] | None = None,
        names: Sequence[str] | None = None,
    ) -> "Population":
        """Return the population of videos, from the GOP lengths of each video.

        `durations_seconds` has a float64 [frames] for each video: display duration of each frame,
        >= 0; needed only for uniform sampling in time. `times` and `names` are the fields, one
        entry per video.

        Raises:
            ConfigError: there is no video, a video has no frames, or a GOP is shorter than 1; the
                number of durations or times is not the number of frames; or durations are negative,
                or all 0.
        """
        if not len(gop_lengths):
            raise ConfigError("at least one video is needed to sample from, got none")
        for video, lengths in enumerate(gop_lengths):
            if not len(lengths) or lengths.min() < 1:
                raise ConfigError(
                    f"a video must have at least one GOP, each of one frame or more; video {video} "
                    f"has GOPs of {np.asarray(lengths).tolist()[:8]} frames"
                )
        frames = np.array([lengths.sum() for lengths in gop_lengths], np.int64)
        if times is not None and [len(video) for video in times] != frames.tolist():
            raise ConfigError("times must have one FrameTimes per video, with all its frames")
        return cls(
            gop_start=_starts(np.concatenate(gop_lengths)),
            video_start=_starts(frames),
            shown_until=None if durations_seconds is None else _ends(durations_seconds, frames),
            times=times,
            names=names,
        )

    @property
    def num_frames(self) -> int:
        """Number of frames in all videos."""
        return int(self.gop_start[-1])

    @property
    def num_videos(self) -> int:
        """Number of videos."""
        return len(self.video_start) - 1

    @property
    def num_gops(self) -> int:
        """Number of GOPs in all videos."""
        return len(self.gop_start) - 1

    @cached_property
    def frames_per_video(self) -> NDArray[np.int64]:
        """int64 [videos]: frames of each video."""
        return np.diff(self.video_start)

    @cached_property
    def gop_lengths(self) -> NDArray[np.int64]:
        """int64 [GOPs]: frames of each GOP."""
        return np.diff(self.gop_start)

    def name(self, video: int) -> str:
        """Return the name of a video in messages."""
        return f"video {video}" if self.names is None else self.names[video]

    def timed(self) -> Sequence[FrameTimes]:
        """Return the display times of each video's frames.

        Raises:
            ConfigError: the population has none.
        """
        if self.times is None:
            raise ConfigError(
                "sampling by time needs the display times of frames; give Population.of times=, a "
                "FrameTimes for each video"
            )
        return self.times

    def shown_after(
        self, video: NDArray[np.int64], index: NDArray[np.int64], seconds: Seconds
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the indices of frames shown at times relative to a frame, int64 [n, T].

        And whether each time is outside the video, bool [n, T]; the index is then the first or last
        frame. Takes about 10 µs per video.

        Args:
            video: int64 [n]: video of each frame.
            index: int64 [n]: frame that times are relative to.
            seconds: T times; below 0: before the frame.
        """
        times = self.timed()
        shown = np.empty((len(video), len(seconds)), np.int64)
        is_outside = np.empty(shown.shape, np.bool_)
        for video_id in np.unique(video).tolist():
            rows, frame_times = video == video_id, times[video_id]
            ticks = frame_times.pts[index[rows]][:, None] + frame_times.ticks_after(seconds)
            shown[rows], is_outside[rows] = (
                frame_times.shown_at(ticks),
                frame_times.is_outside(ticks),
            )
        return shown, is_outside

    def video_of(self, frame_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the video of each frame."""
        return _bisect(self.video_start, frame_ids)

    def gop_of(self, frame_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the GOP id of each frame."""
        return _bisect(self.gop_start, frame_ids)

    def locate(self, frame_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the video of each frame, and its index in the video."""
        video = self.video_of(frame_ids)
        return video, frame_ids - self.video_start[video]

    def frame_ids(self, video: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame ids of frames `index` of `video`: the inverse of `locate`."""
        ids: NDArray[np.int64] = self.video_start[video] + index
        return ids


def _bisect(start: NDArray[np.int64], frame_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.searchsorted(start, frame_ids, "right"), np.int64) - 1


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _ends(
    durations: Sequence[NDArray[np.float64]], frames: NDArray[np.int64]
) -> NDArray[np.float64]:
    counts = [len(video) for video in durations]
    if counts != frames.tolist():
        raise ConfigError(
            "durations_seconds must have one array per video and one value per frame; the videos "
            f"have {frames.tolist()[:8]} frames, the arrays {counts[:8]} values"
        )
    flat = np.concatenate(durations)
    if not (np.isfinite(flat).all() and flat.min() >= 0 and flat.max() > 0):
        raise ConfigError(
            "durations_seconds must be finite, at least 0 and not all 0, got values from "
            f"{flat.min()} to {flat.max()}"
        )
    return np.cumsum(flat, dtype=np.float64)
