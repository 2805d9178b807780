"""Videos and cameras that nobody changes, written once, and what opens them."""

from contextlib import ExitStack

import pytest
import torch

from headrace.decode.index_store import IndexStore
from training.cameras.clips import copy_layout, layout_of, replace_camera, write_layout
from training.kept import DOORS, KEPT
from training.videos import SIZE, PlainFrames, write_videos


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return IndexStore(tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    return write_videos(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="session")
def plain(videos, store):
    return PlainFrames(videos, store)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Five clips of three cameras."""
    folder = tmp_path_factory.mktemp("cameras") / "videos"
    write_layout(folder)
    return folder


@pytest.fixture(scope="session")
def layout(folder):
    return layout_of(folder)


@pytest.fixture
def early(folder, tmp_path):
    """The same, but that camera `left` of clip a ends early."""
    copied = copy_layout(folder, tmp_path / "early")
    replace_camera(copied.clips[0].file("left"), num_frames=12, size=(64, 96), gop=5)
    return copied


@pytest.fixture
def opens():
    """Return `opens(kind, *given, **options)`, which opens what is closed when the test ends."""
    with ExitStack() as stack:
        yield lambda kind, *given, **options: stack.enter_context(kind(*given, **options))


@pytest.fixture
def one_gpu(monkeypatch):
    """PyTorch says that there is one; nothing is asked of it."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.fixture
def kept_loader(opens, videos, layout, store):
    """Return `kept_loader(door, files=None, **options)`: loaders of `kept.DOORS`."""

    def open_loader(door="frames", files=None, **options):
        kind, usual = DOORS[door]
        usual = {"store": store, "workers": 2, "decoding": KEPT, **usual}
        size = {} if "view" in options else {"size": SIZE}
        given = videos if door in ("frames", "clips") else layout
        return opens(kind, files or given, **{**usual, **size, **options})

    return open_loader
