"""Proxies match their originals frame by frame, for every codec and every kind of original."""

import zlib
from contextlib import closing
from fractions import Fraction

import av
import numpy as np
import pytest

import headrace
from extraction.conftest import LENGTHS
from extraction.proxies.proxying import make, plain_frames, plain_packets
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.decode.proxies import read_rows
from headrace.decode.proxy_index import read_proxy_entry
from headrace.errors import ConfigError
from headrace.testing.synth import KINDS, SynthClip, Timing, read_bars, read_number, write_clip
from headrace.video.frame_format import FrameFormat
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex
from tests.kit.synth_recipes import write_recipe

CODECS = ("h264", "hevc", "av1", "mjpeg")


@pytest.fixture(scope="module", params=CODECS)
def proxies(request, clips, store, tmp_path_factory):
    """Return the folder of the proxies of all clips, and their codec."""
    out = tmp_path_factory.mktemp(request.param) / "out"
    result = make(clips, out, store, workers=1, codec=request.param)
    assert result.is_all
    assert (result.came, result.wanted) == (sum(LENGTHS), sum(LENGTHS))
    return out, request.param


def test_an_extraction_of_a_proxy_is_refused(proxies, clips, tmp_path):
    [source] = headrace.Proxies(proxies[0]).all(clips[:1])
    every = headrace.selection_of("every 1")
    for proxy in (source, str(source.proxy)):
        options = headrace.FrameExtractionOptions(
            sources=(proxy,), out=tmp_path / "frames", selection=every
        )
        with pytest.raises(
            ConfigError, match=f"reads originals, got the proxy {source.proxy}; give"
        ):
            headrace.FrameExtraction.prepare(options)


def test_a_proxy_shows_each_frame_of_its_original(proxies):
    out, _ = proxies
    for row, length in zip(read_rows(out), LENGTHS, strict=True):
        shown = [read_number(f.to_ndarray(format="rgb24")) for f in plain_frames(out / row.proxy)]
        assert shown == list(range(length))


def test_a_proxy_has_closed_gops_of_the_requested_length_without_reordering(proxies):
    out, codec = proxies
    gop = 1 if codec == "mjpeg" else 8
    for row in read_rows(out):
        packets = list(plain_packets(out / row.proxy))
        assert [p.is_keyframe for p in packets] == [n % gop == 0 for n in range(row.frames)]
        assert [p.dts for p in packets] == [p.pts for p in packets]


def test_a_proxy_entry_has_the_packet_table_and_the_index_of_the_original(proxies, clips):
    out, codec = proxies
    extradata = set()
    for row, clip in zip(read_rows(out), clips, strict=True):
        source, index = Source(clip), StreamIndex.scan(clip)
        stored, packets = read_proxy_entry(out / "videos" / f"{row.name}.npz", source)
        assert np.array_equal(stored.pts, index.pts)
        assert np.array_equal(stored.gop_start, index.gop_start)
        assert np.array_equal(stored.duration, index.duration)
        assert (stored.info, stored.fingerprint) == (index.info, index.fingerprint)
        content = (out / row.proxy).read_bytes()
        for number, packet in enumerate(plain_packets(out / row.proxy)):
            offset, size = int(packets.offsets[number]), int(packets.sizes[number])
            assert content[offset : offset + size] == bytes(packet)
            assert packets.checksums[number] == zlib.crc32(bytes(packet))
        assert (packets.codec, packets.size) == (codec, (64, 86))
        extradata.add(packets.extradata)
    assert len(extradata) == 1


def test_the_list_describes_original_and_proxy(proxies, clips):
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


def test_a_proxy_has_the_times_of_the_original(store, tmp_path):
    timing = Timing(start_seconds=Fraction(7, 5))
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=20, timing=timing))
    make([clip], tmp_path / "out", store)
    index = StreamIndex.scan(clip)
    base = index.info.time_base
    times = [(p.pts, p.time_base) for p in plain_packets(tmp_path / "out/videos/clip.mp4")]
    assert [pts * base for pts, base in times] == [int(pts) * base for pts in index.pts]


STORED = [
    *("h264_one_frame", "h264_long_gop", "vp9_hidden", "mpeg4_open_gop", "ffv1", "vfr_mkv"),
    *("preroll", "ts_negative_start", "annex_b", "rotated_90", "mirrored_and_rotated"),
    *("odd_size", "odd_size_444", "hevc_10_bit", "bt601", "bt709", "bt709_full", "bt2020"),
]


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    return [write_clip(folder / name, KINDS[name]) for name in STORED]


@pytest.fixture(scope="module", params=["h264", "mjpeg"])
def proxies_of_kinds(request, originals, store, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param) / "out"
    assert make(originals, out, store, size="96", codec=request.param, on_error="raise").is_all
    return {row.name: (row, out / row.proxy) for row in read_rows(out)}


def rgb(path):
    return [frame.to_ndarray(format="rgb24") for frame in plain_frames(path)]


@pytest.mark.parametrize("name", STORED)
def test_every_frame_has_the_number_and_colors_of_the_original(proxies_of_kinds, store, name):
    """Within three grey levels."""
    row, path = proxies_of_kinds[name]
    frames = rgb(path)
    assert [read_number(frame) for frame in frames] == list(range(row.frames))
    if KINDS[name].look.bars:
        shape = FrameFormat(size=(row.height, row.width))
        with closing(open_decoder(row.path, shape, index_store=IndexStore(store))) as decoder:
            [(_, original)] = decoder.run(DecodeJob((0,), goes_on=False))
        assert np.abs(read_bars(frames[0]) - read_bars(original)).max() <= 3


def test_sizes_are_even_upright_and_not_larger_than_the_original(proxies_of_kinds):
    sizes = {name: (row.height, row.width) for name, (row, _) in proxies_of_kinds.items()}
    assert sizes["odd_size"] == (74, 52)
    assert sizes["rotated_90"] == (96, 128)
    assert sizes["h264_long_gop"] == (64, 96)


def test_the_pixel_aspect_is_in_the_container_and_not_in_the_extradata(originals, store, tmp_path):
    """Decoders can therefore be shared."""
    wide, tall = (originals[STORED.index(name)] for name in ("h264_one_frame", "odd_size"))
    make([wide, tall], tmp_path / "out", store, size="64x64")
    extradata, aspects = set(), (Fraction(4, 3), Fraction(53, 75))
    for row, aspect in zip(read_rows(tmp_path / "out"), aspects, strict=True):
        with av.open(str(tmp_path / "out" / row.proxy)) as container:
            stream = container.streams.video[0]
            assert (stream.height, stream.width) == (64, 64)
            assert stream.sample_aspect_ratio == aspect
            extradata.add(stream.codec_context.extradata)
    assert len(extradata) == 1


@pytest.mark.parametrize("recipe", ["h264_two_sizes_mkv", "mjpeg_two_sizes_avi"])
def test_frames_after_a_change_of_size_have_the_size_of_the_proxy(recipe, store, tmp_path):
    path = write_recipe(recipe, tmp_path)
    assert make([path], tmp_path / "out", store, size="64").is_all
    [row] = read_rows(tmp_path / "out")
    frames = rgb(tmp_path / "out" / row.proxy)
    assert {frame.shape for frame in frames} == {(row.height, row.width, 3)}
    # Two concatenated clips, each numbered from 0.
    assert [read_number(frame) for frame in frames] == [*range(60), *range(row.frames - 60)]
