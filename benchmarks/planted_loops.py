"""Training loops with a planted bottleneck, which really run.

A planted bottleneck sleeps, like a wait for a disk or a GPU, and uses no core, so other programs do
not change the loop. Only the transfer of batches is real work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import sleep
from typing import Any, Final

import torch
from torch.utils.data import DataLoader, Dataset

import headrace
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.findings.verdict import find
from headrace.profiling.session import Session

BATCH_SIZE: Final = 8


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A training loop; times in milliseconds."""

    name: str
    """Name of the planted bottleneck."""
    fetch: float = 0.0
    """Time of a batch in `__getitem__`; every tenth sample takes `uneven` more."""
    uneven: float = 0.0
    collate: float = 0.0
    step: float = 0.0
    log: float = 0.0
    """Further time of a step."""
    batches: int = 100
    epochs: int = 1
    batch_size: int = BATCH_SIZE
    workers: int = 0
    prefetch: int = 2
    lives_on: bool = False


class Waiting(Dataset[torch.Tensor]):
    """Samples that sleep."""

    def __init__(self, loop: Loop) -> None:
        """Use the times of `loop`."""
        self._loop = loop

    def __len__(self) -> int:
        return self._loop.batches * self._loop.batch_size

    def __getitem__(self, index: int) -> torch.Tensor:
        loop = self._loop
        wait = loop.fetch / loop.batch_size + (0.0 if index % 80 else loop.uneven)
        if wait:
            sleep(wait / 1e3)
        return torch.zeros(4)


LOOPS: Final = (
    Loop(name="slow decoding, no workers", fetch=40, step=20),
    Loop(name="too few workers", fetch=60, step=15, workers=1),
    Loop(name="workers that start again", fetch=4, step=4, workers=2, batches=12, epochs=8),
    Loop(name="tiny batches", batch_size=2, batches=1500, workers=2),
    Loop(name="a slow model", fetch=13, step=72, batches=60),
    Loop(name="logging at every step", fetch=9, step=4, log=40, batches=60),
    Loop(name="uneven samples", fetch=10, uneven=300, step=20, batches=150, workers=1),
    Loop(name="slow collating", fetch=5, collate=50, step=15, workers=1),
)


def run_loop(loop: Loop) -> Session:
    """Return the session of a loop, profiled as by `headrace.profile_loader`."""
    torch.set_num_threads(1)

    def collate(samples: Sequence[torch.Tensor]) -> torch.Tensor:
        if loop.collate:
            sleep(loop.collate / 1e3)
        return torch.stack(list(samples))

    loader = DataLoader(
        Waiting(loop),
        batch_size=loop.batch_size,
        num_workers=loop.workers,
        prefetch_factor=loop.prefetch if loop.workers else None,
        persistent_workers=loop.lives_on,
        collate_fn=collate,
    )
    with headrace.profile_loader(loader, tell=None) as seen:
        for _ in range(loop.epochs):
            for _ in seen:
                if loop.step or loop.log:
                    sleep((loop.step + loop.log) / 1e3)
    return seen.session


def advised(session: Session) -> tuple[Finding, Change | None]:
    """Return the verdict on a loop, and the first advised change that can be made here."""
    first, *others = find(session)
    for finding in (first, *others):
        if finding.advice is not None and finding.advice.gain:
            return first, finding.advice
    return first, None


_FIELDS: Final = {
    "num_workers": "workers",
    "prefetch_factor": "prefetch",
    "persistent_workers": "lives_on",
}
"""Argument of a DataLoader → field of a loop."""


def with_change(loop: Loop, change: Change) -> Loop | None:
    """Return a loop with a change applied; None if it cannot be applied here."""
    if change.options:
        options: dict[str, Any] = {_FIELDS[name]: value for name, value in change.options.items()}
        return replace(loop, **options)
    match change.words:
        case "Half of the work in __getitem__":
            return replace(loop, fetch=loop.fetch / 2, uneven=loop.uneven / 2)
        case "Half of the work in collate_fn":
            return replace(loop, collate=loop.collate / 2)
    return None
