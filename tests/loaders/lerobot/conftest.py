"""Drawn datasets, read-only, and doors to them."""

import shutil
from functools import partial

import pytest

from headrace import LeRobotFrames, LeRobotLoader, SequentialFrames
from loaders.lerobot.drawn import DRAWN, as_dataset, draw


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Version → the folder of a dataset."""
    made = tmp_path_factory.mktemp("lerobot")
    return {version: draw(made / version, drawn) for version, drawn in DRAWN.items()}


@pytest.fixture
def folder(folders):
    return folders["v3.0"]


@pytest.fixture
def copied(folders, tmp_path):
    """Return `copied(version="v3.0")`: a copy of a dataset, to damage it."""

    def copy(version="v3.0"):
        return shutil.copytree(folders[version], tmp_path / "copied")

    return copy


@pytest.fixture
def lerobot(opens, store, folder):
    """Return `lerobot(root=..., **options)`: opens a loader, in order by default."""

    def opened(root=folder, **options):
        usual = {"index_store": store, "batch_size": 4, "num_threads": 2}
        order = {"sampling": SequentialFrames()}
        return opens(LeRobotLoader, root, **{**usual, **order, **options})

    return opened


@pytest.fixture
def frames_of(opens, store):
    """Return `frames_of(root, dataset options, **options)`: opens `LeRobotFrames`."""

    def opened(root, given=None, **options):
        return opens(
            partial(LeRobotFrames, index_store=store), as_dataset(root, **(given or {})), **options
        )

    return opened
