"""Does `headrace compare` report no difference of equal runs, and detect a step 10 % slower?

python -m benchmarks.bench_compare --pairs 10      # a first look
python -m benchmarks.bench_compare                 # the full run, half an hour

A loop of fixed work is profiled many times, on a quiet machine and beside two programs that compute
half of the time. Consecutive runs are compared: one with one, and three with three, interleaved.
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
from headrace.profiling.comparison import compare
from headrace.profiling.session import Session

SLOWER: Final = 1.1
"""Work of a planted slow step ÷ work of a normal step."""
_REPEATS: Final = (1, 3)
"""Runs per side of a comparison."""
_SHOWN: Final = ("better", "worse")
"""Verdicts that report a difference."""
_SOMETIMES: Final = """
import random, time
while True:
    end = time.perf_counter() + 2 * random.random()
    while time.perf_counter() < end: pass
    time.sleep(2 * random.random())
"""
"""Program that computes half of the time."""


class Pair(Tried):
    """One comparison of two sides."""

    change: float | None
    """Relative change of the throughput."""
    verdict: str
    """Verdict on the throughput."""
    others: tuple[str, ...] = ()
    """Other figures with a reported difference."""


class Pairs(Tried):
    """All comparisons of one kind."""

    machine: str
    """`quiet` or `busy`."""
    runs: int
    """Runs per side."""
    is_slower: bool = False
    """Whether the second side has slower steps."""
    pairs: tuple[Pair, ...] = ()

    @property
    def shown(self) -> int:
        """Number of comparisons that report a difference of the throughput."""
        return sum(pair.verdict in _SHOWN for pair in self.pairs)

    @property
    def figures(self) -> int:
        """Number of comparisons that report a difference of any figure."""
        return sum(pair.verdict in _SHOWN or bool(pair.others) for pair in self.pairs)

    @property
    def withheld(self) -> int:
        """Number of inconclusive comparisons, because other programs used the CPU."""
        return sum(pair.verdict == "inconclusive" for pair in self.pairs)


def measure(
    *, pairs: int = 200, planted: int = 20, steps: int = 120, step_ms: float = 5.0
) -> Iterator[Rows[Pairs]]:
    """Run the loop and compare its runs.

    Args:
        pairs: comparisons of equal runs
        planted: comparisons in which one side is slower
        steps: steps per run
        step_ms: milliseconds of a step
    """
    torch.set_num_threads(1)
    step = build_step(step_ms / 1e3)
    result = Rows[Pairs](provenance=origin(steps=steps, step_ms=step_ms, slower=SLOWER))
    kinds = ("quiet", pairs, 1.0), ("busy", pairs, 1.0), ("quiet", planted, SLOWER)
    for load, count, slower in kinds:
        with busy_machine(_SOMETIMES) if load == "busy" else nullcontext():
            sessions = run_interleaved(step, steps, count, slower)
        for runs in _REPEATS:
            compared = tuple(compare_consecutive(sessions, count, runs))
            row = Pairs(machine=load, runs=runs, is_slower=slower > 1, pairs=compared)
            print(f"{load}, {runs} and {runs}: {row.shown} of {count} differ", flush=True)
            result = result.plus(row)
        yield result


def run_interleaved(
    step: Callable[..., None], steps: int, pairs: int, slower: float
) -> list[Session]:
    """Return interleaved sessions of both sides, enough for `pairs` overlapping triples."""
    loader = DataLoader(TensorDataset(torch.zeros(steps * BATCH_SIZE, 16)), batch_size=BATCH_SIZE)
    sessions = []
    for index in range(2 * (pairs + max(_REPEATS) - 1)):
        with headrace.profile_loader(loader, on_verdict=None) as profile:
            for (batch,) in profile:
                step(batch, slower if index % 2 else 1.0)
        sessions.append(profile.session)
    return sessions


def compare_consecutive(sessions: Sequence[Session], pairs: int, runs: int) -> Iterator[Pair]:
    """Yield the comparison of `runs` runs of one side with the runs of the other in between."""
    for pair in range(pairs):
        compared = sessions[2 * pair : 2 * (pair + runs)]
        sides = [
            {f"{side} {number}": run for number, run in enumerate(compared[offset::2])}
            for offset, side in enumerate("ab")
        ]
        differences = {d.name: d for d in compare(*sides, seed=pair).runs[0].differences}
        throughput = differences.pop("Throughput")
        shown = tuple(name for name, d in differences.items() if d.verdict in _SHOWN)
        yield Pair(change=throughput.change, verdict=throughput.verdict, others=shown)


def text(result: Rows[Pairs]) -> str:
    """Return a line per kind of comparison."""
    parameters = result.provenance.configuration
    return rendered(
        result.rows,
        {
            "machine": lambda row: row.machine,
            "runs per side": lambda row: str(row.runs),
            "planted": lambda row: f"{SLOWER - 1:.0%} slower" if row.is_slower else "no difference",
            "comparisons": lambda row: str(len(row.pairs)),
            "throughput differs": lambda row: f"{row.shown / len(row.pairs):.1%}",
            "any figure differs": lambda row: f"{row.figures / len(row.pairs):.1%}",
            "inconclusive": lambda row: f"{row.withheld / len(row.pairs):.1%}",
        },
        f"Loops of {parameters['steps']} steps of {parameters['step_ms']:g} ms; the triples of "
        "consecutive comparisons overlap. "
        f"{machine(result)}",
    )


BENCHMARK = Benchmark("compare", __doc__ or "", measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
