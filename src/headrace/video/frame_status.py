"""What plain decodes found out about frames, where there was doubt: kept with the index.

A *plain decode* begins at a certain entry, the start at the latest, with FFmpeg as it ships. What
it gives without reporting damage is right by definition, and comes out by every way. What it
reports, and what leans on that, is damaged by every way.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

_UNKNOWN, _GOOD, _DAMAGED = range(3)
VERDICT = np.dtype([("state", "u1"), ("digest", "<u4")])
"""Of one frame."""


class VerifiedSpan(NamedTuple):
    """How far into a GOP a plain decode went without a fault."""

    stop: int
    """Index behind the last frame of which that is known."""
    is_all: bool = False
    """Whether a fault was found behind it, so that there is no more."""


class FrameStatus:
    """Frame by frame: good, with the digest of its picture; damaged; or nothing known.

    Grows while files are read. Threads that find out at the same moment may each have to find out
    again, and never see half of what another wrote. Takes 5 bytes a frame once anything is known.
    """

    def __init__(self, num_frames: int, table: NDArray[np.void] | None = None) -> None:
        self._num_frames = num_frames
        self.table = table
        """What is known, [frames] of `VERDICT`; None: nothing."""
        self.sound: dict[tuple[str, int], VerifiedSpan] = {}
        """Device and GOP → how far a plain decode of this process went without a fault. Found out
        for backends that tell of none; nothing of it is kept."""

    def knows(self, number: int) -> bool:
        """Return whether a plain decode has been by at frame `number`."""
        return self.table is not None and self.table["state"][number] != _UNKNOWN

    def is_damaged(self, number: int) -> bool:
        """Return whether a plain decode reports damage at frame `number`."""
        return self.table is not None and self.table["state"][number] == _DAMAGED

    def differs(self, number: int, digest: int) -> bool:
        """Return whether a picture is another than the plain decode's of frame `number`."""
        return self.table is not None and int(self.table["digest"][number]) != digest

    def note(self, first: int, stop: int, good: Mapping[int, int]) -> None:
        """Note what a plain decode gave of frames [first, stop).

        Args:
            first: Index of a frame.
            stop: Index behind the last.
            good: The frames that are not damaged, and the digests of their pictures.
        """
        table = np.zeros(self._num_frames, VERDICT) if self.table is None else self.table.copy()
        table["state"][first:stop] = _DAMAGED
        for number, digest in good.items():
            table[number] = _GOOD, digest
        self.table = table  # at once, for threads that read it


class Gops(Protocol):
    """How the frames of a stream hang together, as its index tells."""

    @property
    def ordinal(self) -> NDArray[np.int64]:
        """int64 [frames]: place of the frame's packet in decoding order."""
        ...

    @property
    def is_droppable(self) -> NDArray[np.bool_]:
        """bool [frames]: no other frame refers to this one."""
        ...

    @property
    def gop_start(self) -> NDArray[np.int64]:
        """int64 [GOPs]: index of the first frame of each GOP."""
        ...

    def gop_of(self, index: int) -> int:
        """Return the number of the GOP that a frame is shown in."""
        ...

    def gop_of_ordinal(self, ordinal: int) -> int:
        """Return the number of the GOP that a packet belongs to."""
        ...

    def number_of(self, ordinal: int) -> int:
        """Return the index of the frame a packet becomes; -1 for none."""
        ...


class ReferenceResult(NamedTuple):
    """What came out of a plain decode."""

    digests: dict[int, int]
    """Frame index → digest of the picture that came out."""
    reported: set[int]
    """Ordinals of packets at which damage was reported."""
    unreferenced: set[int]
    """Indices of frames that are B-pictures of codecs in which nothing refers to those."""


def undamaged(index: Gops, witnessed: ReferenceResult, first: int, stop: int) -> dict[int, int]:
    """Return the frames in [first, stop) that came out whole, with their digests."""
    bad = sorted(witnessed.reported)
    return {
        number: digest
        for number, digest in witnessed.digests.items()
        if first <= number < stop and not _is_tainted(index, number, bad, witnessed.unreferenced)
    }


def _is_tainted(
    index: Gops, number: int, reported: Collection[int], unreferenced: Collection[int]
) -> bool:
    """Return whether reported damage may show in a frame.

    A damaged frame that others refer to taints every later frame of its GOP, and those of the next
    that lean on it; one that is shown before its GOP's keyframe taints such frames only; one that
    nothing refers to taints itself alone.
    """
    if not reported:
        return False
    ordinal = int(index.ordinal[number])
    gops = {index.gop_of_ordinal(ordinal), index.gop_of(number)}
    for bad in reported:
        if bad == ordinal:
            return True
        gop = index.gop_of_ordinal(bad)
        if bad > ordinal or gop not in gops:
            continue
        shown = index.number_of(bad)
        if shown < 0:
            return True
        if index.is_droppable[shown] or shown in unreferenced:
            continue
        keyframe = index.gop_start[gop]
        if shown >= keyframe or number < keyframe:
            return True
    return False
