"""Camera windows: the right frames in any order, planned, resumed, shared out, and weighed."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch

from headrace.errors import ConfigError, MediaError
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.sampling.moments import Moments
from headrace.testing.damage import damage_packets
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.view import CameraView
from headrace.training.transforms import WithSample
from training.cameras.clips import (
    CAMERAS,
    CHANCE,
    KEYS,
    LENGTHS,
    SIZE,
    VIEW,
    WAYS,
    WINDOW,
    PlainCameras,
    copy_layout,
    keys,
    layout_of,
)
from training.videos import contents

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")

EVEN = dict.fromkeys(LENGTHS, 1.0)
CARS = {clip: ["car"] for clip in LENGTHS}


def check_frames(batch, plain):
    """Hold every picture against a plain decode of its camera."""
    for window, clip in zip(range(len(batch)), batch.clip.tolist(), strict=True):
        for place, camera in np.ndindex(batch.frame.shape[1:]):
            frame = int(batch.frame[window, place, camera])
            picture = batch.frames[window, place, camera].numpy()
            right = plain.of(clip, camera, frame) if frame >= 0 else np.zeros_like(picture)
            np.testing.assert_array_equal(picture, right)


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_each_window_comes_once_an_epoch_with_the_right_frames(loader, plain, num_ranks):
    parts = [loader(rank=rank, num_replicas=num_ranks, **WINDOW) for rank in range(num_ranks)]
    seen = []
    for part in parts:
        for batch in part:
            assert batch.frames.shape[1:] == (3, 3, 3, *SIZE)
            assert batch.frames.dtype == torch.uint8
            check_frames(batch, plain)
            assert batch.valid.all()
            seen += [
                key
                for key, again in zip(keys([batch]), batch.is_repeated, strict=True)
                if not again
            ]
    assert Counter(seen) == Counter(KEYS)


def test_fewer_windows_than_a_batch_are_one(loader, plain):
    [batch] = loader(batch_size=1000, **WINDOW)
    check_frames(batch, plain)
    assert sorted(keys([batch])) == sorted(KEYS)


def test_a_window_is_its_key_and_what_was_before_padded_at_the_beginning(loader):
    window = next(iter(loader(sampling=InOrder(), batch_size=3, **WINDOW)))
    assert window.index.tolist() == [[0, 0, 0], [0, 1, 3], [2, 4, 6]]
    assert window.is_pad.tolist() == [[True, True, False], [True, False, False], [False] * 3]
    assert window.clip_name == ["a"] * 3
    np.testing.assert_allclose(window.delta_seconds[2], [-4 / 30, -2 / 30, 0], atol=1e-9)
    assert (window.frame == window.index[..., None]).all()
    assert (window.error_ms.abs() < 1e-6).all()


def test_skip_leaves_out_windows_that_reach_beyond_their_clip(loader):
    skipping = loader(boundary="skip", **WINDOW)
    batches = [*skipping]
    assert not any(batch.is_pad.any() for batch in batches)
    assert set(keys(batches)) == {(clip, key) for clip, key in KEYS if key >= 4}
    assert skipping.num_windows == len([key for _, key in KEYS if key >= 4])


def test_windows_of_chosen_moments_have_no_others(loader, plain):
    """The 10 Hz of 30 Hz, and of these every other one as a key."""
    chosen = {"moments": Moments.rate(10.0), "keys": Moments.every(6), "num_moments": 2}
    batches = [*loader(sampling=InOrder(), batch_size=2, **chosen)]
    for batch in batches:
        check_frames(batch, plain)
    assert batches[0].index.tolist() == [[0, 0], [3, 6]]
    assert set(keys(batches)) == {(clip, key) for clip, key in KEYS if key % 6 == 0}
    listed = loader(moments=Moments.frames({"b": [2, 5, 11]}), num_moments=2, batch_size=2)
    assert set(keys(listed)) == {(1, 2), (1, 5), (1, 11)}


def test_moments_by_times_are_the_nearest_and_pads_where_there_is_none(loader, plain):
    deltas = (-0.2, 0.0, 0.04)
    batches = [*loader(delta_seconds=deltas, sampling=InOrder(), batch_size=8, tolerance_ms=10)]
    for batch in batches:
        check_frames(batch, plain)
        off = (batch.delta_seconds - torch.tensor(deltas)).abs() > 0.0101
        assert torch.equal(off, batch.is_pad)
    first = batches[0]
    assert first.index[6].tolist() == [0, 6, 7]
    assert first.index[0].tolist() == [0, 0, 1]
    assert first.is_pad[0].tolist() == [True, False, False]


@pytest.mark.parametrize("way", WAYS)
def test_batches_are_the_same_with_any_memory_and_workers(loader, way):
    alike = {"memory_budget": "2MiB", **WAYS[way], **WINDOW}
    right = contents(loader(**alike))
    for other in ({"workers": 1, "lookahead": 1}, {"memory_budget": "1GiB", "workers": 3}):
        assert contents(loader(**{**alike, **other})) == right


@pytest.mark.parametrize("way", ["plain", "chance"])
def test_epochs_go_on_and_a_state_resumes_to_the_batch(loader, way):
    whole = loader(**WAYS[way], **WINDOW)
    batches = [*whole, *whole]
    half = loader(**WAYS[way], **WINDOW)
    part = [*half, *islice(half, 3)]
    resumed = loader(workers=1, lookahead=8, **WAYS[way], **WINDOW)
    resumed.load_state_dict(half.state_dict())
    assert contents([*part, *resumed]) == contents(batches)
    assert contents(batches[: len(whole)]) != contents(batches[len(whole) :])


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"stride": 1},
        {"num_moments": 2},
        {"keys": Moments.every(2)},
        {"sampling": Uniform()},
        {"cameras": True},
    ],
)
def test_a_state_of_other_windows_is_refused(loader, layout, folder, other):
    state = loader(**WINDOW).state_dict()
    options = {**WINDOW, **other}
    if options.pop("cameras", False):
        other = layout_of(folder)
        options["layout"] = type(other)(clips=other.clips, cameras=CAMERAS[:2])
    with pytest.raises(ConfigError, match="state"):
        loader(**options).load_state_dict(state)


@pytest.mark.parametrize("way", ["plain", "view", "chance"])
def test_windows_that_overlap_share_decodes(loader, way):
    dense = {"num_moments": 8, "lookahead": 10_000, "persistent": False, **WAYS[way]}
    planned, naive = loader(**dense), loader(**{**dense, "lookahead": 1})
    assert sum(len(batch) for batch in planned) == sum(len(batch) for batch in naive) == 87
    frames = sum(LENGTHS.values()) * len(CAMERAS)
    assert planned.statistics.frames_delivered == 87 * 8 * len(CAMERAS)
    assert planned.statistics.frames_decoded < 2 * frames
    assert naive.statistics.frames_decoded > 4 * planned.statistics.frames_decoded


def test_cameras_that_lack_frames_are_black_and_masked(store, loader, folder, tmp_path):
    layout = copy_layout(folder, tmp_path / "videos")
    (tmp_path / "videos" / "b" / f"{CAMERAS[2]}.mp4").unlink()
    short = tmp_path / "videos" / "c" / f"{CAMERAS[1]}.mp4"
    short.write_bytes((folder / "d" / f"{CAMERAS[1]}.mp4").read_bytes())
    plain = PlainCameras(layout_of(folder))
    masking = loader(layout, alignment=Alignment(on_missing="mask"), **WINDOW)
    lacking = 0
    for batch in masking:
        is_c = (batch.clip == 2).tolist()
        for window, clip in enumerate(batch.clip.tolist()):
            for place, camera in np.ndindex(3, 3):
                moment = int(batch.index[window, place])
                is_there = (clip, camera) != (1, 2) and not (
                    (clip, camera) == (2, 1) and moment >= LENGTHS["d"]
                )
                assert bool(batch.valid[window, place, camera]) == is_there
                assert bool(batch.pts_seconds[window, place, camera].isnan()) != is_there
                lacking += not is_there
                picture = batch.frames[window, place, camera].numpy()
                if not is_there:
                    assert batch.frame[window, place, camera] == -1
                    assert not picture.any()
                elif (clip, camera) != (2, 1):
                    np.testing.assert_array_equal(picture, plain.of(clip, camera, moment))
        assert len(is_c) == len(batch)
    assert lacking
    assert masking.statistics.frames_delivered == len(KEYS) * 9 - lacking


@pytest.mark.parametrize("way", ["plain", "chance"])
def test_a_damaged_frame_is_named_or_its_windows_replaced(loader, folder, tmp_path, way):
    layout = copy_layout(folder, tmp_path / "videos")
    victim = tmp_path / "videos" / "c" / f"{CAMERAS[1]}.mp4"
    damage_packets(folder / "c" / victim.name, victim, ordinals=[13])
    with pytest.raises(MediaError, match=f"{CAMERAS[1]}.mp4"):
        [*loader(layout, **WINDOW)]
    skipping = loader(layout, on_error="skip", **WAYS[way], **WINDOW)
    batches = [*skipping, *skipping]
    assert skipping.statistics.samples_substituted > 0
    assert skipping.quarantined
    bad = {loss.index for loss in skipping.quarantined}
    for batch in batches:
        assert not any(
            clip == 2 and bad & set(frames.tolist())
            for clip, frames in zip(batch.clip.tolist(), batch.frame[:, :, 1], strict=True)
        )
    again = loader(layout, on_error="skip", **WAYS[way], **WINDOW)
    assert [len(batch) for batch in again] == [len(batch) for batch in batches[: len(again)]]


def test_weights_by_clip_and_by_moment_say_how_often_windows_come(loader):
    weights = dict.fromkeys(LENGTHS, 0.0) | {"a": 3.0, "b": 1.0}
    drawn = Counter(clip for clip, _ in keys(loader(weights=weights, **WINDOW)))
    assert set(drawn) == {0, 1}
    # 7 keys of weight 3 and 5 of weight 1 share as many slots as there are windows.
    assert abs(drawn[0] - len(KEYS) * 21 / 26) <= 7
    weights["c"] = [float(moment == 9) for moment in range(LENGTHS["c"])]
    chosen = {key for clip, key in keys(loader(weights=weights, **WINDOW)) if clip == 2}
    assert chosen == {9}


def test_weights_may_name_clips_that_are_there_and_deliver_nothing(loader, folder, tmp_path):
    """Of no key moment, of no chosen moment, or damaged, as a table has them all."""
    layout = copy_layout(folder, tmp_path / "videos")
    (tmp_path / "videos" / "c" / f"{CAMERAS[1]}.mp4").write_bytes(b"no video")
    moments = Moments.frames({"a": range(6), "b": range(6), "c": range(6)})
    one = {"moments": moments, "keys": Moments.frames({"a": [3]}), "on_error": "skip"}
    assert keys(loader(layout, weights=EVEN, num_moments=2, **one)) == [(0, 3)]
    with pytest.raises(ConfigError, match="a clip that is not there, such as 'z'"):
        loader(layout, num_moments=2, **{**one, "keys": Moments.frames({"a": [3], "z": [3]})})


def test_classes_come_equally_often_as_by_cbgs(loader):
    labels = {name: ["car"] for name in LENGTHS}
    labels["d"] = [["bus"] if moment == 3 else [] for moment in range(LENGTHS["d"])]
    balanced = loader(class_balance=labels, **WINDOW)
    drawn = Counter(keys(balanced))
    cars = {(clip, key) for clip, key in KEYS if clip != 3}
    assert set(drawn) <= cars | {(3, 3)}
    assert abs(drawn[3, 3] - (len(cars) + 1) / 2) <= 1


def test_a_transform_is_given_a_window_and_what_belongs_to_it(loader):
    seen = []

    def look(frames, sample):
        seen.append((tuple(frames.shape), sample["clip_name"], sample["index"][-1].item()))
        return frames.float().mean((-1, -2))

    batch = next(iter(loader(transform=WithSample(look), sampling=InOrder(), **WINDOW)))
    assert batch.frames.shape == (4, 3, 3, 3)
    assert seen[0] == ((3, 3, 3, *SIZE), "a", 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_moments": 0}, "num_moments"),
        ({"stride": 0}, "stride"),
        ({"stride": 1.5}, "stride"),
        ({"keys": 3}, "keys must be Moments"),
        ({"moments": 2.0}, "moments must be Moments"),
        ({"boundary": "wrap"}, "boundary"),
        ({"delta_seconds": ()}, "delta_seconds"),
        ({"delta_seconds": 0.5}, "delta_seconds"),
        ({"delta_seconds": ("a",)}, "delta_seconds"),
        ({"delta_seconds": (float("nan"),)}, "delta_seconds"),
        ({"delta_seconds": (0.0,), "stride": 2}, "in place of"),
        ({"delta_seconds": (0.0,), "tolerance_ms": -1}, "tolerance_ms"),
        ({"num_moments": 30, "boundary": "skip"}, "fits into a clip"),
        ({"keys": Moments.frames([29])}, "moment 29 of clip a"),
        ({"keys": Moments.frames({"z": [1]})}, "a clip that is not there"),
        ({"stride": 2**62}, "stride"),
        ({"tolerance_ms": "a"}, "tolerance_ms"),
        ({"layout": 3}, "path of an index file"),
        ({"weights": {"a": 1.0}}, "nothing for clip b"),
        ({"weights": 3}, "by name of clip"),
        ({"weights": {**dict.fromkeys(LENGTHS, 1.0), "a": [1.0]}}, "20 moments, got 1"),
        ({"weights": dict.fromkeys(LENGTHS, 0.0)}, "not all 0"),
        ({"weights": dict.fromkeys(LENGTHS, -1.0)}, "at least 0"),
        ({"weights": EVEN | {"a": "x"}}, "weights of clip a must be a finite number.* got 'x'"),
        ({"weights": EVEN | {"a": True}}, "weights of clip a must be a finite number.* got True"),
        ({"weights": EVEN | {"a": {29: 1.0}}}, "weights of clip a must .* 20 moments, got a dict"),
        ({"weights": EVEN | {"a": None}}, "weights of clip a must be a finite number.* got None"),
        ({"weights": EVEN | {"a": torch.tensor(-2.0)}}, "got -2 for clip a, moment 0$"),
        ({"weights": EVEN | {"a": [1] * 6 + [np.nan] + [1] * 13}}, "nan for clip a, moment 6$"),
        ({"weights": EVEN | {"a": [[1.0]] * 20}}, r"one for each moment, got \[20, 1\] values"),
        ({"weights": EVEN | {"a": [[1.0], [1.0, 2.0]]}}, "weights of clip a must be numbers"),
        ({"weights": EVEN | {"a": {1.0, 2.0}}}, "weights of clip a must be numbers"),
        ({"weights": EVEN | {"a": [1.0] * 29}}, "weights of clip a .* 20 moments, got 29"),
        ({"weights": EVEN | {"z": 1.0}}, "weights are listed for a clip .* such as 'z'; .* 'a'"),
        ({"weights": EVEN | {("a", 29): 1.0}}, r"a clip that is not there, such as \('a', 29\)"),
        ({"weights": EVEN | {"z": 1.0, 3: 1.0}}, "weights are listed for 2 clips"),
        ({"class_balance": CARS | {"d": torch.tensor(3)}}, "class_balance of clip d .* 8 moments"),
        (
            {"class_balance": CARS | {"d": {1: ["bus"]}}},
            "class_balance of clip d .* got a dict",
        ),
        ({"class_balance": CARS | {"z": ["bus"]}}, "class_balance are listed for a clip"),
        ({"class_balance": CARS | {"d": [["bus", 3]] * 8}}, "names of classes .* got .'bus', 3."),
        ({"class_balance": CARS | {"d": [[["bus"]]] * 8}}, "names of classes"),
        ({"class_balance": dict.fromkeys(LENGTHS, ())}, "no key moment has a label"),
        ({"class_balance": dict.fromkeys(LENGTHS, "car")}, "names of classes"),
        ({"class_balance": dict.fromkeys(LENGTHS, 3)}, "class_balance"),
        ({"weights": {}, "class_balance": {}}, "exclude each other"),
        ({"sampling": Uniform(over="seconds")}, "cannot be sampled over seconds"),
        (
            {"sampling": RandomClips(num_frames=4)},
            "CameraWindowLoader needs a sampler of single frames, and RandomClips gives clips",
        ),
        (
            {"sampling": Permutation(seed=3), "seed": 4},
            r"seed=4 was asked for beside Permutation\(seed=3\)",
        ),
        ({"sampling": Permutation}, "a class; call it"),
        ({"batch_size": 1000, "drop_last": True}, "a batch of 1000 .* or leave out drop_last"),
        ({"memory_budget": "10KiB"}, "memory budget"),
        ({"size": None, "dtype": "uint9"}, "uint9"),
        ({"on_error": "ignore"}, "on_error must be one of raise, skip, conceal, mask"),
        ({"view": VIEW, "size": SIZE}, r"and so does size=\(32, 48\); leave it out: CameraView"),
        ({"view": VIEW, "fit": "cover"}, "and so does fit='cover'; leave it out"),
        ({"view": VIEW, "hold": "yuv420"}, "view makes pictures of rgb, and hold=.yuv420."),
        ({"augment": CHANCE, "dtype": "uint16"}, "augment makes pictures of uint8, and dtype="),
        ({"size": [32]}, "both integers >= 1, got .32"),
        ({"augment": 0.5}, "must be a ClipAugment"),
        ({"view": {"front": VIEW}}, "a CameraView for each of back, front, left"),
        ({"view": CameraView(crop=(65, 10))}, r"back.mp4: a crop of 65x10"),
        ({"view": dict.fromkeys(CAMERAS, VIEW) | {"left": CameraView()}}, "crop all to one size$"),
        ({"metadata": "poses.csv"}, "MomentTable.read"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(loader, options, said):
    with pytest.raises(ConfigError, match=said) as caught:
        loader(**options)
    assert "\n" not in str(caught.value)
