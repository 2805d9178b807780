"""CameraSet: the clips of a layout, opened far enough to know which frames belong together."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.errors import ConfigError, DecodeError, MediaError
from headrace.sampling.alignment import (
    MISSING,
    OnMissing,
    Sync,
    nearest,
    previous,
    repeated,
    same_index,
)
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class CameraClock:
    """How a camera's own time reads on the common clock: `offset_seconds + rate * time`."""

    offset_seconds: float = 0.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.offset_seconds) and 0 < self.rate < math.inf):
            raise ConfigError(f"a clock needs a finite offset and a rate above 0, got {self}")


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """What belongs together, and what happens where a camera has nothing."""

    sync: Sync = "index"
    tolerance_ms: float = 50.0
    """How far a frame may be from its moment; `index` does not look at times."""
    on_missing: OnMissing = "raise"
    clocks: Mapping[str, CameraClock] | None = None
    """For each camera whose times need it; the others are on the common clock."""

    def __post_init__(self) -> None:
        for name, kind in (("sync", Sync), ("on_missing", OnMissing)):
            choice, choices = getattr(self, name), get_args(kind)
            if choice not in choices:
                raise ConfigError(f"{name} must be one of {', '.join(choices)}, got {choice!r}")
        if not self.tolerance_ms >= 0:
            raise ConfigError(f"tolerance_ms must be >= 0, got {self.tolerance_ms}")


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedClip:
    """One clip: its cameras' indexes, and a row of frames for each moment."""

    number: int
    """Its place in the layout."""
    clip: CameraClip
    indexes: tuple[StreamIndex, ...]
    """Of each camera."""
    moments: NDArray[np.int64]
    """int64 [M]: frames of the first camera, ascending."""
    frames: NDArray[np.int64]
    """int64 [M, cameras]: the frame of each camera; `MISSING` where there is none."""
    is_own: NDArray[np.bool_]
    """bool [M, cameras]: false where a frame is missing, or repeats another moment's."""
    seconds: tuple[NDArray[np.float64], ...]
    """For each camera: when each of its frames was taken, on the common clock."""
    dropped: int
    """Moments that were left out."""
    surplus: int
    """Frames that other cameras have behind the end of the first, where `sync` is `index`."""

    def __len__(self) -> int:
        return len(self.moments)


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraSet:
    """Clips whose cameras were aligned. Holds no open file."""

    cameras: tuple[str, ...]
    clips: tuple[AlignedClip, ...]
    left_out: tuple[MediaError, ...]
    """Why the others cannot be read."""

    @classmethod
    def open(
        cls,
        layout: CameraLayout,
        alignment: Alignment | None = None,
        *,
        skip_bad: bool = False,
        store: IndexStore | None = None,
    ) -> "CameraSet":
        """Open every camera of every clip and align them; a file seen before is not read.

        Args:
            layout: What there is.
            alignment: None means frames of the same index, all of which must be there.
            skip_bad: Leave out clips with a camera that cannot be opened, instead of raising.
            store: Where indexes are kept; None means the user's cache folder.

        Raises:
            ConfigError: the index file disagrees with the files, or no clip is left.
            OpenError, ScanError: a camera cannot be read, and is not to be skipped.
            DecodeError: a camera has no frame for a moment, and that is an error.
        """
        alignment = alignment or Alignment()
        unknown = set(alignment.clocks or ()) - set(layout.cameras)
        if unknown:
            raise ConfigError(
                f"there is no camera {', '.join(sorted(unknown))} to set a clock for; there is "
                f"{', '.join(layout.cameras)}"
            )
        store = store or IndexStore()
        clips: list[AlignedClip] = []
        bad: list[MediaError] = []
        for number, clip in enumerate(layout.clips):
            try:
                found = _aligned(number, clip, layout.cameras, alignment, store)
            except MediaError as error:
                if not skip_bad:
                    raise
                bad.append(error)
                continue
            if len(found):
                clips.append(found)
            else:
                bad.append(_emptied(found))
        if not clips:
            raise ConfigError(f"no clip of {len(bad)} has a frame to deliver; the first: {bad[0]}")
        return cls(cameras=layout.cameras, clips=tuple(clips), left_out=tuple(bad))

    @cached_property
    def sizes(self) -> frozenset[tuple[int, int]]:
        """Each (height, width) that a camera has."""
        return frozenset(index.info.upright_size for clip in self.clips for index in clip.indexes)

    def common_size(self) -> tuple[int, int]:
        """Return the (height, width) that all cameras have.

        Raises:
            ConfigError: they differ.
        """
        if len(self.sizes) > 1:
            found = ", ".join(f"{height}x{width}" for height, width in sorted(self.sizes))
            raise ConfigError(
                f"frames of one size are needed for one tensor, cameras have {found} "
                "(height x width); give a size, or ragged='pad' or 'list'"
            )
        return next(iter(self.sizes))

    def sequences(self, split: int) -> NDArray[np.int64]:
        """Return int64 [sequences, 3]: (clip, first moment, end) of each clip's `split` parts."""
        if split < 1:
            raise ConfigError(f"seq_split must be >= 1, got {split}")
        parts = []
        for place, clip in enumerate(self.clips):
            edges = np.arange(split + 1) * len(clip) // split
            parts += [(place, a, b) for a, b in itertools.pairwise(edges) if a < b]
        return np.array(parts, np.int64)


