"""Result of a plain linear decode: digest and time of each frame, and FFmpeg's messages.

Does not import FFmpeg, because the compared libraries may load their own.
"""

import hashlib
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.equality import SIDE, Pictures
from headrace.cached_property import cached_property
from headrace.video.frame_format import Orientation

NO_PTS = int(np.iinfo(np.int64).min)
"""`pts` of frames without a time."""
UNKNOWN = -1
"""Ordinal of frames whose packet is unknown."""
_LARGEST_SIDE = 256
"""Max rows and columns that a thumbnail is computed from, to save time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Frames of one file, numbered from 0 in the order of a plain linear decode.

    A *complaint* is an error of FFmpeg during decoding: an error for a packet, a frame marked
    corrupt, or a log line at the level of an error. An *ordinal* is the index of a packet in the
    file, from 0.
    """

    own: NDArray[np.str_]
    """str [frames]: `digest` of each frame in its original size, upright."""
    small: NDArray[np.str_]
    """str [frames]: the same in the requested size; empty without a requested size, and for frames
    that could not be converted to an image."""
    thumbnails: Pictures
    """float16 [frames, 32, 32, 3]: upright thumbnails of the original; 0 where `small` is empty."""
    sizes: NDArray[np.int64]
    """int64 [frames, 2]: upright (height, width) of each frame."""
    pts: NDArray[np.int64]
    """int64 [frames]: time in ticks; `NO_PTS` if the decoder returns none."""
    ordinals: NDArray[np.int64]
    """int64 [frames]: packet of each frame, or `UNKNOWN`."""
    complaints: NDArray[np.int64]
    """int64, ascending: packets with a complaint."""
    keyframes: NDArray[np.int64]
    """int64, ascending: packets with the container's keyframe flag."""
    lost_pts: NDArray[np.int64]
    """int64, ascending: times of packets that have a complaint and no frame."""
    lines: tuple[str, ...]
    """FFmpeg's messages, without duplicates."""
    is_whole: bool
    """False if only the first frames of the file were decoded."""
    orientation: Orientation
    """Rotation and flips that make stored frames upright."""
    container: str
    codec: str
    size: tuple[int, int]
    """(height, width), as stored."""

    def __len__(self) -> int:
        return len(self.own)

    @property
    def has_one_size(self) -> bool:
        """Whether all frames have one size."""
        return len(np.unique(self.sizes, axis=0)) < 2

    @property
    def facts(self) -> dict[str, Any]:
        """Fields of the file's row."""
        names = ("container", "codec", "size", "is_whole", "lines", "has_one_size")
        known = {name: getattr(self, name) for name in names}
        return {**known, "frames": len(self), "complaints": len(self.complaints)}

    @cached_property
    def is_complained_of(self) -> NDArray[np.bool_]:
        """bool [frames]: whether a complaint affects the frame, so that refusing it is no fault.

        A complaint affects the frames from its packet up to the second keyframe after it, in
        presentation order. Up to there, leading frames of the first keyframe and frames of a
        gradual refresh may still depend on the damage.
        """
        reached = np.zeros(len(self), np.bool_)
        unknown = self.ordinals == UNKNOWN
        for complaint in np.unique(self.complaints).tolist():
            behind = self.keyframes[self.keyframes > complaint]
            is_before = np.ones(len(self), np.bool_)
            if len(behind) > 1:
                is_before = self.ordinals < behind[1]
                for shown in np.flatnonzero(self.ordinals == behind[1]).tolist():
                    is_before[:shown] = True
            reached |= (self.ordinals >= complaint) & is_before | unknown
        return reached

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """int64 [frames]: index of each frame, if lost frames are counted, too."""
        before = np.searchsorted(self.lost_pts, self.pts, "left")
        return np.arange(len(self)) + np.where(self.pts == NO_PTS, 0, before)

    def find(self, picture: str, near: int, *, is_small: bool) -> int | None:
        """Return the number of the frame with this digest nearest to `near`; None: no frame."""
        numbers = np.flatnonzero((self.small if is_small else self.own) == picture)
        return int(numbers[np.abs(numbers - near).argmin()]) if len(numbers) else None

    def save(self, path: Path) -> None:
        """Write a file for `load`."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez(path, **{**arrays, "orientation": np.array(astuple(self.orientation))})

    @classmethod
    def load(cls, path: Path) -> "Reference":
        """Read a file written by `save`."""
        with np.load(path) as stored:
            arrays: dict[str, Any] = dict(stored)
        simple = {name: arrays[name].tolist() for name in ("is_whole", "container", "codec")}
        pairs = {name: tuple(arrays[name].tolist()) for name in ("lines", "size")}
        orientation = Orientation(*arrays["orientation"].tolist())
        return cls(**{**arrays, **simple, **pairs, "orientation": orientation})


def digest(picture: NDArray[np.uint8]) -> str:
    """Return a digest over size and all bytes of an image."""
    hashed = hashlib.blake2b(repr(picture.shape).encode(), digest_size=16)
    hashed.update(np.ascontiguousarray(picture).data)
    return hashed.hexdigest()


def thumbnail(picture: NDArray[np.uint8]) -> NDArray[np.float16]:
    """Return float16 [32, 32, 3] of an image, uint8 [H, W, 3] of any size."""
    step = max(1, min(picture.shape[:2]) // _LARGEST_SIDE)
    means = picture[::step, ::step].astype(np.float32)
    for axis in (0, 1):
        length = means.shape[axis]
        edges = np.arange(SIDE + 1) * length // SIDE
        widths = np.maximum(1, np.diff(edges))
        shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
        means = np.add.reduceat(means, np.minimum(edges[:-1], length - 1), axis)
        means /= widths.reshape(shape).astype(np.float32)
    return means.astype(np.float16)
