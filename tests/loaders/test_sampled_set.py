"""Rows of a manifest are sampled like videos: exactly, resumable, with their columns."""

from fractions import Fraction
from functools import partial
from itertools import chain

import numpy as np
import pytest
import torch
from PIL import Image

from headrace import ImageSequence, Manifest, RandomClips, SegmentClips, UniformClips
from headrace.loaders.sampled_set import SampledSet
from headrace.loaders.video_set import VideoSet
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
from headrace.testing.synth import SynthClip
from loaders.videos import ROW_SAMPLERS, SEGMENTS, contents, epochs, samples, takes

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

ONE = UniformClips(num_clips=1, num_frames=1)


@pytest.fixture
def opened(loader):
    """Return `opened(files, sampler)`: the loader for a kind of sampler."""

    def open_loader(files, sampler):
        door, option = takes(sampler)
        return loader(door, files, batch_size=4, **option)

    return open_loader


@pytest.fixture
def clips(loader):
    return partial(loader, "clips", batch_size=4)


@pytest.mark.parametrize("sampler", ROW_SAMPLERS, ids=repr)
def test_every_frame_is_of_its_row_and_equals_a_plain_decode(manifest, plain, opened, sampler):
    batches = list(opened(manifest, sampler))
    assert all(torch.equal(batch.frames, plain.of(batch)) for batch in batches)
    for row, video, label, seconds in samples(batches, "row", "video", "label", "pts_seconds"):
        number, start, end, name, _, _ = SEGMENTS[row]
        assert video == number == manifest.video[row]
        assert manifest.classes["label"][label] == name
        assert np.min(seconds) >= float(start or 0) - 1e-9
        assert np.max(seconds) < float(end or 100)


