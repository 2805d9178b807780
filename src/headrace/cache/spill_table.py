"""Table in memory of the frames in a spill store: segment, offset and length of each."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.cache.spill_folder import DAMAGED

_PAGE: Final = 64
"""Frames in a page: about a GOP, so that pages are mostly full."""
_ROW: Final = np.dtype(
    [
        *(("segment", "<u8"), ("offset", "<u8"), ("length", "<u4"), ("checksum", "<u4")),
        ("record", "<u4"),
    ]
)
_PageKey = tuple[bytes, int]
"""Digest of a stream's key, and frame // _PAGE."""


class FrameLocation(NamedTuple):
    """Location of a frame in the files."""

    segment: int
    offset: int
    length: int
    checksum: int
    record: int
    """Number of its record in the index of the segment."""


@dataclass
class _Loaded:
    records: int = 0
    """Records read so far."""
    pages: set[_PageKey] = field(default_factory=set)
    """Pages with rows of the segment."""


class FrameTable:
    """Locations of frames, 28 bytes each, in pages of neighbors. For one thread at a time.

    Each change is idempotent: a process may be forked in the middle of one.
    """

    def __init__(self) -> None:
        self._pages: dict[_PageKey, NDArray[np.void]] = {}
        self._loaded: dict[int, _Loaded] = {}

    def loaded(self) -> dict[int, int]:
        """Return segment → number of records read."""
        return {number: loaded.records for number, loaded in self._loaded.items()}

    def add(self, number: int, start: int, records: NDArray[np.void]) -> int:
        """Add the records of a segment from `start` on; return the number of damaged records."""
        loaded = self._loaded.setdefault(number, _Loaded())
        length = records["length"]
        (live,) = np.nonzero((length > 0) & (length != DAMAGED))
        if len(live):
            rows = np.zeros(len(live), _ROW)
            rows["segment"], rows["record"] = number, start + live
            for name in ("offset", "length", "checksum"):
                rows[name] = records[name][live]
            streams, frames = records["stream"][live], records["frame"][live]
            pages, offsets = frames // _PAGE, frames % _PAGE
            is_new = (streams[1:] != streams[:-1]).any(axis=1) | (pages[1:] != pages[:-1])
            for first, last in pairwise([0, *(np.flatnonzero(is_new) + 1).tolist(), len(live)]):
                key = (streams[first].tobytes(), int(pages[first]))
                loaded.pages.add(key)
                if key not in self._pages:
                    self._pages[key] = np.zeros(_PAGE, _ROW)
                self._pages[key][offsets[first:last]] = rows[first:last]
        loaded.records = start + len(records)
        return int((length == DAMAGED).sum())

    def find(self, digest: bytes, frame: int) -> FrameLocation | None:
        """Return the location of a frame; None: it is not in the store."""
        page = self._pages.get((digest, frame // _PAGE))
        if page is None:
            return None
        location = FrameLocation(*page[frame % _PAGE].item())
        return location if location.length else None

    def mask(self, digest: bytes, count: int) -> NDArray[np.bool_]:
        """Return bool [count]: whether frames [0, count) of a stream are in the store."""
        mask = np.zeros((-(-count // _PAGE), _PAGE), np.bool_)
        for number in range(len(mask)):
            page = self._pages.get((digest, number))
            if page is not None:
                mask[number] = page["length"] > 0
        return mask.reshape(-1)[:count]

    def discard(self, digest: bytes, frame: int, location: FrameLocation) -> None:
        """Remove a frame, unless it was written again at another location."""
        if self.find(digest, frame) == location:
            self._pages[digest, frame // _PAGE]["length"][frame % _PAGE] = 0

    def discard_segment(self, number: int) -> None:
        """Remove all frames of a segment."""
        for key in self._loaded.pop(number, _Loaded()).pages:
            page = self._pages.get(key)
            if page is not None:
                page["length"][page["segment"] == number] = 0
                if not page["length"].any():
                    del self._pages[key]

    def count(self) -> tuple[int, int]:
        """Return the numbers of frames and streams."""
        counts = {key: int((page["length"] > 0).sum()) for key, page in self._pages.items()}
        return sum(counts.values()), len({key[0] for key, count in counts.items() if count})
