"""A model that was cut in two: what its parts take."""

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.profiling.provenance import Record


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
