"""Whatever is asked of moments, times, pictures or chance: each once, in order, resumed, shared."""

from itertools import islice, pairwise

import numpy as np
import pytest
from torch.utils.data import DataLoader

from headrace import Alignment, CameraClock, CameraStreamSampler, CameraTimes, Moments
from loaders.cameras.clips import CAMERAS, CHANCE, EVERY, LENGTHS, VIEW, facts, write_pictures
from loaders.videos import contents, samples

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
    """Two clips of two cameras, as folders of JPEG pictures."""
    coarse = np.random.default_rng(0).integers(0, 256, (4, 7, 6, 8, 3), np.uint8)
    front, left, *others = coarse.repeat(10, axis=2).repeat(10, axis=3)
    night = dict(zip(("front", "left"), (each[:4] for each in others), strict=True))
    clips = {"day": {"front": front, "left": left}, "night": night}
    return write_pictures(tmp_path_factory.mktemp("pictured"), clips, ".jpg", rate=12)


@pytest.fixture(params=WAYS)
def way(request, layout, pictured, opener):
    """What opens a door with all that is asked of it, and the (clip, moment) that must come."""
    options, expected = WAYS[request.param]
    files = pictured if request.param == "pictured" else layout

    def opens(door="cameras", **more):
        order = {"seed": 3, "shuffle": True} if door == "cameras" else {}
        return opener(door, files, **{**order, **options, **more})

    return opens, expected


def by_moment(batches):
    """Return (clip, moment) → all that is told of it but where it stood."""
    found = {}
    for batch in batches:
        names = [name for name in batch if name != "slot"]
        columns = [
            value if isinstance(value, list) else [each.numpy().tobytes() for each in value]
            for value in map(batch.get, names)
        ]
        rows = zip(*columns, strict=True)
        for place, row in zip(samples(batch, "clip", "index"), rows, strict=True):
            assert place not in found
            if place[0] >= 0:
                found[place] = dict(zip(names, row, strict=True))
    return found


def check_order(batches):
    """Hold each slot against: clips from their first moment that comes to the last, ascending."""
    shown = {}
    for slot, *cell in samples(batches, "slot", "clip", "index", "first_frame"):
        shown.setdefault(slot, []).append(cell)
    for mine in shown.values():
        assert mine[0][2] or mine[0][0] < 0
        for (before, earlier, _), (clip, later, is_first) in pairwise(mine):
            assert is_first == (clip != before and clip >= 0)
            assert clip != before or clip < 0 or later > earlier


def test_each_moment_comes_once_in_order_and_the_same_on_any_number_of_ranks(way):
    opens, expected = way
    alone = list(opens())
    check_order(alone)
    found = by_moment(alone)
    assert set(found) == expected
    ranks = [list(opens(group_num=1, rank=rank, num_replicas=2)) for rank in range(2)]
    assert len({*map(len, ranks)}) == 1
    for batches in ranks:
        check_order(batches)
    assert by_moment([batch for batches in ranks for batch in batches]) == found


def test_the_rest_of_a_rank_is_what_it_would_have_been(way):
    opens, _ = way
    of_rank = {"group_num": 1, "rank": 1, "num_replicas": 2}
    begun, resumed = opens(**of_rank), opens(lookahead=1, **of_rank)
    seen = list(islice(begun, 2))
    resumed.load_state_dict(begun.state_dict())
    assert contents([*seen, *resumed]) == contents(opens(**of_rank))


@pytest.mark.parametrize(
    ("workers", "order"), [(0, {}), (1, {"seq_split": 2}), (0, {"tail": "endless", "seq_split": 2})]
)
def test_a_stock_dataloader_gives_the_same(way, workers, order):
    opens, _ = way
    items = opens("camera items")
    asked = {"group_num": 2, "seed": 3, "shuffle": True, **order}
    theirs = DataLoader(
        items, batch_sampler=CameraStreamSampler(items, **asked), num_workers=workers
    )
    ours, is_endless = opens(**order), "tail" in order
    for _ in range(1 if is_endless else 2):
        for one, other in islice(zip(ours, theirs, strict=not is_endless), 50):
            assert contents([other]) == contents([{name: one[name] for name in other}])
            assert {*one} - {*other} <= {"metadata"}
