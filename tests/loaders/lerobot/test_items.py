"""Items of a dataset: frames, windows and values by their definition, whatever the plan."""

import pickle
from itertools import chain

import pytest
import torch
from torch.utils.data import DataLoader

from headrace import ShuffledFrames, UniformFrames
from loaders.lerobot import drawn as kit
from loaders.lerobot.drawn import CAMERAS, DRAWN, FPS, Drawn, item_of, items_of_batch, read_item
from loaders.videos import contents, resumed

TOP, WRIST = CAMERAS
WINDOWS = {
    "none": {},
    "past frames of a camera": {TOP: [-2, -1, 0]},
    "one frame, not its own": {WRIST: [1]},
    "both sides, out of order": {TOP: [2, -1], WRIST: [0, 0, -9]},
    "of all kinds": {
        **{name: [-1, 0, 1] for name in kit.VALUES if name not in ("remark", "task_index")},
        WRIST: [-3, 3],
    },
    "values alone": {"action": [*range(8)], "next.done": [-1]},
}


def seconds(deltas):
    return {name: [delta / FPS for delta in of_name] for name, of_name in deltas.items()} or None


def wanted(drawn, deltas=None, episodes=None, first=0, last=0):
    """Return all items in order."""
    return [
        item_of(drawn, episode, frame, deltas)
        for episode, frame in drawn.rows
        if (episodes is None or episode in episodes)
        and first <= frame < drawn.lengths[episode] - last
    ]


def read(loader):
    """Return all items of an epoch, as `item_of` has them."""
    return [read_item(item) for batch in loader for item in items_of_batch(batch)]


def assert_equal(found, expected):
    """Compare items, the order of their keys too."""
    for item, right in zip(found, expected, strict=True):
        assert list(item.items()) == list(right.items())


