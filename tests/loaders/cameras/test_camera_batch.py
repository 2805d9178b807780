"""Masks of camera batches, cameras that are folders of images, and states by slot."""

import numpy as np
import pytest
import torch

from headrace import Alignment, CameraBatch, CameraLayout, SlotMemory
from loaders.cameras.clips import write_cameras, write_pictures

NAN = float("nan")


def batch_of(frames, sizes, seconds=None) -> CameraBatch:
    """Return a batch of one slot, with one camera per size."""
    shown = torch.tensor([seconds or [0.0] * len(sizes)], dtype=torch.float64)
    return CameraBatch(frames=frames, sizes=torch.tensor([sizes]), pts_seconds=shown)


def test_a_pixel_is_of_the_picture_or_of_the_padding():
    batch = batch_of(torch.zeros(1, 3, 3, 2, 4), [(2, 4), (1, 4), (2, 3)])
    assert batch.mask.dtype == torch.bool
    full, upper, left = [[1] * 4] * 2, [[1] * 4, [0] * 4], [[1, 1, 1, 0]] * 2
    assert batch.mask.int().tolist() == [[full, upper, left]]
    smaller = batch_of(torch.zeros(1, 3, 2, 4).float(), [(2, 4), (1, 4), (2, 3)])
    assert smaller.mask.shape == (1, 3, 2, 4)
    # What is not there has none.
    batch = batch_of(torch.zeros(1, 3, 3, 2, 4), [(2, 4), (0, 0), (2, 4)], [0.0, NAN, NAN])
    assert batch.mask.flatten(2).all(-1).tolist() == [[True, False, False]]
    assert not batch.mask[:, 1:].any()


def test_a_list_has_a_mask_for_each_picture():
    frames = [[torch.zeros(3, 2, 4), torch.zeros(3, 1, 3), torch.zeros(3, 0, 0)]]
    batch = batch_of(frames, [(2, 4), (1, 3), (0, 0)], [0.0, NAN, NAN])
    [[full, missing, empty]] = batch.mask
    assert (full.shape, missing.shape, empty.shape) == ((2, 4), (1, 3), (0, 0))
    assert full.dtype == missing.dtype == torch.bool
    assert full.all()
    assert not missing.any()


@pytest.mark.parametrize("on_missing", ["mask", "repeat"])
@pytest.mark.parametrize("ragged", ["pad", "list"])
def test_a_loader_delivers_black_where_the_mask_is_false(cameras, tmp_path, ragged, on_missing):
    """Two clips of two cameras of different sizes; one camera of the second clip ends early."""
    clips = {
        clip: {"left": {"num_frames": 6}, "right": {"num_frames": length, "size": (96, 64)}}
        for clip, length in {"a": 6, "b": 4}.items()
    }
    layout = write_cameras(tmp_path, clips, 6)
    options = {"ragged": ragged, "alignment": Alignment(on_missing=on_missing), "size": None}
    batches = list(cameras(layout, group_num=3, **options))
    assert len(batches) == 6
    for batch in batches:
        is_there = batch.index[:, None].expand(3, 2) >= 0
        if on_missing == "mask":
            is_there = batch.valid
        for row, camera in np.ndindex(3, 2):
            picture, mask = batch.frames[row][camera], batch.mask[row][camera]
            assert mask.shape == picture.shape[-2:]
            assert mask.sum() == is_there[row, camera] * batch.sizes[row, camera].prod()
            assert not picture[:, ~mask].any()


LENGTHS = {"day": 6, "night": 4}
CAMERAS = ("front", "left")


def picture(clip: str, camera: str, number: int) -> np.ndarray:
    seed = [list(LENGTHS).index(clip), CAMERAS.index(camera), number]
    return np.random.default_rng(seed).integers(0, 256, (24, 32, 3), np.uint8)


