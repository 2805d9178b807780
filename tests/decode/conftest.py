"""Clips that tests of decoding only read, their indexes, and a cache of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from headrace.decode.index_store import IndexStore
from headrace.video.stream_index import StreamIndex
from tests.kit.synth_recipes import written_in


@pytest.fixture(scope="module", autouse=True)
def one_thread_of_torch() -> Iterator[None]:
    """Tensors as small as these are slower with more threads, and far slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def written(tmp_path_factory) -> Callable[[str], Path]:
    """Return a function: name of a kind -> path of its clip, written once."""
    return written_in(tmp_path_factory.mktemp("kinds"))


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
