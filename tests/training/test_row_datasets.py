"""Datasets on a manifest: the rows and samples that the loaders give, in a stock DataLoader."""

import csv
from itertools import islice

import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2

from headrace import ClipLoader, FrameLoader, Manifest, WithSample
from headrace.errors import ConfigError, MediaError
from headrace.sampling.clips import UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.epoch_sampler import EpochSampler
from training.videos import SIZE

pytestmark = [
    pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

SEGMENTS = [
    # video, from, to, label, weight, group
    (0, 0.2, 0.9, "run", 1, "x"),
    (0, 0.5, 1.2, "jump", 2, "x"),
    (1, "", "", "run", 1, "y"),
    (2, 0.4, "", "sit", 4, ""),
    (3, "", 0.5, "run", 0, ""),
]
COLUMNS = ("label", "weight", "group", "row", "video", "index", "pts_seconds", "is_concealed")


@pytest.fixture(scope="module")
def manifest(videos, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["path", "start_seconds", "end_seconds", "label", "weight", "group"])
        out.writerows([videos[video], *rest] for video, *rest in SEGMENTS)
    return Manifest.read(path)


@pytest.fixture
def frames(manifest, store):
    with FrameDataset(manifest, SIZE, store=store) as dataset:
        yield dataset


def said(batch, pixels):
    """Return all that a batch of a loader or of a DataLoader says, and its pixels."""
    plain = [batch[name] for name in COLUMNS]
    return [
        *(each.tolist() if isinstance(each, torch.Tensor) else list(each) for each in plain),
        batch[pixels].contiguous().numpy().tobytes(),
    ]


SAMPLINGS = [InOrder(), Permutation(seed=3), Uniform(over="seconds"), Permutation(over="videos")]


ONE_WITH_PROCESSES = (Permutation(seed=3), 2)


@pytest.mark.parametrize(
    ("sampling", "workers"), [*((each, 0) for each in SAMPLINGS), ONE_WITH_PROCESSES], ids=repr
)
def test_batches_are_those_of_the_loader(manifest, frames, store, sampling, workers):
    with FrameLoader(
        manifest, sampling=sampling, batch_size=16, size=SIZE, store=store, workers=1
    ) as loader:
        expected = [said(batch, "frames") for _ in range(2) for batch in loader]
    batches = DataLoader(
        frames, batch_size=16, sampler=EpochSampler(frames, sampling), num_workers=workers
    )
    assert [said(batch, "frame") for _ in range(2) for batch in batches] == expected


def test_weights_of_the_rows_are_those_of_the_loader(manifest, frames, store):
    sampling = Uniform(over=manifest.weights, seed=5)
    with FrameLoader(
        manifest, sampling=sampling, batch_size=32, size=SIZE, store=store, workers=1
    ) as loader:
        rows = [batch.row.tolist() for batch in loader]
    batches = DataLoader(frames, batch_size=32, sampler=EpochSampler(frames, sampling))
    assert [batch["row"].tolist() for batch in batches] == rows
    assert 4 not in {each for batch in rows for each in batch}


def test_an_epoch_goes_on_where_it_was_left(frames):
    sampler = EpochSampler(frames, Permutation(seed=1))
    whole = list(sampler)
    again = EpochSampler(frames, Permutation(seed=1))
    begun = list(islice(again, 20))
    resumed = EpochSampler(frames, Permutation(seed=1), rank=0, num_replicas=1)
    resumed.load_state_dict(again.state_dict())
    assert begun + list(resumed) == whole


def test_a_state_of_other_rows_is_refused(manifest, frames, store):
    state = EpochSampler(frames).state_dict()
    with (
        FrameDataset(manifest.subset([0, 1, 2, 3]), SIZE, store=store) as other,
        pytest.raises(ConfigError, match="same videos"),
    ):
        EpochSampler(other).load_state_dict(state)


def test_a_frame_in_two_rows_is_decoded_once_and_both_have_memory_of_their_own(frames, plain):
    first = frames.population.video_start
    # Row 1 begins at 0.5 s; row 0 reaches over it.
    one, two = frames.__getitems__([int(first[1]) - 1, int(first[1])])
    inside = one["index"] - two["index"]
    same = frames.__getitems__([int(first[1]) - 1, int(first[1]) + inside])
    assert same[0]["index"] == same[1]["index"]
    assert [item["row"] for item in same] == [0, 1]
    assert [item["label"] for item in same] == [1, 0]  # run, jump: classes are sorted
    same[0]["frame"].zero_()
    expected = torch.from_numpy(plain.frames[0][same[1]["index"]]).movedim(-1, 0)
    assert torch.equal(same[1]["frame"], expected)


def test_clips_lie_in_their_rows_and_say_what_the_manifest_says(manifest, store, plain):
    with VideoDataset(manifest, clip_len=4, stride=2, size=SIZE, store=store) as clips:
        assert len(clips) == 5
        for row, item in enumerate(map(clips.__getitem__, range(5))):
            number, start, end, name, weight, group = SEGMENTS[row]
            assert (item["row"], item["video"]) == (row, number)
            assert manifest.classes["label"][item["label"]] == name
            assert (item["weight"], item["group"]) == (weight, group)
            assert item["pts_seconds"].min() >= float(start or 0) - 1e-9
            assert item["pts_seconds"].max() < float(end or 100)
            expected = torch.from_numpy(plain.frames[number][item["index"].numpy()])
            assert torch.equal(item["frames"], expected.movedim(-1, 1))
        (batch,) = DataLoader(clips, batch_size=5)
        assert batch["label"].tolist() == [1, 0, 1, 2, 1]
        assert batch["group"] == ["x", "x", "y", "", ""]


def test_clips_that_begin_at_the_start_are_the_loaders(manifest, store):
    clips = UniformClips(num_clips=1, num_frames=3)
    with (
        ClipLoader(
            manifest, clips=clips, batch_size=5, size=SIZE, store=store, workers=1
        ) as loader,
        VideoDataset(manifest, 3, 1, size=SIZE, store=store, start=0) as dataset,
    ):
        batch = next(iter(loader))
        first = batch.index[:, 0] - torch.tensor([each["index"][0] for each in dataset])
        shifted = [
            VideoDataset(manifest.subset([row]), 3, 1, size=SIZE, store=store, start=int(shift))
            for row, shift in enumerate(first)
        ]
        for row, one in enumerate(shifted):
            with one:
                assert torch.equal(one[0]["frames"], batch.frames[row])
                assert one[0]["index"].tolist() == batch.index[row].tolist()


def test_transforms_see_what_the_manifest_says(manifest, store):
    def labelled(frames, sample):
        return frames[..., :1, :1].float() * 0 + sample["label"] + 10 * sample["row"]

    transform = WithSample(labelled)
    with FrameDataset(manifest, SIZE, transform, store=store) as frames:
        start = frames.population.video_start
        assert [float(frames[int(at)]["frame"].max()) for at in start[:4]] == [1, 10, 21, 32]
    with VideoDataset(
        manifest, 2, 1, transform, size=SIZE, store=store, boundary="repeat_last"
    ) as clips:
        assert float(clips[3]["frames"].max()) == 32


def test_chance_follows_from_the_row(manifest, store):
    flip = v2.RandomHorizontalFlip()
    made = []
    for _ in range(2):
        with VideoDataset(manifest, 2, 1, flip, size=SIZE, store=store) as clips:
            clips.set_epoch(3)
            made.append([clips[row]["frames"] for row in (4, 1, 0)])
    assert all(map(torch.equal, *made))


def test_rows_that_cannot_be_are_named_or_left_out(videos, store):
    rows = [
        {"path": videos[0], "label": 1},
        {"path": "gone.mp4", "label": 2},
        {"path": videos[0], "label": 3, "start_seconds": 99},
        {"path": videos[1], "label": 4},
    ]
    manifest = Manifest.of_rows(rows, name="mine")
    with pytest.raises(MediaError, match=r"gone\.mp4"):
        FrameDataset(manifest, SIZE, store=store)
    with pytest.raises(MediaError, match="row 2 of mine is of 99 s"):
        VideoDataset(manifest.subset([0, 2, 3]), store=store)
    with FrameDataset(manifest, SIZE, store=store, on_error="skip") as frames:
        assert [str(each.source)[-8:] for each in frames.left_out] == ["gone.mp4", "eo-0.mp4"]
        sampling = Uniform(over=(0, 9, 9, 1))
        rows = [frames[place]["row"] for place in islice(EpochSampler(frames, sampling), 5)]
        assert rows == [3] * 5
    with VideoDataset(manifest, 2, size=SIZE, store=store, on_error="skip") as clips:
        assert [item["label"] for item in map(clips.__getitem__, range(len(clips)))] == [1, 4]


def test_a_row_that_is_too_short_for_its_clip_is_named(manifest, store):
    with pytest.raises(ConfigError, match=r"no clip of line 2 of .*rows\.csv \(.*video-0\.mp4\)"):
        VideoDataset(manifest.subset([0, 2]), 16, 2, store=store)


def test_a_column_that_a_frame_has_is_refused(videos, store):
    manifest = Manifest.of_rows([{"path": videos[0], "frame": 3}])
    with pytest.raises(ConfigError, match=r"column 'frame'.*rename it"):
        FrameDataset(manifest, store=store)


def test_without_a_manifest_the_row_is_the_video(videos, store):
    with FrameDataset(videos, SIZE, store=store) as frames:
        assert frames[41]["row"] == frames[41]["video"] == 1
    with VideoDataset(["gone.mp4", *videos], 2, store=store, on_error="skip") as clips:
        assert clips[0]["row"] == clips[0]["video"] == 1
