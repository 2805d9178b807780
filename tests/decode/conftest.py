"""Indexes of clips for tests of decoding, and a cache folder per test."""

from collections.abc import Iterator

import pytest
import torch

from headrace import IndexStore, StreamIndex


@pytest.fixture(scope="module", autouse=True)
def one_thread_of_torch() -> Iterator[None]:
    """Use one thread: small tensors are slower with more, much more so on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def index(scanned) -> StreamIndex:
    """48 frames of H.264 in 96x128, GOPs of 12 with B-frames."""
    return scanned("h264_b_frames")


@pytest.fixture
def store(tmp_path) -> IndexStore:
    return IndexStore(tmp_path / "store")
