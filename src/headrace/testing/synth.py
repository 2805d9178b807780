"""Synthetic clips whose pixels carry the frame number, to test the order and loss of frames.

path = write_clip(tmp_path / "clip", SynthClip(codec="h264", gop=12, b_frames=2))
numbers = [read_number(frame) for frame in decode(path)]    # must be 0, 1, 2, ...
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.bitstream import BitStreamFilterContext
from av.container import OutputContainer
from av.packet import Packet
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.testing.synth_clip import KINDS, Look, Picture, SynthClip, Timing
from headrace.testing.synth_containers import muxer_of, muxer_options
from headrace.testing.synth_encoders import encoder_of, is_outside, write_outside
from headrace.testing.synth_pixels import (
    BARS,
    Colour,
    draw_picture,
    read_bars,
    read_number,
    tags_of,
    to_ycbcr,
)
from headrace.video.content_digest import rows_of
from headrace.video.pyav_version import check_full

__all__ = [
    "BARS",
    "KINDS",
    "Colour",
    "Look",
    "SynthClip",
    "Timing",
    "read_bars",
    "read_number",
    "write_clip",
    "write_streams",
]

_FINE_TIME_BASE = Fraction(1, 90_000)
_VP8_SHOW_FRAME = 0x10
PALETTE_LASTS = 16
"""Number of frames between two changes of a palette."""


def write_clip(path: str | Path, clip: SynthClip) -> Path:
    """Write `clip` and return its path.

    The container's suffix is added if `path` lacks it. A clip of `KINDS` takes 0.03 to 0.25 s.
    Equal clips have equal bytes, with equal libraries. The AV1 encoder always prints its settings
    on stderr.

    Raises:
        ValueError: FFmpeg cannot write this codec into this container.
    """
    return write_streams(path, [clip])


def write_streams(path: str | Path, clips: Sequence[SynthClip]) -> Path:
    """Write one file with a video stream per clip, and return its path.

    Raises:
        ConfigError: the clips have different containers.
    """
    containers = {clip.container for clip in clips}
    if len(containers) != 1:
        raise ConfigError(
            f"the streams of a file need the same container, got {sorted(containers)}"
        )
    suffix = containers.pop()
    path = Path(path)
    if path.suffix != f".{suffix}":
        path = path.with_name(f"{path.name}.{suffix}")
    if any(is_outside(clip) for clip in clips):
        [clip] = clips
        return write_outside(path, clip, (frame for _, frame in _frames(clip)))
    options, muxer = _container_options(clips), muxer_of(suffix)
    with (
        _same_scheduling(),
        av.open(str(path), "w", format=muxer, container_options=options) as container,
    ):
        streams = [_add_stream(container, clip) for clip in clips]
        encoded = [_encode(*pair) for pair in zip(streams, clips, strict=True)]
        # From here on, streams have the headers of their encoders.
        container.start_encoding()
        packets: list[Packet[VideoStream]] = []
        for stream, clip, coded in zip(streams, clips, encoded, strict=True):
            packets += _filtered(stream, clip, coded)
        if len(clips) > 1:
            packets.sort(key=_decode_seconds)
        container.mux(packets)
    return path


@contextmanager
def _same_scheduling() -> Iterator[None]:
    """Restore the scheduling policy of this thread at the end.

    If permitted, as for root, SVT-AV1 4.1 makes the thread that opens it a real-time thread. The
    thread, and all processes that it starts, then block others from their cores.
    """
    if not hasattr(os, "sched_getscheduler"):  # not Linux
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


def _container_options(clips: Sequence[SynthClip]) -> dict[str, str]:
    options = muxer_options(clips[0].container)
    if any(clip.structure == "hidden_packets" for clip in clips):
        # By default the muxer joins a hidden VP9 frame with the next shown one again.
        options["fflags"] += "-autobsf"
    if min(clip.timing.start_seconds for clip in clips) < 0:
        options |= {"avoid_negative_ts": "disabled", "mpegts_copyts": "1"}
    for clip in clips:
        options |= dict(clip.container_options)
    return options


def _add_stream(container: OutputContainer, clip: SynthClip) -> VideoStream:
    encoder, options = encoder_of(clip)
    stream = container.add_stream(encoder, rate=clip.frame_rate, options=options)
    assert isinstance(stream, VideoStream)
    look = clip.look
    height, width = clip.size if look.rotation % 180 == 0 else clip.size[::-1]
    context = stream.codec_context
    context.width, context.height, context.pix_fmt = width, height, look.pixel_format
    context.time_base = _time_base(clip)
    context.thread_count = 1
    if look.colour is not None:
        for name, code in tags_of(look.colour)._asdict().items():
            setattr(context, name, code)
    if look.rotation or look.mirrored:
        check_full("drawing a rotated or mirrored clip", "leave rotation and mirrored out")
        stream.set_display_rotation(look.rotation, hflip=look.mirrored)
    return stream


def _time_base(clip: SynthClip) -> Fraction:
    """Return the time base: one tick per frame if that is exact, as AVI and MPEG-4 need it."""
    ticks = (picture.seconds * clip.frame_rate for picture in clip.pictures)
    is_even = all(tick.denominator == 1 for tick in ticks)
    return 1 / clip.frame_rate if is_even else _FINE_TIME_BASE


def _encode(stream: VideoStream, clip: SynthClip) -> "list[Packet[VideoStream]]":
    packets, hidden_pts = [], set()
    for picture, frame in _frames(clip):
        packets += stream.encode(frame)
        if picture.is_hidden:
            hidden_pts.add(frame.pts)
    packets += stream.encode(None)
    for packet in packets:
        if packet.pts in hidden_pts:
            _hide(packet)
    return packets


def _frames(clip: SynthClip) -> Iterator[tuple[Picture, av.VideoFrame]]:
    time_base = _time_base(clip)
    scaler = VideoReformatter()
    for picture in clip.pictures:
        upright = draw_picture(picture.number, clip.size, bars=clip.look.bars)
        frame = _stored_frame(upright, clip.look, scaler, picture.number)
        frame.pts, frame.time_base = round(picture.seconds / time_base), time_base
        yield picture, frame


def _hide(packet: "Packet[VideoStream]") -> None:
    """Clear the show_frame bit of a VP8 frame (RFC 6386, section 9.1)."""
    first, *rest = bytes(packet)
    packet.update(bytes([first & ~_VP8_SHOW_FRAME, *rest]))


def _filtered(
    stream: VideoStream, clip: SynthClip, packets: "list[Packet[VideoStream]]"
) -> "list[Packet[VideoStream]]":
    names = clip.bitstream_filters
    if clip.codec == "vp9" and clip.structure == "hidden_packets":
        # The encoder joins a hidden frame with the next shown one: split them.
        names = ("vp9_superframe_split", *names)
    for name in names:
        context = BitStreamFilterContext(name, in_stream=stream)
        packets = [part for packet in (*packets, None) for part in context.filter(packet)]
    return packets


def _stored_frame(
    upright: NDArray[np.uint8], look: Look, scaler: VideoReformatter, number: int
) -> av.VideoFrame:
    """Return the encoder's input: rotated and mirrored back, in the stored pixel format."""
    mirrored = upright[:, ::-1] if look.mirrored else upright
    stored = np.rot90(mirrored, -look.rotation // 90)
    planes = to_ycbcr(stored, look.colour or Colour())
    frame = av.VideoFrame.from_ndarray(planes, format="yuv444p")
    if look.pixel_format == "pal8":
        is_reversed = look.palette_turns and number // PALETTE_LASTS % 2 == 1
        return _in_palette(scaler.reformat(frame, format="bgr8"), is_reversed=is_reversed)
    frame = scaler.reformat(frame, format=look.pixel_format)
    if look.colour is not None:
        # Set tags after the conversion: with tags the scaler would convert the colours again.
        for name, code in tags_of(look.colour)._asdict().items():
            if hasattr(frame, name):  # before PyAV 17 a frame has only two of the four tags
                setattr(frame, name, code)
    return frame


def _in_palette(frame: av.VideoFrame, *, is_reversed: bool) -> av.VideoFrame:
    """Return the frame as palette indices, optionally with the palette in reverse order."""
    height, width = frame.height, frame.width
    rows = rows_of(frame.planes[0], width)
    numbers = np.arange(256)
    levels = (numbers >> 6) * 85, (numbers >> 3 & 7) * 255 // 7, (numbers & 7) * 255 // 7
    palette = np.stack([*levels, np.full(256, 255)], axis=1).astype(np.uint8)
    if is_reversed:
        rows, palette = 255 - rows, palette[::-1]
    indexed = av.VideoFrame(width, height, "pal8")
    padded = np.zeros((height, indexed.planes[0].line_size), np.uint8)
    padded[:, :width] = rows
    indexed.planes[0].update(padded.tobytes())
    indexed.planes[1].update(palette.tobytes())
    return indexed


def _decode_seconds(packet: "Packet[VideoStream]") -> Fraction:
    assert packet.dts is not None
    return packet.dts * packet.time_base
