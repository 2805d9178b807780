"""WindowPlan: all windows of a camera set, as rows of its moments."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.cameras.aligned_clip import AlignedClip
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.window_options import CameraWindowOptions
from headrace.loaders.video_set import VideoSet
from headrace.sampling.moment_windows import MISSING, RowsOf, at_deltas, history, repeated
from headrace.sampling.population import Population
from headrace.video.source import Source


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowPlan:
    """The windows of all clips: K windows of T moments, M moments, C cameras."""

    cameras: CameraSet
    videos: VideoSet
    """Files of all cameras, clip by clip."""
    frame_id: NDArray[np.int64]
    """int64 [M, C]: frame of each camera among the frames of `videos`. A missing one has the id of
    a frame that is decoded anyway, if any: that of another camera."""
    clip: NDArray[np.int64]
    """int64 [K], ascending: position of each window's clip in the camera set."""
    key_row: NDArray[np.int64]
    """int64 [K]: key moment, as a row of the set's moments."""
    rows: NDArray[np.int64]
    """int64 [K, T]: the moments of each window."""
    is_pad: NDArray[np.bool_]
    """bool [K, T]: moments that replace one that the clip does not have."""
    keys: Population
    """The key moments as frames, and the clips that have any as videos."""
    key_clips: NDArray[np.int64]
    """int64 [videos of `keys`]: positions of their clips in the camera set."""

    @classmethod
    def of(cls, cameras: CameraSet, options: CameraWindowOptions) -> "WindowPlan":
        """Return the windows of a set. Reads nothing.

        Raises:
            ConfigError: there is no window, or `keys` names a clip or moment that does not exist.
        """
        cameras.layout.check_clips("keys", options.keys.clips if options.keys else None)
        parts = []
        for clip, first in zip(cameras.clips, cameras.clip_start.tolist(), strict=False):
            keys = _key_moments(clip, options)
            rows, is_pad = _window_rows(clip, keys, options)
            is_kept = ~is_pad.any(axis=1) | (options.boundary == "pad")
            parts.append((keys[is_kept] + first, rows[is_kept] + first, is_pad[is_kept]))
        counts = np.array([len(keys) for keys, _, _ in parts], np.int64)
        key_clips = np.flatnonzero(counts)
        if not len(key_clips):
            raise ConfigError(
                f"no window of {parts[0][1].shape[1]} moments fits into a clip; the longest has "
                f"{max(map(len, cameras.clips))} moments; ask for fewer, a smaller stride, or "
                "boundary='pad'"
            )
        names = [str(cameras.clips[clip].clip.folder) for clip in key_clips.tolist()]
        keys, rows, is_pad = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        videos = _videos_of(cameras)
        return cls(
            cameras=cameras,
            videos=videos,
            frame_id=_frame_ids(cameras, videos),
            clip=np.repeat(np.arange(len(counts)), counts),
            key_row=keys,
            rows=rows,
            is_pad=is_pad,
            keys=Population.of([counts[[clip]] for clip in key_clips], names=names),
            key_clips=key_clips,
        )

    def __len__(self) -> int:
        return len(self.key_row)

    def name(self, window: int) -> str:
        """Return the name of a window's key moment in messages."""
        clip = self.cameras.clips[self.clip[window]].clip.name
        return f"clip {clip}, moment {self.cameras.index[self.key_row[window]]}"

    def gop_lengths(self) -> NDArray[np.int64]:
        """Return int64 [GOPs with a frame in a window]: the number of these frames in each."""
        ids = np.unique(self.frame_id[np.unique(self.rows)])
        return np.unique(self.videos.decoded_population.gop_of(ids), return_counts=True)[1]


def _videos_of(cameras: CameraSet) -> VideoSet:
    indexes = tuple(index for clip in cameras.clips for index in clip.indexes)
    return VideoSet(
        indexes=indexes,
        number=np.arange(len(indexes)),
        skipped=cameras.skipped,
        refused=tuple(Source.of(error.source) for error in cameras.skipped),
    )


def _frame_ids(cameras: CameraSet, videos: VideoSet) -> NDArray[np.int64]:
    """Return `WindowPlan.frame_id`."""
    starts = videos.population.video_start[:-1].reshape(len(cameras.clips), -1)
    parts = []
    for clip, start in zip(cameras.clips, starts, strict=True):
        is_there = clip.frames != MISSING
        ids = np.where(is_there, clip.frames + start, MISSING)
        stand_in = ids[np.arange(len(ids)), is_there.argmax(axis=1)]
        stand_in = np.where(is_there.any(axis=1), stand_in, MISSING)
        parts.append(np.where(is_there, ids, np.maximum(repeated(stand_in), start[0])[:, None]))
    return np.concatenate(parts)


def _key_moments(clip: AlignedClip, options: CameraWindowOptions) -> NDArray[np.int64]:
    """Return the key moments of a clip, as positions among its delivered moments.

    Raises:
        ConfigError: the clip does not have them.
    """
    keys = options.keys
    if keys is None:
        return np.arange(len(clip))
    if keys.clips is not None and clip.clip.name not in keys.clips:
        return np.arange(0)
    numbers = keys.of(clip.clip.name, clip.reference_seconds, may_lack=clip.dropped > 0)
    return np.flatnonzero(np.isin(clip.moments, numbers))


def _window_rows(
    clip: AlignedClip, keys: NDArray[np.int64], options: CameraWindowOptions
) -> RowsOf:
    """Return the moments of the windows of `keys`, as positions in the clip."""
    if options.delta_seconds is None:
        return history(keys, options.window_moments, options.moment_stride)
    tolerance = options.tolerance_ms / 1000
    return at_deltas(keys, clip.moment_seconds, options.delta_seconds, tolerance)
