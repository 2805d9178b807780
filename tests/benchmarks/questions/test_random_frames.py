"""Tests of benchmarks/questions/random_frames.py: all ways are asked for the same."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks.questions.random_frames import task_of
from benchmarks.random_access.way import Task
from headrace.decode.open import open_index
from headrace.sampling.frames import Uniform
from headrace.sampling.population import Population
from headrace.testing.synth import SynthClip, write_clip

LENGTHS = (40, 25)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return [
        str(write_clip(tmp_path / f"clip-{length}", SynthClip(num_frames=length, size=(64, 96))))
        for length in LENGTHS
    ]


def task(
    paths: list[str], clip: tuple[int, int] | None = None, batch_size: int = 16, seed: int = 0
) -> Task:
    return task_of(
        paths=paths,
        size=[64, 96],
        workers=1,
        batch_size=batch_size,
        clip=clip,
        memory_budget="64MiB",
        hold="rgb",
        seed=seed,
    )


@pytest.mark.parametrize("seed", [0, 3])
def test_frames_are_asked_for_in_the_uniform_order_of_a_seed(paths: list[str], seed: int) -> None:
    population = Population.of([open_index(path).gop_lengths for path in paths])
    video, index = population.locate(Uniform(seed=seed).order(population, 0)[:16])
    first = next(task(paths, seed=seed).requests())
    assert first.tolist() == np.stack([video, index], axis=1).tolist()


def test_requests_begin_again_and_go_on_with_the_next_epoch(paths: list[str]) -> None:
    asked = task(paths)
    batches = -(-sum(LENGTHS) // asked.batch_size)
    once = list(islice(asked.requests(), 2 * batches))
    again = list(islice(asked.requests(), 2 * batches))
    assert [batch.tolist() for batch in once] == [batch.tolist() for batch in again]
    assert sum(map(len, once[:batches])) == sum(LENGTHS)
    assert once[0].tolist() != once[batches].tolist()


def test_clips_are_asked_for_frame_by_frame(paths: list[str]) -> None:
    requests = next(task(paths, clip=(4, 3), batch_size=5).requests()).reshape(5, 4, 2)
    assert (requests[:, :, 0] == requests[:, :1, 0]).all()
    assert (np.diff(requests[:, :, 1], axis=1) == 3).all()
    assert (requests[:, -1, 1] < np.array(LENGTHS)[requests[:, 0, 0]]).all()
