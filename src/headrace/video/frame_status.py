"""Frame status: good, damaged or unknown per frame, by reference decodes; stored with the index.

A reference decode starts at a guaranteed entry or at the stream's start, with FFmpeg's defaults.
Its frames without reported damage are right by definition. Frames with reported damage, and frames
that refer to them, are damaged.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_UNKNOWN, _GOOD, _DAMAGED = range(3)
VERDICT = np.dtype([("state", "u1"), ("digest", "<u4")])
"""Record of one frame."""


class VerifiedSpan(NamedTuple):
    """Undamaged part of a GOP, by a reference decode."""

    stop: int
    """Index after its last frame."""
    is_all: bool = False
    """Whether damage follows, so that the span cannot grow."""


class FrameStatus:
    """Status per frame: good with its digest, damaged, or unknown.

    Grows while files are read. Threads that verify at the same time may repeat work, but never see
    a partial update. Takes 5 bytes per frame once any status is known.
    """

    def __init__(self, num_frames: int, table: NDArray[np.void] | None = None) -> None:
        self._num_frames = num_frames
        self.table = table
        """Known status, [frames] of `VERDICT`; None: all unknown."""
        self.verified: dict[tuple[str, int], VerifiedSpan] = {}
        """(device, GOP) -> its verified span in this process, for backends that report no damage.
        Not stored."""

    def knows(self, frame_index: int) -> bool:
        """Return whether the status of a frame is known."""
        return self.table is not None and self.table["state"][frame_index] != _UNKNOWN

    def is_damaged(self, frame_index: int) -> bool:
        """Return whether a reference decode reports damage at a frame."""
        return self.table is not None and self.table["state"][frame_index] == _DAMAGED

    def differs(self, frame_index: int, digest: int) -> bool:
        """Return whether a digest differs from the reference decode's."""
        return self.table is not None and int(self.table["digest"][frame_index]) != digest

    def note(self, first: int, stop: int, good: Mapping[int, int]) -> None:
        """Set the status of frames [first, stop) after a reference decode.

        Args:
            first: Index of the first frame.
            stop: Index after the last.
            good: Frame index -> digest, of the undamaged frames.
        """
        table = np.zeros(self._num_frames, VERDICT) if self.table is None else self.table.copy()
        table["state"][first:stop] = _DAMAGED
        for frame_index, digest in good.items():
            table[frame_index] = _GOOD, digest
        self.table = table  # atomic for reading threads
