"""The latest steps of a run that may have no end, at a hundred bytes each."""

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from headrace.profiling.steps import Step
from headrace.runtime.recent import Recent

_NUMBERS: Final = tuple(field.name for field in fields(Step) if field.name != "work_ms")
_WHOLE: Final = frozenset(["step", "input", "first_index", "frames", "segment"])


class LatestSteps:
    """Keeps the last `most` steps as columns of numbers: as objects they take ten times as much."""

    def __init__(self, most: int) -> None:
        """None yet."""
        self._most = most
        self._columns = {name: Recent(most) for name in _NUMBERS}
        self._work: dict[str, Recent] = {}

    def append(self, step: Step) -> None:
        """Keep a step; all of them have the same stages."""
        self._work = self._work or {stage: Recent(self._most) for stage in step.work_ms}
        for name, column in self._columns.items():
            value = getattr(step, name)
            column.append(math.nan if value is None else value)
        for stage, column in self._work.items():
            column.append(step.work_ms[stage])

    def __len__(self) -> int:
        return len(self._columns["step"])

    def __iter__(self) -> Iterator[Step]:
        """Yield them, the oldest first."""
        columns = {name: column.values().tolist() for name, column in self._columns.items()}
        work = {stage: column.values().tolist() for stage, column in self._work.items()}
        for k in range(len(self)):
            yield Step(
                **{name: _value(name, column[k]) for name, column in columns.items()},
                work_ms={stage: column[k] for stage, column in work.items()},
            )


def _value(name: str, number: float) -> Any:
    if math.isnan(number):
        return None
    return int(number) if name in _WHOLE else number
