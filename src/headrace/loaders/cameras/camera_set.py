"""CameraSet: opened and aligned clips of a layout, with one table of all their moments."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import OpenIndex, scan_ahead
from headrace.errors import ConfigError, DecodeError, MediaError, OpenError
from headrace.loaders.cameras.aligned_clip import AlignedClip, MatchedClip
from headrace.loaders.cameras.camera_alignment import Alignment, check_alignment
from headrace.loaders.cameras.layout_check import check_length, describe_unread
from headrace.loaders.video_set import VideoSet, raise_all, warn_skipped
from headrace.sampling.moments import MISSING, Moments
from headrace.sampling.slots import EMPTY, SlotPlan
from headrace.units import check_integers
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class SlotCell:
    """Content of one slot of a batch: a moment of a clip, or nothing."""

    slot: int
    """Slot number over all ranks."""
    clip: int
    """Position in `CameraSet.clips`; `EMPTY` for an empty slot."""
    row: int
    """Row in the set's table of moments; `EMPTY` for an empty slot."""
    is_first: bool
    """Whether a sequence starts here."""
    epoch: int = 0
    """Epoch whose order the sequence belongs to; augmentation is drawn from it."""
    seed: int = 0
    """Seed of the sampler; augmentation is drawn from it."""


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
            warn_skipped(skipped, f"{len(chosen)} clips")
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

    def cell_at(
        self,
        plan: SlotPlan,
        sequences: NDArray[np.int64],
        slot: int,
        step: int,
        *,
        seed: int,
    ) -> SlotCell:
        """Return the content of a slot in a step; `sequences` are what `plan` numbers."""
        sequence, offset = plan.at(slot, step)
        if sequence < 0:
            return SlotCell(slot=slot, clip=EMPTY, row=EMPTY, is_first=False)
        clip, first, _ = sequences[sequence].tolist()
        return SlotCell(
            slot=slot,
            clip=clip,
            row=int(self.clip_start[clip]) + first + offset,
            is_first=offset == 0,
            epoch=plan.epoch_at(slot, step),
            seed=seed,
        )


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
) -> MatchedClip:
    """Open the cameras of a clip. All but one may be missing if `on_missing` masks them.

    Raises:
        ConfigError: the index file disagrees with the files.
        MediaError: a camera cannot be read, and is not masked.
    """
    indexes: list[StreamIndex | None] = []
    errors: list[MediaError] = []
    for camera in cameras:
        is_needed = camera == alignment.reference
        try:
            indexes.append(_open_camera(clip, camera, open_one, is_needed=is_needed))
        except MediaError as error:
            may_lack = skip_bad or not clip.file(camera).exists()
            if is_needed or alignment.on_missing != "mask" or not may_lack:
                raise
            errors.append(error)
            indexes.append(None)
    if len(errors) == len(cameras):
        raise errors[0]
    if not errors:
        opened = {name: index for name, index in zip(cameras, indexes, strict=True) if index}
        length_error = check_length(clip, opened, open_one)
        if length_error is not None:
            raise length_error
    return MatchedClip.match(number, clip, cameras, indexes, alignment)


def _open_camera(
    clip: CameraClip, camera: str, open_one: OpenIndex, *, is_needed: bool
) -> StreamIndex:
    file = clip.file(camera)
    try:
        return open_one(clip.source(camera))
    except OpenError as error:
        if file.exists():
            raise
        message = describe_unread(file, error, is_needed=is_needed)
        raise OpenError(message, source=str(file)) from error
