"""Two clips that every library can read, their plain linear decode, and tasks on them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.equality import Pictures, thumbnails
from benchmarks.libs import pyav_loop
from benchmarks.questions.random_frames import task_of
from benchmarks.random_access.way import Task
from headrace.sampling.sampler import Sampler
from headrace.testing.synth import SynthClip, write_clip

SIZE = (96, 128)
CLIPS = [
    SynthClip(num_frames=60, size=SIZE, gop=30, b_frames=2),
    SynthClip(num_frames=45, size=SIZE, gop=15),
]
Tasks = Callable[..., Task]


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("clips")
    return [write_clip(folder / f"clip-{number}", clip) for number, clip in enumerate(CLIPS)]


@pytest.fixture(scope="session")
def reference(clips: list[Path]) -> list[Pictures]:
    return thumbnails(pyav_loop.every_frame(clips, SIZE, workers=1), len(clips))


@pytest.fixture
def tasks(
    clips: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tasks]:
    """Indexes are kept apart from the user's; threads of torch are as they were afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    threads = torch.get_num_threads()

    def task(clip: tuple[int, int] | None, sampling: Sampler | None = None) -> Task:
        return task_of(
            paths=[str(path) for path in clips],
            size=list(SIZE),
            workers=2,
            batch_size=2 if clip else 16,
            clip=clip,
            memory_budget="16MiB",
            hold="rgb",
            sampling=sampling,
        )

    yield task
    torch.set_num_threads(threads)
