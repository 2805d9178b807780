"""What the ways to random frames are called, how they go and what they draw, in words."""

from headrace.bench.sampling_record import QUARTER, SamplingRecord, Strategy, Way
from headrace.report.numbers import decimal


def label(way: Way, memory_budget: int, burst: int) -> str:
    """Return what tables and progress call a way, in so many bytes, with bursts of so many frames.

    >>> label("quarter", 2**30, 8)
    'look-ahead 256 MiB'
    """
    return {
        "baseline": "baseline",
        "dataset": "FrameDataset",
        "naive": "naive",
        "look-ahead": f"look-ahead {_mebibytes(memory_budget)}",
        "quarter": f"look-ahead {_mebibytes(memory_budget / QUARTER)}",
        "permutation": f"permutation {_mebibytes(memory_budget)}",
        "bursts": f"bursts of {burst}",
    }[way]


def how(way: Way, record: SamplingRecord) -> str:
    """Return what a way is, in a sentence."""
    batch, burst = record.batch_size, record.burst
    return {
        "baseline": "a stock DataLoader; for each frame it opens the file, seeks and decodes",
        "dataset": "FrameDataset in a stock DataLoader; files stay open, a GOP is decoded once "
        "for all of its frames in a batch",
        "naive": "FrameLoader(lookahead=1); threads, files stay open, no frame is held for later",
        "look-ahead": "FrameLoader(); a GOP is decoded once for as many batches as fit the memory",
        "quarter": "the same in a quarter of the memory",
        "permutation": "FrameLoader(sampling=Permutation()), planned likewise",
        "bursts": f"FrameLoader(sampling=Bursts(frames_per_burst={burst}, lanes={batch}), "
        f"lookahead={burst_lookahead(burst, batch)}); holds what its bursts need, however much "
        "memory there is",
    }[way]


def draws(strategy: Strategy, record: SamplingRecord) -> str:
    """Return which frames a way draws and what that is worth; alike for the same batches."""
    batch, burst = record.batch_size, record.burst
    if strategy.name == "permutation":
        return (
            "each frame once an epoch, in shuffled order. No bias, nothing alike in a batch but by "
            f"chance; a batch of {batch} is worth {batch} independent frames, and more over an "
            "epoch, because the noise evens out"
        )
    if strategy.name == "bursts":
        return (
            f"each frame once an epoch, {burst} from one decoding. No bias, and no two of a burst "
            f"in a batch; but they come soon after one another, and over many steps a batch of "
            f"{batch} is worth as little as {batch / strategy.inflation:.0f} independent frames "
            f"(D = 1 + {burst - 1} x {record.rho:g} = {decimal(strategy.inflation)}), until whole "
            "epochs even it out"
        )
    return (
        "independent frames, the very same batches. No bias, no more noise than random frames "
        f"have; a batch of {batch} is worth {batch}"
    )


def burst_lookahead(burst: int, batch_size: int) -> int:
    """Return the least with which a burst is decoded once."""
    return (burst - 1) * batch_size + 1


def _mebibytes(number: float) -> str:
    mebibytes = number / 2**20
    return f"{mebibytes:,.0f} MiB" if mebibytes >= 10 else f"{mebibytes:.2g} MiB"
