"""Proxies: frame for frame their originals, in every codec; and what is written beside them."""

import zlib
from fractions import Fraction

import numpy as np
import pytest

from extraction.conftest import LENGTHS
from extraction.proxies.proxying import make, plain_frames, plain_packets
from headrace.decode.packet_table import read_proxy_entry
from headrace.decode.proxy_rows import read_rows
from headrace.testing.synth import SynthClip, Timing, read_number, write_clip
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

CODECS = ("h264", "hevc", "av1", "mjpeg")


@pytest.fixture(scope="module", params=CODECS)
def proxies(request, clips, store, tmp_path_factory):
    """The folder of the proxies of all clips, and their codec."""
    out = tmp_path_factory.mktemp(request.param) / "out"
    made = make(clips, out, store, workers=1, codec=request.param)
    assert made.is_all
    assert (made.came, made.wanted) == (sum(LENGTHS), sum(LENGTHS))
    return out, request.param


def test_frame_for_frame_a_proxy_shows_its_original(proxies):
    out, _ = proxies
    for row, length in zip(read_rows(out), LENGTHS, strict=True):
        shown = [read_number(f.to_ndarray(format="rgb24")) for f in plain_frames(out / row.proxy)]
        assert shown == list(range(length))


def test_a_proxy_has_closed_gops_of_the_asked_length_and_no_frame_out_of_order(proxies):
    out, codec = proxies
    gop = 1 if codec == "mjpeg" else 8
    for row in read_rows(out):
        packets = list(plain_packets(out / row.proxy))
        assert [p.is_keyframe for p in packets] == [n % gop == 0 for n in range(row.frames)]
        assert [p.dts for p in packets] == [p.pts for p in packets]


def test_the_packet_table_says_where_each_packet_is_and_the_index_is_the_originals(proxies, clips):
    out, codec = proxies
    said = set()
    for row, clip in zip(read_rows(out), clips, strict=True):
        source, index = Source(clip), StreamIndex.scan(clip)
        found, packets = read_proxy_entry(out / "videos" / f"{row.name}.npz", source)
        assert np.array_equal(found.pts, index.pts)
        assert np.array_equal(found.gop_start, index.gop_start)
        assert np.array_equal(found.duration, index.duration)
        assert (found.info, found.fingerprint) == (index.info, index.fingerprint)
        content = (out / row.proxy).read_bytes()
        for number, packet in enumerate(plain_packets(out / row.proxy)):
            offset, size = int(packets.offsets[number]), int(packets.sizes[number])
            assert content[offset : offset + size] == bytes(packet)
            assert packets.checksums[number] == zlib.crc32(bytes(packet))
        assert (packets.codec, packets.size) == (codec, (64, 86))
        said.add(packets.extradata)
    assert len(said) == 1


def test_the_list_tells_what_the_originals_were_and_what_was_lost(proxies, clips):
    out, codec = proxies
    row, source = next(read_rows(out)), Source(clips[0])
    expected = {
        **{"path": str(clips[0]), "name": "clip0", "proxy": "videos/clip0.mp4", "stream": None},
        **{"fingerprint": vars(source.fingerprint()), "content": source.content_id()},
        **{"bytes": (out / row.proxy).stat().st_size, "codec": codec, "lost": ()},
        **{"frames": 48, "height": 64, "width": 86},
        **{"original_height": 96, "original_width": 128},
    }
    assert {name: getattr(row, name) for name in expected} == expected
    assert 30 < row.psnr["worst"] <= row.psnr["mean"] <= 100
    assert 0.9 < row.ssim["worst"] <= row.ssim["mean"] <= 1


def test_players_see_the_times_of_the_original(store, tmp_path):
    timing = Timing(start_seconds=Fraction(7, 5))
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=20, timing=timing))
    make([clip], tmp_path / "out", store)
    index = StreamIndex.scan(clip)
    base = index.info.time_base
    with_time = [(p.pts, p.time_base) for p in plain_packets(tmp_path / "out/videos/clip.mp4")]
    assert [pts * base for pts, base in with_time] == [int(pts) * base for pts in index.pts]
