"""Drawn datasets, read-only, and doors to them."""

import shutil
from functools import partial
from hashlib import blake2b
from itertools import count

import pytest

from headrace import LeRobotFrames, LeRobotLoader, SequentialFrames
from loaders.lerobot.drawn import DRAWN, as_dataset, draw
from loaders.lerobot.faults import OF_LINES, with_fault


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """Return `folder_of(drawn)`: the folder of a dataset, drawn once; tests only read it."""
    made = tmp_path_factory.mktemp("lerobot")

    def drawn_once(drawn):
        folder = made / blake2b(repr(drawn).encode()).hexdigest()[:16]
        return folder if folder.exists() else draw(folder, drawn)

    return drawn_once


@pytest.fixture(scope="session")
def folders(folder_of):
    """Version → the folder of a dataset."""
    return {version: folder_of(drawn) for version, drawn in DRAWN.items()}


@pytest.fixture
def folder(folders):
    return folders["v3.0"]


@pytest.fixture
def copied(folders, tmp_path):
    """Return `copied(version="v3.0")`: a copy of a dataset, to damage it."""
    numbers = count()
    return lambda version="v3.0": shutil.copytree(
        folders[version], tmp_path / f"copied-{next(numbers)}"
    )


@pytest.fixture
def bad(copied):
    """Return `bad(fault)`: a dataset with it."""
    return lambda fault: with_fault(copied("v2.1" if fault in OF_LINES else "v3.0"), fault)


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
