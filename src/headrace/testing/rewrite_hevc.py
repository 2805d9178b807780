"""HEVC that announces a second view, as the spatial video of phones and headsets does (MV-HEVC).

Source: Rec. ITU-T H.265, sections 7.3.2.1 and F.7.3.2.1.
"""

import re
from pathlib import Path

import av

from headrace.errors import ConfigError
from headrace.testing.damage import rewrite_packets

_START = b"\x00\x00\x01"
_VPS = 32
_GENERAL_PROFILE_BITS = 96
_MULTIVIEW = "0100000000000000"


def announce_second_view(path: Path, out: Path) -> Path:
    """Have the video parameter set of a ts say that there are two views; return `out`, a ts too.

    The pictures stay those of the base view, and none of another follow, as in a file out of which
    the other view was left. FFmpeg then tells the view along with every frame. For another
    container copy what this returns by `damage.cut_by_stream_copy`.

    Raises:
        ConfigError: the file is no HEVC whose packets hold parameter sets.
    """
    with av.open(str(path)) as source:
        context = source.streams.video[0].codec_context
        size, name = (context.height, context.width), context.codec.canonical_name
    if name != "hevc" or path.suffix != ".ts":
        raise ConfigError(f"a second view needs HEVC in a ts, got {name} in {path.name}")

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
    # The highest layer, one more set of layers, both in it; no timing; an extension follows.
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
    return (
        views
        + depends_on_the_first
        + profiles_and_outputs
        + picture
        + buffers
        + kind_of_dependency
        + _golomb(0)
        + "0"
        + "0"
    )


def _golomb(number: int) -> str:
    binary = f"{number + 1:b}"
    return "0" * (len(binary) - 1) + binary


def _after_golomb(bits: str, place: int) -> int:
    zeros = bits.index("1", place) - place
    return place + 2 * zeros + 1


def _escaped(plain: bytes) -> bytes:
    """Put in the bytes that keep a start code from appearing (section 7.4.2)."""
    return re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", plain)
