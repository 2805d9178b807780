"""A run resumes exactly from any step, with another number of threads and ranks."""

import copy
import json
import os
import pickle
import shutil
import signal
from functools import partial
from itertools import islice
from multiprocessing import get_context

import pytest
import torch

import headrace
from forked import in_a_fork
from headrace import ConfigError, IndexStore, UniformClips
from loaders.cameras.clips import CAMERAS, layout_of
from loaders.videos import DOORS, SIZE, contents, epochs, places

TWELVE = {"batch_size": 12}
UNIFORM = {"clips": UniformClips(num_clips=2, num_frames=5)}


@pytest.fixture(params=["frames", "clips", "cameras"])
def each(request, loader):
    """Return a function that opens loaders of one door."""
    options = {"frames": {"batch_size": 30}, "clips": UNIFORM, "cameras": {}}
    return partial(loader, request.param, **{"num_threads": 1, **options[request.param]})


def test_a_state_is_a_few_integers_and_after_the_last_batch_that_of_the_next_epoch(each):
    opened = each()
    list(opened)
    state = opened.state_dict()
    assert len(state) < 9
    assert all(type(value) is int for value in state.values())
    assert (state["epoch"], state.get("slot", state.get("step"))) == (1, 0)


def test_a_batch_whose_transform_failed_was_not_delivered(each):
    fails: list[bool] = []

    def refuse(frames):
        if fails:
            raise MemoryError
        return frames

    opened = each(transform=refuse)
    batches = iter(opened)
    next(batches)
    state = opened.state_dict()
    fails.append(True)
    with pytest.raises(MemoryError):
        next(batches)
    assert opened.state_dict() == state


def test_an_iteration_that_another_one_went_past_is_refused(each):
    """Also if the other loader resumes at the position of this one; both start with one batch."""
    opened = each(on_early_exit="continue")
    first = iter(opened)
    next(first)
    next(iter(opened))
    with pytest.raises(ConfigError, match="closed, or another iteration started"):
        next(first)


def test_a_loader_is_neither_copied_nor_sent_to_another_process(each):
    for send in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ConfigError, match=r"threads and open files, .* state_dict\(\) there"):
            send(each())


def test_an_iteration_does_not_go_on_in_a_process_that_was_forked(each):
    """Its threads are missing, but the loader can be iterated from its position."""
    first, second = (contents([batch]) for batch in islice(each(), 2))
    opened = each(on_early_exit="continue")
    batches = iter(opened)
    assert contents([next(batches)]) == first

    def goes_on_anew():
        with pytest.raises(ConfigError):
            next(batches)
        return contents([next(iter(opened))]) == second

    assert in_a_fork(goes_on_anew)
    assert len(list(batches)) == len(opened) - 1


