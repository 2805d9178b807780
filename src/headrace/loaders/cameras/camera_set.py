"""CameraSet: opened and aligned clips of a layout, and the problems with their files."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import OpenIndex, scan_ahead
from headrace.errors import ConfigError, DecodeError, MediaError, OpenError
from headrace.loaders.cameras.camera_alignment import (
    AlignedClip,
    Alignment,
    check_alignment,
)
from headrace.loaders.video_set import VideoSet, raise_all, warn_skipped
from headrace.sampling.moments import MISSING, Moments
from headrace.units import check_integers
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraSet:
    """Clips whose cameras are aligned. Holds no open file.

    `frame`, `is_own`, `seconds`, `index` and `moment_seconds` are the columns of one table: M
    moments of all clips, in order, and C cameras, at 26 bytes per frame. An additional last row,
    also row -1, is that of an empty slot: no frame, no time.
    """

    layout: CameraLayout
    """All clips, including those without a delivered moment."""
    clips: tuple[AlignedClip, ...]
    skipped: tuple[MediaError, ...]
    """One error per clip that is not in `clips`."""
    moments_dropped: int
    """Moments at which a camera has no frame, over all clips, including those without any moment
    left."""

    @classmethod
    def open(
        cls,
        layout: CameraLayout,
        alignment: Alignment | None = None,
        *,
        moments: Moments | None = None,
        skip_bad: bool = False,
        index_store: IndexStore | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> "CameraSet":
        """Open and align all cameras of all clips. A file scanned before is not read.

        The first rank warns of skipped clips.

        Args:
            layout: The clips.
            alignment: Assignment of frames to moments; None: by index, none missing.
            moments: Moments to deliver; None: all.
            skip_bad: Skip clips with a camera that cannot be opened, instead of raising. With
                on_missing="mask" the clip stays without that camera, unless it is the reference.
            index_store: Store of the indexes; None: the user's cache folder.
            rank: Rank of this process among `ranks` that share the work on the same files.
            ranks: Number of processes.

        Raises:
            ConfigError: the index file disagrees with the files, no clip is left, or `moments`
                names a clip or moment that does not exist.
            OpenError, ScanError: a camera cannot be read, and `skip_bad` is false. With
                on_missing="mask" a file may be missing, except the reference.
            DecodeError: a camera has no frame for a moment, and `on_missing` is `raise`.
        """
        alignment = alignment or Alignment()
        check_alignment(alignment, layout)
        index_store = index_store or IndexStore()
        open_one = scan_ahead(layout.sources, index_store, raises=False, rank=rank, ranks=ranks)
        clips, skipped, errors = list[AlignedClip](), list[MediaError](), list[MediaError]()
        dropped = 0
        chosen = _choose_clips(layout, moments)
        for number, clip in chosen:
            try:
                matched = _open_clip(number, clip, layout.cameras, alignment, skip_bad, open_one)
                aligned = matched.align(moments)
            except MediaError as error:
                (skipped if skip_bad else errors).append(error)
                continue
            dropped += aligned.dropped
            if len(aligned):
                clips.append(aligned)
            else:
                skipped.append(_no_moment_error(aligned))
        raise_all(errors, f"{len(chosen)} clips")
        if not clips:
            count = len(skipped)
            raise ConfigError(f"no clip of {count} has a frame to deliver; the first: {skipped[0]}")
        if rank == 0:
            warn_skipped(skipped, f"{len(skipped)} of {len(chosen)} clips")
        return cls(
            layout=layout, clips=tuple(clips), skipped=tuple(skipped), moments_dropped=dropped
        )

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the cameras, in the order of a batch."""
        return self.layout.cameras

    @cached_property
    def videos(self) -> VideoSet:
        """The files of all cameras, clip by clip."""
        indexes = tuple(index for clip in self.clips for index in clip.indexes)
        return VideoSet(
            indexes=indexes,
            number=np.arange(len(indexes)),
            skipped=self.skipped,
            refused=tuple(Source.of(error.source) for error in self.skipped),
        )

    @property
    def lacking(self) -> tuple[Path, ...]:
        """Files of masked cameras, over all clips; only with on_missing="mask"."""
        return tuple(path for clip in self.clips for path in clip.lacking)

    @property
    def num_lost(self) -> int:
        """Number of skipped clips and masked cameras."""
        return len(self.skipped) + len(self.lacking)

    @cached_property
    def clip_start(self) -> NDArray[np.int64]:
        """int64 [clips + 1]: row of each clip's first moment; the last entry is M."""
        return np.cumsum([0, *map(len, self.clips)])

    @cached_property
    def frame(self) -> NDArray[np.int64]:
        """int64 [M + 1, C]: frame of each camera in its file; `MISSING` where it has none."""
        return self._column([clip.frames for clip in self.clips], MISSING)

    @cached_property
    def is_own(self) -> NDArray[np.bool_]:
        """bool [M + 1, C]: false where a frame is missing, or repeats another moment's."""
        return self._column([clip.is_own for clip in self.clips], False)

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """float64 [M + 1, C]: capture time on the common clock; NaN where there is no frame."""
        return self._column([_capture_seconds(clip) for clip in self.clips], np.nan)

    @cached_property
    def index(self) -> NDArray[np.int64]:
        """int64 [M + 1]: number of the moment in its clip; -1 in the last row."""
        return self._column([clip.moments for clip in self.clips], -1)

    @cached_property
    def moment_seconds(self) -> NDArray[np.float64]:
        """float64 [M + 1]: time of the moment on the common clock; NaN in the last row."""
        return self._column([clip.moment_seconds for clip in self.clips], np.nan)

    @staticmethod
    def _column(parts: Sequence[NDArray[Any]], nothing: object) -> NDArray[Any]:
        """Concatenate one array per clip, and append the row of an empty slot."""
        return np.concatenate([*parts, np.full_like(parts[0][:1], nothing)])

    @cached_property
    def checksum(self) -> int:
        """CRC-32 of clips, cameras and frames."""
        clips = [(clip.number, clip.clip.name) for clip in self.clips]
        frames = b"".join(clip.frames.tobytes() for clip in self.clips)
        return zlib.crc32(frames, zlib.crc32(repr((self.cameras, clips)).encode()))

    @cached_property
    def sizes(self) -> frozenset[tuple[int, int]]:
        """Each upright (height, width) of the cameras."""
        return frozenset(index.info.upright_size for clip in self.clips for index in clip.indexes)

    def common_size(self) -> tuple[int, int]:
        """Return the upright (height, width) of all cameras.

        Raises:
            ConfigError: they differ.
        """
        if len(self.sizes) > 1:
            sizes = ", ".join(f"{height}x{width}" for height, width in sorted(self.sizes))
            raise ConfigError(
                f"frames of a batch must have one size, but cameras have {sizes} "
                "(height x width); give a size, or ragged='pad' or 'list'"
            )
        return next(iter(self.sizes))

    def sequences(self, split: int) -> NDArray[np.int64]:
        """Return int64 [sequences, 3]: (clip, first moment, end) of the `split` parts of each clip.

        Moments are counted from 0 in each clip.
        """
        check_integers(1, seq_split=split)
        parts = []
        for clip, aligned in enumerate(self.clips):
            edges = np.arange(split + 1) * len(aligned) // split
            parts += [(clip, start, end) for start, end in pairwise(edges) if start < end]
        return np.array(parts, np.int64)