@pytest.mark.parametrize("deltas", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("version", DRAWN)
def test_items_match_the_dataset(lerobot, frames_of, folders, version, deltas):
    """Numbers in the pixels, windows with their pads, texts, and the order of keys."""
    given, expected = {"delta_timestamps": seconds(deltas)}, wanted(DRAWN[version], deltas)
    assert_equal(read(lerobot(folders[version], **given)), expected)
    frames = frames_of(folders[version], given)
    assert_equal(map(read_item, map(frames.__getitem__, range(len(frames)))), expected)


def test_a_dataloader_with_workers_makes_the_same_batches(lerobot, frames_of, folder):
    given = {"delta_timestamps": seconds(WINDOWS["both sides, out of order"])}
    batches = DataLoader(frames_of(folder, given), batch_size=4, num_workers=2)
    assert contents(batches) == contents(lerobot(**given))


def test_dtypes_are_those_of_tensors_of_plain_numbers(lerobot):
    [first, *_] = lerobot(delta_timestamps=seconds({TOP: [0, 1]}))
    dtypes = {key: value.dtype for key, value in first.items() if isinstance(value, torch.Tensor)}
    kinds = {"bool": torch.bool, "uint8": torch.int64, "int64": torch.int64}
    numbers = {n: dtype for n, (dtype, _) in DRAWN["v3.0"].columns.items() if dtype != "string"}
    assert dtypes == {
        **dict.fromkeys(CAMERAS, torch.float32),
        **{name: kinds.get(dtype, torch.float32) for name, dtype in numbers.items()},
        f"{TOP}_is_pad": torch.bool,
    }
    assert first[TOP].shape == (4, 2, 3, 48, 64)
    assert first[WRIST].shape == (4, 3, 48, 64)
    assert first[TOP].is_contiguous()


def test_uint8_pictures_are_the_same(lerobot, frames_of, folder):
    frames = [frames_of(folder, {"_return_uint8": True})[place] for place in range(27)]
    assert_equal(map(read_item, frames), wanted(DRAWN["v3.0"]))
    pictures = torch.cat([batch[TOP] for batch in lerobot(return_uint8=True)])
    assert pictures.dtype == torch.uint8
    assert torch.equal(torch.cat([batch[TOP] for batch in lerobot()]), pictures.float() / 255)
    assert torch.equal(torch.stack([item[TOP] for item in frames]), pictures)


def test_items_may_be_sent_to_another_process(frames_of, folder):
    frames = frames_of(folder, {"delta_timestamps": seconds({TOP: [-1, 0]})})
    frames[20]
    with pickle.loads(pickle.dumps(frames)) as sent:  # noqa: S301
        assert_equal([read_item(sent[20])], [read_item(frames[20])])


def test_pictures_are_resized(lerobot):
    whole, small = lerobot(), lerobot(size=(32, 40))
    assert_equal(read(small), read(whole))
    assert next(iter(small))[TOP].shape == (4, 3, 32, 40)


def test_cameras_keep_sizes_of_their_own(lerobot, frames_of, folder_of):
    drawn = Drawn(lengths=(3, 2), sizes={TOP: (64, 48), WRIST: (32, 96)})
    folder = folder_of(drawn)
    loader = lerobot(folder)
    assert_equal(read(loader), wanted(drawn))
    assert next(iter(loader))[WRIST].shape == (4, 3, 32, 96)
    assert_equal(map(read_item, frames_of(folder).__getitems__(range(5))), wanted(drawn))


def test_an_episode_without_rows_has_no_items(lerobot, folder_of):
    drawn = Drawn(lengths=(3, 0, 4))
    loader = lerobot(folder_of(drawn), delta_timestamps=seconds({TOP: [-1, 0]}))
    assert loader.episodes == (0, 1, 2)
    assert_equal(read(loader), wanted(drawn, {TOP: [-1, 0]}))


@pytest.mark.parametrize(
    ("version", "episodes", "first", "last"),
    [
        *(("v2.1", [2], 0, 0), ("v3.0", [3, 0], 1, 0), ("v2.1", range(1, 4), 0, 2)),
        *(("v3.0", None, 5, 0), ("v2.1", None, 2, 2)),
    ],
)
def test_episodes_and_their_ends_are_left_out(lerobot, folders, version, episodes, first, last):
    """Windows reach over what is left out at the ends."""
    deltas = {TOP: [-2, 0], "index": [-1, 1]}
    kept = {"episodes": episodes, "drop_n_first_frames": first, "drop_n_last_frames": last}
    loader = lerobot(folders[version], delta_timestamps=seconds(deltas), **kept)
    assert loader.episodes == tuple(sorted(episodes or range(4)))
    assert_equal(read(loader), wanted(DRAWN[version], deltas, episodes, first, last))


def test_items_of_some_episodes_are_counted_from_zero(frames_of, folder):
    frames = frames_of(folder, {"episodes": [1, 3]})
    expected = wanted(DRAWN["v3.0"], episodes=[1, 3])
    assert len(frames) == 11
    assert_equal([read_item(frames[k]) for k in (0, 5, -1)], [expected[k] for k in (0, 5, -1)])
    with pytest.raises(IndexError, match="item 11 is out of range: the dataset has 11"):
        frames[11]


def test_an_epoch_by_chance_has_each_item_once_and_another_order_in_each(lerobot):
    loader = lerobot(sampling=None, seed=3)
    one, other = read(loader), read(loader)
    by_index = {item["index"]: item for item in one}
    assert_equal([by_index[k] for k in range(27)], wanted(DRAWN["v3.0"]))
    assert sorted(item["index"] for item in other) == [*range(27)]
    assert [item["index"] for item in one] != [item["index"] for item in other]
    assert contents(lerobot(sampling=None, seed=3)) == contents(
        lerobot(sampling=ShuffledFrames(seed=3), seed=3)
    )


def test_episodes_are_drawn_by_weight(lerobot):
    for dropped, drawn in ((0, {1, 3}), (5, {3})):  # then episode 1 has no item left
        items = read(lerobot(sampling=UniformFrames(over=(0, 1, 0, 3)), drop_n_last_frames=dropped))
        assert {item["episode_index"] for item in items} == drawn


def test_two_ranks_together_deliver_the_step_of_one(lerobot):
    options = {"sampling": None, "seed": 2, "delta_timestamps": seconds({TOP: [-1, 0]})}
    whole = [*lerobot(batch_size=6, **options)]
    ranks = [[*lerobot(batch_size=3, rank=rank, num_replicas=2, **options)] for rank in (0, 1)]
    for step in range(4):
        pairs = zip(*(items_of_batch(rank[step]) for rank in ranks), strict=True)
        mixed = map(read_item, chain.from_iterable(pairs))
        assert_equal(mixed, map(read_item, items_of_batch(whole[step])))


AROUND = {"sampling": None, "delta_timestamps": seconds({WRIST: [-1, 0, 1]})}


@pytest.mark.parametrize(
    "plan",
    [
        {"lookahead": 1, "num_threads": 1},
        {"lookahead": 500, "num_threads": 3},
        {"memory_budget": "1MiB"},
        {"hold": "packed"},
    ],
    ids=str,
)
def test_a_plan_changes_nothing(lerobot, plan):
    assert contents(lerobot(**AROUND, **plan)) == contents(lerobot(**AROUND))


@pytest.mark.usefixtures("whole_gops_at_once")
def test_frames_of_a_disk_are_the_same(lerobot, disk):
    expected = contents(lerobot(**AROUND))
    for _ in range(2):
        spilled = lerobot(**AROUND, spill=disk)
        assert contents(spilled) == expected
        spilled.close()
    assert spilled.statistics.frames_decoded == 0


@pytest.mark.parametrize("steps", [1, 4, 6])
def test_a_loader_goes_on_from_its_state(lerobot, steps):
    options = {"sampling": None, "image_transforms": noisy, "seed": 9}
    begun, after = lerobot(**options), lerobot(num_threads=1, **options)
    assert contents(resumed(begun, after, steps)) == contents(lerobot(**options))


def noisy(pictures):
    return pictures + torch.rand((*pictures.shape[:-3], 1, 1, 1))


def test_image_transforms_are_called_for_each_camera_of_each_item(lerobot, frames_of, folder):
    shapes = list[tuple[int, ...]]()

    def transform(pictures):
        shapes.append((*pictures.shape, pictures.dtype))
        return noisy(pictures)[..., :8, :8]

    windows = {"delta_timestamps": seconds({TOP: [0, 1]})}
    options = {"image_transforms": transform, "episodes": [1], **windows}
    one = contents(lerobot(batch_size=5, num_threads=1, **options))
    each = [(2, 3, 48, 64, torch.float32)] * 5 + [(3, 48, 64, torch.float32)] * 5
    assert shapes == each
    assert contents(lerobot(batch_size=5, lookahead=1, **options)) == one
    assert contents(lerobot(batch_size=5, seed=1, **options)) != one
    [batch] = lerobot(batch_size=5, **options)
    added = batch[WRIST] - next(iter(lerobot(batch_size=5, episodes=[1])))[WRIST][..., :8, :8]
    assert len(added.mean((1, 2, 3)).unique()) == 5, "each item has a draw of its own"
    shapes.clear()
    item = frames_of(folder, options)[0]
    assert shapes == [each[0], each[-1]]
    assert item[TOP].shape == (2, 3, 8, 8)


def test_a_state_of_other_items_is_refused(lerobot, refused):
    refused("lerobot_states", state=lerobot(sampling=None).state_dict())


def load(loader, state):
    return loader.load_state_dict(state)
