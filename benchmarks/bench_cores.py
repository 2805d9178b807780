"""What share of a frame's cost is serial, and so what can 8, 32 and 64 cores give a FrameLoader?

python -m benchmarks.bench_cores --quick     # a first look, a minute
python -m benchmarks.bench_cores             # figures of docs/guides/scale.md, about 5 minutes

On two cores: two threads beside two processes, which tells what threads lose to each other;
what is left when nothing is decoded; the planner alone; new files; and files that are slow to read,
by a stand-in for a network file system (`loading.py`), with up to 16 threads.
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
from headrace.bench.sampling import SamplingConfig
from headrace.bench.sampling_variants import SamplingVariants
from headrace.planning.lookahead import look_ahead
from headrace.profiling.provenance import Record

CORES = 2
LATENCIES_MS = (0.0, 1.0, 5.0, 20.0)
MEGABYTES_PER_SECOND = 100.0
THREADS, NAIVE_THREADS = (1, 2, 4, 16), (2, 16)
PLANNED = ((100, 1_000), (100, 30_000), (10_000, 1_000), (10_000, 30_000))
"""Files of a set, and requests in the window."""
MAIN = 5
"""Number of variants about threads, the first ones; the others are about networks."""
_BURSTS = {"batch_size": 32, "frames_per_burst": 15, "lookahead": (15 - 1) * 32 + 1}
"""Bursts decode little per frame, so the serial share of a frame's cost is largest."""
_SLOW_FILES, _SLOW = 4, {"batch_size": 16, "lookahead": 512}
"""Small, so that the window fills, and a batch arrives over every network, in a few seconds."""
_NAIVE = {**_SLOW, "lookahead": 1}


class Loading(Timed):
    """One `FrameLoader`, or several in concurrent processes, with a repeat per process."""

    way: str
    """`decoded`; `undecoded`: everything except decoding."""
    threads: int
    processes: int = 1
    latency_ms: float = 0.0
    """Latency of each request of 128 KiB; 0 without bandwidth: local files."""
    megabytes_per_second: float | None = None
    is_naive: bool = False
    """Whether the lookahead is one request."""
    requests: int | None = None
    """Requests to the network."""

    @property
    def speed(self) -> float:
        """Frames per second over all processes."""
        return sum(self.values("frames_per_second"))

    @property
    def progress(self) -> str:
        """Its speed."""
        return f"{self.speed:.0f} frames/s"

    @property
    def others_share(self) -> float:
        """CPU share of other programs; concurrent processes count as each other's."""
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
    """Scan of new files: sequential, by threads, or by processes."""

    way: str
    files: int
    seconds: float


class CoresResult(Result):
    """All results."""

    compared: int
    """Frames compared with a plain decode before timing."""
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
    """Prove, then time loaders, the planner and scans.

    Args:
        media: their folder
        count: videos of kind cam
        seconds: that each variant is timed for
        new_files: that are scanned
        memory: that frames may take
        quick: shorter, and only some of the variants
    """
    files, seconds = paths(media, "cam", count), 1.0 if quick else seconds
    asked = {"size": SIZE, "memory_budget": memory, "seconds": seconds}
    plain = SamplingConfig(videos=tuple(map(str, files[:3])), batch_size=16, size=SIZE)
    compared = SamplingVariants.open(plain, None).check_equal()
    print(f"{compared} frames are those of a plain decode", flush=True)
    yield CoresResult(
        **begin(**asked, cores=CORES, new_files=new_files),
        compared=compared,
        loading=tuple(time_loaders(files, asked, list(ways(is_quick=quick)), ask_worker)),
        planning=tuple(time_planning(each, seconds / 4) for each in PLANNED),
        scanning=tuple(time_scanning(files, new_files // (5 if quick else 1), ask_worker)),
    )


def ways(*, is_quick: bool) -> Iterator[Loading]:
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
    files: Sequence[Path], asked: Mapping[str, Any], rows: Sequence[Loading], ask: Ask
) -> Iterator[Loading]:
    """Time each variant; a variant with another first batch than the others fails."""
    expected: dict[bool, int] = {}
    for place, row in enumerate(rows):
        is_main = place < MAIN
        scale = _BURSTS if is_main else _NAIVE if row.is_naive else _SLOW
        network = {name: getattr(row, name) for name in ("latency_ms", "megabytes_per_second")}
        about = {**asked, **scale, **network, "decodes": row.way == "decoded", "seed": 1}
        about["warm_up_seconds"] = (3.0 if is_main else 0.7) * asked["seconds"]
        videos = files if is_main else files[:_SLOW_FILES]
        task = task_of("loading:load", videos, row.threads, has_checksum=True, **about)

        def take(row: Loading, task: Any = task, is_main: bool = is_main) -> Loading:
            with ThreadPoolExecutor(row.processes) as pool:
                answers = list(pool.map(ask, [{**task, "cores": CORES}] * row.processes))
            requests = [answer.pop("requests") for answer in answers]
            sums = {answer.pop("checksum") for answer in answers}
            if task["decodes"] and sums != {expected.setdefault(is_main, min(sums))}:
                raise WorkerError("its first batch is another")
            found = row.timed(*(Repeat(**answer) for answer in answers))
            return found.model_copy(update={"requests": requests[0] or None})

        print(f"{place + 1}/{len(rows)}", end=" ")
        yield tried(row, take)


def time_planning(asked: tuple[int, int], seconds: float) -> Planning:
    """Time planning (CPU) of batches of 128 uniform frames; videos of 300 frames, GOPs of 100."""
    files, lookahead = asked
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
    "one": "one after the other",
    "threads": "two threads",
    "loader": "as a loader opens them: processes",
}
_CORES = (4, 8, 32, 64)


