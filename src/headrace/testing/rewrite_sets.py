"""H.264 and HEVC whose parameter sets change on the way, each told only where it is new."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av

from headrace.errors import ConfigError

_START = b"\x00\x00\x01"
_SETS = {".h264": (7, 8), ".hevc": (32, 33, 34)}


def tell_sets_once(
    paths: Sequence[Path], out: Path, *, frame_rate: Fraction = Fraction(30)
) -> Path:
    """Join Annex B files, leave out each parameter set that was told before, and mux them.

    Give clips without B-frames: times are those of the packets, one after the other. Decoding from
    a later keyframe then needs what a packet before it told.

    Raises:
        ConfigError: the files are no Annex B.
    """
    suffix = paths[0].suffix
    if suffix not in _SETS:
        raise ConfigError(f"Annex B files end in {', '.join(_SETS)}, got {paths[0]}")
    told: set[bytes] = set()
    raw = b"".join(_without(path.read_bytes(), _SETS[suffix], told) for path in paths)
    joined = out.with_name(f"{out.stem}-joined{suffix}")
    joined.write_bytes(raw)
    try:
        _mux(joined, out, 1 / frame_rate)
    finally:
        joined.unlink()
    return out


def _without(data: bytes, kinds: Sequence[int], told: set[bytes]) -> bytes:
    """Return Annex B without the parameter sets that were told, and note those that it tells."""
    starts = [-3]
    while (at := data.find(_START, starts[-1] + 3)) >= 0:
        starts.append(at)
    units = [data[a + 3 : b].rstrip(b"\0") for a, b in pairwise([*starts[1:], len(data)])]
    kept = bytearray()
    for unit in units:
        kind = unit[0] & 0x1F if kinds[0] == 7 else unit[0] >> 1 & 0x3F
        if kind in kinds and unit in told:
            continue
        if kind in kinds:
            told.add(unit)
        kept += b"\0" + _START + unit
    return bytes(kept)


def _mux(path: Path, out: Path, step: Fraction) -> None:
    options = {"fflags": "+bitexact"}
    with (
        av.open(str(path)) as source,
        av.open(str(out), "w", container_options=options) as sink,
    ):
        origin = source.streams.video[0]
        copy = sink.add_stream_from_template(origin)
        packets = (packet for packet in source.demux(origin) if packet.size)
        for number, packet in enumerate(packets):
            packet.time_base = step
            packet.pts = packet.dts = number
            packet.duration = 1
            packet.stream = copy
            sink.mux(packet)
