"""Every way delivers the frames it was asked for, where its library is installed."""

from collections.abc import Sequence
from importlib import import_module
from itertools import islice

import numpy as np
import pytest

from benchmarks.bench_random_clips import ENTRANTS as CLIP_ENTRANTS
from benchmarks.bench_random_frames import ENTRANTS as FRAME_ENTRANTS
from benchmarks.equality import Equality, Pictures, compare_picked, shrink
from benchmarks.random_access.way import Task
from headrace.sampling.bursts import Bursts

LIBRARIES = {"opencv": "cv2", "decord": "decord", "spdl": "spdl.io", "torchcodec": "torchcodec"}
FRAME_WAYS = dict.fromkeys(entrant.asked["way"] for entrant in FRAME_ENTRANTS)
CLIP_WAYS = dict.fromkeys(entrant.asked["way"] for entrant in CLIP_ENTRANTS)
BATCHES = 3
FEW_LANES = Bursts(frames_per_burst=4, lanes=16)
"""The benchmark's own need more frames than two small clips have."""


def compared(name: str, make, clip, reference: Sequence[Pictures]) -> Equality:
    pytest.importorskip(LIBRARIES.get(name, "av"))
    way = import_module(f"benchmarks.random_access.{name}")
    task: Task = make(clip, FEW_LANES if hasattr(way, "SAMPLING") else None)
    batches = iter(way.deliver(task))
    frames = list(islice(batches, BATCHES))
    batches.close()
    requests = np.concatenate(list(islice(task.requests(), BATCHES)))
    return compare_picked(reference, requests, shrink(np.concatenate(frames)))


@pytest.mark.parametrize("name", FRAME_WAYS)
def test_random_frames_are_those_of_a_linear_decode(name: str, tasks, reference) -> None:
    found = compared(name, tasks, None, reference)
    assert found.holds
    assert found.frames == BATCHES * 16


@pytest.mark.parametrize("name", CLIP_WAYS)
def test_random_clips_are_those_of_a_linear_decode(name: str, tasks, reference) -> None:
    found = compared(name, tasks, (8, 2), reference)
    assert found.holds
    assert found.frames == BATCHES * 2 * 8


@pytest.mark.parametrize("name", [name for name in FRAME_WAYS if name.startswith("headrace")])
def test_headrace_gives_the_pixels_of_a_linear_decode_to_a_thousandth(
    name: str, tasks, reference
) -> None:
    assert compared(name, tasks, None, reference).max_mean_difference == 0


@pytest.mark.parametrize("name", ["headrace", "headrace_naive"])
def test_headrace_tells_what_it_cost(name: str, tasks) -> None:
    delivery = import_module(f"benchmarks.random_access.{name}").deliver(tasks(None))
    batches = iter(delivery)
    next(batches)
    cost = delivery.cost()
    batches.close()
    assert min(cost.decoded, cost.seeks, cost.opens) > 0


def test_only_looking_ahead_needs_a_long_warm_up(tasks) -> None:
    ways = [
        import_module(f"benchmarks.random_access.{name}") for name in ("headrace_naive", "headrace")
    ]
    naive, ahead = (way.deliver(tasks(None)).warm_up for way in ways)
    assert naive == 1
    assert ahead > 16
