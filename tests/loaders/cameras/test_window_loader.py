"""CameraWindowLoader: exact frames in any order, planned, sharded, weighted or masked."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch

from headrace import Alignment, DecodeError, Moments, SequentialFrames
from loaders.cameras.clips import CAMERAS, KEYS, LENGTHS, SIZE, WAYS, keys
from loaders.videos import KEPT, contents, epochs, samples

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

EVEN = dict.fromkeys(LENGTHS, 1.0)
CARS = {clip: ["car"] for clip in LENGTHS}


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_each_window_comes_once_an_epoch_with_the_right_frames(windows, plain_cameras, num_ranks):
    seen = []
    for rank in range(num_ranks):
        for batch in windows(rank=rank, num_replicas=num_ranks):
            assert batch.frames.shape[1:] == (3, 3, 3, *SIZE)
            assert batch.frames.dtype == torch.uint8
            plain_cameras.check(batch)
            assert batch.valid.all()
            shown = zip(keys([batch]), batch.is_repeated, strict=True)
            seen += [key for key, again in shown if not again]
    assert Counter(seen) == Counter(KEYS)


def test_fewer_windows_than_a_batch_are_one(windows, plain_cameras):
    [batch] = windows(batch_size=1000)
    plain_cameras.check(batch)
    assert sorted(keys([batch])) == sorted(KEYS)


def test_a_window_is_its_key_moment_and_earlier_ones_padded_at_the_start(windows):
    window = next(iter(windows(sampling=SequentialFrames(), batch_size=3)))
    assert window.index.tolist() == [[0, 0, 0], [0, 1, 3], [2, 4, 6]]
    assert window.is_pad.tolist() == [[True, True, False], [True, False, False], [False] * 3]
    assert window.clip_name == ["a"] * 3
    np.testing.assert_allclose(window.delta_seconds[2], [-4 / 30, -2 / 30, 0], atol=1e-9)
    assert (window.frame == window.index[..., None]).all()
    assert (window.error_ms.abs() < 1e-6).all()


def test_skip_leaves_out_windows_that_reach_beyond_their_clip(windows):
    skipping = windows(boundary="skip")
    batches = [*skipping]
    assert not any(batch.is_pad.any() for batch in batches)
    inside = {(clip, key) for clip, key in KEYS if key >= 4}
    assert set(keys(batches)) == inside
    assert skipping.num_windows == len(inside)


def test_windows_of_chosen_moments_have_no_others(windows, plain_cameras):
    """10 Hz of 30 Hz, and every other moment of these as a key."""
    chosen = {"moments": Moments.rate(10.0), "keys": Moments.every(6), "num_moments": 2}
    batches = [*windows(sampling=SequentialFrames(), batch_size=2, **chosen)]
    for batch in batches:
        plain_cameras.check(batch)
    assert batches[0].index.tolist() == [[0, 0], [3, 6]]
    assert set(keys(batches)) == {(clip, key) for clip, key in KEYS if key % 6 == 0}
    listed = windows(moments=Moments.frames({"b": [2, 5, 11]}), num_moments=2, batch_size=2)
    assert set(keys(listed)) == {(1, 2), (1, 5), (1, 11)}


def test_moments_by_times_are_the_nearest_and_pads_where_there_is_none(windows, plain_cameras):
    deltas, order = (-0.2, 0.0, 0.04), {"sampling": SequentialFrames(), "batch_size": 8}
    batches = [*windows(delta_seconds=deltas, tolerance_ms=10, **order)]
    for batch in batches:
        plain_cameras.check(batch)
        off = (batch.delta_seconds - torch.tensor(deltas)).abs() > 0.0101
        assert torch.equal(off, batch.is_pad)
    assert batches[0].index[[6, 0]].tolist() == [[0, 6, 7], [0, 0, 1]]
    assert batches[0].is_pad[0].tolist() == [True, False, False]


@pytest.mark.parametrize("variant", ["plain", "view", "chance"])
def test_windows_that_overlap_share_decodes(windows, variant):
    dense = {"num_moments": 8, "lookahead": 10_000, "prefetch_next_epoch": False, **WAYS[variant]}
    planned, naive = windows(**dense), windows(**{**dense, "lookahead": 1})
    assert sum(len(batch) for batch in planned) == sum(len(batch) for batch in naive) == 87
    frames = sum(LENGTHS.values()) * len(CAMERAS)
    assert planned.statistics.frames_delivered == 87 * 8 * len(CAMERAS)
    assert planned.statistics.frames_decoded < 2 * frames
    assert naive.statistics.frames_decoded > 4 * planned.statistics.frames_decoded


def test_cameras_that_lack_frames_are_black_and_masked(windows, plain_cameras, folder, copied):
    copied.clips[1].file(CAMERAS[2]).unlink()
    copied.clips[2].file(CAMERAS[1]).write_bytes((folder / "d" / f"{CAMERAS[1]}.mp4").read_bytes())
    masking = windows(copied, alignment=Alignment(on_missing="mask"))
    lacking = 0
    for batch in masking:
        for (window, position, camera), frame in np.ndenumerate(batch.frame):
            clip, moment = int(batch.clip[window]), int(batch.index[window, position])
            is_of_d = (clip, camera) == (2, 1)
            is_there = (clip, camera) != (1, 2) and (not is_of_d or moment < LENGTHS["d"])
            assert bool(batch.valid[window, position, camera]) == is_there
            assert bool(batch.pts_seconds[window, position, camera].isnan()) != is_there
            assert frame == (moment if is_there else -1)
            frame_pixels = batch.frames[window, position, camera].numpy()
            right = plain_cameras.of(3 if is_of_d else clip, camera, moment) if is_there else 0
            assert np.array_equal(frame_pixels, np.broadcast_to(right, frame_pixels.shape))
            lacking += not is_there
    assert lacking
    assert masking.statistics.frames_delivered == len(KEYS) * 9 - lacking


@pytest.mark.parametrize("variant", ["plain", "chance"])
def test_windows_of_a_damaged_frame_are_replaced(windows, damaged_layout, variant):
    skipping = windows(damaged_layout, on_error="skip", **WAYS[variant])
    batches = epochs(skipping)
    assert skipping.statistics.samples_substituted > 0
    bad = {loss.index for loss in skipping.quarantined}
    assert bad
    for clip, frames in samples(batches, "clip", "frame"):
        assert clip != 2 or not bad & set(frames[:, 1].tolist())
    again = windows(damaged_layout, on_error="skip", **WAYS[variant])
    assert [*map(len, again)] == [*map(len, batches[: len(again)])]


@pytest.mark.parametrize(
    ("door", "options"),
    [
        ("cameras", {"lookahead": 1}),  # batches are freed, so that memory is reused
        ("cameras", {"lookahead": 1, "decoding": KEPT}),
        ("windows", {"lookahead": 1, "decoding": KEPT}),
        *(("windows", WAYS[variant]) for variant in ("plain", "chance", "flips")),
    ],
    ids=repr,
)
def test_undecodable_frames_are_named_or_masked_and_the_rest_is_unchanged(
    opener, damaged_layout, door, options
):
    with pytest.raises(DecodeError, match=r"c/front\.mp4"):
        list(opener(door, damaged_layout, **options))
    masking = opener(door, damaged_layout, on_error="mask", **options)
    lost = 0
    for batch, right in zip(masking, opener(door, **options), strict=True):
        is_masked, is_lost = ~batch.valid, right.valid & ~batch.valid
        for name in ("clip", "index", "frame", "image_matrix"):
            assert torch.equal(batch[name], right[name])
        assert torch.equal(batch.pts_seconds.isnan(), is_masked)
        assert torch.equal(batch.error_ms.isnan(), is_masked)
        assert not batch.frames[is_masked].any()
        assert torch.equal(batch.frames[batch.valid], right.frames[batch.valid])
        for row, *_, camera in is_lost.nonzero().tolist():
            assert (int(batch.clip[row]), CAMERAS[camera]) == (2, "front")
        lost += int(is_lost.sum())
        del batch
    assert masking.statistics.frames_lost == lost > 0
    if door == "windows":
        assert set(keys(masking)) == KEYS
        statistics = masking.statistics
        assert (statistics.frames_lost, statistics.frames_missing) == (2 * lost, 0)
        assert statistics.frames_delivered == 2 * (len(KEYS) * 9 - lost)
        assert statistics.samples_substituted == 0
        assert {loss.index for loss in masking.quarantined} <= {*range(LENGTHS["c"])}
        assert all("front.mp4" in loss.source for loss in masking.quarantined)


def test_masks_are_the_same_with_any_list(windows, damaged_layout, tmp_path):
    masking = partial(windows, damaged_layout, on_error="mask")
    complete, path = contents(masking()), tmp_path / "bad.jsonl"
    assert contents(masking(quarantine=path)) == complete
    assert f"{CAMERAS[1]}.mp4" in path.read_text()
    again = masking(quarantine=path)
    assert again.quarantined
    assert contents(again) == complete


def test_a_camera_that_cannot_be_opened_is_masked_or_its_clip_left_out(windows, copied):
    copied.clips[1].file(CAMERAS[2]).write_bytes(b"nothing")
    leaving = windows(copied, on_error="mask")
    assert {clip for clip, _ in keys(leaving)} == {0, 2, 3, 4}
    assert len(leaving.skipped_videos) == 1
    masking = windows(copied, on_error="mask", alignment=Alignment(on_missing="mask"))
    for batch in masking:
        assert torch.equal((batch.frame[:, :, 2] >= 0).all(1), batch.clip != 1)
    assert set(keys(masking)) == KEYS
    assert masking.statistics.frames_missing == 2 * 3 * 5


def test_a_damaged_frame_is_shown_as_it_is_where_that_is_asked_for(windows, damaged_layout):
    concealing = windows(damaged_layout, on_error="conceal", **WAYS["chance"])
    concealed = 0
    for batch, right in zip(concealing, windows(**WAYS["chance"]), strict=True):
        is_whole = ~batch.is_concealed
        assert torch.equal(batch.frames[is_whole], right.frames[is_whole])
        concealed += int(batch.is_concealed.sum())
    assert concealed


def test_weights_by_clip_and_by_moment_say_how_often_windows_come(windows):
    weights = dict.fromkeys(LENGTHS, 0.0) | {"a": 3.0, "b": 1.0}
    drawn = Counter(clip for clip, _ in keys(windows(weights=weights)))
    assert set(drawn) == {0, 1}
    # 7 keys of weight 3 and 5 of weight 1 share as many slots as there are windows.
    assert abs(drawn[0] - len(KEYS) * 21 / 26) <= 7
    weights["c"] = [float(moment == 9) for moment in range(LENGTHS["c"])]
    assert {key for clip, key in keys(windows(weights=weights)) if clip == 2} == {9}


def test_weights_may_name_clips_that_are_there_and_deliver_nothing(windows, copied):
    """Weights may cover moments that are no keys, not chosen, or damaged."""
    copied.clips[2].file(CAMERAS[1]).write_bytes(b"no video")
    moments = Moments.frames({"a": range(6), "b": range(6), "c": range(6)})
    one = {"moments": moments, "keys": Moments.frames({"a": [3]}), "on_error": "skip"}
    assert keys(windows(copied, weights=EVEN, num_moments=2, **one)) == [(0, 3)]


def test_classes_come_equally_often_as_by_cbgs(windows):
    labels = {name: ["car"] for name in LENGTHS}
    labels["d"] = [["bus"] if moment == 3 else [] for moment in range(LENGTHS["d"])]
    drawn = Counter(keys(windows(class_balance=labels)))
    cars = {(clip, key) for clip, key in KEYS if clip != 3}
    assert set(drawn) <= cars | {(3, 3)}
    assert abs(drawn[3, 3] - (len(cars) + 1) / 2) <= 1


def test_what_cannot_be_is_refused_in_one_line(windows, refused):
    refused("window_loader", loader=windows)
