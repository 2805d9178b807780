"""Does `headrace compare` call equal runs equal, and does it find a step that is 10 % slower?

python -m benchmarks.bench_compare --pairs 10      # a first look
python -m benchmarks.bench_compare                 # a record that is kept, half an hour

A loop of fixed work is run and profiled again and again, quiet and beside two programs that compute
now and then. Neighbours are compared, one run with one, and three with three in turns.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Final

import torch
from torch.utils.data import DataLoader, TensorDataset

import headrace
from benchmarks.bench_observe import BATCH_SIZE, build_step
from benchmarks.bench_planted import busy_machine
from benchmarks.kit import Benchmark
from benchmarks.markdown import machine, rendered
from benchmarks.record import Rows, Tried, origin
from headrace.profiling.comparison.comparison import compare
from headrace.profiling.session import Session

SLOWER: Final = 1.1
"""Work of a planted slow step."""
_REPEATS: Final = (1, 3)
"""Runs of each side."""
_SHOWN: Final = ("better", "worse")
"""Verdicts that show a difference."""
_SOMETIMES: Final = """
import random, time
while True:
    end = time.perf_counter() + 2 * random.random()
    while time.perf_counter() < end: pass
    time.sleep(2 * random.random())
"""
"""A program that computes half of the time."""


class Pair(Tried):
    """Throughput of one pair of sides."""

    change: float | None
    verdict: str
    others: tuple[str, ...] = ()
    """Further figures for which a difference was shown."""


class Pairs(Tried):
    """Pairs of one kind."""

    machine: str
    """`quiet` or `busy`."""
    runs: int
    """Of each side."""
    is_slower: bool = False
    """Whether the second side has slower steps."""
    pairs: tuple[Pair, ...] = ()

    @property
    def shown(self) -> int:
        """Pairs in which a difference of the throughput was shown."""
        return sum(pair.verdict in _SHOWN for pair in self.pairs)

    @property
    def figures(self) -> int:
        """Pairs in which a difference of any figure was shown."""
        return sum(pair.verdict in _SHOWN or bool(pair.others) for pair in self.pairs)

    @property
    def withheld(self) -> int:
        """Pairs without a verdict, as other programs used the CPU."""
        return sum(pair.verdict == "inconclusive" for pair in self.pairs)


def measure(
    *, pairs: int = 200, planted: int = 20, steps: int = 120, step_ms: float = 5.0
) -> Iterator[Rows[Pairs]]:
    """Run the loop and compare its runs.

    Args:
        pairs: of equal runs
        planted: pairs in which one is slower
        steps: of a run
        step_ms: time of a step
    """
    torch.set_num_threads(1)
    step = build_step(step_ms / 1e3)
    result = Rows[Pairs](provenance=origin(steps=steps, step_ms=step_ms, slower=SLOWER))
    kinds = ("quiet", pairs, 1.0), ("busy", pairs, 1.0), ("quiet", planted, SLOWER)
    for words, count, slower in kinds:
        with busy_machine(_SOMETIMES) if words == "busy" else nullcontext():
            sessions = run_in_turns(step, steps, count, slower)
        for runs in _REPEATS:
            found = tuple(compare_neighbours(sessions, count, runs))
            row = Pairs(machine=words, runs=runs, is_slower=slower > 1, pairs=found)
            print(f"{words}, {runs} and {runs}: {row.shown} of {len(found)} shown", flush=True)
            result = result.plus(row)
        yield result


def run_in_turns(step: Callable[..., None], steps: int, pairs: int, slower: float) -> list[Session]:
    """Return sessions of both sides in turns, as many as `pairs` overlapping triples need."""
    loader = DataLoader(TensorDataset(torch.zeros(steps * BATCH_SIZE, 16)), batch_size=BATCH_SIZE)
    sessions = []
    for index in range(2 * (pairs + max(_REPEATS) - 1)):
        with headrace.profile_loader(loader, on_verdict=None) as profile:
            for (batch,) in profile:
                step(batch, slower if index % 2 else 1.0)
        sessions.append(profile.session)
    return sessions


def compare_neighbours(sessions: Sequence[Session], pairs: int, runs: int) -> Iterator[Pair]:
    """Yield the comparison of each run, or of `runs` from there on, with those in between."""
    for pair in range(pairs):
        taken = sessions[2 * pair : 2 * (pair + runs)]
        sides = [
            {f"{side} {number}": run for number, run in enumerate(taken[offset::2])}
            for offset, side in enumerate("ab")
        ]
        found = {each.name: each for each in compare(*sides, seed=pair).runs[0].differences}
        throughput = found.pop("Throughput")
        shown = tuple(name for name, each in found.items() if each.verdict in _SHOWN)
        yield Pair(change=throughput.change, verdict=throughput.verdict, others=shown)


def text(result: Rows[Pairs]) -> str:
    """Return a line per kind of pairs."""
    asked = result.provenance.configuration
    return rendered(
        result.rows,
        {
            "machine": lambda row: row.machine,
            "runs of each side": lambda row: str(row.runs),
            "planted": lambda row: f"{SLOWER - 1:.0%} slower" if row.is_slower else "no difference",
            "pairs": lambda row: str(len(row.pairs)),
            "throughput differs": lambda row: f"{row.shown / len(row.pairs):.1%}",
            "any figure differs": lambda row: f"{row.figures / len(row.pairs):.1%}",
            "not told": lambda row: f"{row.withheld / len(row.pairs):.1%}",
        },
        f"Loops of {asked['steps']} steps of {asked['step_ms']:g} ms; triples overlap. "
        f"{machine(result)}",
    )


BENCHMARK = Benchmark("compare", __doc__ or "", measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
