"""Combined options of moments, times, images and augmentation: each once, in order, resumable."""

from itertools import islice, pairwise

import numpy as np
import pytest
from torch.utils.data import DataLoader

from headrace import Alignment, CameraClock, CameraStreamSampler, CameraTimes, Moments
from loaders.cameras.clips import CAMERAS, CHANCE, EVERY, LENGTHS, VIEW, facts, write_pictures
from loaders.videos import contents, resumed, samples

LATE = 0.004
"""Delay of each camera after the one before it, in seconds."""
TIMES = CameraTimes.of(
    {
        clip: {
            camera: (np.arange(length) / 10 + position * LATE).tolist()
            for position, camera in enumerate(CAMERAS)
        }
        for clip, length in LENGTHS.items()
    }
)


EVERY_THIRD = {(c, k) for c, k in EVERY if k % 3 == 0}
MASKED = {"on_missing": "mask", "clocks": {"left": CameraClock(offset_seconds=0.05, rate=1.0)}}
WAYS = {
    "every third": ({"moments": Moments.every(3)}, EVERY_THIRD),
    "listed": (
        {"moments": Moments.frames({"a": [0, 7, 8, 19], "c": [3, 28], "e": [5]})},
        {(0, 0), (0, 7), (0, 8), (0, 19), (2, 3), (2, 28), (4, 5)},
    ),
    "timed": (
        {"alignment": Alignment(sync="nearest", reference="front", times=TIMES), "metadata": facts},
        EVERY,
    ),
    "late": ({"alignment": Alignment(sync="previous", tolerance_ms=20, **MASKED)}, EVERY),
    "framed": ({"view": VIEW, "augment": CHANCE, "moments": Moments.rate(10.0)}, EVERY_THIRD),
    "pictured": ({}, {(0, k) for k in range(7)} | {(1, k) for k in range(4)}),
}


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """Two clips of two cameras, as folders of JPEG images."""
    coarse = np.random.default_rng(0).integers(0, 256, (4, 7, 6, 8, 3), np.uint8)
    front, left, *others = coarse.repeat(10, axis=2).repeat(10, axis=3)
    night = dict(zip(("front", "left"), (each[:4] for each in others), strict=True))
    clips = {"day": {"front": front, "left": left}, "night": night}
    return write_pictures(tmp_path_factory.mktemp("pictured"), clips, ".jpg", rate=12)


@pytest.fixture(params=WAYS)
def way(request, layout, pictured, opener):
    """A function that opens a loader with all options, and the expected (clip, moment)."""
    options, expected = WAYS[request.param]
    files = pictured if request.param == "pictured" else layout

    def opens(door="cameras", **more):
        order = {"seed": 3, "shuffle": True} if door == "cameras" else {}
        return opener(door, files, **{**order, **options, **more})

    return opens, expected


def by_moment(batches):
    """Return (clip, moment) → its entries in the batch, without the slot."""
    result = {}
    for batch in batches:
        names = [name for name in batch if name != "slot"]
        columns = [
            value if isinstance(value, list) else [each.numpy().tobytes() for each in value]
            for value in map(batch.get, names)
        ]
        rows = zip(*columns, strict=True)
        for position, row in zip(samples(batch, "clip", "index"), rows, strict=True):
            assert position not in result
            if position[0] >= 0:
                result[position] = dict(zip(names, row, strict=True))
    return result


def check_order(batches):
    """Check that each slot shows clips from their first delivered moment on, ascending."""
    shown = {}
    for slot, *cell in samples(batches, "slot", "clip", "index", "first_frame"):
        shown.setdefault(slot, []).append(cell)
    for moments in shown.values():
        assert moments[0][2] or moments[0][0] < 0
        for (before, earlier, _), (clip, later, is_first) in pairwise(moments):
            assert is_first == (clip != before and clip >= 0)
            assert clip != before or clip < 0 or later > earlier


def test_each_moment_comes_once_in_order_and_the_same_on_any_number_of_ranks(way):
    opens, expected = way
    alone = list(opens())
    check_order(alone)
    result = by_moment(alone)
    assert set(result) == expected
    ranks = [list(opens(group_num=1, rank=rank, num_replicas=2)) for rank in range(2)]
    assert len({*map(len, ranks)}) == 1
    for batches in ranks:
        check_order(batches)
    assert by_moment([batch for batches in ranks for batch in batches]) == result


def test_the_rest_of_a_rank_is_unchanged(way):
    opens, _ = way
    of_rank = {"group_num": 1, "rank": 1, "num_replicas": 2}
    begun, after = opens(**of_rank), opens(lookahead=1, **of_rank)
    assert contents(resumed(begun, after, 2)) == contents(opens(**of_rank))


@pytest.mark.parametrize(
    ("workers", "order"), [(0, {}), (1, {"seq_split": 2}), (0, {"tail": "endless", "seq_split": 2})]
)
def test_a_stock_dataloader_gives_the_same(way, workers, order):
    opens, _ = way
    items = opens("camera items")
    options = {"group_num": 2, "seed": 3, "shuffle": True, **order}
    stock = DataLoader(
        items, batch_sampler=CameraStreamSampler(items, **options), num_workers=workers
    )
    loaded, is_endless = opens(**order), "tail" in order
    for _ in range(1 if is_endless else 2):
        for batch, stock_batch in islice(zip(loaded, stock, strict=not is_endless), 50):
            assert contents([stock_batch]) == contents(
                [{name: batch[name] for name in stock_batch}]
            )
            assert {*batch} - {*stock_batch} <= {"metadata"}
