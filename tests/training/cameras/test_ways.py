"""Whatever is asked of moments, times, pictures or chance: each once, in order, resumed, shared."""

from itertools import islice, pairwise

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import DataLoader

from headrace.sampling.moments import Moments
from headrace.training.cameras.alignment import Alignment, CameraClock
from headrace.training.cameras.augment import ClipAugment
from headrace.training.cameras.camera_times import CameraTimes
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.training.cameras.view import CameraView
from headrace.video.camera_layout import CameraLayout
from training.cameras.clips import CAMERAS, LENGTHS, SIZE
from training.videos import contents

EVERY = {(clip, k) for clip, length in enumerate(LENGTHS.values()) for k in range(length)}
LATE = 0.004
"""Seconds by which each camera is behind the one before it."""
TIMES = CameraTimes.of(
    {
        clip: {
            camera: (np.arange(length) / 10 + place * LATE).tolist()
            for place, camera in enumerate(CAMERAS)
        }
        for clip, length in LENGTHS.items()
    }
)


def facts(clip, moment):
    return {"of": (clip, moment.number), "seconds": moment.seconds, "frames": dict(moment.frames)}


WAYS = {
    "every third": ({"moments": Moments.every(3)}, {(c, k) for c, k in EVERY if k % 3 == 0}),
    "listed": (
        {"moments": Moments.frames({"a": [0, 7, 8, 19], "c": [3, 28], "e": [5]})},
        {(0, 0), (0, 7), (0, 8), (0, 19), (2, 3), (2, 28), (4, 5)},
    ),
    "timed": (
        {"alignment": Alignment(sync="nearest", reference="front", times=TIMES), "metadata": facts},
        EVERY,
    ),
    "late": (
        {
            "alignment": Alignment(
                sync="previous",
                tolerance_ms=20,
                on_missing="mask",
                clocks={"left": CameraClock(offset_seconds=0.05, rate=1.0)},
            )
        },
        EVERY,
    ),
    "framed": (
        {
            "view": CameraView(resize=0.5, crop=(20, 40), anchor="bottom"),
            "augment": ClipAugment(scale=(0.8, 1.2), flip=0.5, rotate_degrees=(-9, 9)),
            "moments": Moments.rate(10.0),
        },
        {(c, k) for c, k in EVERY if k % 3 == 0},
    ),
    "pictured": ({"size": SIZE}, {(0, k) for k in range(7)} | {(1, k) for k in range(4)}),
}


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """Two clips of two cameras, as folders of JPEG pictures."""
    folder = tmp_path_factory.mktemp("pictured")
    for clip, length in {"day": 7, "night": 4}.items():
        for place, camera in enumerate(("front", "left")):
            (folder / clip / camera).mkdir(parents=True)
            for number in range(length):
                made = np.random.default_rng([length, place, number]).integers(0, 256, (6, 8, 3))
                picture = Image.fromarray(made.astype(np.uint8)).resize((80, 60))
                picture.save(folder / clip / camera / f"{number:05d}.jpg")
    return CameraLayout.of_folders([folder], len, picture_rate=12)


@pytest.fixture(params=WAYS)
def way(request, layout, pictured, store):
    """A layout, what is asked of it, and the (clip, moment) that must come."""
    options, expected = WAYS[request.param]
    size = {} if "view" in options else {"size": SIZE}
    asked = {"seed": 3, "shuffle": True, **size, **options}
    return (pictured if request.param == "pictured" else layout), asked, expected, store


def read(layout, store, *, steps=None, state=None, **options):
    """Return batches, and the state behind them."""
    with CameraLoader(layout, store=store, workers=2, **options) as loader:
        if state is not None:
            loader.load_state_dict(state)
        return [*islice(loader, steps)], loader.state_dict()


def by_moment(batches):
    """Return (clip, moment) → all that is told of it but where it stood."""
    found = {}
    for batch in batches:
        for row, (clip, index) in enumerate(
            zip(batch["clip"].tolist(), batch["index"].tolist(), strict=True)
        ):
            if clip >= 0:
                assert (clip, index) not in found
                found[clip, index] = {
                    name: value[row] if isinstance(value, list) else value[row].numpy().tobytes()
                    for name, value in batch.items()
                    if name != "slot"
                }
    return found


def check_order(batches):
    """Hold each slot against: clips from their first moment that comes to the last, ascending."""
    shown = {}
    for batch in batches:
        rows = (batch[name].tolist() for name in ("slot", "clip", "index", "first_frame"))
        for slot, *cell in zip(*rows, strict=True):
            shown.setdefault(slot, []).append(cell)
    for mine in shown.values():
        assert mine[0][2] or mine[0][0] < 0
        for (before, earlier, _), (clip, later, is_first) in pairwise(mine):
            assert is_first == (clip != before and clip >= 0)
            assert clip != before or clip < 0 or later > earlier


def test_each_moment_comes_once_in_order_and_the_same_on_any_number_of_ranks(way):
    layout, asked, expected, store = way
    alone, _ = read(layout, store, group_num=2, **asked)
    check_order(alone)
    found = by_moment(alone)
    assert set(found) == expected
    ranks = [
        read(layout, store, group_num=1, rank=rank, num_replicas=2, **asked)[0] for rank in range(2)
    ]
    assert len({*map(len, ranks)}) == 1
    for batches in ranks:
        check_order(batches)
    assert by_moment([batch for batches in ranks for batch in batches]) == found


def test_the_rest_of_a_rank_is_what_it_would_have_been(way):
    layout, asked, _, store = way
    of_rank = {"group_num": 1, "rank": 1, "num_replicas": 2, **asked}
    whole, _ = read(layout, store, **of_rank)
    begun, state = read(layout, store, steps=2, **of_rank)
    rest, _ = read(layout, store, state=state, lookahead=1, **of_rank)
    assert contents([*begun, *rest]) == contents(whole)


def test_a_stock_dataloader_gives_the_same(way):
    layout, asked, _, store = way
    order = {name: asked[name] for name in ("seed", "shuffle")}
    of_dataset = {name: value for name, value in asked.items() if name not in order}
    ours, _ = read(layout, store, group_num=2, **asked)
    with CameraStreamDataset(layout, num_of_set=2, store=store, **of_dataset) as dataset:
        sampler = CameraStreamSampler(dataset, group_num=2, **order)
        theirs = [*DataLoader(dataset, batch_sampler=sampler)]
    check_order(theirs)
    assert by_moment(theirs) == by_moment(ours)
