"""Proxies are looked up by their originals, and their frames equal a linear decode."""

import json
import os
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import headrace
from decode.backends import TORCHCODEC, needs_torchcodec
from decode.linear import linear_frames
from decode.proxied import CODECS, made_proxies, random_jobs, write_originals
from headrace import Crop, DecodeJob, FrameFormat, Proxies, Source, open_decoder, open_index
from headrace.decode.protocol import decode_stacked
from headrace.decode.proxies import LIST
from headrace.decode.proxy_decoder import ProxyCodecs
from headrace.errors import BackendError, DecodeError, OpenError
from headrace.testing.synth import SynthClip, write_clip
from tests.kit.pages import calls_of, check_message


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxied")
    videos = write_originals(folder / "originals")
    twin = (folder / "others").mkdir() or folder / "others" / "a.mp4"
    write_clip(twin, SynthClip(num_frames=12))
    return made_proxies([*videos, twin], folder / "proxies", folder / "store")


@pytest.fixture
def names(made, originals, tmp_path, monkeypatch):
    """Names for the calls of the page, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def listed(content=None, line=1, **changes):
        if content is None:
            lines = (made.folder / LIST).read_text().splitlines()
            lines[line - 1] = json.dumps({**json.loads(lines[line - 1]), **changes})
            content = "\n".join(lines)
        Path(LIST).write_bytes(content if isinstance(content, bytes) else content.encode())
        return "."

    def with_table(content=None):
        folder = shutil.copytree(made.folder, "copy")
        table = Path(folder, "videos", "b.npz")
        table.write_bytes(table.read_bytes()[:-9] if content is None else content)
        return folder

    return globals() | {
        "Source": Source,
        "interrupted": lambda name: Path(name, ".extraction").mkdir(parents=True) or name,
        "listed": listed,
        "made": made,
        "open": headrace.open,
        "originals": originals,
        "with_table": with_table,
    }


@pytest.mark.parametrize(
    ("call", "message"), calls_of(Path(__file__).with_name("refused_proxies.txt"))
)
def test_invalid_proxies_are_refused(names, call, message):
    check_message(call, message, names)


@pytest.fixture
def originals(made):
    return [source.path for source in made.videos]


def test_videos_keep_their_own_paths_and_order(made, originals):
    found = made.all(reversed(originals))
    assert [source.path for source in found] == [*reversed(originals)]
    assert len(made) == len(originals) == 4
    assert [source.proxy.parent.name for source in found] == ["videos"] * 4
    assert [*made] == made.videos == made.all(made)


def test_a_relative_path_stays_relative(made, originals, monkeypatch):
    monkeypatch.chdir(originals[0].parent)
    source = made.of("a.mp4")
    assert str(source) == "a.mp4"
    assert source.proxy == made.videos[0].proxy


@pytest.mark.parametrize(
    ("path", "number"), [("/x/b.mp4", 1), ("/x/originals/a.mp4", 0), ("/x/others/a.mp4", 3)]
)
def test_missing_originals_are_matched_by_the_end_of_their_path(made, path, number):
    assert made.of(path).proxy == made.videos[number].proxy


def test_a_touched_original_is_accepted_and_a_changed_one_refused(made, originals, tmp_path):
    copy = tmp_path / "b.mp4"
    shutil.copyfile(originals[1], copy)
    assert made.of(copy).proxy == made.videos[1].proxy
    os.truncate(copy, copy.stat().st_size - 1)
    with pytest.raises(OpenError, match=r"b.mp4 was made from another version .*make a new proxy"):
        made.of(copy)


def test_a_reader_reads_from_the_proxy(made, originals):
    with headrace.open(made.of(originals[0])) as proxy, headrace.open(originals[0]) as original:
        assert len(proxy) == len(original)
        assert proxy[5].shape == (64, 86, 3)
        assert abs(proxy[5].mean() - original[5].mean()) < 3
        [ours], [theirs] = (each.get_frames_played_at(0.5).pts for each in (proxy, original))
        assert ours == theirs
        assert proxy.metadata.size == (64, 86)
        assert proxy.metadata.num_frames == original.metadata.num_frames


def test_clips_and_whole_videos_are_read_from_proxies(made, originals):
    sources = made.all(originals[:2])
    clip = headrace.load_clip(sources[0], start=3, num_frames=4, stride=1)
    original = headrace.load_clip(originals[0], start=3, num_frames=4, stride=1)
    np.testing.assert_array_equal(clip.pts, original.pts)
    assert open_index(sources[0]).original_size == original.original_size
    batches = list(headrace.read_frames(sources, workers=2))
    assert sum(len(batch) for batch in batches) == 40 + 29
    with headrace.open(sources[0]) as proxy:
        np.testing.assert_array_equal(clip.frames, proxy[3:7])
        np.testing.assert_array_equal(batches[0].frames[:4], proxy[:4])


SHAPES = (
    FrameFormat(),
    FrameFormat(size=(48, 48)),
    FrameFormat(size=(48, 48), layout="yuv420"),
    FrameFormat(size=(32, 40), crop=Crop(top=3, left=5, height=40, width=40)),
    FrameFormat(size=(48, 48), fit="contain", interpolation="bilinear"),
)


@pytest.fixture(scope="module")
def by_codec(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxied")
    videos = write_originals(folder / "originals")
    store = folder / "store"
    return {each: made_proxies(videos, folder / each, store, codec=each) for each in CODECS}


@pytest.fixture
def proxies(by_codec, tmp_path):
    """Proxies in H.264 that a test may damage."""
    return Proxies(shutil.copytree(by_codec["h264"].folder, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("codec", "shape"),
    [*product(CODECS[:1], SHAPES), *product(CODECS[1:], (SHAPES[0], SHAPES[2]))],
    ids=str,
)
def test_frames_equal_a_linear_decode_of_the_proxy(by_codec, codec, shape):
    """Jobs of several proxies alternate on one codec."""
    codecs, sources = ProxyCodecs(), by_codec[codec].videos
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
def test_a_gop_is_decoded_from_its_keyframe_to_the_last_wanted_frame(by_codec, codec):
    decoder = open_decoder(by_codec[codec].videos[0])
    gop = np.flatnonzero(decoder.index.table.is_keyframe)[1]
    list(decoder.run(DecodeJob((int(gop) + 3,))))
    packets = 4 if codec != "mjpeg" else 1
    assert decoder.counters.packets_read == decoder.counters.frames_decoded == packets
    assert (decoder.counters.seeks, decoder.counters.opens) == (1, 1)


def test_a_following_job_continues_without_a_seek(by_codec):
    decoder = open_decoder(by_codec["h264"].videos[0])
    for number in range(len(decoder.index)):
        list(decoder.run(DecodeJob((number,))))
    assert decoder.counters.frames_decoded == len(decoder.index)
    assert decoder.counters.seeks == 1


def test_jobs_after_an_abandoned_job_are_right(by_codec):
    decoder = open_decoder(by_codec["h264"].videos[0])
    plain = linear_frames(decoder.index.proxy.proxy)
    run = decoder.run(DecodeJob((1, 2, 3, 4, 5)))
    next(run)
    run.close()
    for wanted in ((2, 3), (0,), (7, 8)):
        for number, frame in decoder.run(DecodeJob(wanted)):
            np.testing.assert_array_equal(frame, plain[number])


def test_a_proxy_needs_no_original(by_codec, tmp_path):
    elsewhere = shutil.copytree(by_codec["h264"].folder, tmp_path / "elsewhere")
    source = Proxies(elsewhere).of("/another/machine/a.mp4")
    assert str(source) == "/another/machine/a.mp4"
    frames, _ = decode_stacked(open_decoder(source), [DecodeJob((3,))])
    np.testing.assert_array_equal(frames[0], linear_frames(source.proxy)[3])


def test_a_damaged_packet_loses_only_frames_that_refer_to_it(proxies):
    source = proxies.of("a.mp4")
    table, plain = open_index(source).table, linear_frames(source.proxy)
    with source.proxy.open("r+b") as file:
        file.seek(int(table.offsets[11]) + 5)
        file.write(b"\x00\xff\x00")
    decoder, came = open_decoder(source), []
    message = r"frame 11 of a.mp4 .*nor 2 more .*its proxy .* is damaged"
    with pytest.raises(DecodeError, match=message):
        came.extend(decoder.run(DecodeJob((7, 10, 11, 12, 15, 16))))
    assert [number for number, _ in came] == [7, 10, 16]
    for number, frame in came:
        np.testing.assert_array_equal(frame, plain[number])
    assert [n for n, _ in decoder.run(DecodeJob((10,)))] == [10]


CHANGES = {
    "gone": lambda path, other: path.unlink(),
    "cut": lambda path, other: os.truncate(path, path.stat().st_size - 1),
    "empty": lambda path, other: os.truncate(path, 0),
    "another": lambda path, other: shutil.copy(other, path),
    "a folder": lambda path, other: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_proxy_is_refused_by_name(proxies, change):
    source = proxies.of("a.mp4")
    decoder = open_decoder(source)
    CHANGES[change](source.proxy, proxies.of("b.mp4").proxy)
    with pytest.raises(OpenError, match=r"proxy .*a.mp4.*frame 3 of a.mp4 was requested") as found:
        list(decoder.run(DecodeJob((3,))))
    assert found.value.source == "a.mp4"
    assert found.value.pts == int(decoder.index.pts[3])


@pytest.mark.parametrize("change", CHANGES)
def test_an_entry_of_another_proxy_is_refused(proxies, change):
    source = proxies.of("a.mp4")
    CHANGES[change](source.entry, proxies.of("b.mp4").entry)
    with pytest.raises(OpenError, match=r"cannot open the proxy of a.mp4") as found:
        open_index(source)
    assert found.value.source == "a.mp4"


@needs_torchcodec
def test_proxies_need_the_pyav_backend(by_codec):
    with pytest.raises(BackendError, match="decoded on the CPU, by PyAV: leave backend out"):
        open_decoder(by_codec["h264"].videos[0], decoding=TORCHCODEC)
