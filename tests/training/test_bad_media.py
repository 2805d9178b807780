"""Bad files among good ones: named, or replaced by rule, counted, listed and then left alone."""

import json
import shutil
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader

from headrace.errors import ConfigError, DecodeError, MediaError, OpenError
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.testing.damage import damage_packets, truncate
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.clip_loader import ClipLoader
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.epoch_sampler import EpochSampler
from headrace.training.loader import FrameLoader
from headrace.training.ranks import Opened
from training.videos import SIZE, PlainFrames, contents

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")

GOOD = SynthClip(num_frames=40, size=(64, 96), gop=8, b_frames=2)
SAMPLINGS = [InOrder(), Uniform(), Permutation(), Bursts(frames_per_burst=3, lanes=8)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A good video, one whose third GOP is damaged, one that is cut, one that is no video."""
    folder = tmp_path_factory.mktemp("bad")
    good = write_clip(folder / "good", GOOD)
    damage_packets(good, folder / "damaged.mp4", ordinals=[20, 21, 22])
    truncate(good, folder / "cut.mp4", keep_fraction=0.6)
    (folder / "text.mp4").write_text("this is no video")
    return folder


@pytest.fixture(scope="module")
def videos(folder):
    return [folder / name for name in ("good.mp4", "text.mp4", "damaged.mp4", "cut.mp4")]


@pytest.fixture
def loader(opens, store):
    return partial(opens, FrameLoader, batch_size=8, size=SIZE, store=store, workers=2)


def test_a_file_that_is_no_video_is_named_at_once(loader, videos):
    with pytest.raises(OpenError, match=r"text\.mp4"):
        loader(videos)


@pytest.mark.parametrize("lookahead", [1, 8, 1000])
def test_a_bad_frame_is_raised_when_its_batch_is_due_and_not_before(loader, folder, lookahead):
    each = loader([folder / "damaged.mp4"], sampling=InOrder(), lookahead=lookahead)
    good = []
    with pytest.raises(DecodeError, match=r"damaged\.mp4") as caught:
        good.extend(each)
    assert caught.value.pts is not None
    first_bad = min(caught.value.missing)
    assert sum(map(len, good)) == first_bad // 8 * 8
    state = each.state_dict()
    assert state["slot"] == first_bad // 8 * 8


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_bad_samples_are_replaced_by_rule_whatever_the_plan(loader, videos, sampling):
    def two_epochs(**options):
        each = loader(videos, sampling=sampling, on_error="skip", **options)
        return contents(each) + contents(each), each

    naive, one = two_epochs(lookahead=1, workers=1)
    for options in [{"lookahead": 20, "workers": 3}, {"lookahead": 2000}, {"lookahead": 5}]:
        planned, other = two_epochs(**options)
        assert planned == naive, options
        assert other.statistics.samples_substituted == one.statistics.samples_substituted > 0
    assert one.statistics.videos_left_out == 1
    assert [error.source for error in one.left_out] == [str(videos[1])]
    assert one.statistics.frames_quarantined > 0


def test_what_is_delivered_is_good_and_every_batch_is_full(loader, videos, store):
    plain = PlainFrames([videos[0]], store)
    each = loader(videos, sampling=Permutation(), on_error="skip")
    batches = list(each)
    assert [len(batch) for batch in batches[:-1]] == [8] * (len(batches) - 1)
    seen = set()
    for batch in batches:
        seen.update(batch.video.tolist())
        for frame, video, index in zip(batch.frames, batch.video, batch.index, strict=True):
            assert video in (0, 2, 3)
            # The other videos are the first one, damaged or cut.
            assert torch.equal(frame, torch.from_numpy(plain.frames[0][index]).movedim(-1, 0))
    assert seen == {0, 2, 3}


def test_all_ranks_take_equally_many_steps(loader, videos):
    ranks = [
        loader(videos, on_error="skip", sampling=Permutation(), rank=rank, num_replicas=3)
        for rank in range(3)
    ]
    assert len({len(list(each)) for each in ranks}) == 1


@pytest.mark.parametrize(
    ("options", "is_asked"),
    [({"on_error": "skip"}, True), ({}, False), ({"on_error": "skip", "rank": 0}, False)],
    ids=str,
)
def test_ranks_compare_what_they_left_out_where_they_may_differ(
    loader, videos, monkeypatch, options, is_asked
):
    asked = []

    @contextmanager
    def agreement(is_asked):
        opened = Opened()
        yield opened
        if is_asked:
            asked.append((opened.checksum, opened.left_out))

    monkeypatch.setattr("headrace.training.planned.agreement", agreement)
    replicas = {"num_replicas": 1} if "rank" in options else {}
    each = loader(videos if "on_error" in options else videos[:1], **options, **replicas)
    assert asked == ([(each.state_dict()["checksum"], 1)] if is_asked else [])


def test_the_next_run_honours_the_quarantine_list(loader, videos, tmp_path):
    path = tmp_path / "quarantine.jsonl"
    first = loader(videos, on_error="skip", quarantine=path, sampling=Permutation())
    batches = contents(first)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert {entry["source"] for entry in entries} == set(map(str, videos[1:]))
    assert all(entry["error"] for entry in entries)
    assert [entry["frames"] for entry in entries if "text" in entry["source"]] == [None]
    known = path.read_text()
    second = loader(videos, on_error="skip", quarantine=path, sampling=Permutation())
    assert contents(second) == batches
    assert second.statistics.frames_quarantined == first.statistics.frames_quarantined
    assert second.statistics.samples_substituted == first.statistics.samples_substituted
    assert path.read_text() == known


def test_what_is_bad_can_be_listed(loader, videos, tmp_path):
    path = tmp_path / "quarantine.jsonl"
    each = loader(videos, on_error="skip", sampling=Permutation())
    assert [(bad.source, bad.index) for bad in each.quarantined] == [(str(videos[1]), None)]
    list(each)
    _, *bad = each.quarantined
    assert len(bad) == each.statistics.frames_quarantined
    sources = [one.source for one in bad]
    assert sources == sorted(sources, key=list(map(str, videos)).index)
    assert set(sources) == set(map(str, videos[2:]))
    damaged = [one.index for one in bad if one.source == str(videos[2])]
    assert damaged == sorted(set(damaged))
    assert 16 <= damaged[0] <= damaged[-1] < 24
    assert all("cannot be decoded" in one.cause for one in bad)
    list(loader(videos, on_error="skip", sampling=Permutation(), quarantine=path))
    again = loader(videos, on_error="skip", sampling=Permutation(), quarantine=path)
    assert again.quarantined == each.quarantined


def test_a_video_that_went_is_listed_as_one(loader, folder, tmp_path):
    paths = [shutil.copy(folder / "good.mp4", tmp_path / f"{n}.mp4") for n in range(2)]
    each = loader(paths, lookahead=1, on_error="skip")
    next(iter(each))
    changed(tmp_path / "1.mp4")
    list(each)  # where much was read ahead, it may have been good
    list(each)
    [bad] = each.quarantined
    assert (bad.source, bad.index) == (str(paths[1]), None)
    assert "has changed" in bad.cause


def test_a_repaired_file_leaves_quarantine(loader, folder, tmp_path):
    shutil.copy(folder / "damaged.mp4", tmp_path / "video.mp4")
    path = tmp_path / "quarantine.jsonl"
    list(loader([tmp_path / "video.mp4"], on_error="skip", quarantine=path))
    shutil.copy(folder / "good.mp4", tmp_path / "video.mp4")
    repaired = loader([tmp_path / "video.mp4"], on_error="skip", quarantine=path)
    list(repaired)
    assert repaired.statistics.frames_quarantined == 0
    assert repaired.statistics.samples_substituted == 0


def test_another_file_is_not_taken_for_a_quarantine_list(loader, videos, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n")
    with pytest.raises(ConfigError, match=r"line 1 of .*notes\.txt is no entry"):
        loader(videos[:1], quarantine=path)


def changed(path):
    """Put another file in its place at one moment, since a thread may be about to read it."""
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes() + b"\0" * 64)
    other.replace(path)


@pytest.mark.parametrize("change", [changed, lambda path: path.unlink()], ids=["changed", "gone"])
def test_a_file_that_changes_during_training_is_named(loader, folder, tmp_path, change):
    paths = [shutil.copy(folder / "good.mp4", tmp_path / f"{n}.mp4") for n in range(2)]
    each = loader(paths, lookahead=8, memory_budget=8 * 4 * 32 * 48 * 3)
    batches = iter(each)
    next(batches)
    change(tmp_path / "1.mp4")
    epochs = (batch for _ in range(50) for batch in each)
    with pytest.raises(MediaError, match=r"1\.mp4.*frame \d+ of it was asked for \(at ") as caught:
        list(epochs)
    assert caught.value.pts is not None


@pytest.mark.parametrize("change", [changed, lambda path: path.unlink()], ids=["changed", "gone"])
def test_a_file_that_changes_during_training_is_replaced_by_the_same_rule(
    loader, folder, tmp_path, change
):
    paths = [shutil.copy(folder / "good.mp4", tmp_path / f"{n}.mp4") for n in range(2)]
    each = loader(paths, lookahead=8, memory_budget=8 * 4 * 32 * 48 * 3, on_error="skip")
    next(iter(each))
    change(tmp_path / "1.mp4")
    list(each)
    batches = list(each)
    assert sum(map(len, batches)) == 80
    assert {video for batch in batches for video in batch.video.tolist()} == {0}
    assert each.statistics.frames_quarantined == 40


def test_nothing_but_bad_frames_is_an_error(loader, folder, tmp_path):
    path = shutil.copy(folder / "good.mp4", tmp_path / "only.mp4")
    each = loader([path], on_error="skip", lookahead=1)
    next(iter(each))
    (tmp_path / "only.mp4").unlink()
    epochs = (batch for _ in range(2) for batch in each)  # the rest of one was perhaps read ahead
    with pytest.raises(ConfigError, match="40 of 40 frames are bad"):
        list(epochs)


def test_a_clip_with_a_bad_frame_is_replaced_as_a_whole(videos, store):
    def epoch(**options):
        clips = RandomClips(num_frames=4, stride=2, each_once="starts")
        with ClipLoader(
            videos, clips=clips, batch_size=4, size=SIZE, store=store, on_error="skip", **options
        ) as loader:
            return contents(loader), loader.statistics

    naive, statistics = epoch(lookahead=1, workers=1)
    assert statistics.samples_substituted > 0
    assert epoch(workers=3)[0] == naive


def test_videos_none_of_which_can_be_read_are_an_error(loader, folder):
    with pytest.raises(ConfigError, match=r"got 1 that cannot be read; .*text\.mp4"):
        loader([folder / "text.mp4"], on_error="skip")


def test_a_file_that_was_replaced_during_training_is_not_bad_in_the_next_run(
    loader, folder, tmp_path
):
    path = shutil.copy(folder / "good.mp4", tmp_path / "0.mp4")
    other = shutil.copy(folder / "good.mp4", tmp_path / "1.mp4")
    options = {"on_error": "skip", "quarantine": tmp_path / "list.jsonl", "lookahead": 1}
    each = loader([path, other], **options)
    next(iter(each))
    changed(tmp_path / "1.mp4")
    list(each)
    list(each)
    assert each.statistics.frames_quarantined == 40
    again = loader([path, other], **options)
    assert again.statistics.frames_quarantined == 0


def test_a_line_that_was_cut_is_left_out_and_the_next_one_is_whole(loader, folder, tmp_path):
    path = tmp_path / "list.jsonl"
    options = {"on_error": "skip", "quarantine": path, "sampling": InOrder()}
    list(loader([folder / "damaged.mp4"], **options))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    other = loader([folder / "damaged.mp4"], **options)
    list(other)
    assert other.statistics.frames_quarantined > 0
    list(loader([folder / "cut.mp4", folder / "text.mp4"], **options))
    entries = [
        json.loads(line) for line in path.read_text().splitlines()[len(whole.splitlines()) + 1 :]
    ]
    assert {entry["source"] for entry in entries} == {
        str(folder / name) for name in ("text.mp4", "cut.mp4")
    }
    loader([folder / "damaged.mp4"], **options)


def test_an_entry_that_was_appended_to_a_cut_one_counts(loader, folder, tmp_path):
    path = tmp_path / "list.jsonl"
    options = {"on_error": "skip", "quarantine": path, "sampling": InOrder()}
    first = loader([folder / "damaged.mp4"], **options)
    list(first)
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + whole.rstrip(b"\n"))
    again = loader([folder / "damaged.mp4"], **options)
    assert again.statistics.frames_quarantined == first.statistics.frames_quarantined > 0


def test_a_list_that_cannot_be_written_is_said_at_once(loader, folder, tmp_path):
    with pytest.raises(ConfigError, match=r"cannot use .*gone.list\.jsonl as a quarantine list"):
        loader([folder / "good.mp4"], on_error="skip", quarantine=tmp_path / "gone" / "list.jsonl")


def test_weights_are_those_of_the_videos_that_can_be_read(loader, videos):
    each = loader(videos, on_error="skip", sampling=Uniform(over=(0.0, 5.0, 1.0, 0.0)))
    assert {video for batch in each for video in batch.video.tolist()} == {2}


def test_weights_of_a_sampler_are_those_of_the_videos_that_a_dataset_opened(videos, store):
    with FrameDataset(videos, SIZE, on_error="skip", store=store) as frames:
        sampler = EpochSampler(frames, sampling=Uniform(over=(0.0, 5.0, 1.0, 0.0)))
        assert {frames[place]["video"] for place in [*sampler][:8]} == {2}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_dataset_gives_others_in_place_of_bad_frames(folder, videos, store, workers):
    """By the same rule in any process; `video` is the place in the list that was given."""
    plain = PlainFrames([videos[0]], store)
    with FrameDataset(videos, SIZE, on_error="skip", store=store) as frames:
        assert [error.source for error in frames.left_out] == [str(videos[1])]
        assert len(frames) > 80
        alone = [(each["video"], each["index"]) for each in frames.__getitems__(range(len(frames)))]
        loader = DataLoader(frames, batch_size=8, num_workers=workers)
        batches = list(loader)
    found = [(int(v), int(i)) for b in batches for v, i in zip(b["video"], b["index"], strict=True)]
    assert found == alone
    assert {video for video, _ in found} == {0, 2, 3}
    asked = [*range(40), *range(40)]
    differ = [
        n for n, (given, index) in enumerate(zip(found, asked, strict=False)) if given[1] != index
    ]
    assert len(differ) > 0
    assert all(n >= 40 for n in differ)  # the good video is given as it is
    for batch in batches:
        for pixels, index in zip(batch["frame"], batch["index"], strict=True):
            expected = torch.from_numpy(plain.frames[0][int(index)]).movedim(-1, 0)
            assert torch.equal(pixels, expected)


def test_a_dataset_raises_or_conceals_as_asked(folder, store):
    damaged = folder / "damaged.mp4"
    with (
        FrameDataset([damaged], SIZE, store=store) as frames,
        pytest.raises(DecodeError, match=r"damaged\.mp4"),
    ):
        frames.__getitems__(range(40))
    with FrameDataset([damaged], SIZE, on_error="conceal", store=store) as frames:
        items = frames.__getitems__(range(40))
    assert [item["index"] for item in items] == [*range(40)]
    assert 0 < sum(item["is_concealed"] for item in items) < 40


def test_a_clip_of_a_dataset_that_is_bad_is_one_of_another_video(folder, videos, store):
    options = {"clip_len": 30, "stride": 1, "size": SIZE, "store": store, "start": 0}
    files = [videos[2], videos[1], videos[0]]
    with VideoDataset(files, on_error="skip", **options) as clips:
        assert len(clips) == 2
        assert [clips[place]["video"] for place in (0, 1)] == [2, 2]
    with VideoDataset(files[:1], on_error="conceal", **options) as clips:
        assert clips[0]["is_concealed"].any()
    with (
        VideoDataset(files[:1], on_error="skip", **options) as clips,
        pytest.raises(ConfigError, match="item 0 and 64 others drawn in its place cannot be"),
    ):
        clips[0]
