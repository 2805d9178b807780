"""Frames of a proxy are those of a plain decode of it, whatever is asked in whatever order."""

import os
import shutil

import numpy as np
import pytest

from decode.backends import TORCHCODEC, needs_torchcodec
from decode.linear import linear_frames
from decode.proxied import CODECS, made_proxies, random_jobs, rows_of, write_originals
from headrace.decode.open import open_decoder, open_index
from headrace.decode.protocol import DecodeJob
from headrace.decode.proxy_codecs import ProxyCodecs
from headrace.decode.reading import read_whole
from headrace.errors import BackendError, DecodeError, OpenError
from headrace.video.shape import Crop, FrameShape

SHAPES = (
    FrameShape(),
    FrameShape(size=(48, 48)),
    FrameShape(size=(48, 48), layout="yuv420"),
    FrameShape(size=(32, 40), crop=Crop(top=3, left=5, height=40, width=40)),
    FrameShape(size=(48, 48), fit="contain", interpolation="bilinear"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxied")
    videos = write_originals(folder / "originals")
    return {
        codec: made_proxies(videos, folder / codec, folder / "store", codec=codec)
        for codec in CODECS
    }


@pytest.fixture
def proxies(made, tmp_path):
    """Proxies in H.264 that a test may damage."""
    shutil.copytree(made["h264"].folder, tmp_path / "copy")
    return type(made["h264"])(tmp_path / "copy")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_frames_are_those_of_a_plain_decode_of_the_proxy(made, codec, shape):
    """Jobs of several proxies take turns at one codec."""
    codecs, sources = ProxyCodecs(), made[codec].videos
    decoders = [open_decoder(source, shape, codecs=codecs) for source in sources]
    plain = [linear_frames(source.proxy, shape) for source in sources]
    jobs = [random_jobs(len(each)) for each in plain]
    for turn in range(max(map(len, jobs))):
        for video, decoder in enumerate(decoders):
            wanted = jobs[video][turn]
            for number, frame in decoder.run(DecodeJob(wanted)):
                np.testing.assert_array_equal(frame, plain[video][number])
    for decoder, asked in zip(decoders, jobs, strict=True):
        assert decoder.counters.frames_delivered == sum(map(len, asked))


@pytest.mark.parametrize("codec", CODECS)
def test_a_gop_is_decoded_from_its_keyframe_to_the_last_wanted_frame(made, codec):
    decoder = open_decoder(made[codec].videos[0])
    table = decoder.index.table
    gop = np.flatnonzero(table.is_keyframe)[1]
    list(decoder.run(DecodeJob((int(gop) + 3,))))
    packets = 4 if codec != "mjpeg" else 1
    assert decoder.counters.packets_read == decoder.counters.frames_decoded == packets
    assert (decoder.counters.seeks, decoder.counters.opens) == (1, 1)


def test_a_job_that_follows_reads_on(made):
    decoder = open_decoder(made["h264"].videos[0])
    for number in range(len(decoder.index)):
        list(decoder.run(DecodeJob((number,))))
    assert decoder.counters.frames_decoded == len(decoder.index)
    assert decoder.counters.seeks == 1


def test_what_another_video_decoded_meanwhile_is_not_read_on_from(made):
    codecs = ProxyCodecs()
    one, other = (open_decoder(each, codecs=codecs) for each in made["h264"].videos[:2])
    plain = linear_frames(one.index.proxy.proxy)
    list(one.run(DecodeJob((2,))))
    list(other.run(DecodeJob((2,))))
    ((_, frame),) = one.run(DecodeJob((3,)))
    np.testing.assert_array_equal(frame, plain[3])


def test_a_job_that_is_left_early_leaves_nothing_wrong(made):
    decoder = open_decoder(made["h264"].videos[0])
    plain = linear_frames(decoder.index.proxy.proxy)
    run = decoder.run(DecodeJob((1, 2, 3, 4, 5)))
    next(run)
    run.close()
    for wanted in ((2, 3), (0,), (7, 8)):
        for number, frame in decoder.run(DecodeJob(wanted)):
            np.testing.assert_array_equal(frame, plain[number])


def test_times_are_the_originals(made):
    proxies = made["h264"]
    for source, row in zip(proxies.videos, rows_of(proxies), strict=True):
        original, index = open_index(row.path), open_index(source)
        np.testing.assert_array_equal(index.pts, original.pts)
        np.testing.assert_array_equal(index.duration, original.duration)
        np.testing.assert_array_equal(index.gop_start, original.gop_start)
        assert index.info.time_base == original.info.time_base
        assert index.fingerprint == original.fingerprint
        assert index.original_size == original.info.upright_size
        assert index.info.upright_size == (row.height, row.width)


def test_a_proxy_needs_no_original(made, tmp_path):
    shutil.copytree(made["h264"].folder, tmp_path / "elsewhere")
    source = type(made["h264"])(tmp_path / "elsewhere").of("/another/machine/a.mp4")
    assert str(source) == "/another/machine/a.mp4"
    frames, _ = read_whole(open_decoder(source), [DecodeJob((3,))])
    np.testing.assert_array_equal(frames[0], linear_frames(source.proxy)[3])


def test_a_damaged_packet_loses_what_leans_on_it_and_nothing_else(proxies):
    source = proxies.of("a.mp4")
    table, plain = open_index(source).table, linear_frames(source.proxy)
    with source.proxy.open("r+b") as file:
        file.seek(int(table.offsets[11]) + 5)
        file.write(b"\x00\xff\x00")
    decoder, came = open_decoder(source), []
    said = r"frame 11 and 2 more of a.mp4.*its proxy .* is damaged"
    with pytest.raises(DecodeError, match=said):
        came.extend(decoder.run(DecodeJob((7, 10, 11, 12, 15, 16))))
    assert [number for number, _ in came] == [7, 10, 16]
    for number, frame in came:
        np.testing.assert_array_equal(frame, plain[number])
    assert [n for n, _ in decoder.run(DecodeJob((10,)))] == [10]


@pytest.mark.parametrize("change", ["gone", "cut", "another", "a folder"])
def test_a_proxy_that_is_not_the_one_that_was_made_is_named(proxies, change):
    source = proxies.of("a.mp4")
    decoder = open_decoder(source)
    if change == "cut":
        os.truncate(source.proxy, source.proxy_bytes - 1)
    elif change == "another":
        shutil.copy(proxies.of("b.mp4").proxy, source.proxy)
    else:
        source.proxy.unlink()
        if change == "a folder":
            source.proxy.mkdir()
    with pytest.raises(OpenError, match=r"proxy .*a.mp4.*frame 3 of a.mp4 was asked for") as found:
        list(decoder.run(DecodeJob((3,))))
    assert found.value.source == "a.mp4"
    assert found.value.pts == int(decoder.index.pts[3])


def test_another_proxy_of_the_same_length_is_never_shown(proxies):
    source = proxies.of("a.mp4")
    content = bytearray(source.proxy.read_bytes())
    source.proxy.write_bytes(bytes(reversed(content)))
    with pytest.raises(DecodeError, match="is damaged"):
        list(open_decoder(source).run(DecodeJob((3,))))


@pytest.mark.parametrize("change", ["gone", "cut", "empty", "another"])
def test_facts_that_are_not_those_of_the_proxy_are_refused(proxies, change):
    source = proxies.of("a.mp4")
    content = source.entry.read_bytes()
    if change == "gone":
        source.entry.unlink()
    elif change == "another":
        shutil.copy(proxies.of("b.mp4").entry, source.entry)
    else:
        source.entry.write_bytes(content[: len(content) // 2] if change == "cut" else b"")
    with pytest.raises(OpenError, match=r"cannot open the proxy of a.mp4") as found:
        open_index(source)
    assert found.value.source == "a.mp4"


def test_a_gpu_is_refused_in_words(made):
    with pytest.raises(
        BackendError, match="proxies are decoded on the CPU, by PyAV: leave gpu out"
    ):
        open_decoder(made["h264"].videos[0], gpu=0)


@needs_torchcodec
def test_another_backend_is_refused_for_proxies(made):
    with pytest.raises(BackendError, match="decoded on the CPU, by PyAV: leave backend out"):
        open_decoder(made["h264"].videos[0], decoding=TORCHCODEC)
