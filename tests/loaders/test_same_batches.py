"""Batches are the same with any look-ahead, and after resuming at any step."""

from functools import partial

import pytest

from headrace import ClipAugment, SequentialFrames, ShuffledFrames, UniformFrames
from loaders import videos as kit
from loaders.cameras.clips import CHANCE, VIEW, WAYS
from loaders.videos import BURSTS, FRAME_BYTES, KEPT, contents, epochs, resumed, takes

SHUFFLED = {"shuffle": True}
OF_FRAMES = [UniformFrames(), ShuffledFrames(), ShuffledFrames(over="seconds"), BURSTS]


def of_row(sampler):
    door, option = takes(sampler)
    return door, "manifest", {**option, "batch_size": 3}, (1,)


SAME = [
    # door, files, options, steps after which a run ends; an epoch of frames has 12
    *(
        ("frames", "videos", {"sampling": s, "seed": 5}, steps)
        for s, steps in zip(OF_FRAMES, [(1, 12), (4, 15), (11,), (1, 4, 11, 12, 15)], strict=True)
    ),
    *(
        ("frames", "videos", {"sampling": s, "hold": "yuv420"}, ())
        for s in (UniformFrames(), BURSTS)
    ),
    ("frames", "videos", {"sampling": ShuffledFrames(), "decoding": KEPT}, (0, 7)),
    *(("clips", "videos", {"clips": each}, (2,)) for each in kit.CLIP_SAMPLERS),
    ("cameras", "layout", SHUFFLED, (1, 5, 20)),
    (
        "cameras",
        "layout",
        {**SHUFFLED, "augment": ClipAugment(flip=0.5), "decoding": KEPT},
        (1, 9),
    ),
    ("cameras", "small", {**SHUFFLED, "view": VIEW, "augment": CHANCE}, (13,)),
    ("windows", "layout", WAYS["plain"], (11,)),
    ("windows", "small", WAYS["chance"], (3,)),
    *(("windows", "small", WAYS[way], ()) for way in ("view", "flips", "metadata")),
    *(("windows", "small", {**WAYS[way], "decoding": KEPT}, (3,)) for way in ("plain", "chance")),
    ("windows", "damaged_layout", {"on_error": "mask"}, (3,)),
    *map(of_row, kit.ROW_SAMPLERS),
]


def holds(door, options, folder):
    """Return how frames may wait: packed, or on a disk that is empty, then full."""
    if door == "cameras" or options.get("decoding") == KEPT:
        return []
    packed = f"packed_{options['hold']}" if "hold" in options else "packed"
    is_one_view = "augment" not in options
    return [{"hold": packed, "lookahead": 60}, *[{"spill": folder}] * 2 * is_one_view]


def plans(door, files, options):
    """Return look-aheads, numbers of threads and memory budgets: each with each case once."""
    if files == "manifest":
        return [{}]
    if door in ("cameras", "windows"):
        budget = 3 * 6 * FRAME_BYTES if door == "cameras" else 2**21
        plain = [{"lookahead": 7}, {"num_threads": 3, "memory_budget": budget}]
        return [] if "decoding" in options else plain
    batch_bytes = FRAME_BYTES * (2 * options["clips"].num_frames if door == "clips" else 10)
    return [
        {"num_threads": 1, "lookahead": 2000},
        {"num_threads": 3, "lookahead": 9},
        {"num_threads": 3, "memory_budget": 4 * batch_bytes},
    ]


@pytest.mark.parametrize(
    ("door", "files", "options", "steps"),
    SAME,
    ids=[f"{number}-{door}-{files}" for number, (door, files, *_) in enumerate(SAME)],
)
def test_batches_do_not_depend_on_the_plan_or_the_first_step(
    opener, request, tmp_path, door, files, options, steps
):
    opens = partial(opener, door, request.getfixturevalue(files), **options)

    def whole(**plan):
        """Return all batches; a loader that stays open decodes its next epochs."""
        with opens(**plan) as loader:
            return contents(epochs(loader, 2 if steps else 1))

    planned = [*plans(door, files, options), *holds(door, options, tmp_path / "spill")]
    naive = whole(**({"lookahead": 1, "num_threads": 1} if planned else {}))
    half = len(naive) // 2
    assert (
        naive[:half] != naive[half:] or door == "clips" or options["sampling"] == SequentialFrames()
    )
    for plan in planned:
        assert whole(**plan) == naive, plan
    for step in steps:
        with opens() as begun, opens(num_threads=1, lookahead=40) as after:
            assert contents(resumed(begun, after, step, 2)) == naive, step
            assert after.epoch == 2
