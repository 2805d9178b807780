"""Damage to video files as it occurs in practice, and text files with a video suffix.

Each function reads `path`, writes `out` and returns it; `path` is unchanged. Ordinals count the
packets of the first video stream in file order, which is decode order.
"""

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path

import av
from av.packet import Packet
from av.video.stream import VideoStream

from headrace.errors import ConfigError

_FLIPS = 8
"""Number of damaged bytes per packet."""
_SEPARATE = {"fflags": "+bitexact-autobsf"}
"""Muxer options without automatic filters, which join hidden VP9 frames with the next shown one."""


def truncate(path: Path, out: Path, *, keep_fraction: float) -> Path:
    """Keep only the first bytes of a file, like an interrupted download.

    MP4 clips of `synth` have their index at the start, so a truncated clip still opens, unless
    `keep_fraction` is so small that the index is truncated.
    """
    if not 0 <= keep_fraction <= 1:
        raise ConfigError(f"keep_fraction must be in [0, 1], got {keep_fraction}")
    data = path.read_bytes()
    out.write_bytes(data[: int(len(data) * keep_fraction)])
    return out


def concatenate(paths: Sequence[Path], out: Path) -> Path:
    """Join files byte by byte.

    Joined MPEG-TS and Annex B files stay readable, as one stream whose clock, size or pixel format
    changes in between.
    """
    out.write_bytes(b"".join(path.read_bytes() for path in paths))
    return out


def join_packets(paths: Sequence[Path], out: Path) -> Path:
    """Join files packet by packet as one stream with a continuous clock, like an adaptive stream.

    The container has the headers of the first file, so packets of other files must include their
    parameters: VP8, VP9, AV1, MPEG-2, or H.264 and HEVC from a ts.
    """
    with av.open(str(out), "w", container_options={"fflags": "+bitexact"}) as sink:
        copy, shift_seconds = None, Fraction(0)
        for path in paths:
            with av.open(str(path)) as source:
                origin = source.streams.video[0]
                copy = copy or sink.add_stream_from_template(origin, opaque=True)
                end_seconds = shift_seconds
                for packet in source.demux(origin):
                    if packet.size:
                        end_seconds = max(end_seconds, _shift(packet, shift_seconds))
                        packet.stream = copy
                        sink.mux(packet)
                shift_seconds = end_seconds
    return out


def keyframe_ordinals(path: Path) -> tuple[int, ...]:
    """Return the ordinals of the packets with a keyframe flag."""
    with av.open(str(path)) as source:
        packets = (packet for packet in source.demux(video=0) if packet.size)
        return tuple(ordinal for ordinal, packet in enumerate(packets) if packet.is_keyframe)


def damage_packets(path: Path, out: Path, *, ordinals: Collection[int], seed: int = 0) -> Path:
    """Flip bits in the payload of the packets at `ordinals`; the container stays intact.

    The first quarter of a packet, with its headers, stays unchanged. `keyframe_ordinals` returns
    the ordinals of keyframes.
    """

    def damage(ordinal: int, packet: "Packet[VideoStream]") -> bool:
        if ordinal in ordinals:
            packet.update(_flip_bits(bytes(packet), key=f"{seed}:{ordinal}"))
        return True

    return _remux(path, out, damage)


def drop_packets(path: Path, out: Path, *, ordinals: Collection[int]) -> Path:
    """Drop the packets at `ordinals`, like a lossy network."""
    return _remux(path, out, lambda ordinal, _: ordinal not in ordinals)


def cut_by_stream_copy(path: Path, out: Path, *, start_ordinal: int) -> Path:
    """Copy the packets from `start_ordinal` on, with their times, without re-encoding.

    If it is inside a GOP, the file starts with packets that cannot be decoded. If it is the
    keyframe of an open GOP, the file starts with frames whose references are missing.
    """
    return _remux(path, out, lambda ordinal, _: ordinal >= start_ordinal)


def rewrite_packets(
    path: Path,
    out: Path,
    rewrite: Callable[[int, bytes], Sequence[bytes]],
    *,
    keep_keyframes: bool = False,
) -> Path:
    """Replace each packet by the payloads that `rewrite` returns for (ordinal, payload).

    The last of several payloads keeps the packet's time; each payload before is a tick earlier. An
    unchanged packet keeps its keyframe flag; a changed one keeps it only with `keep_keyframes`.
    """
    with (
        av.open(str(path)) as source,
        av.open(str(out), "w", container_options=_SEPARATE) as sink,
    ):
        origin = source.streams.video[0]
        copy = sink.add_stream_from_template(origin, opaque=True)
        packets = (packet for packet in source.demux(origin) if packet.size)
        for ordinal, packet in enumerate(packets):
            payload = bytes(packet)
            parts = rewrite(ordinal, payload)
            for before, part in enumerate(parts, start=1 - len(parts)):
                other = Packet(part)
                other.time_base, other.stream = packet.time_base, copy
                assert packet.pts is not None
                assert packet.dts is not None
                other.pts, other.dts = packet.pts + before, packet.dts + before
                is_same = keep_keyframes or part == payload
                other.is_keyframe = packet.is_keyframe and is_same
                sink.mux(other)
    return out


def hls_text(path: Path, *, names: Sequence[str] = ("segment0.ts",)) -> Path:
    """Write an HLS playlist that refers to other files or URLs, for a path with the suffix .mp4."""
    entries = "".join(f"#EXTINF:10,\n{name}\n" for name in names)
    path.write_text(
        f"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n{entries}#EXT-X-ENDLIST\n"
    )
    return path


def ffconcat_text(path: Path, *, names: Sequence[str] = ("other.mp4",)) -> Path:
    """Write an ffconcat script that refers to other files, for a path with the suffix .mp4."""
    path.write_text("ffconcat version 1.0\n" + "".join(f"file '{name}'\n" for name in names))
    return path


def _remux(path: Path, out: Path, keeps: "Callable[[int, Packet[VideoStream]], bool]") -> Path:
    options = {"fflags": "+bitexact"}
    with (
        av.open(str(path)) as source,
        av.open(str(out), "w", container_options=options) as sink,
    ):
        origin = source.streams.video[0]
        copy = sink.add_stream_from_template(origin, opaque=True)
        packets = (packet for packet in source.demux(origin) if packet.size)
        last: int | None = None
        for ordinal, packet in enumerate(packets):
            if keeps(ordinal, packet):
                # Matroska stores no dts; FFmpeg derives them, and the muxer refuses decreasing
                # ones.
                if last is not None and packet.dts is not None:
                    packet.dts = max(packet.dts, last)
                last = packet.dts
                packet.stream = copy
                sink.mux(packet)
    return out


def _shift(packet: "Packet[VideoStream]", by_seconds: Fraction) -> Fraction:
    """Shift a packet in time; return the end of its frame, in seconds."""
    assert packet.pts is not None
    assert packet.dts is not None
    ticks = round(by_seconds / packet.time_base)
    packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks
    return (packet.pts + (packet.duration or 1)) * packet.time_base


def _flip_bits(payload: bytes, *, key: str) -> bytes:
    first = len(payload) // 4
    damaged = bytearray(payload)
    digest = blake2b(key.encode(), digest_size=4 * _FLIPS).digest()
    for start in range(0, len(digest), 4):
        offset = int.from_bytes(digest[start : start + 3], "big") % (len(payload) - first)
        damaged[first + offset] ^= digest[start + 3] or 0xFF
    return bytes(damaged)
