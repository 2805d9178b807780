"""Clips for extractions, an index store for all tests, and the output of one worker."""

import pytest

from extraction.extracting import extract, write_clips
from headrace.extraction.frame_extraction import extract_frames

LENGTHS = (48, 25, 30)


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
    assert extract(clips, out, store, workers=1).is_all
    return out
