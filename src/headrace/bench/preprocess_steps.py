"""The steps that are timed around preprocessing: their names, places, and how they must agree."""

from typing import Final, Literal, get_args

from pydantic import NonNegativeFloat

from headrace.preprocess.spec import PrepLevel
from headrace.profiling.provenance import Record

Place = Literal["cpu", "1 thread", "gpu"]
"""Where it is done: on the CPU, with the threads that PyTorch chooses, as a run does by itself, or
with 1 thread of one operation; or on a GPU."""
LEVELS: Final[tuple[PrepLevel, ...]] = get_args(PrepLevel)
DECODE: Final = "decode"
TRANSFER: Final = "transfer"
INFER: Final = "infer"
MOST_APART: Final = 4.0
"""Grey levels by which a number may differ between a CPU, which resizes in whole numbers, and a
GPU, which does in float32: see `preprocess.levels`."""
MEAN_APART: Final = 0.5
"""The same in the mean."""


class Step(Record):
    """One thing that was timed, in one place."""

    way: str
    """What its turns are called: `medium, 1 thread`."""
    name: str
    """A level, or decode, transfer or infer."""
    place: Place


class Agreement(Record):
    """How far a level's tensors are apart between the CPU and another place, in grey levels."""

    level: PrepLevel
    place: Place
    most: NonNegativeFloat
    mean: NonNegativeFloat