def test_the_default_workers_need_nothing_of_linux(each, monkeypatch):
    """Where a process cannot be bound to cores, as on macOS."""
    expected = contents(each())
    for name in ("sched_getaffinity", "sched_setaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    assert contents(each(num_threads=None)) == expected


def in_order(ranks):
    """Return the samples of each step in the order of slots: sample i of rank 0, of rank 1, ..."""
    steps = (zip(*shares, strict=True) for shares in zip(*ranks, strict=True))
    return [place for step in steps for together in step for place in together]


def of_all_ranks(loaders, count):
    return in_order([[places(batch) for batch in epochs(each, count)] for each in loaders])


@pytest.fixture
def ranks(loader):
    """Return `ranks(number, **options)`: loaders of 12 frames a step, together."""

    def opened(number, **options):
        size = {"batch_size": 12 // number, "num_threads": 2}
        return [loader(rank=r, num_replicas=number, **size, **options) for r in range(number)]

    return opened


def test_setting_the_epoch_of_a_loaded_state_keeps_the_place_in_it(loader):
    begun, resumed = loader(), loader()
    list(islice(begun, 4))
    resumed.load_state_dict(begun.state_dict())
    resumed.set_epoch(0)
    assert len(list(resumed)) == len(begun) - 4


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("number", [2, 3])
def test_ranks_together_deliver_the_batches_of_one(ranks, number, drop_last):
    """With 12 slots a step: 6 on each of 2 ranks, 4 on each of 3."""
    alone = of_all_ranks(ranks(1, drop_last=drop_last), 2)
    shared = ranks(number, drop_last=drop_last)
    assert len({len(each) for each in shared}) == 1
    together = of_all_ranks(shared, 2)
    # 113 frames do not divide evenly: the first of an epoch are repeated at its end.
    half, extra = len(alone) // 2, 0 if drop_last else -113 % number
    first, second = alone[:half], alone[half:]
    assert together == [*first, *first[:extra], *second, *second[:extra]]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_another_number_of_ranks_goes_on_where_the_last_one_ended(ranks, before, after):
    alone = of_all_ranks(ranks(1), 1)
    begun, others = ranks(before), ranks(after)
    for each in begun:
        list(islice(each, 5))
    [state] = {tuple(each.state_dict().items()) for each in begun}
    for each in others:
        each.load_state_dict(dict(state))
    assert of_all_ranks(others, 1)[: 113 - 60] == alone[60:]


@pytest.fixture
def twins(videos, tmp_path):
    """A folder of two videos that differ only in their names."""
    folder = tmp_path / "twins"
    folder.mkdir()
    for name in "ab":
        shutil.copy(videos[1], folder / f"{name}.mp4")
    return folder


def test_a_state_of_something_else_is_refused(loader, layout, twins, tmp_path, refused):
    other = shutil.copytree(twins, tmp_path / "other")
    (other / "b.mp4").write_bytes((other / "b.mp4").read_bytes() + bytes(64))
    a, b = sorted(twins.iterdir())
    turned = headrace.CameraLayout(clips=layout.clips[::-1], cameras=layout.cameras)
    fewer = headrace.CameraLayout(clips=layout.clips, cameras=CAMERAS[:2])

    def resume(door, before, after):
        loader(door, after).load_state_dict(loader(door, before).state_dict())

    def without(door, name, place=None):
        begun = loader(door)
        given = {} if place is None else {name: place}
        left = {key: value for key, value in begun.state_dict().items() if key != name}
        begun.load_state_dict({**left, **given})

    renamed = shutil.copytree(twins, tmp_path / "renamed")
    (renamed / "b.mp4").rename(renamed / "c.mp4")
    layouts = {"turned": turned, "fewer": fewer, "renamed": renamed}
    refused("states", resume=resume, without=without, a=a, b=b, other=other, **layouts)


def test_videos_that_were_moved_are_the_same(loader, twins, tmp_path):
    moved = shutil.copytree(twins, tmp_path / "elsewhere")
    before, after = (loader(files=sorted(each.iterdir())) for each in (twins, moved))
    after.load_state_dict(before.state_dict())


def test_where_less_than_a_batch_is_left_to_drop_the_next_epoch_begins(loader):
    begun = loader(**TWELVE, drop_last=True)
    list(islice(begun, 8))
    resumed, second = (loader(batch_size=20, drop_last=True) for _ in range(2))
    resumed.load_state_dict(begun.state_dict())
    assert resumed.epoch == 1
    second.set_epoch(1)
    assert contents(resumed) == contents(second)


def test_endless_streams_go_on_from_their_state_on_every_rank(loader):
    options = {"tail": "endless", "shuffle": True, "num_replicas": 2}
    for rank in (0, 1):
        whole = contents(islice(loader("cameras", rank=rank, **options), 120))
        begun = loader("cameras", rank=rank, **options)
        seen = contents(islice(begun, 70))
        resumed = loader("cameras", rank=rank, num_threads=1, **options)
        resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
        assert seen + contents(islice(resumed, 50)) == whole


def logged(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def two_epochs(door, folder, store, log, options, kill_after):
    """Train from the last state of a log on; the log records each batch and the state."""
    torch.set_num_threads(1)  # a pool of threads does not come through a fork
    kind, usual = DOORS[door]
    files = layout_of(folder) if door == "cameras" else sorted(folder.glob("video-*"))
    asked = {**usual, "size": SIZE, "index_store": IndexStore(store), **options}
    lines = logged(log) if log.exists() else []
    with kind(files, **asked) as loader, log.open("a") as out:
        if lines:
            loader.load_state_dict(lines[-1]["state"])
        while loader.epoch < 2:
            for step, batch in enumerate(loader, 1):
                line = {"seen": places(batch), "state": loader.state_dict()}
                out.write(json.dumps(line) + "\n")
                out.flush()
                if step == kill_after:
                    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def run(tmp_path):
    """Return a function: runs two epochs in one process for each log, and returns exit codes."""

    def started(door, folder, logs, kill_after=None, method="fork", **options):
        ranks = []
        for rank, log in enumerate(logs):
            asked = {"rank": rank, "num_replicas": len(logs), **options}
            given = (door, folder, tmp_path / "index", tmp_path / log, asked, kill_after)
            ranks.append(get_context(method).Process(target=two_epochs, args=given))
            ranks[-1].start()
        for each in ranks:
            each.join(300)
            if each.is_alive():
                each.kill()
                each.join()
        return {each.exitcode for each in ranks}

    return started


@pytest.mark.parametrize(
    ("door", "ranks", "kills", "options", "method"),
    [
        (
            *("frames", 1, [(7, {"num_threads": 1}), (6, {"num_threads": 3})]),
            *({**TWELVE, "seed": 3}, "spawn"),
        ),
        ("cameras", 2, [(9, {})], {"shuffle": True}, "fork"),
    ],
)
def test_a_run_that_was_killed_gives_the_batches_of_one_that_was_not(
    run, folder, videos, tmp_path, door, ranks, kills, options, method
):
    files = folder if door == "cameras" else videos[0].parent
    whole, cut = ([f"{name}-{rank}" for rank in range(ranks)] for name in ("whole", "cut"))
    assert run(door, files, whole, **options) == {0}
    for kill_after, workers in kills:
        assert run(door, files, cut, kill_after, **workers, **options) == {-signal.SIGKILL}
    assert run(door, files, cut, method=method, **options) == {0}
    for one, other in zip(whole, cut, strict=True):
        assert (tmp_path / one).read_text() == (tmp_path / other).read_text()
        assert len(logged(tmp_path / one)) >= 20


def test_two_ranks_that_were_killed_go_on_as_one_and_as_four(ranks, run, videos, tmp_path):
    """7 steps of 2 times 6 samples are 84 of the 113 of an epoch."""
    logs = ["0", "1"]
    options = {"batch_size": 6, "num_threads": 1}
    assert run("frames", videos[0].parent, logs, 7, **options) == {-signal.SIGKILL}
    shares = [logged(tmp_path / log) for log in logs]
    states = [lines[-1]["state"] for lines in shares]
    assert states[0] == states[1]
    alone = of_all_ranks(ranks(1), 2)
    assert in_order([[line["seen"] for line in lines] for lines in shares]) == alone[:84]
    for number in (1, 4):
        after = ranks(number)
        for each in after:
            each.load_state_dict(states[0])
        assert [each.epoch for each in after] == [0] * number
        # 29 samples remain; 4 ranks repeat 3 of the epoch, to have as many each.
        assert of_all_ranks(after, 1) == alone[84:113] + alone[: -29 % number]
        assert of_all_ranks(after, 1)[:113] == alone[113:]
