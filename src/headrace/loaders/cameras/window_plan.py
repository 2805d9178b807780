"""WindowPlan: which windows of a camera set there are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.cameras.aligned_clip import AlignedClip
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.video_set import VideoSet
from headrace.sampling.moment_windows import MISSING, RowsOf, at_deltas, history, repeated
from headrace.sampling.moments import Moments
from headrace.sampling.population import Population
from headrace.video.source import Source


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentRows:
    """The moments of all clips, one after the other. M moments, C cameras; 26 bytes a frame."""

    cameras: CameraSet
    videos: VideoSet
    """The files of all cameras: those of the first clip, then those of the second."""
    clip_start: NDArray[np.int64]
    """int64 [clips + 1]: the first moment of each clip; last, M."""
    frame: NDArray[np.int64]
    """int64 [M, C]: which frame of its file; `MISSING` where there is none."""
    frame_id: NDArray[np.int64]
    """int64 [M, C]: the same among the frames of all videos. Where there is none, a frame stands in
    that is decoded anyway, where it can: another camera's."""
    is_own: NDArray[np.bool_]
    """bool [M, C]: false where a frame is missing, or repeats another moment's."""
    seconds: NDArray[np.float64]
    """float64 [M, C]: when it was taken, on the common clock; NaN where there is none."""
    index: NDArray[np.int64]
    """int64 [M]: the moment's number in its clip."""
    moment_seconds: NDArray[np.float64]
    """float64 [M]: when it was."""

    @classmethod
    def of(cls, cameras: CameraSet) -> "MomentRows":
        """Return the moments of a set. Reads nothing."""
        clips = cameras.clips
        indexes = tuple(index for clip in clips for index in clip.indexes)
        videos = VideoSet(
            indexes=indexes,
            number=np.arange(len(indexes)),
            skipped=cameras.skipped,
            refused=tuple(Source.of(error.source) for error in cameras.skipped),
        )
        starts = videos.population.video_start[:-1].reshape(len(clips), -1)
        return cls(
            cameras=cameras,
            videos=videos,
            clip_start=np.cumsum([0, *map(len, clips)]),
            frame=np.concatenate([clip.frames for clip in clips]),
            frame_id=np.concatenate(
                [_frame_ids(clip, start) for clip, start in zip(clips, starts, strict=True)]
            ),
            is_own=np.concatenate([clip.is_own for clip in clips]),
            seconds=np.concatenate([_seconds(clip) for clip in clips]),
            index=np.concatenate([clip.moments for clip in clips]),
            moment_seconds=np.concatenate([clip.moment_seconds for clip in clips]),
        )

    @property
    def clip_names(self) -> tuple[str, ...]:
        """Of all clips, in their order."""
        return tuple(clip.clip.name for clip in self.cameras.clips)


