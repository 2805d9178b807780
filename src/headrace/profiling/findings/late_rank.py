"""Ranks of one training side by side: which of them the others wait for, and why it is late."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.findings.inside_step import change_of_part, parts_ms
from headrace.profiling.findings.loader_changes import best_loader_change
from headrace.profiling.findings.loop_simulation import LoopLoad
from headrace.profiling.number_format import counted, three_digits
from headrace.profiling.number_format import whole_percent as percent
from headrace.profiling.session import Session

_SYNCED: Final = ("backward", "collectives")
"""Parts of a step in which ranks wait for each other: DistributedDataParallel reduces gradients in
the backward."""
DATA, MACHINE = "data", "waits for a core"
"""Causes beside the parts of a step."""
_LATE: Final = 0.1
"""Min share of a step by which the others are faster for a rank to be late."""
_AWAITED: Final = 0.5
"""Min share of this difference that the others wait for it."""
_WORDS: Final = {
    DATA: ("data", "waiting for its batches"),
    MACHINE: ("machine", "waiting for a core"),
    "rest": ("own code", "in code of the loop that is no other part"),
    "copy to a device": ("copies to a device", "in copies to a device"),
    "batches of another loader": ("evaluation", "waiting for batches of another loader"),
}
"""Cause → what a rank is late by, and what it does longer; others by their names."""


@dataclass(frozen=True, kw_only=True)
class RankTimes:
    """Mean times of a rank's step, in milliseconds."""

    rank: int
    load: LoopLoad
    costs: Mapping[str, float]
    """Waiting for data, waiting for a core, and the parts of the step, without waits for others."""
    waits_ms: float
    """In backward and collectives without work of its own: mostly for other ranks."""

    @property
    def own_ms(self) -> float:
        """Time that no other rank is the cause of."""
        return sum(self.costs.values())


def measure_ranks(sessions: Mapping[int, Session]) -> tuple[RankTimes, ...]:
    """Return the times of each rank that has measured steps, by rank.

    On a GPU, a rank's wait in the backward is what it takes longer than in the fastest rank.
    """
    loads = {rank: LoopLoad.of(session) for rank, session in sorted(sessions.items())}
    known = {rank: load for rank, load in loads.items() if load is not None}
    shortest = {
        name: min((_device_ms(load, name) for load in known.values()), default=0.0)
        for name in _SYNCED
    }
    return tuple(_measure(rank, load, shortest) for rank, load in known.items())


def _measure(rank: int, load: LoopLoad, shortest: Mapping[str, float]) -> RankTimes:
    """Return the times of a rank; waits for a core lie in its parts, and are counted once."""
    parts = load.loader.inside.parts if load.loader.inside else ()
    core_wait_ms = load.core_waits.get("step", 0.0)
    off_core = {part.name: max(0.0, part.ms - part.cpu_ms) for part in parts}
    scale = min(1.0, core_wait_ms / max(1e-6, sum(off_core.values())))
    costs = {DATA: load.wait_ms, MACHINE: 0.0 if load.is_corrected else core_wait_ms}
    waits_ms, known = 0.0, parts_ms(load)
    for part in parts:
        queued_ms = 0.0 if load.is_corrected else scale * off_core[part.name]
        spent_ms = max(0.0, known.get(part.name, 0.0) - queued_ms)
        own_ms = spent_ms
        if part.name in _SYNCED:
            own_ms = part.cpu_ms if part.device_ms is None else shortest[part.name]
        costs[part.name] = min(own_ms, spent_ms)
        waits_ms += spent_ms - costs[part.name]
    return RankTimes(rank=rank, load=load, costs=costs, waits_ms=waits_ms)


def _device_ms(load: LoopLoad, name: str) -> float:
    parts = load.loader.inside.parts if load.loader.inside else ()
    return sum(part.device_ms or 0.0 for part in parts if part.name == name)


def find_late_rank(ranks: Sequence[RankTimes]) -> Finding | None:
    """Return the finding on the rank that the others wait for; None: no rank is late.

    Only this rank is advised a change: the waits of the others end with its own.
    """
    if len(ranks) < 2:
        return None
    late = max(ranks, key=lambda rank: rank.own_ms)
    others = [rank for rank in ranks if rank is not late]
    usual_ms = median(rank.own_ms for rank in others)
    gap_ms, waited_ms = late.own_ms - usual_ms, median(rank.waits_ms for rank in others)
    if gap_ms < _LATE * late.load.total_ms or waited_ms < _AWAITED * gap_ms:
        return None
    more = {
        name: ms - median(rank.costs.get(name, 0.0) for rank in others)
        for name, ms in late.costs.items()
    }
    cause = max(more, key=lambda name: more[name])
    name, doing = _WORDS.get(cause, (cause, f"in {cause}"))
    total_ms = median(rank.load.total_ms for rank in others)
    return Finding(
        headline=f"Rank {late.rank} is late by its {name}: {three_digits(late.own_ms)} ms of a "
        f"step are its own, {three_digits(usual_ms)} ms of the others'.",
        bound_by=("step",),
        cause=cause,
        evidence=(
            f"It takes {three_digits(more[cause])} ms more than the others: {doing}.",
            f"The others wait for it: {three_digits(waited_ms)} ms of a step "
            f"({percent(waited_ms / max(1e-6, total_ms))}) in backward and "
            "collectives without work of their own.",
        ),
        advice=_change(late, cause),
    )


def _change(late: RankTimes, cause: str) -> Change:
    if cause == DATA:
        return best_loader_change(late.load)
    if cause == MACHINE:
        return Change(words=f"A free machine for rank {late.rank}, or fewer programs beside it")
    return change_of_part(late.load, cause)


def describe_even_ranks(ranks: Sequence[RankTimes]) -> Finding:
    """Return the finding that no rank is late."""
    if len(ranks) < 2:
        return Finding(headline=f"{counted(len(ranks), 'rank')} with measured steps: too few.")
    own = [rank.own_ms for rank in ranks]
    return Finding(
        headline=f"No rank is late: {three_digits(min(own))} to {three_digits(max(own))} ms of a "
        "step are their own.",
    )
