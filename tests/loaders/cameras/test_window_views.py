"""Frames of windows equal those of a `CameraLoader`, with views and augmentation."""

from itertools import chain, islice
from math import isclose

import numpy as np
import pytest
import torch

from decode.linear import linear_frames
from headrace import Alignment, CameraView, ClipAugment, Crop, Moments
from headrace.loaders.augment import AugmentParams
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_view import CameraViews
from headrace.loaders.cameras.window_loader import WindowViews
from loaders.cameras.clips import CAMERAS, CHANCE, FLIPS, SIZE, VIEW, WAYS, WINDOW, facts
from loaders.videos import contents, samples

OTHER = CameraView(resize=(20, 40))


@pytest.fixture
def streamed(cameras):
    """Return a function: frames [C, 3, H, W] and matrices of each (clip, moment) of a stream."""

    def shown(**options):
        loader = cameras(num_threads=1, **options)
        rows = samples(loader, "clip", "index", "frames", "image_matrix")
        return {(clip, moment): of for clip, moment, *of in rows if clip >= 0}

    return shown


def check(batch, right) -> int:
    """Compare each moment of windows with those of a stream; return their number."""
    rows = list(samples(batch, "clip", "index", "frames", "image_matrix"))
    for clip, moments, pictures, matrix in rows:
        for moment, frame_pixels in zip(moments, pictures, strict=True):
            expected, its_matrix = right[clip, moment]
            assert torch.equal(frame_pixels, expected)
            assert torch.equal(matrix, its_matrix)
    return sum(len(moments) for _, moments, *_ in rows)


@pytest.mark.parametrize(
    "options",
    [
        {"size": SIZE},
        {"size": None},
        {"size": [40, 40], "fit": "contain"},
        {"size": (40, 40), "fit": "cover", "interpolation": "bilinear"},
        {"view": VIEW},
        {"view": CameraView(crop=Crop(top=3, left=5, height=16, width=8))},
        {"view": dict(zip(CAMERAS, [VIEW, OTHER, VIEW], strict=True)), "interpolation": "bicubic"},
        {"size": SIZE, "augment": ClipAugment(flip=1.0)},
        {"size": [*SIZE], "augment": ClipAugment(scale=(1.2, 1.2))},
        {"view": VIEW, "augment": ClipAugment(scale=(0.9, 0.9), rotate_degrees=(7, 7))},
    ],
)
def test_pictures_and_matrices_are_those_of_a_camera_loader(windows, streamed, options):
    right = streamed(**options)
    batches = list(windows(**options))
    assert {batch.image_matrix.dtype for batch in batches} == {torch.float64}
    assert sum(check(batch, right) for batch in batches) == 31 * 3


def test_the_reference_moments_and_weights_are_joined_with_views_and_metadata(windows, streamed):
    same = {
        "alignment": Alignment(sync="nearest", reference="front", on_missing="mask"),
        "moments": Moments.every(2, first=1),
        "view": VIEW,
    }
    right = streamed(**same)
    weights = dict.fromkeys("abcde", 0.0) | {"b": 2.0, "c": 1.0}
    drawn = set()
    for batch in windows(weights=weights, num_moments=3, metadata=facts, **same):
        check(batch, right)
        for clip, moments, metadata in samples(batch, "clip", "index", "metadata"):
            drawn.add(clip)
            assert [each["of"] for each in metadata] == [("abcde"[clip], each) for each in moments]
            assert all(moment % 2 for moment in moments)
    assert drawn == {1, 2}


def test_chance_of_a_window_is_that_of_a_clip_by_a_camera_loader(windows, streamed):
    """The same draw, given to a CameraLoader as its only outcome."""
    chance = ClipAugment(scale=(0.8, 1.3), flip=0.5, rotate_degrees=(-9, 9))
    batch = next(iter(windows(view=VIEW, augment=chance, batch_size=4)))
    for window in range(4):
        drawn = chance.draw(seed=0, epoch=0, of=window, camera=0)
        scale, degrees = (drawn.scale,) * 2, (drawn.degrees,) * 2
        fixed = ClipAugment(scale=scale, flip=float(drawn.is_flipped), rotate_degrees=degrees)
        one = {name: value[window : window + 1] for name, value in batch.items()}
        check(one, streamed(view=VIEW, augment=fixed))


