"""Frames of windows that cannot be decoded: masked, counted, named, and nothing else changes."""

import pytest
import torch

from headrace.errors import ConfigError
from headrace.testing.damage import damage_packets
from headrace.training.cameras.alignment import Alignment
from headrace.training.loader import FrameLoader
from training.cameras.clips import CAMERAS, KEYS, LENGTHS, WAYS, WINDOW, copy_layout, keys
from training.videos import contents

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.LeftOutWarning")


@pytest.fixture(scope="module")
def damaged(folder, tmp_path_factory):
    """A layout of which camera 1 of clip c is damaged from frame 13 on."""
    to = tmp_path_factory.mktemp("damaged") / "videos"
    layout = copy_layout(folder, to)
    damage_packets(
        folder / "c" / f"{CAMERAS[1]}.mp4", to / "c" / f"{CAMERAS[1]}.mp4", ordinals=[13]
    )
    return layout


@pytest.mark.parametrize("way", ["plain", "chance", "flips"])
def test_what_cannot_be_decoded_is_black_and_masked_and_the_rest_as_ever(loader, damaged, way):
    options = {**WAYS[way], **WINDOW}
    masking, whole = loader(damaged, on_error="mask", **options), loader(**options)
    lost = 0
    for batch, right in zip(masking, whole, strict=True):
        is_lost = ~batch.valid
        assert torch.equal(batch.index, right.index)
        assert torch.equal(batch.frame, right.frame)
        assert torch.equal(batch.pts_seconds.isnan(), is_lost)
        assert torch.equal(batch.error_ms.isnan(), is_lost)
        assert torch.equal(batch.image_matrix, right.image_matrix)
        assert not batch.frames[is_lost].any()
        assert torch.equal(batch.frames[~is_lost], right.frames[~is_lost])
        for window, _, camera in is_lost.nonzero().tolist():
            assert (int(batch.clip[window]), camera) == (2, 1)
        lost += int(is_lost.sum())
    assert lost
    assert set(keys(masking)) == KEYS
    statistics = masking.statistics
    assert (statistics.frames_lost, statistics.frames_missing) == (2 * lost, 0)
    assert statistics.frames_delivered == 2 * (len(KEYS) * 9 - lost)
    assert statistics.samples_substituted == 0
    assert {loss.index for loss in masking.quarantined} <= {*range(LENGTHS["c"])}
    assert all(f"{CAMERAS[1]}.mp4" in loss.source for loss in masking.quarantined)


def test_masks_are_the_same_with_any_memory_and_after_resuming(loader, damaged):
    options = {"on_error": "mask", **WINDOW}
    whole = contents(loader(damaged, **options))
    assert contents(loader(damaged, workers=1, lookahead=1, **options)) == whole
    half = loader(damaged, memory_budget="2MiB", **options)
    steps = iter(half)
    part = contents([next(steps) for _ in range(3)])
    resumed = loader(damaged, **options)
    resumed.load_state_dict(half.state_dict())
    assert part + contents(resumed) == whole


def test_a_list_of_bad_frames_is_written_and_changes_no_batch(loader, damaged, tmp_path):
    options = {"on_error": "mask", "quarantine": tmp_path / "bad.jsonl", **WINDOW}
    first = contents(loader(damaged, **options))
    assert f"{CAMERAS[1]}.mp4" in (tmp_path / "bad.jsonl").read_text()
    again = loader(damaged, **options)
    assert again.quarantined
    assert contents(again) == first


def test_a_camera_that_cannot_be_opened_is_masked_or_its_clip_left_out(loader, folder, tmp_path):
    layout = copy_layout(folder, tmp_path / "videos")
    (tmp_path / "videos" / "b" / f"{CAMERAS[2]}.mp4").write_bytes(b"nothing")
    leaving = loader(layout, on_error="mask", **WINDOW)
    assert {clip for clip, _ in keys(leaving)} == {0, 2, 3, 4}
    assert len(leaving.left_out) == 1
    masking = loader(layout, on_error="mask", alignment=Alignment(on_missing="mask"), **WINDOW)
    for batch in masking:
        assert torch.equal((batch.frame[:, :, 2] >= 0).all(1), batch.clip != 1)
    assert set(keys(masking)) == KEYS
    assert masking.statistics.frames_missing == 2 * 3 * 5


@pytest.mark.parametrize("way", ["chance"])
def test_a_damaged_frame_is_shown_as_it_is_where_that_is_asked_for(loader, damaged, way):
    options = {**WAYS[way], **WINDOW}
    concealing, whole = loader(damaged, on_error="conceal", **options), loader(**options)
    concealed = 0
    for batch, right in zip(concealing, whole, strict=True):
        is_whole = ~batch.is_concealed
        assert torch.equal(batch.frames[is_whole], right.frames[is_whole])
        concealed += int(batch.is_concealed.sum())
    assert concealed


def test_other_loaders_do_not_mask(folder, store):
    with pytest.raises(
        ConfigError, match="on_error must be one of raise, skip, conceal, got 'mask'"
    ):
        FrameLoader([folder / "a" / f"{CAMERAS[0]}.mp4"], on_error="mask", store=store)
