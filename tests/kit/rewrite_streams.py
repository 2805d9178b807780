"""Files without an index, of an old x264 build, with a second view, or with parameter sets once.

Each function reads a file, writes `out` and returns it. Sources: Microsoft, AVI RIFF File
Reference; Rec. ITU-T H.265, sections 7.3.2.1 and F.7.3.2.1, for the second view (MV-HEVC, the
spatial video of phones and headsets). Only the first packet names the x264 build; decoders treat
old ones differently (FFmpeg: below 151, if 4:4:4 is coded with CABAC or losslessly).
"""

import re
import struct
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av

from headrace.testing.damage import rewrite_packets
from tests.kit.rewrite_mp4 import rewriting

_HAS_INDEX = 0x10
"""Bit of `dwFlags` in the header `avih`: Microsoft, AVI RIFF File Reference."""


@rewriting
def strip_index(data: bytearray) -> None:
    """Remove `idx1`, which lists the keyframes; FFmpeg then marks every packet as one."""
    at = 12
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<4sI", data, at)
        if kind == b"idx1":
            del data[at:]
        at += 8 + size + size % 2
    struct.pack_into("<I", data, 4, len(data) - 8)
    flags = data.index(b"avih") + 8 + 12
    (found,) = struct.unpack_from("<I", data, flags)
    struct.pack_into("<I", data, flags, found & ~_HAS_INDEX)


_BUILD = re.compile(rb"x264 - core (\d+)")


@rewriting
def pose_as_x264_build(data: bytearray, *, build: int = 130) -> None:
    """Write `path` to `out` with another x264 build in its first packet.

    A lossless clip (`qp=0` in `x264-params`) in 4:2:0 decodes without errors as either, to
    different pictures. One in 4:4:4 with CABAC gives errors as an old build.
    """
    found = _BUILD.search(data)
    assert found is not None
    assert len(found[1]) == len(str(build)), "the number of digits must stay"
    data[found.start(1) : found.end(1)] = str(build).encode()


_START = b"\x00\x00\x01"
_VPS = 32
_GENERAL_PROFILE_BITS = 96
_MULTIVIEW = "0100000000000000"


def announce_second_view(path: Path, out: Path) -> Path:
    """Announce two views in the video parameter set of a ts; return `out`, a ts too.

    It has pictures of the base view only, like a file whose other view was removed. FFmpeg then
    gives the view of every frame. For another container, copy it by `damage.cut_by_stream_copy`.
    """
    with av.open(str(path)) as source:
        context = source.streams.video[0].codec_context
        size = (context.height, context.width)

    def rewrite(_: int, payload: bytes) -> list[bytes]:
        units = re.split(b"\x00?" + _START, payload)
        rewritten = [_with_two_views(u, size) if u and u[0] >> 1 == _VPS else u for u in units]
        return [(b"\x00" + _START).join(rewritten)]

    return rewrite_packets(path, out, rewrite, keep_keyframes=True)


def _with_two_views(unit: bytes, size: tuple[int, int]) -> bytes:
    plain = unit[2:].replace(b"\x00\x00\x03", b"\x00\x00")
    bits = f"{int.from_bytes(plain, 'big'):0{8 * len(plain)}b}"
    place = 32 + _GENERAL_PROFILE_BITS + 1
    for _ in range(3):
        place = _after_golomb(bits, place)
    two_layers = f"{1:06b}"
    text = bits[:6] + two_layers + bits[12:place]
    # Highest layer; one more layer set, with both; no timing; an extension follows.
    text += f"{1:06b}" + _golomb(1) + "11" + "0" + "1"
    text += "1" * (-len(text) % 8)
    level = bits[32 + _GENERAL_PROFILE_BITS - 8 : 32 + _GENERAL_PROFILE_BITS]
    text += level + _extension(size) + "1"
    text += "0" * (-len(text) % 8)
    return unit[:2] + _escaped(int(text, base=2).to_bytes(len(text) // 8, "big"))


def _extension(size: tuple[int, int]) -> str:
    height, width = size
    views = "0" + _MULTIVIEW + "000" + "0" + "1" + f"{1:04b}" + "0" + "1"
    depends_on_the_first = "1" + "0" + "0" + "1"
    profiles_and_outputs = _golomb(1) + _golomb(0) + "00" + "1" + "1"
    picture = _golomb(0) + f"{width:016b}{height:016b}" + "1" + "01" + "0000" + "0000" + "0"
    buffers = "1" + "1" + "0" + _golomb(4) + _golomb(4) + _golomb(2) + _golomb(0)
    kind_of_dependency = _golomb(0) + "1" + "10"
    parts = (views, depends_on_the_first, profiles_and_outputs, picture, buffers)
    return "".join(parts) + kind_of_dependency + _golomb(0) + "0" + "0"


def _golomb(number: int) -> str:
    binary = f"{number + 1:b}"
    return "0" * (len(binary) - 1) + binary


def _after_golomb(bits: str, place: int) -> int:
    zeros = bits.index("1", place) - place
    return place + 2 * zeros + 1


def _escaped(plain: bytes) -> bytes:
    """Insert the bytes that prevent start codes (section 7.4.2)."""
    return re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", plain)


_SETS = {".h264": (7, 8), ".hevc": (32, 33, 34)}


def tell_sets_once(
    paths: Sequence[Path], out: Path, *, frame_rate: Fraction = Fraction(30)
) -> Path:
    """Join Annex B files, remove repeated parameter sets, and mux them.

    The clips must have no B-frames: times follow the order of packets. Decoding from a later
    keyframe then needs parameter sets of an earlier packet.
    """
    suffix = paths[0].suffix
    seen: set[bytes] = set()
    raw = b"".join(_without(path.read_bytes(), _SETS[suffix], seen) for path in paths)
    joined = out.with_name(f"{out.stem}-joined{suffix}")
    joined.write_bytes(raw)
    try:
        _mux(joined, out, 1 / frame_rate)
    finally:
        joined.unlink()
    return out


def _without(data: bytes, kinds: Sequence[int], seen: set[bytes]) -> bytes:
    """Return Annex B without the parameter sets in `seen`, and add the others to it."""
    starts = [-3]
    while (at := data.find(_START, starts[-1] + 3)) >= 0:
        starts.append(at)
    units = [data[a + 3 : b].rstrip(b"\0") for a, b in pairwise([*starts[1:], len(data)])]
    kept = bytearray()
    for unit in units:
        kind = unit[0] & 0x1F if kinds[0] == 7 else unit[0] >> 1 & 0x3F
        if kind in kinds and unit in seen:
            continue
        if kind in kinds:
            seen.add(unit)
        kept += b"\0" + _START + unit
    return bytes(kept)


def _mux(path: Path, out: Path, step: Fraction) -> None:
    options = {"fflags": "+bitexact"}
    with av.open(str(path)) as source, av.open(str(out), "w", container_options=options) as sink:
        origin = source.streams.video[0]
        copy = sink.add_stream_from_template(origin)
        packets = (packet for packet in source.demux(origin) if packet.size)
        for number, packet in enumerate(packets):
            packet.time_base = step
            packet.pts = packet.dts = number
            packet.duration = 1
            packet.stream = copy
            sink.mux(packet)