def test_a_frame_in_two_rows_is_decoded_once(videos, loader):
    rows = [{"path": videos[1], "start_seconds": k / 100} for k in range(10)]
    options = {"sampling": SequentialFrames(), "prefetch_next_epoch": False, "lookahead": 1000}
    each = loader(files=Manifest.of_rows(rows), **options)
    assert sum(map(len, each)) == 25 + sum(25 - -(-30 * k // 100) for k in range(1, 10))
    assert each.statistics.frames_decoded == 25


def test_weights_and_balance_are_those_of_the_rows(manifest, store):
    opened = VideoSet.open(manifest.videos, index_store=store)
    rows = SampledSet.of_rows(manifest, opened, skip_bad=False)

    def came(weights):
        clips = RandomClips(num_frames=1, weights=weights)
        sampler = rows.bind(clips, seed=None, batch_size=1, ranks=1)
        orders = [sampler.order(opened.population, epoch) for epoch in range(40)]
        drawn = np.concatenate([order.rows_at(np.arange(len(order))) for order in orders])
        return np.bincount(drawn, minlength=6) / len(drawn)

    assert np.abs(came(manifest.weights) - np.array([1, 2, 1, 4, 1, 0]) / 9).max() < 0.05
    shares = came(manifest.balanced())
    per_class = np.array([shares[of].sum() for of in ([0, 2, 5], [1], [3], [4])])
    assert np.abs(per_class - 0.25).max() < 0.05


def test_too_short_rows_and_videos_are_skipped_with_a_warning(manifest, videos, clips):
    rows = RandomClips(num_frames=5, fps=10, boundary="skip")
    whole = RandomClips(num_frames=26, boundary="skip")
    for files, of_row, sampler, short in (
        (manifest, manifest.video, rows, (4,)),
        (videos, range(4), whole, (1, 3)),
    ):
        each = clips(files, clips=sampler, batch_size=1)
        assert each.too_short == short
        kept = [(row, video) for row, video in enumerate(of_row) if row not in short]
        assert sorted(samples(each, "row", "video")) == kept


def test_padded_frames_are_marked_in_the_batch(loader, plain, clips):
    (batch,) = clips(clips=UniformClips(num_clips=1, num_frames=20, boundary="pad"))
    assert batch.is_pad.sum(1).tolist() == [0, 0, 0, 2]
    assert batch.index[3].tolist() == [*range(18), 17, 17]
    assert torch.equal(batch.frames, plain.of(batch))
    assert not next(iter(loader())).is_pad.any()


def test_rows_that_cannot_be_used_are_left_out_with_their_weights(videos, loader, clips):
    rows = [{"path": "gone.mp4", "weight": 9}, {"path": videos[1], "weight": 1}]
    rows += [{"path": videos[0], "weight": 3}]
    manifest = Manifest.of_rows(rows)
    weighed = RandomClips(num_frames=2, weights=manifest.weights)
    each = clips(manifest, clips=weighed, batch_size=1, on_error="skip")
    came = [row for (row,) in samples(epochs(each, 20), "row")]
    assert [left.source for left in each.skipped_videos] == ["gone.mp4"]
    assert set(came) == {1, 2}
    assert 20 <= came.count(2) <= 40
    each = loader(files=late(videos), sampling=SequentialFrames(), on_error="skip")
    assert {label for (label,) in samples(each, "label")} == {1, 3}
    assert [str(left)[:5] for left in each.skipped_videos] == ["row 1"]


def late(videos):
    """Rows, the second of which starts behind the end of its video."""
    rows = [
        {"path": videos[n // 2], "label": n + 1, "start_seconds": 99 * (n % 2)} for n in range(3)
    ]
    return Manifest.of_rows(rows, name="mine")


def test_a_substitute_comes_with_its_own_row_and_label(videos, loader, tmp_path):
    bad, content = tmp_path / "bad.mp4", videos[0].read_bytes()
    half = len(content) // 2
    bad.write_bytes(content[:half] + bytes(len(content) - half))
    rows = [{"path": bad, "label": "bad"}, {"path": videos[1], "label": "good"}]
    each = loader(files=Manifest.of_rows(rows), on_error="skip")
    came = {*samples(each, "row", "video", "label")}
    assert came <= {(0, 0, 0), (1, 1, 1)}
    assert came
    assert each.statistics.samples_substituted or each.skipped_videos


def test_ranks_share_the_rows_and_fewer_rows_than_a_batch_are_one(manifest, clips):
    ranks = [clips(manifest, clips=ONE, rank=rank, num_replicas=2) for rank in range(2)]
    assert sorted(samples(chain(*ranks), "row")) == [(row,) for row in range(6)]
    rows = list(samples(clips(manifest, clips=ONE), "row"))
    [batch] = clips(manifest, clips=ONE, batch_size=64)
    assert list(samples(batch, "row")) == rows


def test_a_time_that_was_written_as_a_decimal_is_that_of_its_frame(videos, loader):
    rows = [{"path": videos[1], "start_seconds": n / 30, "end_seconds": 0.8} for n in range(24)]
    first = loader(files=Manifest.of_rows(rows), sampling=SequentialFrames(stride=99))
    assert [index for (index,) in samples(first, "index")] == list(range(24))


@pytest.mark.parametrize("is_of_rows", [False, True])
def test_weights_by_path_are_those_of_a_video_and_all_its_rows(
    manifest, videos, opened, is_of_rows
):
    weights = {videos[0]: 1, videos[1]: 0, str(videos[2]): 6, videos[3]: 0, "other.mp4": 5}
    in_order, drawn = [1, 0, 6, 0], set()
    if is_of_rows:
        in_order = [in_order[videos.index(manifest.videos[video])] for video in manifest.video]
    for kind in (
        partial(RandomClips, num_frames=1),
        partial(SegmentClips, num_segments=2),
        lambda weights: UniformFrames(over=weights),
    ):
        files = manifest if is_of_rows else videos
        by_path, by_place = (opened(files, kind(weights=each)) for each in (weights, in_order))
        batches = list(by_path)
        assert contents(batches) == contents(by_place)
        drawn |= {video for (video,) in samples(batches, "video")}
    assert drawn == {0, 2}


def test_rows_may_be_of_pictures_in_place_of_files(tmp_path, videos, loader):
    for number in range(6):
        Image.new("RGB", (16, 16), (40 * number,) * 3).save(tmp_path / f"{number}.png")
    pictures = {"path": ImageSequence("%d.png", rate=10), "label": "a", "start_seconds": 0.2}
    manifest = Manifest.of_rows([pictures, {"path": videos[0], "label": "b"}], folder=tmp_path)
    assert {str(each) for each in manifest.split(0.5)[0].videos} <= set(map(str, manifest.videos))
    sampling = UniformFrames(over={ImageSequence(tmp_path / "%d.png", rate=10): 1, videos[0]: 0})
    batch = next(iter(loader(files=manifest, sampling=sampling, batch_size=20, size=(8, 8))))
    assert set(batch.row.tolist()) == {0}
    assert set(batch.index.tolist()) == {2, 3, 4, 5}
    assert batch.frames[:, 0, 0, 0].tolist() == (40 * batch.index).tolist()


def test_rows_that_follow_each_other_are_cut_where_times_were_rounded_to_milliseconds(
    written, loader
):
    video = written(SynthClip(container="mkv", num_frames=60, frame_rate=Fraction(60)))
    ends = [f"{cut / 60:.6f}" for cut in range(1, 60)]
    rows = [{"path": video, side: end} for end in ends for side in ("end_seconds", "start_seconds")]
    options = {"sampling": SequentialFrames(), "batch_size": 60, "size": (8, 8)}
    batches = list(loader(files=Manifest.of_rows(rows), **options))
    assert len(batches) == 59
    for number, batch in enumerate(batches):
        first, second = 2 * number, 2 * number + 1
        assert batch.index.tolist() == list(range(60))
        assert batch.row.tolist() == [first] * (number + 1) + [second] * (59 - number)


@pytest.fixture
def adapted(loader, videos, store, tmp_path):
    """Return a function: a sampler bound to four videos behind one that cannot be opened."""
    (tmp_path / "text.mp4").write_text("this is no video")
    opened = VideoSet.open([tmp_path / "text.mp4", *videos], skip_bad=True, index_store=store)
    sampled = SampledSet(videos=opened)
    return lambda sampler, seed=None: sampled.bind(sampler, seed=seed, batch_size=1, ranks=1)


def test_a_sampler_is_adapted_to_the_videos_that_were_opened(adapted, videos, store):
    clips, wrapped = RandomClips(num_frames=3), RandomClips(num_frames=99, boundary="wrap")
    assert adapted(UniformFrames(), 7) == UniformFrames(seed=7)
    for seed in (None, 3):
        assert adapted(UniformFrames(seed=3), seed) == UniformFrames(seed=3)
    assert adapted(clips, 7) == RandomClips(num_frames=3, seed=7)
    assert adapted(SequentialFrames(), 7) == SequentialFrames()
    assert adapted(wrapped, 0) == wrapped  # fits every video
    for kind in (UniformFrames, ShuffledFrames):
        assert adapted(kind(over=(9.0, 1.0, 2.0, 3.0, 4.0))) == kind(over=(1.0, 2.0, 3.0, 4.0))
    opened = VideoSet.open(videos, index_store=store)
    assert opened.population.shown_until is None
    timed = opened.timed_population()
    assert timed.shown_until is not None
    assert np.array_equal(timed.video_start, opened.population.video_start)


def test_what_cannot_be_sampled_is_refused(manifest, loader, refused):
    of_others = loader(files=manifest.subset([0, 1, 2, 3, 5]))
    names = {"address": "https://u:pass@h/a.mp4", "too_long": RandomClips(num_frames=5, fps=10)}
    refused("rows", of_others=of_others, **names)
