"""Views of cameras: resized, cropped, and by chance scaled, flipped and turned, with the matrix."""

from fractions import Fraction
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from headrace.errors import ConfigError, HeadraceError
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras.augment import ClipAugment
from headrace.training.cameras.camera_set import Alignment
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.training.cameras.view import CameraView
from headrace.training.transforms import WithSample
from headrace.video.camera_layout import CameraLayout
from headrace.video.shape import Crop
from training.cameras.clips import CAMERAS, layout_of, write_layout
from training.videos import contents

CHANCE = ClipAugment(scale=(0.8, 1.3), slides=True, flip=0.5, rotate_degrees=(-20, 20), alike=False)
VIEW = CameraView(resize=0.5, crop=(20, 40), anchor="bottom")
HEIGHT, WIDTH = 120, 200
DOTS = [(x, y) for x in range(22, WIDTH - 20, 26) for y in range(20, HEIGHT - 18, 26)]


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views") / "videos"
    write_layout(folder, {"a": 6, "b": 4, "c": 9})
    return layout_of(folder)


@pytest.fixture(scope="module")
def dotted(tmp_path_factory):
    """Eight clips of two cameras, one picture each, with soft dots whose middles are known."""
    folder = tmp_path_factory.mktemp("dotted")
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    light = sum(np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * 3.0**2)) for a, b in DOTS)
    picture = np.repeat((20 + 220 * np.minimum(light, 1))[..., None], 3, axis=-1).astype(np.uint8)
    for clip in "abcdefgh":
        for camera in ("left", "right"):
            (folder / clip / camera).mkdir(parents=True)
            Image.fromarray(picture).save(folder / clip / camera / "0.png")
    return CameraLayout.of_folders([folder], len, picture_rate=10)


@pytest.fixture
def loader(opens, store):
    return partial(opens, CameraLoader, group_num=2, store=store, workers=2)


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
    cut = list(loader(layout, view=view, interpolation=interpolation))
    whole = list(loader(layout, size=resized, interpolation=interpolation))
    assert len(cut) == len(whole)
    for ours, theirs in zip(cut, whole, strict=True):
        expected = theirs.frames[..., top : top + size[0], left : left + size[1]]
        assert torch.equal(ours.frames, expected)
        assert ours.sizes.tolist() == [
            [[*size] if clip >= 0 else [0, 0]] * len(CAMERAS) for clip in ours.clip.tolist()
        ]


def test_each_camera_has_a_view_of_its_own(loader, layout):
    views = dict(zip(CAMERAS, [VIEW, CameraView(resize=(20, 40)), VIEW], strict=True))
    batch, plain = next(iter(loader(layout, view=views))), next(iter(loader(layout, size=(20, 40))))
    assert torch.equal(batch.frames[:, 1], plain.frames[:, 1])
    assert not torch.equal(batch.frames[:, 0], plain.frames[:, 0])
    assert not torch.equal(batch.image_matrix[:, 0], batch.image_matrix[:, 1])


def test_views_of_different_sizes_are_padded_or_refused(loader, layout):
    views = dict(zip(CAMERAS, [VIEW, CameraView(resize=0.5), VIEW], strict=True))
    with pytest.raises(ConfigError, match="views make 20x40, 32x48"):
        loader(layout, view=views)
    batch = next(iter(loader(layout, view=views, ragged="pad")))
    assert batch.frames.shape[-2:] == (32, 48)
    assert batch.mask[0].flatten(1).sum(1).tolist() == [20 * 40, 32 * 48, 20 * 40]


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
    """A quarter of a pixel is asked for; half a pixel is what a mistaken middle would cost."""
    seen = 0
    for batch in loader(dotted, **options):
        for picture, matrix in zip(
            batch.frames.flatten(0, 1), batch.image_matrix.flatten(0, 1).numpy(), strict=True
        ):
            light = picture[0].double().numpy()
            for dot in DOTS:
                x, y, one = matrix @ [*dot, 1.0]
                assert one == 1
                reach = 6  # pixels each way: 13 in all
                left, top = round(x) - reach, round(y) - reach
                patch = light[
                    max(0, top) : top + 2 * reach + 1, max(0, left) : left + 2 * reach + 1
                ]
                if patch.shape != (2 * reach + 1,) * 2 or patch.min() < 15:
                    continue  # at a border, or near black corners
                weight = np.maximum(patch - 60, 0)
                rows, columns = np.mgrid[: 2 * reach + 1, : 2 * reach + 1]
                found = (
                    left + (weight * columns).sum() / weight.sum(),
                    top + (weight * rows).sum() / weight.sum(),
                )
                assert np.abs(np.subtract(found, (x, y))).max() < 0.25, (dot, found, (x, y))
                seen += 1
    assert seen >= 50


