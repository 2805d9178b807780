"""Variants of `bench split`: the whole model, and two parts sequential or pipelined."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, pairwise
from statistics import median
from typing import Any, Final

import torch
from torch import nn

from headrace.bench.model_variants import ModelRuns, check_scores_equal, scores
from headrace.measuring.interleaved import grouped
from headrace.models.split_model import SplitModule, split_points
from headrace.runs.run_stages import Transfer
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage

_CUTS: Final = 3
"""Default number of layers."""

Values = tuple[Any, ...]
Batches = Sequence[torch.Tensor]


class Whole:
    """Model on its device; batches are transferred from the CPU."""

    def __init__(self, runs: ModelRuns) -> None:
        """Load the model."""
        self.model = runs.load()
        self._carrier = Transfer(runs.compute.device)

    def scores(self, batch: torch.Tensor) -> torch.Tensor:
        """Return float32 [N, classes], on the CPU."""
        return scores(self.model, self._carrier.carry(batch))

    def run(self, batch: torch.Tensor) -> None:
        """Run the model on a CPU batch."""
        self.model.run(self._carrier.carry(batch))

    def blocks(self) -> list[str]:
        """Return the default layers to cut: evenly spaced blocks."""
        return spaced(blocks(self.model.module), _CUTS)


class SplitParts:
    """Model split after a layer: first part on the CPU, second on the device."""

    def __init__(self, runs: ModelRuns, layer: str, batches: Batches) -> None:
        """Load and cut the model.

        Raises:
            ConfigError: the layer is unknown, or the model cannot be split there.
        """
        self.layer = layer
        self._runs, self._batches = runs, batches
        self._model = runs.load(replace(runs.compute.compute(), split_layer=layer))
        assert isinstance(self._model.module, SplitModule)
        self._split = self._model.module
        self._carrier = Transfer(runs.compute.device)

    def cut(self, score_whole: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, float]:
        """Return the times of the parts, as fields of the split's record, if the scores are equal.

        Raises:
            BackendError: the scores differ.
        """
        max_difference = check_scores_equal(
            f"the scores of {self._model.name} change when it is split after {self.layer}",
            score_whole,
            self.scores,
            self._batches,
            self._model.compute.device,
            fix="leave this layer out",
        )
        timed = [self._time_parts(batch) for batch in self._batches]
        crossing = sum(value.nbytes for value in self._begin(self._batches[0]) if _is_tensor(value))
        first, transfer, second = (median(part) for part in zip(*timed, strict=True))
        return {
            "first_ms": first,
            "transfer_ms": transfer,
            "second_ms": second,
            "crossing_bytes": crossing // len(self._batches[0]),
            "difference": max_difference,
        }

    @contextmanager
    def pipelined(self) -> Iterator[Iterator[int]]:
        """Yield frame counts of batches from concurrent parts, one thread each, as in a run."""
        stages: list[Stage[Any, Any]] = [
            Stage(name="first part", function=self._begin),
            Stage(name="transfer", function=self._carry),
            Stage(name="second part", function=self._finish),
        ]
        with Pipeline(source=cycle(self._batches), stages=stages).run() as run:
            yield (len(item.value) for item in run)

    def _begin(self, batch: torch.Tensor) -> Values:
        with self._model.computing():
            return self._split.begin(batch)

    def _carry(self, values: Values) -> Values:
        return tuple(self._carrier.carry(value) if _is_tensor(value) else value for value in values)

    def _finish(self, values: Values) -> torch.Tensor:
        with self._model.computing():
            layers: torch.Tensor = self._split.finish(values)
            return layers.float().cpu()

    def scores(self, batch: torch.Tensor) -> torch.Tensor:
        """Run the parts one after the other; return float32 [N, classes], on the CPU."""
        return self._finish(self._carry(self._begin(batch)))

    def _time_parts(self, batch: torch.Tensor) -> list[float]:
        """Return milliseconds per frame of the first part, the transfer and the second part."""
        value: Any = batch
        moments = [self._runs.clock.now_ns()]
        for step in (self._begin, self._carry, self._finish):
            value = step(value)
            moments.append(self._runs.clock.now_ns())
        return [(after - before) / 1e6 / len(batch) for before, after in pairwise(moments)]


def blocks(module: nn.Module) -> list[str]:
    """Return the cut points between the blocks of a model, in execution order.

    Blocks are the layers of the outermost level with at least `_CUTS` cut points; layers with
    children are preferred.
    """
    points, modules = split_points(module), dict(module.named_modules())
    with_children = [point for point in points if [*modules[point].children()]]
    for names in (with_children, points):
        for _, layers in sorted(grouped(names, lambda name: name.count(".")).items()):
            if len(layers) >= _CUTS:
                return layers
    return points


def spaced(names: Sequence[str], count: int) -> list[str]:
    """Return `count` evenly spaced names; all of them if there are fewer."""
    if len(names) <= count:
        return list(names)
    return [names[len(names) * number // (count + 1) - 1] for number in range(1, count + 1)]


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)
