"""Cutting and damaging finished files the way the world does, and texts that pose as video.

Each function reads `path`, writes `out` and returns it; `path` stays as it is. Packets are counted
in file order, which is the order of decoding, over the first video stream.
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
# Left to itself the muxer joins hidden VP9 pictures with the next shown one.
_SEPARATE = {"fflags": "+bitexact-autobsf"}


def truncate(path: Path, out: Path, *, keep_fraction: float) -> Path:
    """Keep only the first bytes of a file, as a broken download does.

    Clips of `synth` have their MP4 index in front, so that a cut one still opens; with a
    `keep_fraction` near zero the index itself is cut and nothing opens.
    """
    if not 0 <= keep_fraction <= 1:
        raise ConfigError(f"keep_fraction must be in [0, 1], got {keep_fraction}")
    data = path.read_bytes()
    out.write_bytes(data[: int(len(data) * keep_fraction)])
    return out


def concatenate(paths: Sequence[Path], out: Path) -> Path:
    """Join files byte by byte.

    MPEG-TS and Annex B files joined so stay readable, as one stream whose clock, size or pixel
    format changes on the way.
    """
    out.write_bytes(b"".join(path.read_bytes() for path in paths))
    return out


def join_packets(paths: Sequence[Path], out: Path) -> Path:
    """Join files packet by packet as one stream whose clock goes on, as an adaptive stream does.

    What a container says once stays that of the first file, so the packets of the others must tell
    for themselves what has changed: VP8, VP9, AV1, MPEG-2, or H.264 and HEVC out of a ts.
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
    """Return which packets are keyframes, by the flags that demuxing gives them."""
    with av.open(str(path)) as source:
        packets = (packet for packet in source.demux(video=0) if packet.size)
        return tuple(ordinal for ordinal, packet in enumerate(packets) if packet.is_keyframe)


def damage_packets(path: Path, out: Path, *, ordinals: Collection[int], seed: int = 0) -> Path:
    """Flip bits in the payload of the packets at `ordinals`; the container stays sound.

    The first quarter of a packet, with its headers, is spared. To damage a keyframe, choose one
    of `keyframe_ordinals`.
    """

    def damage(ordinal: int, packet: "Packet[VideoStream]") -> bool:
        if ordinal in ordinals:
            packet.update(_flipped(bytes(packet), key=f"{seed}:{ordinal}"))
        return True

    return _remux(path, out, damage)


def drop_packets(path: Path, out: Path, *, ordinals: Collection[int]) -> Path:
    """Leave out the packets at `ordinals`, as a lossy network does."""
    return _remux(path, out, lambda ordinal, _: ordinal not in ordinals)


def cut_by_stream_copy(path: Path, out: Path, *, start_ordinal: int) -> Path:
    """Copy the packets from `start_ordinal` on, with their times, without encoding anew.

    From the middle of a GOP the file starts with packets that nothing can decode. From a keyframe
    of an open GOP it starts with pictures whose references are gone.
    """
    return _remux(path, out, lambda ordinal, _: ordinal >= start_ordinal)


def rewrite_packets(
    path: Path,
    out: Path,
    rewrite: Callable[[int, bytes], Sequence[bytes]],
    *,
    keep_keyframes: bool = False,
) -> Path:
    """Put others in the place of packets: `rewrite` gets the ordinal and the payload of each.

    Of several that it returns the last keeps the time, and those before come a tick before it
    each. A packet that comes back as it was keeps its keyframe flag; all others lose theirs,
    unless `keep_keyframes`.
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
    """Write an HLS playlist that names other files or URLs; meant for a path ending in .mp4."""
    entries = "".join(f"#EXTINF:10,\n{name}\n" for name in names)
    path.write_text(
        f"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n{entries}#EXT-X-ENDLIST\n"
    )
    return path


def ffconcat_text(path: Path, *, names: Sequence[str] = ("other.mp4",)) -> Path:
    """Write an ffconcat script that names other files; meant for a path ending in .mp4."""
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
                # Matroska keeps no dts; those that FFmpeg makes up may go back, which it refuses.
                if last is not None and packet.dts is not None:
                    packet.dts = max(packet.dts, last)
                last = packet.dts
                packet.stream = copy
                sink.mux(packet)
    return out


def _shift(packet: "Packet[VideoStream]", by_seconds: Fraction) -> Fraction:
    """Move a packet in time; return when its picture ends, in seconds."""
    assert packet.pts is not None
    assert packet.dts is not None
    ticks = round(by_seconds / packet.time_base)
    packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks
    return (packet.pts + (packet.duration or 1)) * packet.time_base


def _flipped(payload: bytes, *, key: str) -> bytes:
    spared = len(payload) // 4
    damaged = bytearray(payload)
    digest = blake2b(key.encode(), digest_size=4 * _FLIPS).digest()
    for start in range(0, len(digest), 4):
        place = int.from_bytes(digest[start : start + 3], "big") % (len(payload) - spared)
        damaged[spared + place] ^= digest[start + 3] or 0xFF
    return bytes(damaged)
