"""Ranks of one training: the late rank that the others wait for, and why it is late."""

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
the backward pass."""
DATA, MACHINE = "data", "waits for a core"
"""Causes that are not parts of a step."""
_LATE: Final = 0.1
"""Min lead of the other ranks over a late rank, as a share of its step."""
_AWAITED: Final = 0.5
"""Min wait of the other ranks for a late rank, as a share of their lead."""
_WORDS: Final = {
    DATA: ("data", "waiting for its batches"),
    MACHINE: ("machine", "waiting for a core"),
    "rest": ("own code", "in other code of the loop"),
    "copy to a device": ("copies to a device", "in copies to a device"),
    "batches of another loader": ("evaluation", "waiting for batches of another loader"),
}
"""Cause → (its name in the headline, end of the evidence); other causes use their own name."""


@dataclass(frozen=True, kw_only=True)
class RankTimes:
    """Mean times of a rank's step, in milliseconds."""

    rank: int
    load: LoopLoad
    costs: Mapping[str, float]
    """Cause → time, without waits for other ranks: waits for data and for a core, and the parts of
    the step."""
    waits_ms: float
    """Time in backward and collectives without work: mostly waits for other ranks."""

    @property
    def own_ms(self) -> float:
        """Time of a step without waits for other ranks."""
        return sum(self.costs.values())


def measure_ranks(sessions: Mapping[int, Session]) -> tuple[RankTimes, ...]:
    """Return the times of each rank that has measured steps, in the order of the ranks.

    On a GPU, the wait in the backward pass is the excess over the fastest rank.
    """
    loads = {rank: LoopLoad.of(session) for rank, session in sorted(sessions.items())}
    known = {rank: load for rank, load in loads.items() if load is not None}
    shortest = {
        name: min((_device_ms(load, name) for load in known.values()), default=0.0)
        for name in _SYNCED
    }
    return tuple(_measure(rank, load, shortest) for rank, load in known.items())


def _measure(rank: int, load: LoopLoad, shortest: Mapping[str, float]) -> RankTimes:
    """Return the times of a rank; waits for a core are subtracted from its parts."""
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

    The advice is for this rank only, because the waits of the others depend on it.
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
    name, activity = _WORDS.get(cause, (cause, f"in {cause}"))
    total_ms = median(rank.load.total_ms for rank in others)
    return Finding(
        headline=f"Rank {late.rank} is late because of its {name}: its own part of a step takes "
        f"{three_digits(late.own_ms)} ms, the others' {three_digits(usual_ms)} ms.",
        bound_by=("step",),
        cause=cause,
        evidence=(
            f"It spends {three_digits(more[cause])} ms more than the others {activity}.",
            f"The others wait for it {three_digits(waited_ms)} ms of a step "
            f"({percent(waited_ms / max(1e-6, total_ms))}), in backward and collectives.",
        ),
        advice=_change(late, cause),
    )


def _change(late: RankTimes, cause: str) -> Change:
    if cause == DATA:
        return best_loader_change(late.load)
    if cause == MACHINE:
        return Change(words=f"A free machine for rank {late.rank}, or fewer other programs on it")
    return change_of_part(late.load, cause)


def describe_even_ranks(ranks: Sequence[RankTimes]) -> Finding:
    """Return the finding that no rank is late."""
    if len(ranks) < 2:
        return Finding(headline=f"{counted(len(ranks), 'rank')} with measured steps: too few.")
    own_ms = [rank.own_ms for rank in ranks]
    return Finding(
        headline="No rank is late: their own parts of a step take "
        f"{three_digits(min(own_ms))} to {three_digits(max(own_ms))} ms.",
    )
