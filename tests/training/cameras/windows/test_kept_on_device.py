"""Windows whose pictures stay where they were decoded: those of `open_device_decoder`."""

import json
from itertools import islice

import numpy as np
import pytest
import torch

from decode.gpus import needs_gpu
from headrace.errors import BackendError, ConfigError
from headrace.testing.damage import damage_packets
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.windows.loader import CameraWindowLoader
from headrace.video.shape import FrameShape
from training.cameras.clips import CAMERAS, SIZE, contents, copy_layout
from training.cameras.windows.asked import FLIPS, VIEW, WAYS, WINDOW
from training.decoded_there import KEPT, LEVELS, ON_GPU, apart, frames_of


@pytest.fixture
def loader(store, layout):
    opened = []

    def open_loader(layout=layout, **options):
        size = {} if "view" in options else {"size": SIZE}
        asked = {"batch_size": 4, "store": store, "decoding": KEPT, "workers": 2, **size, **WINDOW}
        opened.append(CameraWindowLoader(layout, **{**asked, **options}))
        return opened[-1]

    yield open_loader
    for each in opened:
        each.close()


def decoded_there(layout, shape):
    """Return pictures, uint8 [frames, 3, H, W], of each clip and camera."""
    return [
        [
            torch.stack(frames_of(clip.file(camera), shape)).movedim(-1, -3)
            for camera in layout.cameras
        ]
        for clip in layout.clips
    ]


def pictures(batch):
    """Yield (clip, camera, frame, picture) of all that a batch shows; frame is -1 where none."""
    for window, clip in enumerate(batch.clip.tolist()):
        for place, camera in np.ndindex(batch.frame.shape[1:]):
            frame = int(batch.frame[window, place, camera])
            yield clip, camera, frame, batch.frames[window, place, camera]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("way", ["plain", "view"])
def test_pictures_are_those_that_the_device_decoder_leaves_there(loader, layout, way, workers):
    shape = FrameShape(size=SIZE)
    if way == "view":
        fitting = VIEW.fitting((64, 96))
        shape = FrameShape(size=fitting.size, fit=fitting)
    there, each = decoded_there(layout, shape), loader(workers=workers, **WAYS[way])
    for batch in [*each, *each]:
        assert (batch.frames.dtype, batch.frames.device.type) == (torch.uint8, "cpu")
        for clip, camera, frame, picture in pictures(batch):
            assert torch.equal(picture, there[clip][camera][frame])


@pytest.mark.parametrize("way", WAYS)
def test_they_differ_from_arrays_by_a_few_grey_levels_and_in_nothing_else(loader, way):
    ways = loader(**WAYS[way]), loader(decoding=None, **WAYS[way])
    for kept, came_down in zip(*ways, strict=True):
        for name, value in came_down.items():
            if name == "frames":
                assert apart(kept.frames, value) <= LEVELS
            elif isinstance(value, torch.Tensor):
                assert torch.equal(value.nan_to_num(-1), kept[name].nan_to_num(-1)), name
            else:
                assert value == kept[name], name


def test_flipped_pictures_are_those_of_the_others(loader):
    for flipped, batch in zip(loader(augment=FLIPS), loader(), strict=True):
        is_flipped = flipped.image_matrix[:, 0, 0, 0] < 0
        for window, flips in enumerate(is_flipped.tolist()):
            right = batch.frames[window]
            assert torch.equal(flipped.frames[window], right.flip(-1) if flips else right)


@pytest.mark.parametrize("way", ["plain", "chance"])
def test_the_rest_equals_that_of_an_uninterrupted_run(loader, way):
    uninterrupted = contents(loader(**WAYS[way]))
    begun = loader(**WAYS[way])
    seen = contents(islice(begun, 3))
    resumed = loader(workers=1, lookahead=1, **WAYS[way])
    resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    assert seen + contents(resumed) == uninterrupted


def test_a_damaged_frame_is_black_and_the_rest_of_its_window_as_it_is(loader, folder, tmp_path):
    to = tmp_path / "videos"
    damaged, name = copy_layout(folder, to), f"{CAMERAS[1]}.mp4"
    damage_packets(folder / "c" / name, to / "c" / name, ordinals=[13])
    lost, masking = 0, loader(damaged, on_error="mask")
    for batch, right in zip(masking, loader(), strict=True):
        assert torch.equal(batch.frame, right.frame)
        assert not batch.frames[~batch.valid].any()
        assert torch.equal(batch.frames[batch.valid], right.frames[batch.valid])
        lost += int((~batch.valid).sum())
    assert masking.statistics.frames_lost == lost > 0


def test_what_a_camera_lacks_is_black(loader, folder, tmp_path):
    layout = copy_layout(folder, tmp_path / "videos")
    (tmp_path / "videos" / "b" / f"{CAMERAS[2]}.mp4").write_bytes(b"nothing")
    masking = loader(layout, on_error="mask", alignment=Alignment(on_missing="mask"))
    lacking = 0
    for batch in masking:
        missing = batch.frame < 0
        assert not batch.frames[missing].any()
        assert batch.frames[~missing].flatten(1).any(1).all()
        lacking += int(missing.sum())
    assert lacking > 0


def test_what_only_the_cpu_makes_is_refused_when_a_loader_opens(loader):
    with pytest.raises(BackendError, match=r"as yuv420; .* leave keeps_on_device out"):
        loader(hold="yuv420")


def test_batches_are_not_brought_down_without_a_word(loader, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match=r"device='cpu' .* stay on cuda:0"):
        loader(decoding=ON_GPU, device="cpu")


@needs_gpu
@pytest.mark.parametrize("way", ["plain", "chance"])
def test_pictures_of_the_gpu_that_stay_are_those_made_on_the_cpu(loader, way):
    """All are kept until the last has come."""
    kept = [*loader(decoding=ON_GPU, **WAYS[way])]
    for expected, found in zip(loader(**WAYS[way]), kept, strict=True):
        assert str(found.frames.device) == "cuda:0"
        assert apart(found.frames, expected.frames) <= 2
