"""Files that tests only read: each is written once for the whole room."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.testing.synth import KINDS, write_clip
from tests.kit.synth_recipes import RECIPES, write_recipe
from tests.kit.synth_wide import WIDE_KINDS


@pytest.fixture(scope="session")
def written(tmp_path_factory) -> Callable[[str], Path]:
    """Return a function: name of a kind or a recipe -> path of its file."""
    folder = tmp_path_factory.mktemp("written")
    paths: dict[str, Path] = {}

    def write(name: str) -> Path:
        if name not in paths and name in RECIPES:
            paths[name] = write_recipe(name, folder)
        elif name not in paths:
            paths[name] = write_clip(folder / name, {**KINDS, **WIDE_KINDS}[name])
        return paths[name]

    return write


@pytest.fixture
def clip(written) -> Path:
    """48 frames of H.264, GOPs of 12 with B-frames."""
    return written("h264_b_frames")
