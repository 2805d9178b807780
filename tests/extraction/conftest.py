"""Clips that extractions read, an index store for all tests, and what one worker makes of them."""

import pytest

from extraction.extracting import extract, write_clips
from headrace.extraction.frame_worker import extract_frames

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
    """Extract pictures of the clips, or of other videos, into `out`; return what it came to."""

    def run(function=extract_frames, *, paths=clips, out=out, **given):
        return extract(paths, out, store, function, **{"workers": 1, **given})

    return run


@pytest.fixture(scope="session")
def whole(clips, store, tmp_path_factory):
    """The folder of pictures that one worker made in one go."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert extract(clips, out, store, workers=1).is_all
    return out