def loading(result: CoresResult) -> str:
    """Return the figures of two cores, and the limits on more."""
    rows = result.loading[:MAIN]
    measured = rendered(
        rows,
        {
            "256×256 frames of a 720p camera": lambda row: (
                f"all but decoding, {row.on_threads}"
                if row.way == "undecoded"
                else f"{row.processes} × {row.on_threads}"
            ),
            "frames/s": lambda row: f"{row.speed:,.0f}",
            "CPU ms/frame": lambda row: f"{fmean(row.values('cpu_ms_per_frame')):.2f}",
        },
        f"Measured, in bursts of 15; {_quiet(rows)} {machine(result)}",
    )
    return f"{measured}\n\n{_allowed(rows)}"


def _allowed(rows: Sequence[Loading]) -> str:
    """Return the limits on more cores, if the machine was quiet enough."""
    by = {(row.way, row.threads, row.processes): row for row in rows}
    keys = ("decoded", 1, 1), ("decoded", 2, 1), ("decoded", 1, 2), ("undecoded", 2, 1)
    one, threads, both, rest = needed = [by[key] for key in keys]
    if any(row.missing for row in needed):
        return "What more cores allow is not known: a run failed."
    if max(row.others_share for row in needed) > DISTURBED:
        return "What more cores allow is not derived: other work disturbed the runs."
    share = serial_share(threads.speed, both.speed)

    def process(cores: int) -> float:
        return min(rest.speed, one.speed * amdahl(share, cores))

    header = ["cores", "one process, frames/s", "a process for every 4 cores, frames/s"]
    lines = [
        [str(cores), f"{process(cores):,.0f}", f"{process(4) * cores / 4:,.0f}"] for cores in _CORES
    ]
    return table(
        header,
        lines,
        "On paper, and the most there can be: by what two threads lack "
        f"of two processes, {share:.0%} of a frame's time is serial (Karp and Flatt, 1990), "
        f"and no process does more than the {rest.speed:,.0f} frames/s of all but decoding. Two "
        "cores cannot show a small share, which would matter with many; memory bandwidth, disks "
        "and hyper-threads are not in it.",
    )


def serial_share(threads: float, processes: float) -> float:
    """Return the serial share from the frames per second of two threads and two processes."""
    return min(1.0, max(0.0, processes / threads - 1))


def amdahl(share: float, threads: int) -> float:
    """Return the speed-up of `threads` threads."""
    return 1 / (share + (1 - share) / threads)


def planning(result: CoresResult) -> str:
    """Return a line per set and window."""
    return rendered(
        result.planning,
        {
            "set": lambda row: f"{row.files:,} files",
            "requests in the window": lambda row: f"{row.lookahead:,}",
            "µs a request": lambda row: f"{1e6 * row.seconds / row.requests:.1f}",
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
    header = ["a request of 128 KiB"]
    header += [f"{'naive' if n else 'look-ahead'}, {row.on_threads}" for (n, _), row in columns]
    lines = []
    for network in dict.fromkeys(map(_network, rows)):
        found = {(row.is_naive, row.threads): row for row in rows if _network(row) == network}
        speeds = {key: row.missing or f"{row.speed:,.0f}" for key, row in found.items()}
        lines.append([network, *(speeds.get(key, "") for key, _ in columns)])
    notes = (
        "Frames/s on 2 cores; uniformly random frames, look-ahead of 512 requests. A file object "
        "stands in for the network: it waits before each block "
        "that is not the last one, for all threads at once, and keeps nothing else; a real mount "
        f"reads ahead and has a page cache; {_quiet(rows)}"
    )
    return table(header, lines, notes)


def _network(row: Loading) -> str:
    if row.megabytes_per_second is not None:
        return f"{row.megabytes_per_second:g} MB/s in all"
    return f"{row.latency_ms:g} ms" if row.latency_ms else "local"


def _quiet(rows: Sequence[Loading]) -> str:
    share = max((row.others_share for row in rows if row.repeats), default=0.0)
    return f"other work took {share:.0%} of the CPU time in the worst run."


TABLES = (loading, planning, scanning, reading)
BENCHMARK = Benchmark(
    "cores", __doc__, measure, lambda result: "\n\n".join(part(result) for part in TABLES)
)

if __name__ == "__main__":
    BENCHMARK.main()
