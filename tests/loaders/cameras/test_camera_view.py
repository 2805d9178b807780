"""Views and augmentation: resize, crop, random scale, flip and rotation, and the image matrix."""

import numpy as np
import pytest
import torch

from headrace import Alignment, CameraView, ClipAugment, Crop, FrameFormat
from headrace.loaders.augment import AugmentParams, FrameGeometry, flip_frame, rotate_frame
from loaders.cameras.clips import CAMERAS, VIEW, write_pictures
from loaders.videos import samples

CHANCE = ClipAugment(scale=(0.8, 1.3), slides=True, flip=0.5, rotate_degrees=(-20, 20), alike=False)
HEIGHT, WIDTH = 120, 200
DOTS = [(x, y) for x in range(22, WIDTH - 20, 26) for y in range(20, HEIGHT - 18, 26)]


@pytest.fixture
def layout(small):
    return small


@pytest.fixture(scope="module")
def dotted(tmp_path_factory):
    """Eight clips of two cameras, one image each, with soft dots of known centers."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    light = sum(np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * 3.0**2)) for a, b in DOTS)
    frame = np.repeat((20 + 220 * np.minimum(light, 1))[..., None], 3, axis=-1).astype(np.uint8)
    clips = {clip: {"left": [frame], "right": [frame]} for clip in "abcdefgh"}
    return write_pictures(tmp_path_factory.mktemp("dotted"), clips)


@pytest.fixture
def loader(cameras):
    return lambda layout, **options: cameras(layout, **{"size": None, **options})


@pytest.mark.parametrize("interpolation", ["area", "bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("view", "resized", "top", "left", "size"),
    [
        (CameraView(resize=0.5), (32, 48), 0, 0, (32, 48)),
        (CameraView(resize=0.5, crop=(20, 40)), (32, 48), 6, 4, (20, 40)),
        (CameraView(resize=0.5, crop=(20, 40), anchor="bottom"), (32, 48), 12, 4, (20, 40)),
        (CameraView(resize=0.5, crop=(20, 40), anchor="top"), (32, 48), 0, 4, (20, 40)),
        (
            CameraView(resize=(48, None), crop=Crop(top=3, left=5, height=16, width=8)),
            *((48, 72), 3, 5, (16, 8)),
        ),
        (CameraView(resize=(None, 48), crop=(32, 30)), (32, 48), 0, 9, (32, 30)),
        (CameraView(resize=(40, 40), crop=(40, 10)), (40, 40), 0, 15, (40, 10)),
        (CameraView(crop=(64, 95)), (64, 96), 0, 0, (64, 95)),
    ],
)
def test_a_crop_is_cut_from_the_whole_resized_picture(
    loader, layout, view, resized, top, left, size, interpolation
):
    cut, full = (
        loader(layout, interpolation=interpolation, **shape)
        for shape in ({"view": view}, {"size": resized})
    )
    for cropped, whole in zip(cut, full, strict=True):
        expected = whole.frames[..., top : top + size[0], left : left + size[1]]
        assert torch.equal(cropped.frames, expected)
        is_there = (cropped.clip >= 0)[:, None, None]
        assert torch.equal(cropped.sizes, (is_there * torch.tensor(size)).expand(-1, 3, -1))


def test_each_camera_has_a_view_of_its_own(loader, layout):
    views = dict(zip(CAMERAS, [VIEW, CameraView(resize=(20, 40)), VIEW], strict=True))
    batch, plain = next(iter(loader(layout, view=views))), next(iter(loader(layout, size=(20, 40))))
    assert torch.equal(batch.frames[:, 1], plain.frames[:, 1])
    assert not torch.equal(batch.frames[:, 0], plain.frames[:, 0])
    assert not torch.equal(batch.image_matrix[:, 0], batch.image_matrix[:, 1])


def test_views_of_different_sizes_are_padded(loader, layout):
    views = dict(zip(CAMERAS, [VIEW, CameraView(resize=0.5), VIEW], strict=True))
    batch = next(iter(loader(layout, view=views, ragged="pad")))
    assert batch.frames.shape[-2:] == (32, 48)
    assert batch.mask[0].flatten(1).sum(1).tolist() == [20 * 40, 32 * 48, 20 * 40]


def pictures(batches):
    """Yield each frame of batches with its matrix."""
    for frames, matrices in samples(batches, "frames", "image_matrix"):
        yield from zip(frames, matrices, strict=True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": (60, 90)},
        {"size": (60, 60), "fit": "cover"},
        {"size": (90, 90), "fit": "contain"},
        {"size": (90, 180), "interpolation": "bilinear"},
        {"view": CameraView(resize=0.8, crop=(70, 130), anchor="bottom")},
        {"augment": ClipAugment(flip=1)},
        {"augment": ClipAugment(rotate_degrees=(30, 30))},
        {"augment": ClipAugment(scale=(0.7, 0.7))},
        {
            "view": CameraView(resize=0.9, crop=Crop(top=30, left=60, height=70, width=90)),
            "augment": CHANCE,
        },
        {"view": CameraView(resize=0.9, crop=(70, 130), anchor="bottom"), "augment": CHANCE},
    ],
)
def test_the_matrix_takes_each_dot_to_where_it_is_seen(loader, dotted, options):
    """Within a quarter of a pixel; a mistaken pixel center would be half a pixel off."""
    seen, reach = 0, 6  # pixels in each direction: 13 in total
    for frame, matrix in pictures(loader(dotted, **options)):
        light = frame[0].double().numpy()
        for dot in DOTS:
            x, y, one = matrix.numpy() @ [*dot, 1.0]
            assert one == 1
            left, top = round(x) - reach, round(y) - reach
            patch = light[max(0, top) : top + 2 * reach + 1, max(0, left) : left + 2 * reach + 1]
            if patch.shape != (2 * reach + 1,) * 2 or patch.min() < 15:
                continue  # at a border, or near black corners
            weight = np.maximum(patch - 60, 0) / np.maximum(patch - 60, 0).sum()
            rows, columns = np.mgrid[: 2 * reach + 1, : 2 * reach + 1]
            center = left + (weight * columns).sum(), top + (weight * rows).sum()
            assert np.abs(np.subtract(center, (x, y))).max() < 0.25, (dot, center, (x, y))
            seen += 1
    assert seen >= 50


def test_a_picture_is_the_original_warped_by_its_matrix(loader, dotted):
    view = CameraView(resize=1.0, crop=(90, 150), anchor="bottom")
    original = next(iter(loader(dotted))).frames[:1, 0].double()
    for frame, matrix in pictures(loader(dotted, view=view, augment=CHANCE)):
        height, width = frame.shape[-2:]
        places = (torch.arange(count).double() for count in (height, width))
        y, x = torch.meshgrid(*places, indexing="ij")
        source = torch.stack([x, y, torch.ones_like(x)], -1) @ matrix.inverse().T
        grid = (source[..., :2] + 0.5) * 2 / torch.tensor([WIDTH, HEIGHT]) - 1
        warped = torch.nn.functional.grid_sample(original, grid[None], align_corners=False)[0]
        inside = (grid.abs() < 0.97).all(-1) & (frame[0] > 10)
        assert inside.sum() > 0.5 * height * width
        assert (warped - frame)[:, inside].abs().mean() < 2


def test_chance_is_one_for_a_pass_of_a_clip_and_another_for_the_next(loader, layout):
    batches = loader(layout, view=VIEW, augment=CHANCE)
    seen = {
        (epoch, clip, matrix.numpy().tobytes())
        for epoch in range(3)
        for clip, matrix in samples(batches, "clip", "image_matrix")
        if clip >= 0
    }
    assert len(seen) == len({key[:2] for key in seen}) == len({m for *_, m in seen}) == 9
    assert batches.statistics.amplification == 1.0


def test_cameras_are_drawn_alike_or_each_by_itself(loader, dotted):
    for alike in (True, False):
        augment = ClipAugment(rotate_degrees=(-30, 30), alike=alike)
        left, right = next(iter(loader(dotted, augment=augment))).image_matrix.unbind(1)
        assert torch.equal(left, right) == alike


def test_chance_keeps_to_its_bounds_and_uses_them(loader, dotted):
    batches = loader(dotted, group_num=8, augment=ClipAugment(scale=(0.8, 1.25), flip=0.5))
    matrices = torch.cat([batch.image_matrix[:, 0] for _ in range(6) for batch in batches])
    scale = matrices[:, 1, 1]
    assert 0.79 <= scale.min() < 0.9 < 1.1 < scale.max() <= 1.25
    assert 10 < (matrices[:, 0, 0] < 0).sum() < 38
    assert torch.allclose(matrices[:, 0, 0].abs(), scale, atol=0.01)


def test_a_frame_that_is_shown_twice_is_turned_once(loader, two_rates, by_stock):
    options = {
        "alignment": Alignment(sync="previous", tolerance_ms=150),
        "augment": ClipAugment(flip=1, rotate_degrees=(10, 10)),
    }
    batches = list(loader(two_rates, group_num=1, lookahead=2, **options))
    frames = torch.cat([batch.frames for batch in batches])
    assert torch.equal(frames[0::3, 1], frames[1::3, 1])
    items, stock_batches = by_stock(two_rates, size=None, **options)
    assert torch.equal(torch.cat([batch["frames"] for batch in stock_batches]), frames)
    assert items.counters.frames_decoded == 40


def test_an_empty_slot_has_the_identity(loader, layout):
    last = list(loader(layout, view=VIEW))[-1]
    [[empty]] = (last.clip < 0).nonzero().tolist()
    assert torch.equal(last.image_matrix[empty], torch.eye(3).double().expand(3, 3, 3))


@pytest.mark.parametrize("door", ["cameras", "camera items"])
def test_invalid_views_and_probabilities_are_refused(opener, refused, door):
    def opens(files, **options):
        opener(door, files, **{"size": None, **options})

    refused("views", opens=opens)


SIZES = [(6, 8), (7, 7), (9, 16), (1, 5), (64, 96)]
ANGLES = [-360.0, -90.0, -5.4, -0.01, 0.3, 5.4, 45.0, 90.0, 123.4, 180.0, 270.0, 359.0]


def noise(size) -> np.ndarray:
    return np.random.default_rng([*size]).integers(0, 256, (*size, 3), np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_tensors_are_flipped_and_rotated_as_arrays_are(size):
    frame = noise(size)
    tensor = torch.from_numpy(frame)
    assert np.array_equal(flip_frame(tensor).numpy(), flip_frame(frame))
    assert np.array_equal(flip_frame(frame)[:, ::-1], frame)
    for degrees in ANGLES:
        rotated = rotate_frame(tensor, degrees)
        assert (rotated.dtype, tuple(rotated.shape)) == (torch.uint8, frame.shape)
        assert np.array_equal(rotated.numpy(), rotate_frame(frame, degrees)), degrees


def test_each_kind_of_frame_is_finished_in_place():
    shape = FrameFormat(size=(32, 48))
    params = AugmentParams(is_flipped=True, degrees=9.0)
    geometry = FrameGeometry.of(shape, (64, 96), params)
    array = noise((40, 60))
    tensor = torch.from_numpy(array.copy())
    geometry.finish(array[:32, :48])
    geometry.finish(tensor[:32, :48])
    assert np.array_equal(tensor.numpy(), array)
    untouched = noise((40, 60))
    assert np.array_equal(tensor.numpy()[32:], untouched[32:])
    assert not np.array_equal(tensor.numpy()[:32, :48], untouched[:32, :48])
