"""Where a decoder stands in its stream, and what it may trust from there."""

import numpy as np

from headrace.video.stream_index import StreamIndex

_MOST_DELAYED = 32
"""Packets that a codec may take until it gives a frame: twice the 16 that H.264 may reorder."""


class Position:
    """Book-keeping of one stretch: from a keyframe on, packets in decoding order."""

    def __init__(self, index: StreamIndex) -> None:
        self._index = index
        self.next_ordinal: int | None = None
        """Ordinal of the next packet of the container; None: nowhere, a seek is needed."""
        self.emitted = -1
        """Highest index that came out of the decoder since the stretch began."""
        self._is_at_end = False
        self._start_gop = 0
        self._withheld: set[int] = set()
        self._damaged: list[int] = []

    @property
    def is_damaged(self) -> bool:
        """Whether damage was met in this stretch."""
        return bool(self._damaged)

    def enter(self, gop: int) -> None:
        """Start a new stretch at the keyframe of `gop`."""
        self.emitted = -1
        self._withheld.clear()
        self._damaged.clear()
        self.resume(gop)

    def resume(self, gop: int) -> None:
        """Go on at the keyframe of `gop`, with a codec that knows nothing of what was before."""
        self.next_ordinal = int(self._index.gop_ordinal[gop])
        self._is_at_end = False
        self._start_gop = gop

    def lose(self) -> None:
        """Forget the position: the next stretch starts with a seek."""
        self.next_ordinal = None
        self._is_at_end = False

    def reaches(self, gop: int, wanted: list[int]) -> bool:
        """Return whether reading on delivers `wanted` as well as a seek to `gop` would.

        It does when the stretch began at or before that keyframe, nothing wanted has passed or was
        withheld, no damage was met, and no whole GOP lies in between. Where the stream was read to
        its end, all that is left has been decoded.
        """
        if self._damaged or wanted[0] <= self.emitted or self._start_gop > gop:
            return False
        if self.next_ordinal is None:
            is_read = self._is_at_end
        else:
            is_read = int(self._index.gop_ordinal[gop]) <= self.next_ordinal
        return is_read and self._withheld.isdisjoint(wanted)

    def advance(self, *, is_end: bool) -> int:
        """Note that the next packet, or the end of the stream, is sent; return its ordinal."""
        assert self.next_ordinal is not None
        ordinal = self.next_ordinal
        self._is_at_end = is_end and ordinal >= self._index.packets
        self.next_ordinal = None if is_end or ordinal + 1 > self._index.packets else ordinal + 1
        return ordinal

    def resumes_at(self) -> int | None:
        """Return the GOP that a fresh codec is to go on with: its keyframe is next, after damage.

        A codec that goes on may find fault with what is whole, as it misses pictures that were
        lost. What is shown before that keyframe leans on the damage, and is lost either way.
        """
        if self.next_ordinal is None or not self._damaged:
            return None
        gop = self._gop_of_ordinal(self.next_ordinal)
        is_keyframe = int(self._index.gop_ordinal[gop]) == self.next_ordinal
        if gop <= self._start_gop or not is_keyframe:
            return None
        before = int(self._index.gop_start[gop - 1])
        is_tainted = any(
            self._gop_of_ordinal(bad) == gop - 1 and self._taints(bad, before)
            for bad in self._damaged
        )
        return gop if is_tainted else None

    def may_withhold(self, left: set[int], last: int) -> bool:
        """Return whether the next packet need not be decoded to deliver `left` up to `last`.

        Frames after `last` are decoded all the same: the job that follows goes on from here.
        """
        number = self.number(self.next_ordinal)
        if number < 0 or number >= last or number in left:
            return False
        return bool(self._index.is_droppable[number])

    def withhold(self) -> None:
        """Note that the next packet is not sent to the decoder."""
        assert self.next_ordinal is not None
        self._withheld.add(self.number(self.next_ordinal))
        self.next_ordinal += 1

    def damage(self, ordinal: int) -> None:
        """Note that the packet `ordinal` did not decode cleanly.

        Frames shown before the keyframe the stretch began at lean on the GOP before: they cannot
        decode cleanly here, and no later frame leans on them.
        """
        number = self.number(ordinal)
        if number < 0 or number >= self._index.gop_start[self._start_gop]:
            self._damaged.append(ordinal)

    def is_suspect(self, number: int) -> bool:
        """Return whether damage may show in frame `number`.

        A damaged packet that others refer to taints every later frame of its GOP, and those of the
        next that lean on it; one that is shown before its GOP's keyframe taints such frames only;
        one that nothing refers to taints itself alone.
        """
        if not self._damaged:
            return False
        ordinal = int(self._index.ordinal[number])
        gops = {self._gop_of_ordinal(ordinal), self._index.gop_of(number)}
        return any(
            ordinal == bad
            or (ordinal > bad and self._gop_of_ordinal(bad) in gops and self._taints(bad, number))
            for bad in self._damaged
        )

    def may_be_swallowed(self, number: int) -> bool:
        """Return whether damage soon behind frame `number` may have kept it from coming out.

        A codec gives a frame when a later packet is sent, or not at all if that one is damaged.
        """
        ordinal = int(self._index.ordinal[number])
        behind = any(0 < bad - ordinal <= _MOST_DELAYED for bad in self._damaged)
        return behind and not self.is_suspect(number)

    def _taints(self, bad: int, number: int) -> bool:
        """Return whether frame `number`, later and leaning on the same GOP, may show damage."""
        shown = self.number(bad)
        if shown < 0:
            return True
        keyframe = self._index.gop_start[self._gop_of_ordinal(bad)]
        is_leading = shown < keyframe
        return not self._index.is_droppable[shown] and not (is_leading and number >= keyframe)

    def number(self, ordinal: int | None) -> int:
        """Return the index of the frame that packet becomes; -1 for none, or past the index."""
        if ordinal is None or ordinal >= self._index.packets:
            return -1
        return int(self._index.index_of_ordinal[ordinal])

    def _gop_of_ordinal(self, ordinal: int) -> int:
        return int(np.searchsorted(self._index.gop_ordinal, ordinal, "right")) - 1