def test_a_picture_is_the_original_warped_by_its_matrix(loader, dotted):
    view = CameraView(resize=1.0, crop=(90, 150), anchor="bottom")
    original = next(iter(loader(dotted))).frames[:1, 0].double()
    for batch in loader(dotted, view=view, augment=CHANCE):
        for picture, matrix in zip(
            batch.frames.flatten(0, 1), batch.image_matrix.flatten(0, 1), strict=True
        ):
            height, width = picture.shape[-2:]
            y, x = torch.meshgrid(
                torch.arange(height).double(), torch.arange(width).double(), indexing="ij"
            )
            there = torch.stack([x, y, torch.ones_like(x)], -1) @ matrix.inverse().T
            grid = (there[..., :2] + 0.5) * 2 / torch.tensor([WIDTH, HEIGHT]) - 1
            warped = torch.nn.functional.grid_sample(
                original, grid[None], mode="bilinear", align_corners=False
            )[0]
            inside = (grid.abs() < 0.97).all(-1) & (picture[0] > 10)
            assert inside.sum() > 0.5 * height * width
            assert (warped - picture)[:, inside].abs().mean() < 2


def test_chance_is_one_for_a_pass_of_a_clip_and_another_for_the_next(loader, layout):
    each = loader(layout, view=VIEW, augment=CHANCE)
    seen: dict[tuple[int, int], set[bytes]] = {}
    for epoch in range(3):
        for batch in each:
            for clip, matrix in zip(batch.clip.tolist(), batch.image_matrix, strict=True):
                if clip >= 0:
                    seen.setdefault((epoch, clip), set()).add(matrix.numpy().tobytes())
    assert all(len(matrices) == 1 for matrices in seen.values())
    assert len(set().union(*seen.values())) == len(seen) == 9
    assert each.statistics.amplification == 1.0


def test_cameras_are_drawn_alike_or_each_by_itself(loader, dotted):
    for alike in (True, False):
        augment = ClipAugment(rotate_degrees=(-30, 30), alike=alike)
        batch = next(iter(loader(dotted, augment=augment)))
        left, right = batch.image_matrix.unbind(1)
        assert torch.equal(left, right) == alike


def test_chance_keeps_to_its_bounds_and_uses_them(loader, dotted):
    each = loader(dotted, group_num=8, augment=ClipAugment(scale=(0.8, 1.25), flip=0.5))
    found = torch.cat([batch.image_matrix[:, 0] for _ in range(6) for batch in each])
    scale = found[:, 1, 1]
    assert 0.79 <= scale.min() < 0.9 < 1.1 < scale.max() <= 1.25
    assert 10 < (found[:, 0, 0] < 0).sum() < 38
    assert torch.allclose(found[:, 0, 0].abs(), scale, atol=0.01)


@pytest.mark.parametrize("augment", [None, CHANCE])
def test_workers_ranks_and_resuming_change_nothing(loader, layout, augment):
    options = {"view": VIEW, "augment": augment, "shuffle": True, "seed": 5}
    first = loader(layout, workers=1, lookahead=1, **options)
    epochs = list(first), list(first)
    assert contents(loader(layout, workers=3, **options)) == contents(epochs[0])
    half = loader(layout, **options)
    list(half)
    steps = iter(half)
    list(islice(steps, 3))
    resumed = loader(layout, **options)
    resumed.load_state_dict(half.state_dict())
    assert contents(resumed) == contents(epochs[1][3:])
    of_ranks = [
        loader(layout, group_num=1, rank=rank, num_replicas=2, **options) for rank in range(2)
    ]
    together = {
        (clip, index): frames.numpy().tobytes()
        for rank in of_ranks
        for batch in rank
        for clip, index, frames in zip(
            batch.clip.tolist(), batch.index.tolist(), batch.frames, strict=True
        )
    }
    for batch in epochs[0]:
        for clip, index, frames in zip(
            batch.clip.tolist(), batch.index.tolist(), batch.frames, strict=True
        ):
            assert together[clip, index] == frames.numpy().tobytes()


