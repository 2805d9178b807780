"""CameraSet: the clips of a layout, opened far enough to know which frames belong together."""

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.errors import ConfigError, MediaError, OpenError
from headrace.sampling.alignment import (
    MISSING,
    OnMissing,
    Sync,
    nearest,
    previous,
    repeated,
    same_index,
)
from headrace.sizes import check_integers
from headrace.training.cameras.mismatch import mismatch, no_moment_left
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.source import Source
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
    """Of each camera; that of the first stands in for one that is not there."""
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
    lacking: tuple[Path, ...]
    """Files of cameras that are not there, or cannot be opened: no moment has a frame of them."""

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
            skip_bad: Leave out clips with a camera that cannot be opened, instead of raising. With
                on_missing="mask" the clip is kept, without that camera, unless it is the first.
            store: Where indexes are kept; None means the user's cache folder.

        Raises:
            ConfigError: the index file disagrees with the files, or no clip is left.
            OpenError, ScanError: a camera cannot be read, and is not to be skipped; with
                on_missing="mask", one that has no file is missing, unless it is the first.
            DecodeError: a camera has no frame for a moment, and that is an error.
        """
        alignment = alignment or Alignment()
        _check_alignment(alignment, layout)
        store = store or IndexStore()
        clips: list[AlignedClip] = []
        bad: list[MediaError] = []
        for number, clip in enumerate(layout.clips):
            try:
                indexes, lacking = _opened(clip, layout.cameras, alignment, skip_bad, store)
                found = _aligned(number, clip, layout.cameras, alignment, indexes, lacking)
            except MediaError as error:
                if not skip_bad:
                    raise
                bad.append(error)
                continue
            if len(found):
                clips.append(found)
            else:
                bad.append(no_moment_left(found.indexes[0], found.dropped))
        if not clips:
            raise ConfigError(f"no clip of {len(bad)} has a frame to deliver; the first: {bad[0]}")
        return cls(cameras=layout.cameras, clips=tuple(clips), left_out=tuple(bad))

    @property
    def lacking(self) -> tuple[Path, ...]:
        """Files of cameras that a clip does without; only where `on_missing` is `mask`."""
        return tuple(path for clip in self.clips for path in clip.lacking)

    @property
    def num_lost(self) -> int:
        """Clips that are left out, and cameras that others do without."""
        return len(self.left_out) + len(self.lacking)

    @cached_property
    def checksum(self) -> int:
        """Of which frames of which clips there are to deliver."""
        clips = [(clip.number, clip.clip.name) for clip in self.clips]
        frames = b"".join(clip.frames.tobytes() for clip in self.clips)
        return zlib.crc32(frames, zlib.crc32(repr((self.cameras, clips)).encode()))

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
        check_integers(1, seq_split=split)
        parts = []
        for place, clip in enumerate(self.clips):
            edges = np.arange(split + 1) * len(clip) // split
            parts += [(place, a, b) for a, b in itertools.pairwise(edges) if a < b]
        return np.array(parts, np.int64)


def camera_problems(
    layout: CameraLayout,
    alignment: Alignment | None = None,
    *,
    store: IndexStore | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """Yield, a line for each, what is wrong with the files of a layout, and what to do about it.

    Cameras that are missing or cannot be opened; frames that do not fit those of the first camera;
    clips of another length than the index file says; folders no camera of which can be read.
    Decodes nothing; a file seen before is not read.

    Args:
        layout: What should be there.
        alignment: What fits, whatever its `on_missing`; None means frames of the same index. By
            time, cameras may have frame rates of their own.
        store: Where indexes are kept; None means the user's cache folder.
        on_progress: Called after each clip with how many are done.

    Raises:
        ConfigError: a clock is set for a camera that the layout does not name.
    """
    alignment = alignment or Alignment()
    _check_alignment(alignment, layout)
    store = store or IndexStore()
    for number, clip in enumerate((*layout.clips, *layout.left_out)):
        yield from _problems(clip, layout.cameras, alignment, store)
        if on_progress is not None:
            on_progress(number + 1)


def _problems(
    clip: CameraClip, cameras: tuple[str, ...], alignment: Alignment, store: IndexStore
) -> Iterator[str]:
    found: dict[str, StreamIndex] = {}
    for camera in cameras:
        try:
            found[camera] = open_index(clip.source(camera), store)
        except MediaError as error:
            yield _unread(clip.file(camera), error, is_first=camera == cameras[0])
    if not found:
        if clip.num_frames:
            yield f"{clip.folder}: none of its cameras can be read; take it out of the index file"
        else:
            yield f"{clip.folder} is not in the index: none of its cameras can be read"
        return
    # Where the first camera cannot be read, the next one counts the frames, as in `of_folders`.
    (name, first), *others = found.items()
    if len(first) != clip.num_frames:
        yield str(_disagrees(clip, first))
    moments = _seconds(name, first, alignment)
    for camera, index in others:
        seconds = moments, _seconds(camera, index, alignment)
        frames = _frames((first, index), seconds, alignment)[:, 1]
        why = mismatch((first, index), frames, seconds, alignment.sync, alignment.tolerance_ms)
        if why is not None:
            yield str(why)


def _unread(file: Path, error: MediaError, *, is_first: bool) -> str:
    """Return what is to be done about a camera that cannot be read; `error` says why."""
    policy = "on_error='mask', which leaves out the clip"
    if not file.exists():
        if not is_first:
            policy = "on_missing='mask', which leaves its pictures black"
        return f"{file} is missing; add it, or choose {policy}"
    rest = "" if is_first else ", or only this camera with on_missing='mask' as well"
    return f"{error}; or choose {policy}{rest}"


def _check_alignment(alignment: object, layout: CameraLayout) -> None:
    if not isinstance(alignment, Alignment):
        raise ConfigError(
            f"alignment must be an Alignment, such as Alignment(sync='nearest'), got {alignment!r}"
        )
    unknown = set(alignment.clocks or ()) - set(layout.cameras)
    if unknown:
        raise ConfigError(
            f"there is no camera {', '.join(sorted(unknown))} to set a clock for; there is "
            f"{', '.join(layout.cameras)}"
        )


def _disagrees(clip: CameraClip, first: StreamIndex) -> ConfigError:
    return ConfigError(
        f"the index file says {clip.num_frames} frames, {first.source} has {len(first)}; write it "
        f"anew: headrace index --layout cameras {clip.video_dir} --out FILE"
    )


def _opened(
    clip: CameraClip,
    cameras: tuple[str, ...],
    alignment: Alignment,
    skip_bad: bool,
    store: IndexStore,
) -> tuple[tuple[StreamIndex, ...], tuple[int, ...]]:
    """Return the index of each camera, and the places of those that the first stands in for."""
    indexes = [_open(clip.source(cameras[0]), store, is_first=True)]
    lacking: list[int] = []
    for place, camera in enumerate(cameras[1:], 1):
        try:
            indexes.append(_open(clip.source(camera), store, is_first=False))
        except MediaError:
            may_lack = skip_bad or not clip.file(camera).exists()
            if alignment.on_missing != "mask" or not may_lack:
                raise
            indexes.append(indexes[0])
            lacking.append(place)
    if len(indexes[0]) != clip.num_frames:
        raise _disagrees(clip, indexes[0])
    return tuple(indexes), tuple(lacking)


def _open(source: Source, store: IndexStore, *, is_first: bool) -> StreamIndex:
    file = source.path
    try:
        return open_index(source, store)
    except OpenError as error:
        if file.exists():
            raise
        raise OpenError(_unread(file, error, is_first=is_first), source=str(file)) from error


def _aligned(
    number: int,
    clip: CameraClip,
    cameras: tuple[str, ...],
    alignment: Alignment,
    indexes: tuple[StreamIndex, ...],
    lacking: tuple[int, ...],
) -> AlignedClip:
    seconds = tuple(
        _seconds(camera, index, alignment) for camera, index in zip(cameras, indexes, strict=True)
    )
    frames = _frames(indexes, seconds, alignment)
    frames[:, list(lacking)] = MISSING
    if alignment.on_missing == "raise":
        for other in range(1, len(indexes)):
            error = mismatch(
                (indexes[0], indexes[other]),
                frames[:, other],
                (seconds[0], seconds[other]),
                alignment.sync,
                alignment.tolerance_ms,
            )
            if error is not None:
                raise error
    is_there = frames != MISSING
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
        lacking=tuple(clip.file(cameras[place]) for place in lacking),
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


def _seconds(camera: str, index: StreamIndex, alignment: Alignment) -> NDArray[np.float64]:
    """Return when each frame of a camera was taken, on the common clock."""
    clock = (alignment.clocks or {}).get(camera, CameraClock())
    seconds = index.seconds_of(np.arange(len(index)))
    return clock.offset_seconds + clock.rate * seconds
