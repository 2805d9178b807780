"""Clips for extractions, an index store for all tests, and the output of one worker."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from extraction.extracting import extract, write_clips
from forked_children import FORKING
from headrace.extraction.frame_extraction import extract_frames

LENGTHS = (48, 25, 30)


@contextmanager
def forking() -> Iterator[None]:
    """Fork children in the block, as the fixture `forked_children` does for one test."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr("headrace.runtime.child_process.subprocess", FORKING)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def clips(tmp_path_factory):
    return write_clips(tmp_path_factory.mktemp("clips"), LENGTHS)


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def run(clips, store, out):
    """Return a function that extracts frames of the clips, or of other videos, into `out`."""

    def run(function=extract_frames, *, paths=clips, out=out, **options):
        return extract(paths, out, store, function, **{"workers": 1, **options})

    return run


@pytest.fixture(scope="session")
def uninterrupted(clips, store, tmp_path_factory):
    """Return the output folder of one worker and one run."""
    out = tmp_path_factory.mktemp("uninterrupted") / "out"
    with forking():
        assert extract(clips, out, store, workers=1).is_all
    return out
