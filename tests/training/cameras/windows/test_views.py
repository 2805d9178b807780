"""What a window shows is what a `CameraLoader` shows, resized, cropped, and by chance."""

from itertools import islice
from math import isclose

import numpy as np
import pytest
import torch

from decode.linear import linear_frames
from headrace.sampling.moments import Moments
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.augment import ClipAugment, Drawn
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.view import CameraView
from headrace.training.cameras.views import CameraViews
from headrace.training.cameras.windows.framings import WindowFramings
from headrace.video.shape import Crop
from training.cameras.clips import CAMERAS, CHANCE, FLIPS, SIZE, VIEW, WAYS, WINDOW, facts

OTHER = CameraView(resize=(20, 40))


def streamed(layout, store, **options) -> dict:
    """Return pictures [C, 3, H, W] and matrices of each (clip, moment) by a CameraLoader."""
    with CameraLoader(layout, group_num=2, store=store, workers=1, **options) as stream:
        return {
            (clip, moment): (batch.frames[place].clone(), batch.image_matrix[place])
            for batch in stream
            for place, (clip, moment) in enumerate(
                zip(batch.clip.tolist(), batch.index.tolist(), strict=True)
            )
            if clip >= 0
        }


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
def test_pictures_and_matrices_are_those_of_a_camera_loader(loader, layout, store, options):
    right = streamed(layout, store, **options)
    seen = 0
    for batch in loader(**options, **WINDOW):
        assert batch.image_matrix.dtype == torch.float64
        for window, clip in enumerate(batch.clip.tolist()):
            for place, moment in enumerate(batch.index[window].tolist()):
                frames, matrix = right[clip, moment]
                assert torch.equal(batch.frames[window, place], frames)
                assert torch.equal(batch.image_matrix[window], matrix)
                seen += 1
    assert seen == 31 * 3


def test_the_reference_moments_and_weights_are_joined_with_views_and_metadata(
    loader, layout, store
):
    same = {
        "alignment": Alignment(sync="nearest", reference="front", on_missing="mask"),
        "moments": Moments.every(2, first=1),
        "view": VIEW,
    }
    right = streamed(layout, store, **same)
    weights = dict.fromkeys("abcde", 0.0) | {"b": 2.0, "c": 1.0}
    drawn = set()
    for batch in loader(weights=weights, num_moments=3, metadata=facts, **same):
        for window, clip in enumerate(batch.clip.tolist()):
            drawn.add(clip)
            for place, moment in enumerate(batch.index[window].tolist()):
                assert moment % 2
                assert batch.metadata[window][place]["of"] == ("abcde"[clip], moment)
                assert torch.equal(batch.frames[window, place], right[clip, moment][0])
    assert drawn == {1, 2}


def test_chance_of_a_window_is_that_of_a_clip_by_a_camera_loader(loader, layout, store):
    """The same draw, given to a CameraLoader as the only one there is."""
    chance = ClipAugment(scale=(0.8, 1.3), flip=0.5, rotate_degrees=(-9, 9))
    [batch] = islice(loader(view=VIEW, augment=chance, **WINDOW), 1)
    for window, clip in enumerate(batch.clip.tolist()):
        drawn = chance.draw(seed=0, epoch=0, of=window, camera=0)
        fixed = ClipAugment(
            scale=(drawn.scale,) * 2,
            flip=float(drawn.is_flipped),
            rotate_degrees=(drawn.degrees,) * 2,
        )
        right = streamed(layout, store, view=VIEW, augment=fixed)
        for place, moment in enumerate(batch.index[window].tolist()):
            frames, matrix = right[clip, moment]
            assert torch.equal(batch.frames[window, place], frames)
            assert torch.equal(batch.image_matrix[window], matrix)


def test_each_camera_of_each_window_is_as_its_draw_says(loader, layout, store):
    """Of plain decodes: all there is in chance, on threads, from shared decodes."""
    views = CameraViews.of(
        CameraSet.open(layout, store=store),
        size=None,
        fit="stretch",
        interpolation="area",
        view=VIEW,
        augment=None,
    )
    matrices = set()
    drawing = loader(view=VIEW, augment=CHANCE, batch_size=1, **WINDOW)
    for slot, window in enumerate(islice(drawing, 8)):
        clip = int(window.clip)
        for camera, name in enumerate(CAMERAS):
            drawn = CHANCE.draw(seed=0, epoch=0, of=slot, camera=camera)
            framing = views.framed(clip, camera, drawn)
            right = linear_frames(layout.clips[clip].file(name), framing.shape)
            for moment, frame in enumerate(window.frame[0, :, camera].tolist()):
                picture = right[frame].copy()
                framing.finish(picture)
                found = window.frames[0, moment, camera].permute(1, 2, 0).numpy()
                np.testing.assert_array_equal(found, picture)
            assert np.array_equal(window.image_matrix[0, camera].numpy(), framing.matrix)
            matrices.add(framing.matrix.tobytes())
    assert len(matrices) == 8 * 3


def test_chance_is_another_in_each_epoch_and_by_another_seed(loader):
    asked = {"view": VIEW, "augment": CHANCE, **WINDOW}
    each, other = loader(**asked), loader(seed=1, **asked)
    found = [batch.image_matrix for batch in (*each, *each, *other)]
    drawn = {matrix.numpy().tobytes() for matrix in torch.cat(found).flatten(0, 1)}
    assert len(drawn) == 3 * 31 * 3


@pytest.mark.parametrize("way", ["view", "chance", "flips"])
def test_ranks_together_show_what_one_alone_shows(loader, way):
    def shown(parts):
        return {
            (clip, key): (frames.numpy().tobytes(), matrix.numpy().tobytes())
            for part in parts
            for batch in part
            for clip, key, frames, matrix in zip(
                batch.clip.tolist(),
                batch.index[:, -1].tolist(),
                batch.frames,
                batch.image_matrix,
                strict=True,
            )
        }

    options = {**WAYS[way], **WINDOW}
    ranks = [loader(rank=rank, num_replicas=2, batch_size=2, **options) for rank in range(2)]
    assert shown(ranks) == shown([loader(**options)])


def test_windows_share_pictures_where_chance_only_flips(layout, store):
    cameras = CameraSet.open(layout, store=store)

    def framings(augment):
        views = CameraViews.of(
            cameras, size=SIZE, fit="stretch", interpolation="area", view=None, augment=augment
        )
        return WindowFramings(views=views, seed=3, windows=50)

    slots = np.arange(50)
    apart = ClipAugment(flip=0.5, alike=False, scale=(1.1, 1.1))
    assert set(framings(None).numbers(0, slots)) == {0}
    assert set(framings(FLIPS).numbers(0, slots)) == {0, 1}
    assert set(framings(apart).numbers(0, slots)) == set(range(8))
    assert [framings(each).is_by_sample for each in (None, FLIPS, CHANCE)] == [False, False, True]
    every = np.concatenate([framings(CHANCE).numbers(epoch, slots) for epoch in (0, 1)])
    assert len(set(every)) == 100
    for slot, number in enumerate(framings(apart).numbers(2, slots)):
        for camera in range(3):
            drawn = apart.draw(seed=3, epoch=2, of=slot, camera=camera)
            assert drawn == Drawn(scale=1.1, is_flipped=drawn.is_flipped)
            matrix = framings(apart).framing(3 + camera, int(number)).matrix
            assert (matrix[0, 0] < 0) == drawn.is_flipped
            assert isclose(matrix[1, 1], int(SIZE[0] * 1.1) / 64)
