"""CameraSet: the clips of a layout, opened far enough to know which frames belong together."""

import itertools
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import OpenIndex, scan_ahead
from headrace.errors import ConfigError, MediaError, OpenError
from headrace.loaders.cameras.aligned_clip import AlignedClip, align
from headrace.loaders.cameras.camera_alignment import (
    Alignment,
    OpenedClip,
    check_alignment,
    no_moment_left,
)
from headrace.loaders.cameras.layout_check import disagreement, unread
from headrace.loaders.video_set import raise_all, warn_skipped
from headrace.sampling.moments import Moments
from headrace.units import check_integers
from headrace.video.camera_layout import CameraClip, CameraLayout
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraSet:
    """Clips whose cameras were aligned. Holds no open file."""

    layout: CameraLayout
    """What there is, with the clips that deliver nothing."""
    clips: tuple[AlignedClip, ...]
    skipped: tuple[MediaError, ...]
    """Why the others cannot be read."""
    moments_dropped: int
    """For want of a frame of every camera, over all clips, also of those of which none is left."""

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
        """Open every camera of every clip and align them; a file seen before is not read.

        The first rank warns of clips that are left out.

        Args:
            layout: What there is.
            alignment: None means frames of the same index, all of which must be there.
            moments: Which of them are delivered; None means all.
            skip_bad: Leave out clips with a camera that cannot be opened, instead of raising. With
                on_missing="mask" the clip is kept, without that camera, unless it is the reference.
            index_store: Where indexes are kept; None means the user's cache folder.
            rank: This process among `ranks` that open the same files now, and share the work.
            ranks: Their number.

        Raises:
            ConfigError: the index file disagrees with the files, no clip is left, or moments are
                asked for that are not there.
            OpenError, ScanError: a camera cannot be read, and is not to be skipped; with
                on_missing="mask", one that has no file is missing, unless it is the reference.
            DecodeError: a camera has no frame for a moment, and that is an error.
        """
        alignment = alignment or Alignment()
        check_alignment(alignment, layout)
        index_store = index_store or IndexStore()
        open_one = scan_ahead(layout.sources, index_store, raises=False, rank=rank, ranks=ranks)
        clips, bad, dropped = list[AlignedClip](), list[MediaError](), 0
        unusable: list[MediaError] = []
        asked = _asked_for(layout, moments)
        for number, clip in asked:
            try:
                opened = _opened(number, clip, layout.cameras, alignment, skip_bad, open_one)
                found = align(opened, alignment, moments)
            except MediaError as error:
                (bad if skip_bad else unusable).append(error)
                continue
            dropped += found.dropped
            if len(found):
                clips.append(found)
            else:
                bad.append(no_moment_left(found.indexes[0], found.dropped))
        raise_all(unusable, f"{len(asked)} clips")
        if not clips:
            raise ConfigError(f"no clip of {len(bad)} has a frame to deliver; the first: {bad[0]}")
        if rank == 0:
            warn_skipped(bad, f"{len(asked)} clips")
        return cls(layout=layout, clips=tuple(clips), skipped=tuple(bad), moments_dropped=dropped)

    @property
    def cameras(self) -> tuple[str, ...]:
        """Their names, in the order of a batch."""
        return self.layout.cameras

    @property
    def lacking(self) -> tuple[Path, ...]:
        """Files of cameras that a clip does without; only where `on_missing` is `mask`."""
        return tuple(path for clip in self.clips for path in clip.lacking)

    @property
    def num_lost(self) -> int:
        """Clips that are left out, and cameras that others do without."""
        return len(self.skipped) + len(self.lacking)

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


def _asked_for(layout: CameraLayout, moments: object) -> list[tuple[int, CameraClip]]:
    """Return the clips of which moments are asked for, and their places.

    Raises:
        ConfigError: it is no choice of moments, or one of clips that are not there.
    """
    numbered = list(enumerate(layout.clips))
    if moments is None:
        return numbered
    if not isinstance(moments, Moments):
        raise ConfigError(f"moments must be of Moments, such as Moments.every(6), got {moments!r}")
    asked = moments.clips
    if asked is None:
        return numbered
    layout.check_clips("moments", asked)
    return [(number, clip) for number, clip in numbered if clip.name in asked]


def _opened(
    number: int,
    clip: CameraClip,
    cameras: tuple[str, ...],
    alignment: Alignment,
    skip_bad: bool,
    open_one: OpenIndex,
) -> OpenedClip:
    """Open each camera of a clip; those that may be masked need not be there, but one.

    Raises:
        ConfigError: the index file disagrees.
        MediaError: a camera cannot be read that must be.
    """
    indexes: list[StreamIndex | None] = []
    errors: list[MediaError] = []
    for camera in cameras:
        is_needed = camera == alignment.reference
        try:
            indexes.append(_open(clip, camera, open_one, is_needed=is_needed))
        except MediaError as error:
            may_lack = skip_bad or not clip.file(camera).exists()
            if is_needed or alignment.on_missing != "mask" or not may_lack:
                raise
            errors.append(error)
            indexes.append(None)
    if len(errors) == len(cameras):
        raise errors[0]
    found = {camera: each for camera, each in zip(cameras, indexes, strict=True) if each}
    if not errors:
        wrong = disagreement(clip, found, open_one)
        if wrong is not None:
            raise wrong
    return OpenedClip(number=number, clip=clip, cameras=cameras, indexes=tuple(indexes))


def _open(clip: CameraClip, camera: str, open_one: OpenIndex, *, is_needed: bool) -> StreamIndex:
    file = clip.file(camera)
    try:
        return open_one(clip.source(camera))
    except OpenError as error:
        if file.exists():
            raise
        raise OpenError(unread(file, error, is_needed=is_needed), source=str(file)) from error