def _frame_ids(clip: AlignedClip, start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64 [M, C] ids in the population; `start` int64 [C]: the first of each camera."""
    is_there = clip.frames != MISSING
    ids = np.where(is_there, clip.frames + start, MISSING)
    stand_in = ids[np.arange(len(ids)), is_there.argmax(axis=1)]
    stand_in = np.where(is_there.any(axis=1), stand_in, MISSING)
    return np.where(is_there, ids, np.maximum(repeated(stand_in), start[0])[:, None])


def _seconds(clip: AlignedClip) -> NDArray[np.float64]:
    columns = [
        np.where(frames != MISSING, times[frames.clip(0)], np.nan)
        for times, frames in zip(clip.seconds, clip.frames.T, strict=True)
    ]
    return np.stack(columns, axis=1)


@dataclass(frozen=True, kw_only=True)
class WindowShape:
    """Which moments belong to a window, seen from its key moment."""

    num_moments: int
    """T."""
    stride: int
    delta_seconds: tuple[float, ...] | None
    """In place of a stride: times of the T moments, counted from the key."""
    tolerance_ms: float
    skips: bool
    """Whether windows that reach beyond their clip are left out, in place of padded."""
    keys: Moments | None
    """Which of the moments there are windows for; None: all."""

    def keys_of(self, clip: AlignedClip) -> NDArray[np.int64]:
        """Return the key moments of a clip, as places among those that are delivered.

        Raises:
            ConfigError: the clip does not have them.
        """
        if self.keys is None:
            return np.arange(len(clip))
        if self.keys.clips is not None and clip.clip.name not in self.keys.clips:
            return np.arange(0)
        numbers = self.keys.of(clip.clip.name, clip.reference_seconds, may_lack=clip.dropped > 0)
        return np.flatnonzero(np.isin(clip.moments, numbers))

    def rows_of(self, keys: NDArray[np.int64], seconds: NDArray[np.float64]) -> RowsOf:
        """Return the moments of the windows of `keys`, places in a clip with times `seconds`."""
        if self.delta_seconds is None:
            return history(keys, self.num_moments, self.stride)
        return at_deltas(keys, seconds, self.delta_seconds, self.tolerance_ms / 1000)


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowPlan:
    """The windows of all clips: K of them, of T moments each."""

    table: MomentRows
    clip: NDArray[np.int64]
    """int64 [K], ascending: place of each window's clip in the camera set."""
    key_row: NDArray[np.int64]
    """int64 [K]: its key moment, as a row of the table."""
    rows: NDArray[np.int64]
    """int64 [K, T]: its moments."""
    is_pad: NDArray[np.bool_]
    """bool [K, T]: moments that stand in for others, which the clip does not have."""
    keys: Population
    """The key moments as if they were frames, and the clips that have any as if they were
    videos."""
    key_clips: NDArray[np.int64]
    """int64 [videos of `keys`]: places of those clips in the camera set."""

    @classmethod
    def of(cls, table: MomentRows, shape: WindowShape) -> "WindowPlan":
        """Return the windows of a shape.

        Raises:
            ConfigError: there is none, or keys are listed that are not there.
        """
        table.cameras.layout.check_clips("keys", shape.keys.clips if shape.keys else None)
        parts = []
        for clip, first in zip(table.cameras.clips, table.clip_start.tolist(), strict=False):
            keys = shape.keys_of(clip)
            rows, is_pad = shape.rows_of(keys, clip.moment_seconds)
            kept = ~is_pad.any(axis=1) if shape.skips else np.ones(len(keys), bool)
            parts.append((keys[kept] + first, rows[kept] + first, is_pad[kept]))
        counts = np.array([len(keys) for keys, _, _ in parts], np.int64)
        with_any = np.flatnonzero(counts)
        if not len(with_any):
            longest = int(np.diff(table.clip_start).max())
            raise ConfigError(
                f"no window of {shape.num_moments} moments fits into a clip; the longest has "
                f"{longest} moments; ask for fewer, a smaller stride, or boundary='pad'"
            )
        names = [str(table.cameras.clips[each].clip.folder) for each in with_any.tolist()]
        keys, rows, pads = (np.concatenate(each) for each in zip(*parts, strict=True))
        return cls(
            table=table,
            clip=np.repeat(np.arange(len(counts)), counts),
            key_row=keys,
            rows=rows,
            is_pad=pads,
            keys=Population.of([np.array([counts[each]]) for each in with_any], names=names),
            key_clips=with_any,
        )

    def __len__(self) -> int:
        return len(self.key_row)

    def name(self, window: int) -> str:
        """Return what the key moment of a window is called in an error."""
        clip = self.table.clip_names[self.clip[window]]
        return f"clip {clip}, moment {self.table.index[self.key_row[window]]}"

    def gop_lengths(self) -> NDArray[np.int64]:
        """Return how many frames of each GOP belong to windows, of those that have any."""
        ids = np.unique(self.table.frame_id[np.unique(self.rows)])
        return np.unique(self.table.videos.decoded_population.gop_of(ids), return_counts=True)[1]
