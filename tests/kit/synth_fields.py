"""MPEG-2 whose frames are coded as two pictures, one per field, as by broadcasters.

FFmpeg encodes no field pictures. But a field is a picture of half the height, with the same bits if
nothing moves. So the fields are encoded as two streams, then interleaved with rewritten headers.
Source: ISO/IEC 13818-2, sections 6.2 and 7.6.
"""

from pathlib import Path

import av
from av.packet import Packet
from av.video.stream import VideoStream

from headrace.testing.synth_clip import SynthClip
from headrace.testing.synth_containers import muxer_of, muxer_options
from headrace.testing.synth_encoders import encoder_of
from headrace.testing.synth_pixels import Colour, draw_picture, to_ycbcr

_SEQUENCE, _PICTURE, _EXTENSION, _GROUP = 0xB3, 0x00, 0xB5, 0xB8
_SEQUENCE_EXTENSION, _CODING_EXTENSION = 1, 8
_TOP, _BOTTOM = 1, 2


def write_field_pictures(path: Path, clip: SynthClip) -> Path:
    """Write `clip`, which must be MPEG-2 without B-frames, as field pictures; return `path`.

    Each frame is two I or two P pictures, in one packet.
    """
    assert (clip.codec, clip.b_frames, clip.size[0] % 32) == ("mpeg2video", 0, 0)
    options = muxer_options(clip.container)
    with av.open(str(path), "w", format=muxer_of(clip.container), container_options=options) as c:
        encoder, _ = encoder_of(clip)
        stream = c.add_stream(encoder, rate=clip.frame_rate)
        assert isinstance(stream, VideoStream)
        context = stream.codec_context
        context.height, context.width = clip.size
        context.pix_fmt, context.time_base = "yuv420p", 1 / clip.frame_rate
        fields = zip(_encoded(clip, _TOP), _encoded(clip, _BOTTOM), strict=True)
        for number, (top, bottom) in enumerate(fields):
            payload = _as_field(top, clip, _TOP) + _as_field(bottom, clip, _BOTTOM)
            packet = Packet(payload)
            packet.stream, packet.time_base = stream, 1 / clip.frame_rate
            packet.pts = packet.dts = number
            packet.is_keyframe = number % clip.gop == 0
            c.mux(packet)
    return path


def _encoded(clip: SynthClip, field: int) -> list[bytes]:
    """Return the packets of one field, a stream of pictures of half the height."""
    encoder = av.CodecContext.create("mpeg2video", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.height, encoder.width = clip.size[0] // 2, clip.size[1]
    encoder.pix_fmt, encoder.time_base = "yuv420p", 1 / clip.frame_rate
    encoder.framerate, encoder.thread_count = clip.frame_rate, 1
    # Motion vectors are coded differently in fields.
    encoder.options = encoder_of(clip)[1] | {"motion_est": "zero"}
    packets: list[Packet[VideoStream]] = []
    for picture in clip.pictures:
        rows = draw_picture(picture.number, clip.size)[field - 1 :: 2]
        frame = av.VideoFrame.from_ndarray(to_ycbcr(rows, Colour()), format="yuv444p")
        frame = frame.reformat(format="yuv420p")
        frame.pts, frame.time_base = picture.number, 1 / clip.frame_rate
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    return [bytes(packet) for packet in packets]


def _as_field(payload: bytes, clip: SynthClip, field: int) -> bytes:
    return b"".join(
        _rewritten(unit, clip, field)
        for unit in _units(payload)
        # The headers before the first field apply to the second too.
        if field == _TOP or not _is_heading(unit)
    )


def _units(payload: bytes) -> list[bytes]:
    head, *units = payload.split(b"\x00\x00\x01")
    # Zeros before a start code belong to the unit before; the first ones can be dropped.
    assert not head.strip(b"\x00")
    return [b"\x00\x00\x01" + unit for unit in units]


def _is_heading(unit: bytes) -> bool:
    is_sequence_extension = unit[3] == _EXTENSION and unit[4] >> 4 == _SEQUENCE_EXTENSION
    return unit[3] in (_SEQUENCE, _GROUP) or is_sequence_extension


def _rewritten(unit: bytes, clip: SynthClip, field: int) -> bytes:
    changed = bytearray(unit)
    if unit[3] == _SEQUENCE:
        height = clip.size[0]
        changed[5] = unit[5] & 0xF0 | height >> 8
        changed[6] = height & 0xFF
    elif unit[3] == _EXTENSION and unit[4] >> 4 == _SEQUENCE_EXTENSION:
        progressive_sequence = 0x08
        changed[5] &= ~progressive_sequence
    elif unit[3] == _EXTENSION and unit[4] >> 4 == _CODING_EXTENSION:
        picture_structure = 0x03
        top_field_first, frame_pred_frame_dct, progressive_frame = 0x80, 0x40, 0x80
        changed[6] = unit[6] & ~picture_structure | field
        changed[7] &= ~(top_field_first | frame_pred_frame_dct)
        changed[8] &= ~progressive_frame
    return bytes(changed)
