"""What share of a frame's cost is serial, and how does that bound a FrameLoader on 8 to 64 cores?

python -m benchmarks.bench_cores --quick     # a first look, a minute
python -m benchmarks.bench_cores             # the full run, about 5 minutes

Measured on two cores: two threads and two processes, whose difference is the serial share; a loader
that decodes nothing; the planner alone; scans of new files; and loaders with up to 16 threads on a
simulated network file system (`loading.py`). The figures are in docs/guides/scale.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from benchmarks.kit import SIZE, Benchmark, begin, task_of, tried
from benchmarks.loading import link_files
from benchmarks.markdown import DISTURBED, machine, rendered, table
from benchmarks.media import DEFAULT_ROOT, paths
from benchmarks.record import Repeat, Result, Timed
from benchmarks.worker import Ask, WorkerError, ask_worker
from headrace import Population, UniformFrames
from headrace.bench.sampling import SamplingConfig, SamplingVariants
from headrace.planning.lookahead import look_ahead
from headrace.profiling.provenance import Record

CORES = 2
LATENCIES_MS = (0.0, 1.0, 5.0, 20.0)
MEGABYTES_PER_SECOND = 100.0
THREADS, NAIVE_THREADS = (1, 2, 4, 16), (2, 16)
PLANNED = ((100, 1_000), (100, 30_000), (10_000, 1_000), (10_000, 30_000))
"""(files, lookahead in requests) of each planner run."""
MAIN = 5
"""Number of leading variants about threads; the other variants are about networks."""
_BURSTS = {"batch_size": 32, "frames_per_burst": 15, "lookahead": (15 - 1) * 32 + 1}
"""Bursts decode little per frame, so the serial share is largest."""
_SLOW_FILES, _SLOW = 4, {"batch_size": 16, "lookahead": 512}
"""Small, so that the lookahead fills within seconds on every network."""
_NAIVE = {**_SLOW, "lookahead": 1}


class Loading(Timed):
    """One `FrameLoader`, or several in concurrent processes; has one repeat per process."""

    way: str
    """`decoded`, or `undecoded`: all work except decoding."""
    threads: int
    processes: int = 1
    latency_ms: float = 0.0
    """Latency of each request of 128 KiB."""
    megabytes_per_second: float | None = None
    """Bandwidth; None with a latency of 0: local files."""
    is_naive: bool = False
    """Whether the lookahead is one request."""
    requests: int | None = None
    """Requests over the network."""

    @property
    def speed(self) -> float:
        """Frames per second over all processes."""
        return sum(self.values("frames_per_second"))

    @property
    def progress(self) -> str:
        """Its speed, as printed."""
        return f"{self.speed:.0f} frames/s"

    @property
    def others_share(self) -> float:
        """CPU share of other programs, without concurrent processes of the benchmark."""
        used = (self.repeats[0].cpu_seconds or 0) + (self.repeats[0].others_cpu_seconds or 0)
        return max(0.0, 1 - sum(self.values("cpu_seconds")) / used) if used else 0.0

    @property
    def on_threads(self) -> str:
        """`2 threads`."""
        return f"{self.threads} thread{'s' * (self.threads > 1)}"


class Planning(Record):
    """The planner alone."""

    files: int
    lookahead: int
    requests: int
    seconds: float


class Scanning(Record):
    """Scan of new files, sequential, on threads or in processes."""

    way: str
    files: int
    seconds: float


class CoresResult(Result):
    """All results."""

    compared: int
    """Frames compared with a plain linear decode before timing."""
    loading: tuple[Loading, ...]
    planning: tuple[Planning, ...]
    scanning: tuple[Scanning, ...]


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    count: int = 12,
    seconds: float = 3.0,
    new_files: int = 1000,
    memory: str = "256MiB",
    quick: bool = False,
) -> Iterator[CoresResult]:
    """Compare frames, then time loaders, the planner and scans.

    Args:
        media: folder of the videos
        count: videos of kind cam
        seconds: min seconds per loader
        new_files: files to scan
        memory: memory budget for frames
        quick: time fewer variants, for a shorter time
    """
    files, seconds = paths(media, "cam", count), 1.0 if quick else seconds
    options = {"size": SIZE, "memory_budget": memory, "seconds": seconds}
    plain = SamplingConfig(videos=tuple(map(str, files[:3])), batch_size=16, size=SIZE)
    compared = SamplingVariants.open(plain, None).check_equal()
    print(f"{compared} frames equal those of a plain linear decode", flush=True)
    yield CoresResult(
        **begin(**options, cores=CORES, new_files=new_files),
        compared=compared,
        loading=tuple(time_loaders(files, options, list(variants(is_quick=quick)), ask_worker)),
        planning=tuple(time_planning(*window, seconds / 4) for window in PLANNED),
        scanning=tuple(time_scanning(files, new_files // (5 if quick else 1), ask_worker)),
    )


def variants(*, is_quick: bool) -> Iterator[Loading]:
    """Yield the timed variants, without repeats."""
    for threads, processes in ((1, 1), (2, 1), (1, 2)):
        yield Loading(way="decoded", threads=threads, processes=processes)
    for threads in (1, 2):
        yield Loading(way="undecoded", threads=threads)
    networks: list[dict[str, Any]] = [{"latency_ms": latency} for latency in LATENCIES_MS]
    networks.append({"megabytes_per_second": MEGABYTES_PER_SECOND})
    for network in networks[-2:] if is_quick else networks:
        for is_naive, numbers in ((False, THREADS), (True, NAIVE_THREADS)):
            for threads in numbers[-1:] if is_quick else numbers:
                yield Loading(way="decoded", threads=threads, is_naive=is_naive, **network)


def time_loaders(
    files: Sequence[Path], options: Mapping[str, Any], rows: Sequence[Loading], ask: Ask
) -> Iterator[Loading]:
    """Time each variant; fail a variant whose first batch differs from the others'."""
    expected: dict[bool, int] = {}
    for number, row in enumerate(rows):
        is_main = number < MAIN
        scale = _BURSTS if is_main else _NAIVE if row.is_naive else _SLOW
        network = {name: getattr(row, name) for name in ("latency_ms", "megabytes_per_second")}
        request = {**options, **scale, **network, "decodes": row.way == "decoded", "seed": 1}
        request["warm_up_seconds"] = (3.0 if is_main else 0.7) * options["seconds"]
        videos = files if is_main else files[:_SLOW_FILES]
        task = task_of("loading:load", videos, row.threads, has_checksum=True, **request)

        def take(row: Loading, task: Any = task, is_main: bool = is_main) -> Loading:
            with ThreadPoolExecutor(row.processes) as pool:
                answers = list(pool.map(ask, [{**task, "cores": CORES}] * row.processes))
            requests = [answer.pop("requests") for answer in answers]
            sums = {answer.pop("checksum") for answer in answers}
            if task["decodes"] and sums != {expected.setdefault(is_main, min(sums))}:
                raise WorkerError("its first batch differs")
            timed = row.timed(*(Repeat(**answer) for answer in answers))
            return timed.model_copy(update={"requests": requests[0] or None})

        print(f"{number + 1}/{len(rows)}", end=" ")
        yield tried(row, take)


