"""What ends the scaling of a FrameLoader: threads, the planner, new files, slow reads."""

from collections.abc import Sequence

from benchmarks.bench_cores import MAIN
from benchmarks.cores.record import CoresResult, Loading
from benchmarks.tables.markdown import DISTURBED, machine, table

_SCAN = {
    "one": "one after the other",
    "threads": "two threads",
    "loader": "as a loader opens them: processes",
}
_CORES = (4, 8, 32, 64)


def loading(result: CoresResult) -> str:
    """What was measured on two cores, and what it allows on more."""
    rows = result.loading[:MAIN]
    header = ["256×256 frames of a 720p camera", "frames/s", "CPU, ms a frame"]
    lines = [[_said(row), *_figures(row)] for row in rows]
    measured = table(header, lines)
    notes = f"Measured, in bursts of 15; {_quiet(rows)} {machine(result)}"
    return f"{measured}\n\n{notes}\n\n{_allowed(rows)}"


def _allowed(rows: Sequence[Loading]) -> str:
    """What follows for more cores, where the runs were quiet enough to tell."""
    by = {(row.way, row.threads, row.processes): row for row in rows}
    one, threads, both = (by[("decoded", *each)] for each in ((1, 1), (2, 1), (1, 2)))
    rest = by[("undecoded", 2, 1)]
    needed = (one, threads, both, rest)
    if any(row.failure or not row.repeats for row in needed):
        return "What more cores allow is not known: a run failed."
    if _others(needed) > DISTURBED:
        return "What more cores allow is not derived: other work disturbed the runs."
    share = serial_share(threads.speed, both.speed)

    def process(cores: int) -> float:
        return min(rest.speed, one.speed * amdahl(share, cores))

    header = ["cores", "one process, frames/s", "a process for every 4 cores, frames/s"]
    lines = [
        [str(cores), f"{process(cores):,.0f}", f"{process(4) * cores / 4:,.0f}"] for cores in _CORES
    ]
    return (
        f"{table(header, lines)}\n\nOn paper, and the most there can be: by what two threads lack "
        f"of two processes, {share:.0%} of a frame's time is serial (Karp and Flatt, 1990), "
        f"and no process does more than the {rest.speed:,.0f} frames/s of all but decoding. Two "
        "cores cannot show a small share, which would matter with many; memory bandwidth, disks "
        "and hyper-threads are not in it."
    )


def serial_share(threads: float, processes: float) -> float:
    """Return the serial share by the frames per second of two threads and of two processes."""
    return min(1.0, max(0.0, processes / threads - 1))


def amdahl(share: float, threads: int) -> float:
    """Return how many times as fast so many threads are as one."""
    return 1 / (share + (1 - share) / threads)


def planning(result: CoresResult) -> str:
    """One line per set and window."""
    lines = [
        [f"{row.files:,} files", f"{row.lookahead:,}", f"{row.microseconds:.1f}"]
        for row in result.planning
    ]
    return table(["set", "requests in the window", "µs a request"], lines)


def scanning(result: CoresResult) -> str:
    """One line per way."""
    lines = [
        [_SCAN[row.way], f"{row.seconds:.2f}", f"{row.files / row.seconds:,.0f}"]
        for row in result.scanning
    ]
    files = result.scanning[0].files
    return table([f"{files:,} new files", "s", "files/s"], lines)


def reading(result: CoresResult) -> str:
    """One line per network; a column per number of threads."""
    rows = result.loading[MAIN:]
    columns = sorted({(row.is_naive, row.threads) for row in rows})
    header = ["a request of 128 KiB", *(_column(*each) for each in columns)]
    lines = []
    for network in dict.fromkeys(map(_network, rows)):
        found = {(r.is_naive, r.threads): r for r in rows if _network(r) == network}
        lines.append([network, *(_speed(found.get(each)) for each in columns)])
    notes = (
        "Frames/s on 2 cores; uniformly random frames, look-ahead of 512 requests. A file object "
        "stands in for the network: it waits before each block "
        "that is not the last one, for all threads at once, and keeps nothing else; a real mount "
        f"reads ahead and has a page cache; {_quiet(rows)}"
    )
    return f"{table(header, lines)}\n\n{notes}"


def _column(is_naive: bool, threads: int) -> str:
    what = "naive" if is_naive else "look-ahead"
    return f"{what}, {threads} thread{'s' * (threads > 1)}"


def _network(row: Loading) -> str:
    if row.megabytes_per_second is not None:
        return f"{row.megabytes_per_second:g} MB/s in all"
    return f"{row.latency_ms:g} ms" if row.latency_ms else "local"


def _said(row: Loading) -> str:
    threads = f"{row.threads} thread{'s' * (row.threads > 1)}"
    if row.way == "undecoded":
        return f"all but decoding, {threads}"
    return f"{row.processes} × {threads}"


def _figures(row: Loading) -> list[str]:
    if row.failure or not row.repeats:
        return [f"failed: {row.failure}", ""]
    return [f"{row.speed:,.0f}", f"{row.cpu_ms:.2f}"]


def _speed(row: Loading | None) -> str:
    if row is None:
        return ""
    return f"failed: {row.failure}" if row.failure or not row.repeats else f"{row.speed:,.0f}"


def _quiet(rows: Sequence[Loading]) -> str:
    return f"other work took {_others(rows):.0%} of the CPU time in the worst run."


def _others(rows: Sequence[Loading]) -> float:
    """The share of other work; of processes at the same time, each is other work to the other."""
    shares = [
        max(0.0, 1 - sum(each.cpu_seconds or 0.0 for each in row.repeats) / used)
        for row in rows
        if row.repeats
        and (used := (row.repeats[0].cpu_seconds or 0) + (row.repeats[0].others_cpu_seconds or 0))
    ]
    return max(shares, default=0.0)
