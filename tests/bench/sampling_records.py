"""Records of `bench sampling` as tests want them."""

from bench.shown import made
from headrace.bench.sampling_record import SamplingRecord, Strategy
from headrace.measuring.steady_state import DeliveryTurn

SPENT = {"seconds": 10, "opens": 0, "bytes_read": 0, "held_bytes": 50_000_000, "is_filled": True}


def strategy(name, **options):
    """Return a strategy that costs nothing in statistics."""
    return Strategy(**{"name": name, "bias": 0, "design_effect": 1, "inflation": 1} | options)


BASELINE, AHEAD, NAIVE, QUARTER = map(strategy, ("baseline", "look-ahead", "naive", "quarter"))
BURSTS = strategy("bursts", inflation=7.3)
IMPOSSIBLE = strategy("quarter", why_not="three batches do not fit")


def turns(name, frames, *, cores=2.0, others=0.0, decoded=1.0, **options):
    """Return a turn of 10 s for each number of frames."""
    spent = {
        **SPENT,
        "cpu_seconds": 10 * cores,
        "others_cpu_seconds": 10 * others,
        "warm_up_frames": 128,
        "warm_up_seconds": 1,
        **options,
    }
    return [
        DeliveryTurn(strategy=name, frames=n, decoded=int(decoded * n), seeks=n // 4, **spent)
        for n in frames
    ]


def recorded(*timed, workers=2, usable=2, strategies=(BASELINE, AHEAD, BURSTS), **options):
    """Return a record of the turns."""
    facts = {"videos": 40, "frames": 12_000, "gops": 400, "compared": 16, "workers": workers}
    asked = {"batch_size": 128, "memory_budget": 2**30, "burst": 8, "rho": 0.9}
    return SamplingRecord(
        provenance=made(cores=usable, batch_size=128),
        strategies=strategies,
        turns=tuple(turn for each in timed for turn in each),
        **facts | asked | options,
    )