def time_planning(files: int, lookahead: int, seconds: float) -> Planning:
    """Time the planner (CPU): batches of 128 uniform frames, videos of 300 frames, GOPs of 100."""
    population = Population.of([np.full(3, 100, np.int64)] * files)
    order = UniformFrames(seed=1).order(population, 0)
    batches = (order[at : at + 128] for at in range(0, len(order) - 128, 128))
    plan = look_ahead(batches, population, lookahead=lookahead, capacity=lookahead)
    requests, began = 0, process_time()
    for batch in plan:
        requests += batch.requests.size
        if requests >= lookahead and process_time() - began > seconds:
            break
    return Planning(
        files=files, lookahead=lookahead, requests=requests, seconds=process_time() - began
    )


def time_scanning(files: Sequence[Path], count: int, ask: Ask) -> Iterator[Scanning]:
    """Scan links to the videos, each a new file."""
    with TemporaryDirectory() as folder:
        links = link_files(files, Path(folder) / "videos", count)
        for way in _SCAN:
            answer = ask(task_of("cases:scan_files", links, CORES, way=way))
            yield Scanning(way=way, files=count, seconds=answer["wall_seconds"])


_SCAN = {
    "one": "one after another",
    "threads": "two threads",
    "loader": "as a loader opens them: processes",
}
_CORES = (4, 8, 32, 64)


def loading(result: CoresResult) -> str:
    """Return the rates on two cores, and the bounds on more cores."""
    rows = result.loading[:MAIN]
    measured = rendered(
        rows,
        {
            "256×256 frames of a 720p camera": lambda row: (
                f"all except decoding, {row.on_threads}"
                if row.way == "undecoded"
                else f"{row.processes} × {row.on_threads}"
            ),
            "frames/s": lambda row: f"{row.speed:,.0f}",
            "CPU ms/frame": lambda row: f"{fmean(row.values('cpu_ms_per_frame')):.2f}",
        },
        f"Measured with bursts of 15 frames; {_others(rows)} {machine(result)}",
    )
    return f"{measured}\n\n{_allowed(rows)}"