@pytest.mark.parametrize("tail", ["pad", "endless"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stock_dataloader_delivers_what_the_loader_does(loader, layout, store, num_workers, tail):
    options = {"group_num": 2, "shuffle": True, "seed": 3, "tail": tail, "seq_split": 2}
    ours = islice(loader(layout, view=VIEW, augment=CHANCE, **options), 24)
    with CameraStreamDataset(layout, view=VIEW, augment=CHANCE, store=store) as dataset:
        sampler = CameraStreamSampler(dataset, **options)
        theirs = DataLoader(dataset, batch_sampler=sampler, num_workers=min(1, num_workers))
        for one, other in zip(ours, theirs, strict=False):
            for name, value in one.items():
                expected, found = (
                    each if isinstance(each, list) else each.numpy()
                    for each in (value, other[name])
                )
                is_number = not isinstance(value, list)
                assert np.array_equal(expected, found, equal_nan=is_number), name


def test_a_frame_that_is_shown_twice_is_turned_once(loader, tmp_path, store):
    (tmp_path / "clip").mkdir()
    for camera, rate in {"a_fast": 30, "b_slow": 10}.items():
        clip = SynthClip(num_frames=rate, frame_rate=Fraction(rate), size=(64, 96))
        write_clip(tmp_path / "clip" / camera, clip)
    layout = CameraLayout.of_folders([tmp_path], lambda file: 30)
    options = {
        "alignment": Alignment(sync="previous", tolerance_ms=150),
        "augment": ClipAugment(flip=1, rotate_degrees=(10, 10)),
    }
    batches = list(loader(layout, group_num=1, lookahead=2, **options))
    for before, after in zip(batches[0::3], batches[1::3], strict=True):
        assert torch.equal(before.frames[0, 1], after.frames[0, 1])
    with CameraStreamDataset(layout, store=store, **options) as dataset:
        sampler = CameraStreamSampler(dataset, group_num=1)
        for one, other in zip(batches, DataLoader(dataset, batch_sampler=sampler), strict=True):
            assert torch.equal(one.frames, other["frames"])


def test_an_empty_slot_has_the_identity(loader, layout):
    last = list(loader(layout, view=VIEW))[-1]
    [[empty]] = (last.clip < 0).nonzero().tolist()
    assert torch.equal(last.image_matrix[empty], torch.eye(3).double().expand(3, 3, 3))


def test_a_transform_is_told_slot_clip_first_frame_and_matrix(loader, layout, store):
    told = []

    def keep(frames, sample):
        told.append({name: sample[name] for name in ("slot", "clip", "first_frame")})
        assert sample["image_matrix"].shape == (3, 3, 3)
        return frames

    batch = next(iter(loader(layout, view=VIEW, transform=WithSample(keep))))
    assert [{name: int(each[name]) for name in each} for each in told] == [
        {"slot": int(slot), "clip": int(clip), "first_frame": 1}
        for slot, clip in zip(batch.slot, batch.clip, strict=True)
    ]
    told.clear()
    with CameraStreamDataset(layout, view=VIEW, transform=WithSample(keep), store=store) as dataset:
        dataset[next(iter(CameraStreamSampler(dataset, group_num=1)))[0]]
    assert [int(each["slot"]) for each in told] == [0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CameraView(resize=0), "resize must be above 0"),
        (lambda: CameraView(resize="big"), "resize must be a finite number"),
        (lambda: CameraView(resize=float("nan")), "resize must be a finite number"),
        (lambda: CameraView(resize=(None, None)), "one may be None"),
        (lambda: CameraView(resize=(1, 2, 3)), "one may be None"),
        (lambda: CameraView(resize=(0, 5)), "one may be None"),
        (lambda: CameraView(crop=(5, 0)), "crop is a Crop"),
        (lambda: CameraView(crop=7), "crop is a Crop"),
        (lambda: CameraView(crop=(5, 5), anchor="left"), "anchor must be one of center"),
        (lambda: CameraView(anchor="bottom"), "places a crop of a size"),
        (lambda: ClipAugment(flip=2), "a probability from 0 to 1"),
        (lambda: ClipAugment(flip="yes"), "a probability from 0 to 1"),
        (lambda: ClipAugment(scale=(1.1, 0.9)), r"scale is \(lowest, highest\)"),
        (lambda: ClipAugment(scale=(0.0, 1.0)), "from 0.1 to 10"),
        (lambda: ClipAugment(rotate_degrees=5), r"rotate_degrees is \(lowest, highest\)"),
        (lambda: ClipAugment(rotate_degrees=(0, float("inf"))), "rotate_degrees is"),
        (lambda: ClipAugment(alike="no"), "alike must be True or False"),
    ],
)
def test_what_is_no_view_and_no_chance_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": (256, 704)}, "view must be a CameraView"),
        ({"view": {}}, "view must be a CameraView"),
        ({"view": {"back": 0.5}}, "view must be a CameraView"),
        ({"view": {"back": VIEW}}, "a CameraView for each of back, front, left, got .* back$"),
        (
            {"view": VIEW, "size": (32, 48)},
            r"so does size=\(32, 48\); leave it out: C",
        ),
        ({"view": VIEW, "fit": "cover"}, r"so does fit='cover'; leave it out: .*, crop=\(h"),
        (
            {"view": VIEW, "fit": "contain"},
            "so does fit='contain'; leave it out, or view=: no view",
        ),
        (
            {"view": VIEW, "fit": "cover", "size": (32, 48)},
            r"and so do size=\(32, 48\) and fit='cover'; leave them out: .* cuts what",
        ),
        ({"view": CameraView(crop=(65, 10))}, r"a/back.mp4: a crop of 65x10 .* 64x96"),
        ({"view": CameraView(crop=Crop(top=60, left=0, height=9, width=9))}, "9x9 at 60, 0"),
        ({"view": CameraView(resize=1e-3)}, "makes 0x0"),
        ({"view": CameraView(resize=1e6)}, "sides of 1 to 16384"),
        ({"augment": {"flip": 0.5}}, "augment must be a ClipAugment"),
        ({"augment": CHANCE, "size": (32, 32), "fit": "cover"}, "say by view="),
    ],
)
def test_what_does_not_fit_is_refused_when_a_loader_opens(loader, layout, store, options, message):
    with pytest.raises(HeadraceError, match=message):
        loader(layout, **options)
    with pytest.raises(HeadraceError, match=message):
        CameraStreamDataset(layout, store=store, **options)
