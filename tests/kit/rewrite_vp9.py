"""VP9 with pictures that are shown by a packet of two bytes, and with intra-only pictures.

Each function reads `path`, writes `out` and returns it. The clip must be encoded with `RESILIENT`,
so that no picture adapts to an earlier one. Source: the VP9 bitstream and decoding process
specification, section 6.2.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import av

from headrace.testing.damage import rewrite_packets

_SYNC_BITS, _SIZE_BITS, _KEPT_BITS = 24, 32, 8
_FEATURE_BITS = (8 + 1, 6 + 1, 2, 0)
RESILIENT = (("error-resilient", "1"), ("auto-alt-ref", "0"), ("lag-in-frames", "0"))
"""Encoder options that make pictures rewritable."""
_SHOW_EXISTING = "10" + "00" + "1"
"""Frame marker, profile, and the bit for a picture that is shown, not coded."""


class Header(NamedTuple):
    """The parts of a header, as strings of "0" and "1"."""

    is_keyframe: bool
    kept_in: int
    """A bit for each of the decoder's eight reference slots that the picture is kept in."""
    sync: str
    colour: str
    references: str
    """The references; empty for keyframes."""
    size: str
    """The size, or the reference with this size, and the display size."""
    rest: str
    """The rest, up to the length of the compressed header."""
    length: int
    """Bytes of the whole header."""


def show_existing(
    path: Path, out: Path, *, ordinals: Collection[int], separate: bool = False
) -> Path:
    """Hide the pictures at `ordinals`, and show each by a packet that names its slot.

    Both share one packet, as encoders write them; with `separate`, the hidden one has its own, a
    tick earlier.
    """

    def hide(ordinal: int, payload: bytes) -> list[bytes]:
        if ordinal not in ordinals:
            return [payload]
        header = read_header(payload)
        return _shown_later(payload, header, _hidden(header), separate=separate)

    return rewrite_packets(path, out, hide)


def intra_only(
    path: Path, out: Path, *, ordinals: Collection[int], kept_in: int = 0xFF, separate: bool = False
) -> Path:
    """Turn the keyframes at `ordinals` into hidden intra-only pictures that are shown at once.

    `kept_in` has a bit for each of the eight slots; the others still hold earlier pictures, which
    later ones refer to. Cut there by `damage.cut_by_stream_copy`, a file starts with an intra-only
    picture.
    """

    def turn(ordinal: int, payload: bytes) -> list[bytes]:
        if ordinal not in ordinals:
            return [payload]
        header = read_header(payload)
        assert header.is_keyframe, "only a keyframe can become intra-only"
        bits = "10" + "00" + "0" + "1" + "0" + "1" + "1" + header.sync + f"{kept_in:08b}"
        bits += header.size + header.rest
        return _shown_later(payload, header._replace(kept_in=kept_in), bits, separate=separate)

    return rewrite_packets(path, out, turn)


def scale_references(first: Path, second: Path, out: Path, *, ordinal: int) -> Path:
    """Change from `first` to `second`, the same clip at another size, without a keyframe.

    `ordinal` is a keyframe of both. It comes from `first`, the later pictures from `second`; the
    decoder scales their references. The second size must be between half and sixteen times the
    first.
    """
    with av.open(str(second)) as source:
        later = [bytes(packet) for packet in source.demux(video=0) if packet.size]
        context = source.streams.video[0].codec_context
        size = f"{context.width - 1:016b}{context.height - 1:016b}"

    def choose(place: int, payload: bytes) -> list[bytes]:
        if place <= ordinal:
            return [payload]
        return [_sized(later[place], size) if place == ordinal + 1 else later[place]]

    return rewrite_packets(first, out, choose)


def _sized(payload: bytes, size: str) -> bytes:
    """Return the picture with an explicit size in place of a reference's."""
    header = read_header(payload)
    start = "10" + "00" + "0" + "1" + "1" + "1" + f"{header.kept_in:08b}" + header.references
    found_in_none, shown_as_coded = "000", "0"
    bits = start + found_in_none + size + shown_as_coded + header.rest
    return _bytes_of(bits) + payload[header.length :]


def _hidden(header: Header) -> str:
    start = "10" + "00" + "0" + str(int(not header.is_keyframe)) + "0" + "1"
    if header.is_keyframe:
        return start + header.sync + header.colour + header.size + header.rest
    not_intra_only = "0"
    kept_in = f"{header.kept_in:08b}"
    return start + not_intra_only + kept_in + header.references + header.size + header.rest


def _shown_later(payload: bytes, header: Header, bits: str, *, separate: bool) -> list[bytes]:
    hidden = _bytes_of(bits) + payload[header.length :]
    place = (header.kept_in & -header.kept_in).bit_length() - 1
    assert place >= 0, "this picture is kept in no slot, so it cannot be shown later"
    # The second byte is empty; without it, some readers skip the frame.
    shown = _bytes_of(_SHOW_EXISTING + f"{place:03b}") + b"\x00"
    return [hidden, shown] if separate else [_superframe([hidden, shown])]


def _superframe(parts: list[bytes]) -> bytes:
    """Pack pictures into one packet (annex B), followed by their sizes of four bytes each."""
    marker = bytes([0b110 << 5 | 3 << 3 | len(parts) - 1])
    sizes = b"".join(len(part).to_bytes(4, "little") for part in parts)
    return b"".join(parts) + marker + sizes + marker


def _bytes_of(bits: str) -> bytes:
    padded = bits + "0" * (-len(bits) % 8)
    return int(padded, base=2).to_bytes(len(padded) // 8, "big")


def read_header(payload: bytes) -> Header:
    """Return the parts of a shown picture's header."""
    bits = _Bits(payload)
    start = bits.take(8)
    is_keyframe = start[5] == "0"
    assert start == f"10000{start[5]}11", "shown, of profile 0 and error resilient"
    sync = colour = references = ""
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
        self.text = f"{int.from_bytes(head, 'big'):0{8 * len(head)}b}"
        self.place = 0

    def take(self, count: int) -> str:
        self.place += count
        return self.text[self.place - count : self.place]

    def is_set(self) -> bool:
        return self.take(1) == "1"

    def flagged(self, count: int) -> str:
        """Return a flag, and `count` bits after it if it is set."""
        return "1" + self.take(count) if self.is_set() else "0"

    def all_flagged(self, counts: Sequence[int]) -> None:
        for count in counts:
            self.flagged(count)


def _size(bits: _Bits) -> str:
    start = bits.place
    if not any(bits.is_set() for _ in range(3)):  # the size of a reference
        bits.take(_SIZE_BITS)
    bits.flagged(_SIZE_BITS)
    return bits.text[start : bits.place]


def _rest(bits: _Bits, *, is_keyframe: bool) -> str:
    start = bits.place
    if not is_keyframe:
        bits.take(1)
        bits.take(0 if bits.is_set() else 2)  # a switchable filter, or the filter
    bits.take(2 + 6 + 3)
    if bits.is_set() and bits.is_set():  # deltas, and they change
        bits.all_flagged([7] * (4 + 2))
    bits.take(8)
    bits.all_flagged([5] * 3)
    if bits.is_set():  # segments
        if bits.is_set():  # a map
            bits.all_flagged([8] * 7)
            bits.all_flagged([8] * 3 if bits.is_set() else [])
        if bits.is_set():  # data
            bits.take(1)
            bits.all_flagged(8 * _FEATURE_BITS)
    # Below 512 pixels of width there is one tile column, and no bit for it.
    bits.flagged(1)
    bits.take(16)
    return bits.text[start : bits.place]