def problems_of(clip: CameraClip, cameras: Iterable[str], store: IndexStore) -> Iterator[str]:
    """Yield what is wrong with a clip: cameras that cannot be read, or have other lengths."""
    for camera in cameras:
        try:
            length = len(open_index(clip.file(camera), store))
        except MediaError as error:
            yield str(error)
            continue
        if length != clip.num_frames:
            yield (
                f"{clip.file(camera)} has {length} frames, its clip {clip.num_frames} "
                "by the index file, which counts the first camera"
            )


def _aligned(
    number: int,
    clip: CameraClip,
    cameras: tuple[str, ...],
    alignment: Alignment,
    store: IndexStore,
) -> AlignedClip:
    indexes = tuple(open_index(clip.file(camera), store) for camera in cameras)
    if len(indexes[0]) != clip.num_frames:
        raise ConfigError(
            f"the index file says {clip.num_frames} frames, {indexes[0].source} has "
            f"{len(indexes[0])}; write it anew with `headrace index --layout cameras`"
        )
    clocks = alignment.clocks or {}
    seconds = tuple(
        _on_common_clock(index, clocks.get(camera, CameraClock()))
        for camera, index in zip(cameras, indexes, strict=True)
    )
    frames = _frames(indexes, seconds, alignment)
    is_there = frames != MISSING
    longest = max(indexes, key=len) if alignment.sync == "index" else indexes[0]
    if alignment.on_missing == "raise":
        if not is_there.all():
            raise _missing(frames, indexes, seconds, alignment)
        if len(longest) > len(frames):
            raise _ends_early(indexes[0], longest)
    moments = np.arange(len(frames))
    if alignment.on_missing == "drop":
        whole = is_there.all(axis=1)
        frames, moments, is_there = frames[whole], moments[whole], is_there[whole]
    elif alignment.on_missing == "repeat":
        frames = np.stack([repeated(each) for each in frames.T], axis=1)
    return AlignedClip(
        number=number,
        clip=clip,
        indexes=indexes,
        moments=moments,
        frames=frames,
        is_own=is_there,
        seconds=seconds,
        dropped=clip.num_frames - len(frames),
        surplus=sum(max(0, len(index) - clip.num_frames) for index in indexes)
        if alignment.sync == "index"
        else 0,
    )


def _emptied(clip: AlignedClip) -> DecodeError:
    source = str(clip.indexes[0].source)
    return DecodeError(
        f"{source}: none of its {clip.dropped} moments has a frame of every camera; look at the "
        "clocks, or raise the tolerance",
        source=source,
    )


def _ends_early(first: StreamIndex, longest: StreamIndex) -> DecodeError:
    return DecodeError(
        f"{first.source} ends after {len(first)} frames, {longest.source} has {len(longest)}; "
        "choose on_missing='drop', 'mask' or 'repeat' to read as many as the first camera has",
        source=str(first.source),
        pts=int(first.pts[-1]),
    )


def _frames(
    indexes: tuple[StreamIndex, ...],
    seconds: tuple[NDArray[np.float64], ...],
    alignment: Alignment,
) -> NDArray[np.int64]:
    """Return int64 [moments, cameras]: the frame that belongs to each frame of the first camera."""
    if alignment.sync == "index":
        length = len(indexes[0])
        return np.stack([same_index(length, len(index)) for index in indexes], axis=1)
    match = partial(
        nearest if alignment.sync == "nearest" else previous,
        seconds[0],
        tolerance=alignment.tolerance_ms / 1000,
    )
    own = np.arange(len(seconds[0]))
    return np.stack([own, *(match(times) for times in seconds[1:])], axis=1)


def _on_common_clock(index: StreamIndex, clock: CameraClock) -> NDArray[np.float64]:
    seconds = index.seconds_of(np.arange(len(index)))
    return clock.offset_seconds + clock.rate * seconds


def _missing(
    frames: NDArray[np.int64],
    indexes: tuple[StreamIndex, ...],
    seconds: tuple[NDArray[np.float64], ...],
    alignment: Alignment,
) -> DecodeError:
    moment, camera = (int(each[0]) for each in np.nonzero(frames == MISSING))
    source = str(indexes[camera].source)
    count = int((frames[:, camera] == MISSING).sum())
    if alignment.sync == "index":
        found = f"it has {len(indexes[camera])} frames, the first camera {len(frames)}"
    else:
        gap = np.abs(seconds[camera] - seconds[0][moment]).min() * 1000
        found = f"its nearest frame is {gap:.1f} ms away, {alignment.tolerance_ms:g} are tolerated"
    return DecodeError(
        f"{source} has no frame for {count} of {len(frames)} moments, the first is frame {moment} "
        f"of the first camera: {found}; choose on_missing='drop', 'mask' or 'repeat'",
        source=source,
        pts=int(indexes[0].pts[moment]),
        missing=[moment],
    )
