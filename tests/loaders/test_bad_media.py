"""Bad files among good ones: named, or replaced by rule, counted, listed and later skipped."""

import json
import shutil
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader

from headrace import Bursts, DecodeError, EpochSampler, MediaError, RandomClips
from headrace.loaders.epochs import Opened
from headrace.sampling.frame_samplers import SequentialFrames, ShuffledFrames, UniformFrames
from headrace.testing.damage import damage_packets, truncate
from headrace.testing.synth import SynthClip, write_clip
from loaders.videos import FRAME_BYTES, PlainFrames, contents, epochs, samples, takes

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

GOOD = SynthClip(num_frames=40, size=(64, 96), gop=8, b_frames=2)
SAMPLERS = [
    *(SequentialFrames(), UniformFrames(), ShuffledFrames(), Bursts(frames_per_burst=3, lanes=8)),
    RandomClips(num_frames=4, stride=2, each_once="starts"),
]
SHUFFLED = {"sampling": ShuffledFrames(), "on_error": "skip"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A good video, one with a damaged third GOP, a truncated one, and a text file."""
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
def loader(opener, videos):
    """Return `loader(files, **options)`: batches of 8 frames."""
    return lambda files=videos, **options: opener("frames", files, **{"batch_size": 8, **options})


@pytest.fixture
def good(videos):
    """Frames of the good video; the others are damaged or truncated copies of it."""
    plain = PlainFrames(videos[:1]).frames[0]
    return torch.from_numpy(plain).movedim(-1, -3)


@pytest.mark.parametrize("lookahead", [1, 8, 1000])
def test_a_bad_frame_is_raised_when_its_batch_is_due_and_not_before(loader, folder, lookahead):
    each = loader([folder / "damaged.mp4"], sampling=SequentialFrames(), lookahead=lookahead)
    seen = []
    with pytest.raises(DecodeError, match=r"damaged\.mp4") as caught:
        seen.extend(each)
    assert caught.value.pts is not None
    first_bad = min(caught.value.missing)
    assert sum(map(len, seen)) == each.state_dict()["slot"] == first_bad // 8 * 8


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_the_replacement_of_bad_samples_does_not_depend_on_the_plan(opener, videos, sampler):
    door, option = takes(sampler)

    def two_epochs(**plan):
        each = opener(door, videos, on_error="skip", batch_size=8, **option, **plan)
        return contents(epochs(each)), each

    naive, one = two_epochs(lookahead=1, num_threads=1)
    for more in [{"lookahead": 20, "num_threads": 3}, {"lookahead": 2000}]:
        planned, other = two_epochs(**more)
        assert planned == naive, more
        assert other.statistics.samples_substituted == one.statistics.samples_substituted > 0
    assert one.statistics.videos_skipped == 1
    assert [error.source for error in one.skipped_videos] == [str(videos[1])]
    assert one.statistics.frames_quarantined > 0


def test_batches_are_full_of_good_samples_and_bad_ones_are_listed(loader, videos, good):
    each = loader(**SHUFFLED)
    assert [(bad.source, bad.index) for bad in each.quarantined] == [(str(videos[1]), None)]
    batches = list(each)
    assert [len(batch) for batch in batches[:-1]] == [8] * (len(batches) - 1)
    for frame, index in samples(batches, "frames", "index"):
        assert torch.equal(frame, good[index])
    assert {video for (video,) in samples(batches, "video")} == {0, 2, 3}
    _, *bad = each.quarantined
    assert len(bad) == each.statistics.frames_quarantined
    damaged, cut = ([b.index for b in bad if b.source == str(path)] for path in videos[2:])
    assert [b.index for b in bad] == [*damaged, *cut]
    assert cut
    assert damaged == sorted(set(damaged))
    assert 16 <= damaged[0] <= damaged[-1] < 24
    assert all("cannot be decoded" in b.cause for b in bad)
    ranks = [loader(rank=rank, num_replicas=3, **SHUFFLED) for rank in range(3)]
    assert len({len(list(each)) for each in ranks}) == 1


@pytest.mark.parametrize(
    ("options", "is_asked"),
    [({"on_error": "skip"}, True), ({}, False), ({"on_error": "skip", "rank": 0}, False)],
    ids=str,
)
def test_ranks_compare_the_samples_they_skipped(loader, videos, monkeypatch, options, is_asked):
    asked = []

    @contextmanager
    def agreement(is_asked):
        opened = Opened()
        yield opened
        if is_asked:
            asked.append((opened.checksum, opened.skipped))

    monkeypatch.setattr("headrace.loaders.resumable.agreement", agreement)
    replicas = {"num_replicas": 1} if "rank" in options else {}
    each = loader(videos if "on_error" in options else videos[:1], **options, **replicas)
    assert asked == ([(each.state_dict()["checksum"], 1)] if is_asked else [])


def test_the_next_run_honours_the_quarantine_list(loader, videos, tmp_path):
    options = {"quarantine": tmp_path / "quarantine.jsonl", **SHUFFLED}
    first = loader(**options)
    batches = contents(first)
    known = options["quarantine"].read_text()
    entries = [json.loads(line) for line in known.splitlines()]
    assert {entry["source"] for entry in entries} == set(map(str, videos[1:]))
    assert all(entry["error"] for entry in entries)
    assert [entry["frames"] for entry in entries if "text" in entry["source"]] == [None]
    second = loader(**options)
    assert contents(second) == batches
    assert second.statistics.frames_quarantined == first.statistics.frames_quarantined
    assert second.statistics.samples_substituted == first.statistics.samples_substituted
    assert second.quarantined == first.quarantined
    assert options["quarantine"].read_text() == known


@pytest.fixture
def two(folder, tmp_path):
    """Two copies of the good video, the second one to change."""
    return [shutil.copy(folder / "good.mp4", tmp_path / f"{n}.mp4") for n in range(2)]


def test_a_repaired_file_leaves_quarantine(loader, folder, tmp_path):
    path, options = tmp_path / "video.mp4", {"quarantine": tmp_path / "list.jsonl"}
    for name, is_bad in (("damaged", True), ("good", False)):
        shutil.copy(folder / f"{name}.mp4", path)
        each = loader([path], on_error="skip", **options)
        list(each)
        counts = each.statistics.frames_quarantined, each.statistics.samples_substituted
        assert [count > 0 for count in counts] == [is_bad] * 2


def changed(path):
    """Replace a file atomically, as a thread may be about to read it."""
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes() + b"\0" * 64)
    other.replace(path)


@pytest.mark.parametrize("change", [changed, lambda path: path.unlink()], ids=["changed", "gone"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_file_that_changes_during_training_is_named_or_replaced_by_the_same_rule(
    loader, two, tmp_path, change, on_error
):
    """It is listed as one, and if it was replaced is not bad in the next run."""
    options = {"on_error": on_error, "quarantine": tmp_path / "list.jsonl"}
    each = loader(two, lookahead=8, memory_budget=8 * 4 * FRAME_BYTES, **options)
    next(iter(each))
    change(two[1])
    if on_error == "raise":
        batches = (batch for _ in range(50) for batch in each)
        with pytest.raises(MediaError, match=r"1\.mp4.*frame \d+ was requested \(at ") as caught:
            list(batches)
        assert caught.value.pts is not None
    else:
        list(each)
        assert [*samples(each, "video")] == [(0,)] * 80
        assert each.statistics.frames_quarantined == 40
        [bad] = each.quarantined
        assert (bad.source, bad.index) == (str(two[1]), None)
        if change is changed:
            assert "has changed" in bad.cause
            assert loader(two, **options).statistics.frames_quarantined == 0


def test_a_line_that_was_cut_is_left_out_and_the_next_one_is_whole(loader, folder, tmp_path):
    path = tmp_path / "list.jsonl"
    options = {"on_error": "skip", "quarantine": path, "sampling": SequentialFrames()}
    damaged = [folder / "damaged.mp4"]
    first = loader(damaged, **options)
    list(first)
    quarantined = first.statistics.frames_quarantined
    assert quarantined > 0
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + whole.rstrip(b"\n"))  # an entry behind a cut one counts
    assert loader(damaged, **options).statistics.frames_quarantined == quarantined
    path.write_bytes(whole + whole[:40])
    other = loader(damaged, **options)
    list(other)
    assert other.statistics.frames_quarantined == quarantined
    files = [folder / "cut.mp4", folder / "text.mp4"]
    list(loader(files, **options))
    new = path.read_text().splitlines()[len(whole.splitlines()) + 1 :]
    assert {json.loads(line)["source"] for line in new} == {*map(str, files)}
    loader(damaged, **options)


def test_only_bad_samples_are_refused(loader, two, tmp_path, refused):
    notes = tmp_path / "notes.txt"
    notes.write_text("remember the milk\n")
    vanished = loader(two[:1], on_error="skip", lookahead=1)
    next(iter(vanished))
    two[0].unlink()
    refused("bad_media", vanished=vanished, notes=notes)


def test_weights_are_those_of_the_videos_that_can_be_read(loader, opener, videos):
    sampling = UniformFrames(over=(0.0, 5.0, 1.0, 0.0))
    each = loader(on_error="skip", sampling=sampling)
    assert {video for (video,) in samples(each, "video")} == {2}
    frames = opener("frame items", videos, on_error="skip")
    places = [*EpochSampler(frames, sampling=sampling)][:8]
    assert {frames[place]["video"] for place in places} == {2}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_gives_others_in_place_of_bad_frames(opener, videos, good, workers):
    """By the same rule in any process; `video` is the position in the list that was given."""
    frames = opener("frame items", videos, on_error="skip")
    assert [error.source for error in frames.skipped_videos] == [str(videos[1])]
    assert len(frames) > 80
    alone = [(each["video"], each["index"]) for each in frames.__getitems__(range(len(frames)))]
    batches = list(DataLoader(frames, batch_size=8, num_workers=workers))
    found = list(samples(batches, "video", "index"))
    assert found == alone
    assert {video for video, _ in found} == {0, 2, 3}
    others = [n for n in range(80) if found[n][1] != n % 40]
    assert min(others) >= 40  # the good video is given as it is
    for pixels, index in samples(batches, "frames", "index"):
        assert torch.equal(pixels, good[index])


def test_a_dataset_conceals_or_takes_another_video_as_asked(opener, folder, videos):
    damaged = [folder / "damaged.mp4"]
    with pytest.raises(DecodeError, match=r"damaged\.mp4"):
        opener("frame items", damaged).__getitems__(range(40))
    items = opener("frame items", damaged, on_error="conceal").__getitems__(range(40))
    assert [item["index"] for item in items] == [*range(40)]
    assert 0 < sum(item["is_concealed"] for item in items) < 40
    clips = partial(opener, "clip items", clip_len=30, stride=1, start=0)
    files = [videos[2], videos[1], videos[0]]
    skipping = clips(files, on_error="skip")
    assert len(skipping) == 2
    assert [skipping[place]["video"] for place in (0, 1)] == [2, 2]
    assert clips(files[:1], on_error="conceal")[0]["is_concealed"].any()
