"""Clips that tests of decoding only read, their indexes, and a cache of their own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.decode.index_store import IndexStore
from headrace.testing.synth import KINDS, write_clip
from headrace.video.stream_index import StreamIndex


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def written(tmp_path_factory) -> Callable[[str], Path]:
    """Return a function: name of a kind -> path of its clip, written once."""
    folder = tmp_path_factory.mktemp("kinds")
    paths: dict[str, Path] = {}

    def path_of(kind: str) -> Path:
        if kind not in paths:
            paths[kind] = write_clip(folder / kind, KINDS[kind])
        return paths[kind]

    return path_of


@pytest.fixture
def scanned(written) -> Callable[[str], StreamIndex]:
    """Return a function: name of a kind -> the index of its clip."""
    return lambda kind: StreamIndex.scan(written(kind))


@pytest.fixture
def index(scanned) -> StreamIndex:
    """48 frames of H.264 in 96x128, GOPs of 12 with B-frames."""
    return scanned("h264_b_frames")


@pytest.fixture
def store(tmp_path) -> IndexStore:
    return IndexStore(tmp_path / "store")