@pytest.fixture
def views(layout, store):
    """Return a function: the views of the layout."""
    cameras = CameraSet.open(layout, index_store=store)
    usual = {
        **dict.fromkeys(("size", "view", "augment")),
        "fit": "stretch",
        "interpolation": "area",
    }
    return lambda **options: CameraViews.of(cameras, **{**usual, **options})


def test_each_camera_of_each_window_follows_its_draw(windows, layout, views):
    """Equal to linear decodes, with all kinds of augmentation, on threads, from shared decodes."""
    viewed = views(view=VIEW)
    matrices = set()
    drawing = windows(view=VIEW, augment=CHANCE, batch_size=1)
    for slot, window in enumerate(islice(drawing, 8)):
        clip = int(window.clip)
        for camera, name in enumerate(CAMERAS):
            drawn = CHANCE.draw(seed=0, epoch=0, of=slot, camera=camera)
            geometry = viewed.geometry(clip, camera, drawn)
            right = linear_frames(layout.clips[clip].file(name), geometry.shape)
            for moment, frame in enumerate(window.frame[0, :, camera].tolist()):
                frame_pixels = right[frame].copy()
                geometry.finish(frame_pixels)
                result = window.frames[0, moment, camera].permute(1, 2, 0).numpy()
                np.testing.assert_array_equal(result, frame_pixels)
            assert np.array_equal(window.image_matrix[0, camera].numpy(), geometry.matrix)
            matrices.add(geometry.matrix.tobytes())
    assert len(matrices) == 8 * 3


def test_chance_is_another_in_each_epoch_and_by_another_seed(windows):
    options = {"view": VIEW, "augment": CHANCE, **WINDOW}
    each, other = windows(**options), windows(seed=1, **options)
    result = [batch.image_matrix for batch in (*each, *each, *other)]
    drawn = {matrix.numpy().tobytes() for matrix in torch.cat(result).flatten(0, 1)}
    assert len(drawn) == 3 * 31 * 3


@pytest.mark.parametrize("way", ["view", "chance", "flips"])
def test_ranks_together_deliver_the_windows_of_one_rank(windows, way):
    def shown(batches):
        rows = samples(batches, "clip", "index", "frames", "image_matrix")
        return {(clip, moments[-1]): contents([dict(enumerate(of))]) for clip, moments, *of in rows}

    options = WAYS[way]
    ranks = [windows(rank=rank, num_replicas=2, batch_size=2, **options) for rank in range(2)]
    assert shown(chain(*ranks)) == shown(windows(**options))


def test_windows_share_pictures_where_chance_only_flips(views):
    def window_views(augment):
        of = views(size=SIZE, augment=augment)
        return WindowViews(videos=of.cameras.videos, views=of, seed=3, num_windows=50)

    slots = np.arange(50)
    apart = ClipAugment(flip=0.5, alike=False, scale=(1.1, 1.1))
    assert set(window_views(None).numbers(0, slots)) == {0}
    assert set(window_views(FLIPS).numbers(0, slots)) == {0, 1}
    assert set(window_views(apart).numbers(0, slots)) == set(range(8))
    assert [window_views(each).is_by_sample for each in (None, FLIPS, CHANCE)] == [
        False,
        False,
        True,
    ]
    every = np.concatenate([window_views(CHANCE).numbers(epoch, slots) for epoch in (0, 1)])
    assert len(set(every)) == 100
    for slot, number in enumerate(window_views(apart).numbers(2, slots)):
        for camera in range(3):
            drawn = apart.draw(seed=3, epoch=2, of=slot, camera=camera)
            assert drawn == AugmentParams(scale=1.1, is_flipped=drawn.is_flipped)
            matrix = window_views(apart).geometry(3 + camera, int(number)).matrix
            assert (matrix[0, 0] < 0) == drawn.is_flipped
            assert isclose(matrix[1, 1], int(SIZE[0] * 1.1) / 64)
