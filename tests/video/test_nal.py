"""NAL units in packets that were made to take time and memory."""

import pytest

from forked import in_a_fork
from headrace import StreamIndex
from headrace.testing.synth import SynthClip
from headrace.video import nal

SPS = b"\0\0\1\x67\x42\0\x1e"
MANY = 300_000


@pytest.mark.parametrize(
    ("size", "packet"), [(0, SPS * MANY), (2, (b"\0\4" + SPS[3:]) * MANY)], ids=["codes", "lengths"]
)
def test_a_packet_of_parameter_sets_alone_is_read_once(size, packet):
    """Each of them up to the end of the packet would be a terabyte, and end the fork."""

    def check():
        sets = list(nal.parameter_sets("h264", memoryview(packet), size))
        nal.preamble("h264", memoryview(packet), size)
        return [len(each.unit) for each in sets] == [len(SPS) if size == 0 else 6] * MANY

    assert in_a_fork(check)


@pytest.mark.parametrize(("count", "one_codec"), [(3, False), (5_000, True)])
def test_parameter_sets_without_end_are_not_kept(written, tmp_path, count, one_codec):
    """Sets in force are kept for each keyframe: their bytes are bounded."""
    content = written(SynthClip(container="h264", num_frames=24, gop=12)).read_bytes()
    second = content.index(SPS[:4], content.index(SPS[:4]) + 1)
    numbers = range(0x111111, 0x111111 + count)
    sets = b"".join(b"\0\0\1\x68\x11" + number.to_bytes(3) + b"\x81" for number in numbers)
    path = tmp_path / "sets.h264"
    path.write_bytes(content[:second] + sets + content[second:])
    index = StreamIndex.scan(path)
    assert len(index) == 24
    assert index.needs_one_codec == one_codec
    assert len(index.parameter_sets) < 1 << 17
