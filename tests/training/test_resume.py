"""A run that ended at any step goes on as if it had not, with other workers and other ranks."""

import json
import shutil
import signal
import subprocess
import sys
from functools import partial
from itertools import islice

import pytest

from headrace.errors import ConfigError
from headrace.sampling.bursts import Bursts
from headrace.sampling.frames import Permutation, Uniform
from headrace.testing.synth import write_clip
from headrace.training.loader import FrameLoader
from training.videos import CLIPS, SIZE, contents, write_videos


@pytest.fixture
def loader(opens, videos, store):
    return partial(opens, FrameLoader, videos, batch_size=12, size=SIZE, store=store, workers=2)


def epochs(loader, count):
    return [batch for _ in range(count) for batch in loader]


def of_all_ranks(loaders, count):
    """Return the frames of each step in the order of slots: sample i of rank 0, of rank 1, ..."""
    steps = zip(*(epochs(each, count) for each in loaders), strict=True)
    return [
        frame
        for batches in steps
        for sample in zip(*(contents_by_sample(batch) for batch in batches), strict=True)
        for frame in sample
    ]


def contents_by_sample(batch):
    return list(
        zip(
            batch.video.tolist(),
            batch.index.tolist(),
            [frame.numpy().tobytes() for frame in batch.frames],
            strict=True,
        )
    )


SAMPLINGS = [Uniform(), Permutation(), Bursts(frames_per_burst=3, lanes=12)]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
@pytest.mark.parametrize("step", [1, 4, 9, 10, 13])
def test_the_rest_equals_that_of_an_uninterrupted_run(loader, sampling, step):
    uninterrupted = epochs(loader(sampling=sampling), 2)
    begun = loader(sampling=sampling)
    seen = list(islice((batch for _ in range(2) for batch in begun), step))
    state = json.loads(json.dumps(begun.state_dict()))
    resumed = loader(sampling=sampling, workers=1, lookahead=5)
    resumed.load_state_dict(state)
    left = epochs(resumed, 2 - resumed.epoch)
    assert contents(seen + left) == contents(uninterrupted)


def test_a_state_is_a_few_integers(loader):
    state = loader().state_dict()
    assert len(state) < 8
    assert all(type(value) is int for value in state.values())


