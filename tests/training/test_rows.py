"""Rows of a manifest are sampled as videos are: exactly, resumable, with what is said of them."""

import csv
from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image

from headrace import Around, ClipLoader, FrameLoader, Manifest, RandomClips, SpreadClips
from headrace.errors import ConfigError, MediaError
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.row_set import RowSet
from headrace.training.video_set import VideoSet
from headrace.video.image_sequence import ImageSequence
from training.videos import SIZE, contents

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")

SEGMENTS = [
    # video, from, to, label, weight, group
    (0, 0.2, 0.9, "run", 1, "x"),
    (0, 0.5, 1.2, "jump", 2, "x"),
    (1, "", "", "run", 1, "y"),
    (2, 0.4, "", "sit", 4, ""),
    (0, 0.49, 0.51, "blink", 1, ""),
    (3, "", 0.5, "run", 0, ""),
]


@pytest.fixture(scope="module")
def manifest(videos, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["path", "start_seconds", "end_seconds", "label", "weight", "group"])
        out.writerows([videos[video], *rest] for video, *rest in SEGMENTS)
    return Manifest.read(path)


@pytest.fixture
def options(store):
    return {"batch_size": 4, "size": SIZE, "store": store, "workers": 2}


def facts(batches):
    """All that must be equal, with rows and what is said of them."""
    said = [(b.row.tolist(), b.is_pad.tolist(), b.label.tolist(), b.group) for b in batches]
    return list(zip(contents(batches), said, strict=True))


SAMPLERS = [
    InOrder(),
    Uniform(over="seconds"),
    Permutation(over="videos"),
    Bursts(frames_per_burst=2, lanes=8),
    Around(delta_seconds=(-0.1, 0, 0.04), sampling=Permutation()),
    RandomClips(num_frames=3, fps=10, boundary="pad", each_once="starts"),
    RandomClips(num_frames=5, stride=3, boundary="skip"),
    UniformClips(num_clips=2, num_frames=4, fps=12.5, boundary="pad"),
    SpreadClips(num_segments=4),
]


def loader_for(sampler):
    if sampler.traits.num_frames is None:
        return partial(FrameLoader, sampling=sampler)
    return partial(ClipLoader, clips=sampler)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_every_frame_is_of_its_row_and_equals_a_plain_decode(manifest, plain, options, sampler):
    with loader_for(sampler)(manifest, **options) as loader:
        batches = list(loader)
    for batch in batches:
        assert torch.equal(batch.frames, plain.of(batch))
        for row, video, label, times in zip(
            batch.row.tolist(), batch.video.tolist(), batch.label, batch.pts_seconds, strict=True
        ):
            number, start, end, name, _, _ = SEGMENTS[row]
            assert video == number == manifest.video[row]
            assert manifest.classes["label"][label] == name
            assert times.min() >= float(start or 0) - 1e-9
            assert times.max() < float(end or 100)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_rows_are_the_same_whatever_the_plan_and_are_resumed_to_the_sample(
    manifest, options, sampler
):
    def opened(**more):
        return loader_for(sampler)(manifest, **{**options, **more})

    options = {**options, "batch_size": 3}
    with opened() as loader:
        whole = facts([batch for _ in range(2) for batch in loader])
    with opened(lookahead=1, workers=1) as naive:
        assert facts([batch for _ in range(2) for batch in naive]) == whole
    with opened() as begun:
        seen = facts(list(islice(begun, 1)))
        state = begun.state_dict()
    with opened(workers=1) as resumed:
        resumed.load_state_dict(state)
        epochs = 2 if begun.epoch == resumed.epoch else 1
        assert seen + facts([batch for _ in range(epochs) for batch in resumed]) == whole


