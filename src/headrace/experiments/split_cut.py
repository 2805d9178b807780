"""A model that was cut in two: what its parts take, and how they must score."""

from typing import Final

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.profiling.provenance import Record

TOLERANCE: Final = 1e-4
"""Of the largest score: how far those of a split model may be from those of the whole one. On one
device they are equal, bit for bit; a CPU and a GPU sum in another order."""


class Cut(Record):
    """A model that was cut behind a layer, its parts timed apart, one batch at a time."""

    layer: str
    first_ms: NonNegativeFloat
    """A frame's time in the first part, on the CPU; medians over the batches."""
    transfer_ms: NonNegativeFloat
    """To carry what the second part needs to its device."""
    second_ms: NonNegativeFloat
    crossing_bytes: NonNegativeInt
    """Of what the second part needs of a frame, wherever it runs."""
    difference: NonNegativeFloat
    """How far scores were apart from those of the whole model: ÷ the largest |score|."""