def test_setting_the_epoch_of_a_loaded_state_keeps_the_place_in_it(loader):
    begun = loader()
    list(islice(begun, 4))
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    resumed.set_epoch(0)
    assert len(list(resumed)) == len(begun) - 4


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_together_deliver_what_one_would(loader, ranks, drop_last):
    """With 12 slots a step: 6 on each of 2 ranks, 4 on each of 3."""
    alone = of_all_ranks([loader(drop_last=drop_last)], 2)
    shared = [
        loader(batch_size=12 // ranks, rank=rank, num_replicas=ranks, drop_last=drop_last)
        for rank in range(ranks)
    ]
    assert len({len(each) for each in shared}) == 1
    together = of_all_ranks(shared, 2)
    if drop_last:
        assert together == alone
    else:
        # 113 frames do not share out evenly: the first of an epoch come again at its end.
        extra = -113 % ranks
        frames = [*alone[:113], *alone[:extra], *alone[113:], *alone[113 : 113 + extra]]
        assert together == frames


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_another_number_of_ranks_goes_on_where_the_last_one_ended(loader, before, after):
    alone = of_all_ranks([loader()], 1)
    begun = [loader(batch_size=12 // before, rank=r, num_replicas=before) for r in range(before)]
    for each in begun:
        list(islice(each, 5))
    assert len({tuple(each.state_dict().items()) for each in begun}) == 1
    resumed = [loader(batch_size=12 // after, rank=r, num_replicas=after) for r in range(after)]
    for each in resumed:
        each.load_state_dict(begun[0].state_dict())
    assert of_all_ranks(resumed, 1)[: 113 - 60] == alone[60:]


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"sampling": Permutation()}, {"videos": 1}], ids=str
)
def test_a_state_of_something_else_is_refused(loader, videos, store, other):
    state = loader().state_dict()
    if "videos" in other:
        with (
            FrameLoader(videos[1:], batch_size=12, size=SIZE, store=store) as stranger,
            pytest.raises(ConfigError, match=r"does not belong to this loader: videos 4 \(here 3"),
        ):
            stranger.load_state_dict(state)
    else:
        with pytest.raises(ConfigError, match="does not belong to this loader"):
            loader(**other).load_state_dict(state)


@pytest.fixture
def twins(tmp_path):
    """A folder of two videos that differ in nothing but their names."""
    folder = tmp_path / "twins"
    folder.mkdir()
    first = write_clip(folder / "a", CLIPS[1])
    shutil.copy(first, folder / "b.mp4")
    return folder


@pytest.fixture
def resumed(store):
    """Return a function that loads into a loader of `after` the state of one of `before`."""

    def resume(before, after):
        options = {"batch_size": 12, "size": SIZE, "store": store}
        with FrameLoader(before, **options) as begun, FrameLoader(after, **options) as each:
            each.load_state_dict(begun.state_dict())

    return resume


def test_videos_that_changed_places_are_others(resumed, twins):
    first, second = twins / "a.mp4", twins / "b.mp4"
    with pytest.raises(ConfigError, match="does not belong to this loader: checksum"):
        resumed([first, second], [second, first])


def test_a_video_that_was_replaced_by_one_of_the_same_length_is_another(resumed, twins, tmp_path):
    other = shutil.copytree(twins, tmp_path / "other")
    (other / "b.mp4").write_bytes((other / "b.mp4").read_bytes() + bytes(64))
    with pytest.raises(ConfigError, match="does not belong to this loader: checksum"):
        resumed(sorted(twins.iterdir()), sorted(other.iterdir()))


def test_videos_that_were_moved_are_the_same(resumed, twins, tmp_path):
    moved = shutil.copytree(twins, tmp_path / "elsewhere")
    resumed(sorted(twins.iterdir()), sorted(moved.iterdir()))


def test_a_state_without_a_place_is_refused(loader):
    each = loader()
    state = {name: value for name, value in each.state_dict().items() if name != "slot"}
    with pytest.raises(ConfigError, match="a state says epoch and slot"):
        each.load_state_dict(state)


def test_where_less_than_a_batch_is_left_to_drop_the_next_epoch_begins(loader):
    begun = loader(drop_last=True)
    list(islice(begun, 8))
    resumed = loader(batch_size=20, drop_last=True)
    resumed.load_state_dict(begun.state_dict())
    assert resumed.epoch == 1
    assert contents(resumed) == contents(list(_second_epoch(loader(batch_size=20, drop_last=True))))


def _second_epoch(each):
    each.set_epoch(1)
    return each


def test_a_batch_whose_transform_failed_was_not_delivered(loader):
    def refuse(frames):
        if begun:
            raise MemoryError
        return frames

    begun: list[int] = []
    each = loader(transform=refuse)
    batches = iter(each)
    next(batches)
    state = each.state_dict()
    begun.append(1)
    with pytest.raises(MemoryError):
        next(batches)
    assert each.state_dict() == state


SCRIPT = """
import json, os, sys
from pathlib import Path
from headrace.decode.index_store import IndexStore
from headrace.training.loader import FrameLoader

folder, workers, kill_after = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
with FrameLoader(
    sorted(folder.glob("video-*")), batch_size=12, size=(32, 48), workers=workers, seed=3,
    store=IndexStore(folder / "index"),
) as loader:
    state, log = folder / "state.json", folder / "log"
    if state.exists():
        loader.load_state_dict(json.loads(state.read_text()))
    steps = 0
    while loader.epoch < 2:
        for batch in loader:
            line = json.dumps([batch.index.tolist(), batch.frames.sum().item()])
            with log.open("a") as file:
                file.write(line + "\\n")
            written = state.with_suffix(".new")
            written.write_text(json.dumps(loader.state_dict()))
            written.replace(state)
            steps += 1
            if steps == kill_after:
                os.kill(os.getpid(), 9)
"""


def test_a_run_killed_twice_gives_the_batches_of_one_that_was_not(tmp_path):
    def run(folder, workers, kill_after):
        command = [sys.executable, "-c", SCRIPT, str(folder), str(workers), str(kill_after)]
        return subprocess.run(command, check=False, timeout=120).returncode

    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        write_videos(tmp_path / name)
    assert run(tmp_path / "whole", 2, -1) == 0
    assert run(tmp_path / "killed", 1, 7) == -signal.SIGKILL
    assert run(tmp_path / "killed", 3, 6) == -signal.SIGKILL
    assert run(tmp_path / "killed", 2, -1) == 0
    assert (tmp_path / "killed/log").read_text() == (tmp_path / "whole/log").read_text()


RANKS_SCRIPT = """
import json, os, sys
from pathlib import Path
from headrace.decode.index_store import IndexStore
from headrace.training.loader import FrameLoader

videos, store, out = (Path(each) for each in sys.argv[1:4])
rank, kill_after = int(sys.argv[4]), int(sys.argv[5])
loader = FrameLoader(
    sorted(videos.glob("video-*")), batch_size=6, size=(32, 48), workers=1,
    rank=rank, num_replicas=2, store=IndexStore(store),
)
log = (out / f"log-{rank}").open("w")
for step, batch in enumerate(loader, 1):
    places = [batch.video.tolist(), batch.index.tolist(), batch.frames.sum((1, 2, 3)).tolist()]
    print(json.dumps([*zip(*places)]), file=log, flush=True)
    (out / f"state-{rank}").write_text(json.dumps(loader.state_dict()))
    if step == kill_after:
        os.kill(os.getpid(), 9)
"""


def _sums(samples):
    """Return samples as the script writes them: [video, index, sum of the pixels]."""
    return [[video, index, sum(frame)] for video, index, frame in samples]


def test_two_ranks_that_were_killed_go_on_as_one_and_as_four(loader, videos, store, tmp_path):
    """7 steps of 2 times 6 samples are 84 of the 113 of an epoch."""
    command = [sys.executable, "-c", RANKS_SCRIPT, str(videos[0].parent), str(store.folder)]
    killed = [subprocess.Popen([*command, str(tmp_path), str(rank), "7"]) for rank in range(2)]
    assert [each.wait(timeout=120) for each in killed] == [-signal.SIGKILL] * 2
    states = [json.loads((tmp_path / f"state-{rank}").read_text()) for rank in range(2)]
    assert states[0] == states[1]
    logs = [
        map(json.loads, (tmp_path / f"log-{rank}").read_text().splitlines()) for rank in range(2)
    ]
    seen = [
        sample
        for batches in zip(*logs, strict=True)
        for together in zip(*batches, strict=True)
        for sample in together
    ]
    alone = _sums(of_all_ranks([loader()], 2))
    assert seen == alone[:84]
    for ranks in (1, 4):
        after = [loader(batch_size=12 // ranks, rank=r, num_replicas=ranks) for r in range(ranks)]
        for each in after:
            each.load_state_dict(states[0])
        assert [each.epoch for each in after] == [0] * ranks
        rest = _sums(of_all_ranks(after, 1))
        # 29 samples are left; 4 ranks are given 3 of the epoch again, to be equally many.
        assert rest == alone[84:113] + alone[: -29 % ranks]
        assert _sums(of_all_ranks(after, 1))[:113] == alone[113:]
