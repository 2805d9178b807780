"""The uncompressed header of a VP9 picture, in the pieces that rewriting needs.

Profile 0 (8 bits, 4:2:0) and error resilient pictures only.
Source: the VP9 bitstream and decoding process specification, section 6.2.
"""

from typing import NamedTuple

from headrace.errors import ConfigError

_SYNC_BITS, _SIZE_BITS, _KEPT_BITS = 24, 32, 8
_FEATURE_BITS = (8 + 1, 6 + 1, 2, 0)


class Header(NamedTuple):
    """A header cut into pieces; each piece is its bits, as a text of "0" and "1"."""

    is_keyframe: bool
    kept_in: int
    """A bit for each of the eight places where the decoder keeps the picture."""
    sync: str
    colour: str
    references: str
    """Which pictures are referred to; nothing for keyframes."""
    size: str
    """The size, or which reference it is taken from, and the size to be shown in."""
    rest: str
    """Everything behind, up to the length of the compressed header."""
    length: int
    """Bytes of the whole header."""


def read_header(payload: bytes) -> Header:
    """Cut the header of a shown picture into its pieces.

    Raises:
        ConfigError: the picture is hidden, not of profile 0, or not error resilient.
    """
    bits = _Bits(payload)
    start = bits.take(8)
    is_keyframe = start[5] == "0"
    if start != f"10000{start[5]}11":
        raise ConfigError(
            f"a VP9 picture must be shown, of profile 0 and error resilient, got {start}; "
            'give the encoder ("error-resilient", "1") and ("auto-alt-ref", "0")'
        )
    sync = colour = references = size = ""
    kept_in = 0xFF
    if is_keyframe:
        sync, colour = bits.take(_SYNC_BITS), bits.take(4)
        size = bits.take(_SIZE_BITS) + bits.flagged(_SIZE_BITS)
    else:
        kept_in = int(bits.take(_KEPT_BITS), base=2)
        references, size = bits.take(3 * 4), _size(bits)
    rest = _rest(bits, is_keyframe=is_keyframe)
    return Header(is_keyframe, kept_in, sync, colour, references, size, rest, (bits.place + 7) // 8)


class _Bits:
    def __init__(self, payload: bytes) -> None:
        head = payload[:200]
        self._text = f"{int.from_bytes(head, 'big'):0{8 * len(head)}b}"
        self.place = 0

    def take(self, count: int) -> str:
        self.place += count
        return self._text[self.place - count : self.place]

    def flagged(self, count: int) -> str:
        """A flag, and `count` bits behind it where it is set."""
        flag = self.take(1)
        return flag + (self.take(count) if flag == "1" else "")


def _size(bits: _Bits) -> str:
    taken = ""
    while len(taken) < 3:
        taken += (is_found := bits.take(1))
        if is_found == "1":
            return taken + bits.flagged(_SIZE_BITS)
    return taken + bits.take(_SIZE_BITS) + bits.flagged(_SIZE_BITS)


def _rest(bits: _Bits, *, is_keyframe: bool) -> str:
    taken = "" if is_keyframe else _filter(bits)
    taken += bits.take(2 + 6 + 3)
    taken += (has_deltas := bits.take(1))
    if has_deltas == "1":
        taken += (updates := bits.take(1))
        if updates == "1":
            taken += "".join(bits.flagged(7) for _ in range(4 + 2))
    taken += bits.take(8)
    taken += "".join(bits.flagged(5) for _ in range(3))
    taken += _segments(bits)
    # Below 512 pixels of width there is one column of tiles, and no bit about it.
    taken += bits.flagged(1)
    return taken + bits.take(16)


def _filter(bits: _Bits) -> str:
    taken = bits.take(1)
    taken += (is_switchable := bits.take(1))
    return taken + (bits.take(2) if is_switchable == "0" else "")


def _segments(bits: _Bits) -> str:
    taken = bits.take(1)
    if taken == "0":
        return taken
    taken += (has_map := bits.take(1))
    if has_map == "1":
        taken += "".join(bits.flagged(8) for _ in range(7))
        taken += (temporal := bits.take(1))
        if temporal == "1":
            taken += "".join(bits.flagged(8) for _ in range(3))
    taken += (has_data := bits.take(1))
    if has_data == "1":
        taken += bits.take(1)
        for _ in range(8):
            taken += "".join(bits.flagged(count) for count in _FEATURE_BITS)
    return taken