def _allowed(rows: Sequence[Loading]) -> str:
    """Return the bounds on more cores, if the machine was quiet."""
    by = {(row.way, row.threads, row.processes): row for row in rows}
    keys = ("decoded", 1, 1), ("decoded", 2, 1), ("decoded", 1, 2), ("undecoded", 2, 1)
    one, threads, both, rest = needed = [by[key] for key in keys]
    if any(row.missing for row in needed):
        return "No bounds for more cores: a run failed."
    if max(row.others_share for row in needed) > DISTURBED:
        return "No bounds for more cores: other programs disturbed the runs."
    share = serial_share(threads.speed, both.speed)

    def process(cores: int) -> float:
        return min(rest.speed, one.speed * amdahl(share, cores))

    header = ["cores", "one process, frames/s", "one process per 4 cores, frames/s"]
    lines = [
        [str(cores), f"{process(cores):,.0f}", f"{process(4) * cores / 4:,.0f}"] for cores in _CORES
    ]
    return table(
        header,
        lines,
        "Computed upper bounds. The difference between two threads and two processes gives the "
        f"serial share of a frame's time, {share:.0%} (Karp and Flatt, 1990). No process is faster "
        f"than the {rest.speed:,.0f} frames/s of all work except decoding. Two cores cannot show a "
        "small serial share, which would matter on many cores. Memory bandwidth, disks and "
        "hyper-threading are left out.",
    )


def serial_share(threads: float, processes: float) -> float:
    """Return the serial share from the rates of two threads and of two processes."""
    return min(1.0, max(0.0, processes / threads - 1))


def amdahl(share: float, threads: int) -> float:
    """Return the speedup of `threads` threads."""
    return 1 / (share + (1 - share) / threads)


def planning(result: CoresResult) -> str:
    """Return a line per set and lookahead."""
    return rendered(
        result.planning,
        {
            "set": lambda row: f"{row.files:,} files",
            "lookahead, requests": lambda row: f"{row.lookahead:,}",
            "µs per request": lambda row: f"{1e6 * row.seconds / row.requests:.1f}",
        },
    )


def scanning(result: CoresResult) -> str:
    """Return a line per variant."""
    return rendered(
        result.scanning,
        {
            f"{result.scanning[0].files:,} new files": lambda row: _SCAN[row.way],
            "s": lambda row: f"{row.seconds:.2f}",
            "files/s": lambda row: f"{row.files / row.seconds:,.0f}",
        },
    )


def reading(result: CoresResult) -> str:
    """Return a line per network, with a column per number of threads."""
    rows = result.loading[MAIN:]
    columns = sorted({(row.is_naive, row.threads): row for row in rows}.items())
    header = ["latency per 128 KiB"]
    header += [f"{'naive' if n else 'lookahead'}, {row.on_threads}" for (n, _), row in columns]
    lines = []
    for network in dict.fromkeys(map(_network, rows)):
        same = [row for row in rows if _network(row) == network]
        speeds = {(r.is_naive, r.threads): r.missing or f"{r.speed:,.0f}" for r in same}
        lines.append([network, *(speeds.get(key, "") for key, _ in columns)])
    notes = (
        "Frames/s on 2 cores; uniformly random frames, lookahead of 512 requests; naive: one "
        "request. The network is simulated: a file object waits before it returns a block other "
        "than the last one, and caches nothing else; threads wait in parallel. A real mount also "
        f"reads ahead and has a page cache. In these runs, {_others(rows)}"
    )
    return table(header, lines, notes)


def _network(row: Loading) -> str:
    if row.megabytes_per_second is not None:
        return f"{row.megabytes_per_second:g} MB/s in total"
    return f"{row.latency_ms:g} ms" if row.latency_ms else "local"


def _others(rows: Sequence[Loading]) -> str:
    share = max((row.others_share for row in rows if row.repeats), default=0.0)
    return f"other programs used up to {share:.0%} of the CPU time."


TABLES = (loading, planning, scanning, reading)
BENCHMARK = Benchmark(
    "cores", __doc__, measure, lambda result: "\n\n".join(part(result) for part in TABLES)
)

if __name__ == "__main__":
    BENCHMARK.main()
