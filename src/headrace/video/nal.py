"""What a packet's own bytes say before it is decoded: frames nothing refers to, frames never shown.

Only what the bitstream states is used: `nal_ref_idc` of H.264 (ITU-T H.264, 7.4.1), the sub-layer
non-reference types of HEVC (ITU-T H.265, table 7-1), `show_frame` of VP8 (RFC 6386, 9.1) and VP9
(VP9 bitstream specification, 7.2), `vop_coding_type` of MPEG-4 (ISO/IEC 14496-2, 6.3.5).
"""

from collections.abc import Iterator

_H264_SLICES = frozenset((1, 2, 3, 4, 5))
_HEVC_NON_REFERENCE = frozenset((0, 2, 4, 6, 8, 10, 12, 14))
_HEVC_RANDOM_ACCESS = frozenset(range(16, 24))
_MPEG4_PICTURE = b"\x00\x00\x01\xb6"
_START_CODE = b"\x00\x00\x01"


def length_size(codec: str, extradata: bytes | None) -> int:
    """Return how many bytes say the length of a NAL unit; 0 when start codes part them."""
    if not extradata or extradata[0] != 1:
        return 0
    if codec == "h264" and len(extradata) > 4:
        return (extradata[4] & 3) + 1
    if codec == "hevc" and len(extradata) > 21:
        return (extradata[21] & 3) + 1
    return 0


def is_droppable(codec: str, packet: memoryview, nal_length_size: int) -> bool:
    """Return whether no other frame refers to this packet's frame, as far as its header tells.

    A False is always safe. HEVC with temporal layers is never called droppable: there, a
    sub-layer non-reference frame may still serve a higher layer.
    """
    if codec == "h264":
        for header in _nal_headers(packet, nal_length_size):
            if header[0] & 0x1F in _H264_SLICES:
                return header[0] >> 5 & 3 == 0
    elif codec == "hevc":
        for header in _nal_headers(packet, nal_length_size):
            kind, temporal_id = header[0] >> 1 & 0x3F, (header[1] & 7) - 1
            if kind < 32:
                return kind in _HEVC_NON_REFERENCE and temporal_id == 0
    return False


def is_keyframe(codec: str, packet: memoryview, nal_length_size: int, said: bool) -> bool:
    """Return whether decoding can start at this packet; `said` is the container's own flag.

    The flag is believed where FFmpeg's parser has corrected it. For HEVC and MPEG-4 it repeats what
    the container's table says, and such tables lie: there the picture's own type decides.
    """
    if codec == "hevc":
        kinds = [header[0] >> 1 & 0x3F for header in _nal_headers(packet, nal_length_size)]
        return any(kind in _HEVC_RANDOM_ACCESS for kind in kinds)
    if codec == "mpeg4":
        data = bytes(packet)
        at = data.find(_MPEG4_PICTURE)
        return 0 <= at < len(data) - 4 and data[at + 4] >> 6 == 0
    return said


def is_hidden(codec: str, packet: memoryview) -> bool:
    """Return whether the packet holds a frame that is decoded and never shown (VP8, VP9)."""
    if len(packet) == 0:
        return False
    first = packet[0]
    if codec == "vp8":
        return first >> 4 & 1 == 0
    if codec == "vp9":
        is_superframe = packet[-1] >> 5 == 0b110
        profile = (first >> 5 & 1) | (first >> 4 & 1) << 1
        shift = 2 if profile == 3 else 3
        shows_existing = first >> shift & 1
        return not is_superframe and not shows_existing and first >> (shift - 2) & 1 == 0
    return False


def _nal_headers(packet: memoryview, nal_length_size: int) -> Iterator[memoryview]:
    """Yield the first two bytes of every NAL unit."""
    if nal_length_size == 0:
        data, at = bytes(packet), 0
        while (at := data.find(_START_CODE, at)) >= 0 and at + 5 <= len(data):
            yield packet[at + 3 : at + 5]
            at += 3
        return
    at = 0
    while at + nal_length_size + 2 <= len(packet):
        start = at + nal_length_size
        yield packet[start : start + 2]
        at = start + int.from_bytes(packet[at:start], "big")
