"""What all loaders do alike, whatever they deliver."""

import copy
import os
import pickle
from functools import partial
from itertools import islice

import pytest

from headrace.errors import ConfigError
from headrace.sampling.clips import UniformClips
from headrace.training.cameras.loader import CameraLoader
from headrace.training.clip_loader import ClipLoader
from headrace.training.loader import FrameLoader
from training.cameras.clips import layout_of, write_layout
from training.videos import SIZE


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cameras")
    write_layout(folder)
    return layout_of(folder)


@pytest.fixture(params=["frames", "clips", "cameras"])
def loader(request, opens, videos, layout, store):
    """Return a function that opens loaders of one kind."""
    clips = UniformClips(num_clips=2, num_frames=5)
    kinds = {
        "frames": partial(opens, FrameLoader, videos, batch_size=30),
        "clips": partial(opens, ClipLoader, videos, clips=clips, batch_size=2),
        "cameras": partial(opens, CameraLoader, layout, group_num=2),
    }
    return partial(kinds[request.param], size=SIZE, store=store, workers=1)


def pixels(batches):
    return [batch.frames.numpy().tobytes() for batch in batches]


def test_training_goes_on_after_the_batch_a_state_was_taken_at(loader):
    begun = loader()
    whole = [*begun, *begun]
    assert len(whole) == 2 * len(begun)
    begun = loader()
    seen = list(islice(begun, 2))
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    left = [*resumed, *resumed]
    assert pixels(seen + left) == pixels(whole)
    assert resumed.epoch == 2


@pytest.mark.parametrize("place", [None, -1, 0.5])
def test_a_state_that_does_not_say_where_is_refused(loader, place):
    each = loader()
    state = each.state_dict()
    (name,) = {"slot", "step"} & state.keys()
    del state[name]
    if place is not None:
        state[name] = place
    with pytest.raises(ConfigError, match=f"{name} must be an integer >= 0, got"):
        each.load_state_dict(state)


def test_a_batch_whose_transform_failed_was_not_delivered(loader):
    fails: list[bool] = []

    def refuse(frames):
        if fails:
            raise MemoryError
        return frames

    each = loader(transform=refuse)
    batches = iter(each)
    next(batches)
    state = each.state_dict()
    fails.append(True)
    with pytest.raises(MemoryError):
        next(batches)
    assert each.state_dict() == state


@pytest.mark.parametrize("epoch", [-1, 1.5])
def test_an_epoch_that_is_none_is_refused_at_once(loader, epoch):
    with pytest.raises(ConfigError, match=f"epoch must be an integer >= 0, got {epoch}"):
        loader().set_epoch(epoch)


def test_an_iteration_that_another_one_went_past_is_refused(loader):
    """Also where the other goes on where this one stood."""
    each = loader(left_early="go_on")
    first = iter(each)
    next(first)
    next(iter(each))
    with pytest.raises(ConfigError, match="closed, or iterated anew"):
        next(first)


def test_a_loader_is_neither_copied_nor_sent_to_another_process(loader):
    for send in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ConfigError, match=r"threads and open files, .* state_dict\(\) to go"):
            send(loader())


def test_an_iteration_does_not_go_on_in_a_process_that_was_forked(loader):
    """Its threads are not there; but the loader may be iterated from where it stood."""
    first, second = pixels(islice(loader(), 2))
    each = loader(left_early="go_on")
    batches = iter(each)
    assert pixels([next(batches)]) == [first]
    if (child := os.fork()) == 0:
        try:
            next(batches)
        except ConfigError:
            os._exit(pixels([next(iter(each))]) != [second])
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(batches)) == len(each) - 1


def test_the_default_workers_need_nothing_of_linux(loader, monkeypatch):
    """Where a process cannot be bound to cores, as on macOS."""
    expected = pixels(loader())
    for name in ("sched_getaffinity", "sched_setaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    assert pixels(loader(workers=None)) == expected