def _capture_seconds(clip: AlignedClip) -> NDArray[np.float64]:
    columns = [
        np.where(frames != MISSING, times[frames.clip(0)], np.nan)
        for times, frames in zip(clip.seconds, clip.frames.T, strict=True)
    ]
    return np.stack(columns, axis=1)


def _no_moment_error(clip: AlignedClip) -> DecodeError:
    """Return the error of a clip without a moment to deliver."""
    source = clip.indexes[0].source
    if not clip.dropped:
        message = f"{source} has none of the chosen moments; check moments="
    else:
        message = (
            f"{source}: none of its {clip.dropped} moments has a frame of every camera; check the "
            "clocks, or raise tolerance_ms"
        )
    return DecodeError(message, source=str(source))


def _choose_clips(layout: CameraLayout, moments: object) -> list[tuple[int, CameraClip]]:
    """Return the clips that `moments` names, with their positions in the layout.

    Raises:
        ConfigError: the value is not Moments, or names a clip that the layout does not have.
    """
    if not isinstance(moments, Moments | None):
        raise ConfigError(f"moments must be Moments, such as Moments.every(6), got {moments!r}")
    names = None if moments is None else moments.clips
    layout.check_clips("moments", names)
    return [
        (number, clip)
        for number, clip in enumerate(layout.clips)
        if names is None or clip.name in names
    ]


