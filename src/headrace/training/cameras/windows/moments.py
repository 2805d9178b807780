"""MomentRows: every moment of a camera set in a row, and the videos its frames are of."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.alignment import MISSING, repeated
from headrace.training.cameras.aligned import AlignedClip
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.video_set import VideoSet
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
            left_out=cameras.left_out,
            refused=tuple(Source.of(error.source) for error in cameras.left_out),
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
