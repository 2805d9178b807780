"""Records of variants that were timed, and what the tests of benchmarks have in common."""

from typing import Any

from bench.shown import made, spent
from headrace.bench.variant_benchmark import VariantRecord, VariantRepetition

FAST = {"model_name": "squeezenet1_1", "batch_size": 2, "seconds": 0.01, "repeats": 1}
"""A configuration that takes a second or two."""


def recorded(
    seconds: dict[str, list[float]],
    kind: type[VariantRecord] = VariantRecord,
    *,
    others: float = 0.0,
    **fields: Any,
) -> Any:
    """Return a record of turns that each did 100 of something, on a machine of 4 cores."""
    turns = [
        VariantRepetition(way=name, amount=100, **spent(s, others=others))
        for name, each in seconds.items()
        for s in each
    ]
    return kind(provenance=made(), turns=tuple(turns), **fields)