def _open_clip(
    number: int,
    clip: CameraClip,
    cameras: tuple[str, ...],
    alignment: Alignment,
    skip_bad: bool,
    open_one: OpenIndex,
) -> AlignedClip:
    """Open the cameras of a clip. All but one may be missing if `on_missing` masks them.

    Raises:
        ConfigError: the index file disagrees with the files.
        MediaError: a camera cannot be read, and is not masked.
    """
    opened, errors = dict[str, StreamIndex](), list[MediaError]()
    for camera in cameras:
        is_needed = camera == alignment.reference
        try:
            opened[camera] = _open_camera(clip, camera, open_one, is_needed=is_needed)
        except MediaError as error:
            may_lack = skip_bad or not clip.file(camera).exists()
            if is_needed or alignment.on_missing != "mask" or not may_lack:
                raise
            errors.append(error)
    if not opened:
        raise errors[0]
    if not errors:
        for length_error in _length_errors(clip, opened, open_one):
            raise length_error
    return AlignedClip.match(number, clip, cameras, opened, alignment)


def _open_camera(
    clip: CameraClip, camera: str, open_one: OpenIndex, *, is_needed: bool
) -> StreamIndex:
    file = clip.file(camera)
    try:
        return open_one(clip.source(camera))
    except OpenError as error:
        if file.exists():
            raise
        message = _describe_unread(file, error, is_needed=is_needed)
        raise OpenError(message, source=str(file)) from error


def camera_problems(
    layout: CameraLayout,
    alignment: Alignment | None = None,
    *,
    index_store: IndexStore | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """Yield one line for each problem with the files of a layout, with its fix.

    Problems are: cameras that are missing or cannot be opened, cameras whose frames do not match
    the reference's, clips whose length differs from the index file, and folders without a readable
    camera. Decodes nothing; a file scanned before is not read.

    Args:
        layout: The expected clips and cameras.
        alignment: Assignment of frames to moments, without its `on_missing`. None: frames of the
            same index. Aligned by time, cameras may have different frame rates.
        index_store: Store of the indexes; None: the user's cache folder.
        on_progress: Called after each clip with the number of finished clips.

    Raises:
        ConfigError: `alignment` names a camera or reference that the layout does not have.
    """
    alignment = alignment or Alignment()
    check_alignment(alignment, layout)
    strict = replace(alignment, on_missing="raise")
    open_one = scan_ahead(layout.sources, index_store or IndexStore(), raises=False, holds=False)
    for number, clip in enumerate((*layout.clips, *layout.left_out)):
        yield from _clip_problems(number, clip, layout.cameras, strict, open_one)
        if on_progress is not None:
            on_progress(number + 1)


def _describe_unread(file: Path, error: MediaError, *, is_needed: bool) -> str:
    """Return a message about a camera that cannot be read, with its fix.

    Args:
        file: Its expected path.
        error: The reason.
        is_needed: Whether it is the reference, without which a clip has no moments.
    """
    policy = "on_error='mask', which leaves out the clip"
    if not file.exists():
        if not is_needed:
            policy = "on_missing='mask', which leaves its frames black"
        return f"{file} is missing; add it, or choose {policy}"
    camera_only = "" if is_needed else ", or only this camera with on_missing='mask' as well"
    return f"{error}; or choose {policy}{camera_only}"


def _length_errors(
    clip: CameraClip, opened: Mapping[str, StreamIndex], open_one: OpenIndex
) -> Iterator[ConfigError]:
    """Yield an error if no camera of a clip has the number of frames in the index file.

    Args:
        clip: The clip in the index file.
        opened: Camera name → its index, for the cameras that are read.
        open_one: Opens the other cameras, one of which the index file may have counted.
    """
    if any(len(index) == clip.num_frames for index in opened.values()):
        return
    for camera in sorted(clip.existing_cameras() - opened.keys()):
        with suppress(MediaError):  # not one of the cameras to read
            if len(open_one(clip.source(camera))) == clip.num_frames:
                return
    first = next(iter(opened.values()))
    yield ConfigError(
        f"the index file says {clip.num_frames} frames, {first.source} has {len(first)}; write it "
        f"anew: headrace index --layout cameras {clip.video_dir} --out FILE"
    )


def _clip_problems(
    number: int,
    clip: CameraClip,
    cameras: tuple[str, ...],
    alignment: Alignment,
    open_one: OpenIndex,
) -> Iterator[str]:
    opened: dict[str, StreamIndex] = {}
    for camera in cameras:
        try:
            opened[camera] = open_one(clip.source(camera))
        except MediaError as error:
            is_needed = camera == alignment.reference
            yield _describe_unread(clip.file(camera), error, is_needed=is_needed)
    if not opened:
        if clip.num_frames:
            yield f"{clip.folder}: none of its cameras can be read; take it out of the index file"
        else:
            yield f"{clip.folder} is not in the index: none of its cameras can be read"
        return
    if len(opened) == len(cameras):
        yield from map(str, _length_errors(clip, opened, open_one))
    if alignment.reference not in cameras or alignment.reference in opened:
        matched = AlignedClip.match(number, clip, cameras, opened, alignment)
        yield from map(str, matched.errors())
