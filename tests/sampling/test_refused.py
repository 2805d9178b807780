"""What cannot be sampled is refused, in the words of a page."""

import importlib
import pkgutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace import sampling
from headrace.sampling import sampler
from sampling import kit
from tests.kit.pages import calls_of, check_message

NAMES = {name: getattr(headrace, name) for name in headrace.__all__}
for found in pkgutil.iter_modules(sampling.__path__):
    NAMES |= vars(importlib.import_module(f"{sampling.__name__}.{found.name}"))
NAMES |= vars(kit)


TRAITS = sampler.SamplerTraits(identity="mine", is_random=False, has_replacement=False)
OPENED = {"videos": np.array([0, 2, 3]), "videos_given": 4}
NAMES |= {
    "BY_PATH": {"a.mp4": 1.0, "c.mp4": 0.0, "d.mp4": 2.5},
    "CAMERA": np.full(400, 30),
    "FIVE": headrace.Population.of([np.array([5])]),
    "FOUR": headrace.Population.of([np.array(gops) for gops in ([20], [9, 3], [30], [11])]),
    "GOPS": np.array([250, 80, 30, 120, 20] * 20),
    "NAMELESS": sampler.SamplerContext(**OPENED),
    "OPENED": sampler.SamplerContext(**OPENED, paths=("a.mp4", "c.mp4", "d.mp4")),
    "Path": Path,
    "TRAITS": TRAITS,
    "TWO": headrace.Population.of([np.array([5, 9, 2]), np.array([30])]),
    "USE": sampler.SamplerContext(videos=np.arange(2), videos_given=2, batch_size=4),
    "INFINITE": float("inf"),
    "NAN": float("nan"),
    "SECONDS": np.arange(25) / 12,
    "TIMED": kit.population_of([kit.even(120, 15, 1 / 90000), kit.even(30, 30, 1 / 1000)]),
    "TIMES": np.array([0.0, 0.1, 0.2, 0.5, 0.6]),
    "mine": lambda **members: type("Mine", (), members)(),
    "np": np,
    "replace": replace,
}


@pytest.mark.parametrize(("call", "said"), calls_of(Path(__file__).with_name("refused.txt")))
def test_what_cannot_be_sampled_is_refused(call, said):
    check_message(call, said, NAMES)