def test_a_frame_in_two_rows_is_decoded_once(videos, options):
    rows = [{"path": videos[1], "start_seconds": k / 100} for k in range(10)]
    options = {**options, "persistent": False, "lookahead": 1000}
    with FrameLoader(Manifest.of_rows(rows), sampling=InOrder(), **options) as loader:
        delivered = sum(len(batch) for batch in loader)
        assert loader.statistics.frames_decoded == 25
    assert delivered == 25 + sum(25 - -(-30 * k // 100) for k in range(1, 10))


def test_weights_and_balance_are_those_of_the_rows(manifest, store):
    opened = VideoSet.open(manifest.videos, store=store)
    rows = RowSet.open(manifest, opened, skip_bad=False)

    def came(weights):
        clips = RandomClips(num_frames=1, weights=weights)
        sampler = rows.adapted(clips, opened.use(seed=None, batch_size=1, ranks=1))
        orders = [sampler.order(opened.population, epoch) for epoch in range(40)]
        drawn = np.concatenate([order.rows_at(np.arange(len(order))) for order in orders])
        return np.bincount(drawn, minlength=6) / len(drawn)

    assert np.abs(came(manifest.weights) - np.array([1, 2, 1, 4, 1, 0]) / 9).max() < 0.05
    shares = came(manifest.balanced())
    per_class = np.array([shares[of].sum() for of in ([0, 2, 5], [1], [3], [4])])
    assert np.abs(per_class - 0.25).max() < 0.05


def test_rows_that_are_too_short_are_skipped_and_told(manifest, options):
    clips = RandomClips(num_frames=5, fps=10, boundary="skip")
    with ClipLoader(manifest, clips=clips, **{**options, "batch_size": 1}) as loader:
        assert loader.too_short == (4,)
        assert sorted(int(batch.row) for batch in loader) == [0, 1, 2, 3, 5]
    with pytest.raises(ConfigError, match=r"line 6 of .*rows\.csv \(.*video-0\.mp4\) shows 0\.0"):
        ClipLoader(manifest, clips=RandomClips(num_frames=5, fps=10), **options)


def test_videos_that_are_too_short_are_skipped_and_told(videos, options):
    clips = RandomClips(num_frames=26, boundary="skip")
    with ClipLoader(videos, clips=clips, **{**options, "batch_size": 1}) as loader:
        assert loader.too_short == (1, 3)
        batches = list(loader)
    assert sorted(int(batch.row) for batch in batches) == [0, 2]
    assert all(torch.equal(batch.row, batch.video) for batch in batches)


def test_padded_frames_are_marked_in_the_batch(videos, plain, options):
    clips = UniformClips(num_clips=1, num_frames=20, boundary="pad")
    with ClipLoader(videos, clips=clips, **options) as loader:
        (batch,) = loader
    assert batch.is_pad.sum(1).tolist() == [0, 0, 0, 2]
    assert batch.index[3].tolist() == [*range(18), 17, 17]
    assert torch.equal(batch.frames, plain.of(batch))
    with FrameLoader(videos, **options) as loader:
        assert not next(iter(loader)).is_pad.any()


def test_a_row_in_whose_time_nothing_begins_is_named_or_left_out(videos, options):
    rows = [
        {"path": videos[0], "label": 1},
        {"path": videos[0], "label": 2, "start_seconds": 99},
        {"path": videos[1], "label": 3},
    ]
    manifest = Manifest.of_rows(rows, name="mine")
    message = r"row 1 of mine is of 99 s to its end of .*video-0\.mp4, in which no frame begins"
    with pytest.raises(MediaError, match=message):
        FrameLoader(manifest, **options)
    with FrameLoader(manifest, sampling=InOrder(), on_error="skip", **options) as loader:
        assert {int(each) for batch in loader for each in batch.label} == {1, 3}
        assert [str(each)[:5] for each in loader.left_out] == ["row 1"]
    with pytest.raises(ConfigError, match="no row of mine has a frame to sample; the first: row"):
        FrameLoader(manifest.subset([1]), on_error="skip", **options)


def test_a_substitute_comes_with_its_own_row_and_label(videos, options, tmp_path):
    bad = tmp_path / "bad.mp4"
    content = bytearray(videos[0].read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    bad.write_bytes(content)
    rows = [{"path": bad, "label": "bad"}, {"path": videos[1], "label": "good"}]
    with FrameLoader(Manifest.of_rows(rows), on_error="skip", **options) as loader:
        batches = list(loader)
        assert loader.statistics.samples_substituted or loader.left_out
    for batch in batches:
        assert torch.equal(batch.row, batch.video)
        assert torch.equal(batch.row, batch.label)


def test_rows_of_videos_that_cannot_be_opened_are_left_out_with_their_weights(videos, options):
    rows = [{"path": "gone.mp4", "weight": 9}, {"path": videos[1], "weight": 1}]
    rows += [{"path": videos[0], "weight": 3}]
    manifest = Manifest.of_rows(rows)
    clips = RandomClips(num_frames=2, weights=manifest.weights)
    options = {**options, "batch_size": 1, "on_error": "skip"}
    with ClipLoader(manifest, clips=clips, **options) as loader:
        came = [int(batch.row) for _ in range(20) for batch in loader]
        assert [each.source for each in loader.left_out] == ["gone.mp4"]
    assert set(came) == {1, 2}
    assert 20 <= came.count(2) <= 40


def test_a_state_of_other_rows_is_refused(manifest, options):
    with FrameLoader(manifest, **options) as loader:
        state = loader.state_dict()
    with (
        FrameLoader(manifest.subset([0, 1, 2, 3, 5]), **options) as other,
        pytest.raises(ConfigError, match=r"checksum .* same videos and rows"),
    ):
        other.load_state_dict(state)


def test_ranks_share_the_rows(manifest, options):
    clips = UniformClips(num_clips=1, num_frames=1)
    options = {**options, "batch_size": 1, "num_replicas": 2}
    came = []
    for rank in range(2):
        with ClipLoader(manifest, clips=clips, rank=rank, **options) as loader:
            came += [int(batch.row) for batch in loader]
    assert sorted(came) == list(range(6))


def test_a_manifest_is_for_loaders_and_datasets(manifest, store):
    with pytest.raises(ConfigError, match=r"loaders and datasets of frames .* manifest\.videos"):
        VideoSet.open(manifest, store=store)


def test_a_column_that_is_not_there_is_an_attribute_error(videos, options):
    with FrameLoader(videos, **options) as loader:
        batch = next(iter(loader))
    with pytest.raises(AttributeError, match=r"a Batch has .*no 'label'"):
        _ = batch.label


def test_a_time_that_was_written_as_a_decimal_is_that_of_its_frame(videos, options):
    rows = [{"path": videos[1], "start_seconds": n / 30, "end_seconds": 0.8} for n in range(24)]
    with FrameLoader(Manifest.of_rows(rows), sampling=InOrder(stride=99), **options) as loader:
        first = [int(index) for batch in loader for index in batch.index]
    assert first == list(range(24))


def test_weights_by_path_are_those_of_all_rows_of_a_video(manifest, videos, options):
    weights = {videos[0]: 1, videos[1]: 0, str(videos[2]): 6, videos[3]: 0}
    by_row = [weights.get(path, weights.get(str(path))) for path in manifest.videos]
    in_order = [by_row[video] for video in manifest.video]
    for by_path, by_place in (
        (RandomClips(num_frames=1, weights=weights), RandomClips(num_frames=1, weights=in_order)),
        (
            SpreadClips(num_segments=2, weights=weights),
            SpreadClips(num_segments=2, weights=in_order),
        ),
    ):
        with (
            ClipLoader(manifest, clips=by_path, **options) as one,
            ClipLoader(manifest, clips=by_place, **options) as other,
        ):
            assert facts(one) == facts(other)
    by_path, by_place = Uniform(over=weights), Uniform(over=in_order)
    with (
        FrameLoader(manifest, sampling=by_path, **options) as one,
        FrameLoader(manifest, sampling=by_place, **options) as other,
    ):
        assert facts(one) == facts(other)


def test_rows_may_be_of_pictures_in_place_of_files(tmp_path, videos, store):
    for number in range(6):
        Image.new("RGB", (16, 16), (40 * number,) * 3).save(tmp_path / f"{number}.png")
    pictures = ImageSequence("%d.png", rate=10)
    rows = [
        {"path": pictures, "label": "a", "start_seconds": 0.2},
        {"path": videos[0], "label": "b"},
    ]
    manifest = Manifest.of_rows(rows, folder=tmp_path)
    assert {str(each) for each in manifest.split(0.5)[0].videos} <= set(map(str, manifest.videos))
    sampling = Uniform(over={ImageSequence(tmp_path / "%d.png", rate=10): 1, videos[0]: 0})
    with FrameLoader(
        manifest, sampling=sampling, batch_size=20, size=(8, 8), store=store
    ) as loader:
        batch = next(iter(loader))
    assert set(batch.row.tolist()) == {0}
    assert set(batch.index.tolist()) == {2, 3, 4, 5}
    assert batch.frames[:, 0, 0, 0].tolist() == (40 * batch.index).tolist()


def test_rows_that_follow_each_other_are_cut_where_times_were_rounded_to_milliseconds(
    tmp_path, store
):
    video = write_clip(
        tmp_path / "clip", SynthClip(container="mkv", num_frames=60, frame_rate=Fraction(60))
    )
    for cut in range(1, 60):
        written = f"{cut / 60:.6f}"
        rows = [{"path": video, "end_seconds": written}, {"path": video, "start_seconds": written}]
        with FrameLoader(
            Manifest.of_rows(rows), sampling=InOrder(), batch_size=60, size=(8, 8), store=store
        ) as loader:
            batch = next(iter(loader))
        assert batch.index.tolist() == list(range(60))
        assert batch.row.tolist() == [0] * cut + [1] * (60 - cut)


def test_fewer_rows_than_a_batch_are_one(manifest, options):
    with ClipLoader(manifest, clips=UniformClips(num_clips=1, num_frames=1), **options) as each:
        rows = [row for batch in each for row in batch.row.tolist()]
    options["batch_size"] = 64
    with ClipLoader(manifest, clips=UniformClips(num_clips=1, num_frames=1), **options) as each:
        assert [batch.row.tolist() for batch in each] == [rows]