@pytest.fixture
def folder(tmp_path):
    clips = {
        clip: {camera: [picture(clip, camera, n) for n in range(length)] for camera in CAMERAS}
        for clip, length in LENGTHS.items()
    }
    write_pictures(tmp_path, clips)
    return tmp_path


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("door", ["cameras", "windows"])
def test_cameras_of_pictures_are_read_as_videos_are(folder, opener, door):
    layout = CameraLayout.of_folders([folder], len, picture_rate=2)
    assert layout.cameras == CAMERAS
    options = {"num_moments": 2, "batch_size": 3} if door == "windows" else {}
    shown = set()
    for batch in opener(door, layout, size=None, **options):
        for *position, camera in np.argwhere(batch.frame.numpy() >= 0).tolist():
            clip, number = batch.clip_name[position[0]], int(batch.index[*position])
            result = batch.frames[*position, camera].movedim(0, -1).numpy()
            assert np.array_equal(result, picture(clip, CAMERAS[camera], number))
            shown.add((clip, number, camera))
    assert len(shown) == sum(LENGTHS.values()) * 2


def test_an_index_file_is_read_with_its_rate_and_others_are_refused(folder, refused):
    """Also pictures without a mask."""
    result = CameraLayout.of_folders([folder], len, picture_rate="5/2")
    result.write(folder / "index.json")
    assert CameraLayout.read(folder / "index.json", picture_rate="5/2") == result
    small = batch_of(torch.zeros(1, 1, 3, 2, 2), [(2, 4)])
    refused("camera_batch", small=small)


def batch(slots, begins):
    return {"slot": torch.tensor(slots), "first_frame": torch.tensor(begins)}


def test_a_slot_gets_its_own_memory_wherever_it_stands_in_the_batch():
    memory = SlotMemory(torch.zeros(2))
    first = batch([0, 1], [True, True])
    assert torch.equal(memory.of(first), torch.zeros(2, 2))
    memory.keep(first, torch.tensor([[1.0, 1.0], [2.0, 2.0]]))
    other = batch([8, 9], [True, False])  # a batch of another worker, in between
    memory.keep(other, memory.of(other) + 5)
    assert memory.of(batch([1, 8, 0], [False] * 3)).tolist() == [[2, 2], [5, 5], [1, 1]]


def test_memory_is_cleared_at_the_start_of_another_clip():
    memory = SlotMemory({"bev": torch.full((3,), 7.0), "age": torch.tensor(0)})
    first = batch([4, 5], [True, True])
    memory.keep(first, {"bev": torch.ones(2, 3), "age": torch.tensor([1, 1])})
    state = memory.of(batch([4, 5], [False, True]))
    assert state["bev"].tolist() == [[1.0] * 3, [7.0] * 3]
    assert state["age"].tolist() == [1, 0]


def test_gradients_flow_through_memory_unless_detached():
    weight = torch.ones(1, requires_grad=True)
    both = batch([0], [False])
    for detached, has_gradient in ((False, True), (True, False)):
        memory = SlotMemory(torch.zeros(1))
        kept = weight.expand(1, 1) * 2
        memory.keep(both, kept.detach() if detached else kept)
        assert memory.of(both).requires_grad is has_gradient


@pytest.mark.parametrize("initial", [torch.zeros(2), {"a": torch.zeros(2)}], ids=["one", "dict"])
def test_a_memory_goes_on_from_its_state(initial, tmp_path):
    memory, seen = SlotMemory(initial), batch([3, 1], [True, True])
    before = memory.of(seen)
    after = before + 1 if isinstance(initial, torch.Tensor) else {"a": before["a"] + 1}
    memory.keep(seen, after)
    torch.save(memory.state_dict(), tmp_path / "state.pt")
    other = SlotMemory(initial)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    again = batch([1, 3, 2], [False] * 3)
    torch.testing.assert_close(other.of(again), memory.of(again))
    fresh = SlotMemory(initial)
    fresh.load_state_dict(SlotMemory(initial).state_dict())  # nothing stored yet
    torch.testing.assert_close(fresh.of(seen), before)


def test_invalid_values_of_memory_are_refused(refused):
    """Another dtype too: a batch would mix the dtypes of stored and initial state."""
    memory, named = SlotMemory(torch.zeros(2)), SlotMemory({"bev": torch.zeros(2)})
    batches = {"both": batch([0, 1], [True, True]), "one": batch([0], [True])}
    refused("slot_memory", kept=torch.zeros(1, 2), memory=memory, named=named, **batches)
