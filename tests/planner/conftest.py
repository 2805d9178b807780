"""Clips to plan for, and where the tests of the planner keep their indexes."""

import pytest

from headrace.decode.index_store import IndexStore
from headrace.loaders.video_set import VideoSet
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "index")


@pytest.fixture
def written(tmp_path):
    """Return a function: number, options of a clip -> paths of so many clips, GOPs of 12."""

    def write(number=2, **options):
        clip = SynthClip(**{"gop": 12, **options})
        return [write_clip(tmp_path / f"{k}", clip) for k in range(number)]

    return write


@pytest.fixture
def opened(store):
    """Return a function: paths -> VideoSet."""
    return lambda *paths: VideoSet.open(paths, index_store=store)
