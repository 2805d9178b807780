"""What a plain linear decode gave, as a value: each picture's hash, its time, and what FFmpeg says.

Imports no FFmpeg, so that a library with one of its own can be held against it.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.equality import SIDE, Pictures
from headrace.video.frame_format import Orientation

NO_PTS = int(np.iinfo(np.int64).min)
"""Stands for a time that a frame does not have."""
UNKNOWN = -1
"""Stands for the packet of a frame whose decoder does not tell it."""
_LARGEST_SIDE = 256
"""Rows and columns that a thumbnail is made of at most: more would only cost time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """The frames of one file, numbered from 0 as they came out of a plain linear decode.

    A *complaint* is what FFmpeg itself reports while it decodes: an error for a packet, a frame
    that it marks corrupt, or a line of its log at the level of an error. An *ordinal* is the place
    of a packet in the file, from 0.
    """

    own: NDArray[np.str_]
    """str [frames]: `digest` of each picture in its own size, upright."""
    small: NDArray[np.str_]
    """str [frames]: the same in the size that was asked for; empty where none was, as where FFmpeg
    gives no picture."""
    thumbnails: Pictures
    """float16 [frames, 32, 32, 3]: upright, in its own size shrunk; 0 where `small` is empty."""
    sizes: NDArray[np.int64]
    """int64 [frames, 2]: upright (height, width) of each frame."""
    pts: NDArray[np.int64]
    """int64 [frames]: ticks; `NO_PTS` where the decoder gives none."""
    ordinals: NDArray[np.int64]
    """int64 [frames]: the packet of each frame; `UNKNOWN` where it is lost on the way."""
    complaints: NDArray[np.int64]
    """int64, ascending: packets at which FFmpeg complained."""
    keyframes: NDArray[np.int64]
    """int64, ascending: packets that the container calls keyframes."""
    lost_pts: NDArray[np.int64]
    """int64, ascending: times of packets that gave a complaint and no frame."""
    lines: tuple[str, ...]
    """What FFmpeg said, each line once."""
    is_whole: bool
    """False where only the first frames of the file were decoded."""
    orientation: Orientation
    """How stored pictures were turned upright."""
    container: str
    codec: str
    size: tuple[int, int]
    """(height, width), as stored."""

    def __len__(self) -> int:
        return len(self.own)

    @property
    def has_one_size(self) -> bool:
        """Whether no frame differs from the others in size."""
        return len(np.unique(self.sizes, axis=0)) < 2

    @property
    def facts(self) -> dict[str, Any]:
        """Fields of the row of its file."""
        return {
            **{"container": self.container, "codec": self.codec, "size": self.size},
            **{"frames": len(self), "is_whole": self.is_whole, "lines": self.lines},
            **{"has_one_size": self.has_one_size, "complaints": len(self.complaints)},
        }

    @cached_property
    def is_complained_of(self) -> NDArray[np.bool_]:
        """bool [frames]: a complaint reaches the frame, so that leaving it out is no fault.

        It reaches from its packet up to the second keyframe behind it, as they are shown: pictures
        in front of the first may still lean on what was damaged, and so may a gradual refresh.
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
        """int64 [frames]: place of each frame where frames that were lost are counted too."""
        before = np.searchsorted(self.lost_pts, self.pts, "left")
        return np.arange(len(self)) + np.where(self.pts == NO_PTS, 0, before)

    def find(self, picture: str, near: int, *, is_small: bool) -> int | None:
        """Return the number of the frame with that digest, the one nearest to `near`."""
        numbers = np.flatnonzero((self.small if is_small else self.own) == picture)
        return int(numbers[np.abs(numbers - near).argmin()]) if len(numbers) else None

    def save(self, path: Path) -> None:
        """Write it for `load`."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez(path, **{**kept, "orientation": np.array(astuple(self.orientation))})

    @classmethod
    def load(cls, path: Path) -> "Reference":
        """Read what `save` wrote."""
        with np.load(path) as stored:
            arrays: dict[str, Any] = dict(stored)
        simple = {name: arrays[name].tolist() for name in ("is_whole", "container", "codec")}
        pairs = {name: tuple(arrays[name].tolist()) for name in ("lines", "size")}
        orientation = Orientation(*arrays["orientation"].tolist())
        return cls(**{**arrays, **simple, **pairs, "orientation": orientation})


def digest(picture: NDArray[np.uint8]) -> str:
    """Return what two pictures share only if they are equal, size and every byte."""
    code = hashlib.blake2b(repr(picture.shape).encode(), digest_size=16)
    code.update(np.ascontiguousarray(picture).data)
    return code.hexdigest()


def thumbnail(picture: NDArray[np.uint8]) -> NDArray[np.float16]:
    """Return float16 [32, 32, 3] of a picture, uint8 [H, W, 3] of any size."""
    step = max(1, min(picture.shape[:2]) // _LARGEST_SIDE)
    fewer = picture[::step, ::step].astype(np.float32)
    for axis in (0, 1):
        length = fewer.shape[axis]
        edges = np.arange(SIDE + 1) * length // SIDE
        widths = np.maximum(1, np.diff(edges))
        shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
        fewer = np.add.reduceat(fewer, np.minimum(edges[:-1], length - 1), axis)
        fewer /= widths.reshape(shape).astype(np.float32)
    return fewer.astype(np.float16)


def ascending(numbers: Iterable[int]) -> NDArray[np.int64]:
    """Return int64, sorted, none twice."""
    return np.array(sorted(set(numbers)), np.int64)
