"""Files that tests only read: each is written once for the whole room."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.synth_recipes import written_in


@pytest.fixture(scope="session")
def written(tmp_path_factory) -> Callable[[str], Path]:
    """Return a function: name of a kind or a recipe -> path of its file."""
    return written_in(tmp_path_factory.mktemp("written"))


@pytest.fixture
def clip(written) -> Path:
    """48 frames of H.264, GOPs of 12 with B-frames."""
    return written("h264_b_frames")
