"""Clips and index store of the planner tests."""

import shutil

import pytest

from headrace.decode.index_store import IndexStore
from headrace.loaders.video_set import VideoSet
from headrace.testing.synth import SynthClip


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "index")


@pytest.fixture
def copies(written, tmp_path):
    """Return a function: number of copies, clip options -> paths of equal clips with GOPs of 12."""

    def copy(number=2, **options):
        clip = written(SynthClip(**{"gop": 12, **options}))
        return [shutil.copy(clip, tmp_path / f"{k}.mp4") for k in range(number)]

    return copy


@pytest.fixture
def opened(store):
    """Return a function: paths -> VideoSet."""
    return lambda *paths: VideoSet.open(paths, index_store=store)
