"""What share of a frame's cost is serial, and so what can 8, 32 and 64 cores give a FrameLoader?

python -m benchmarks.bench_cores --quick     # a first look, a minute
python -m benchmarks.bench_cores             # the figures of docs/scale.md, about five minutes

On two cores: two threads beside two processes, which tells what threads lose to each other;
what is left when nothing is decoded; the planner alone; new files; and files that are slow to read,
by a stand-in for a network file system (`cores/slow_source.py`), with up to 16 threads.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from benchmarks import media
from benchmarks.bench_scaling import link_files
from benchmarks.cores.record import CoresResult, Loading, Planning, Scanning
from benchmarks.record import RESULTS, Repeat, origin
from benchmarks.runner import Ask, WorkerError, ask_worker
from headrace import Uniform
from headrace.bench.frame_equality import check_equal
from headrace.bench.sampling_variants import Setting
from headrace.planning.lookahead import look_ahead
from headrace.sampling.population import Population
from headrace.training.video_set import VideoSet

SIZE = (256, 256)
CORES = 2
LATENCIES_MS = (0.0, 1.0, 5.0, 20.0)
MEGABYTES_PER_SECOND = 100.0
THREADS, NAIVE_THREADS = (1, 2, 4, 16), (2, 16)
PLANNED = ((100, 1_000), (100, 30_000), (10_000, 1_000), (10_000, 30_000))
"""Files of a set, and requests in the window."""
MAIN = 5
"""Ways that tell of threads, the first ones; the others tell of networks."""
_BATCH, _BURST = 32, 15
_LOOKAHEAD = (_BURST - 1) * _BATCH + 1
"""Bursts decode little for each frame, so that what is serial is the most it can be of a frame."""
_SLOW_FILES, _SLOW_BATCH, _SLOW_LOOKAHEAD = 4, 16, 512
"""So that a window is filled in a few seconds, and a batch comes in that time over any network."""


def main(words: Sequence[str] | None = None, ask: Ask = ask_worker) -> None:
    """Prove, time, keep, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=12, help="videos of kind cam")
    parser.add_argument("--seconds", type=float, default=3.0, help="that each way is timed for")
    parser.add_argument("--new-files", type=int, default=1000, help="that are scanned")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--quick", action="store_true", help="shorter, and only some of the ways")
    parser.add_argument("--out", type=Path, default=RESULTS / "cores.json")
    options = parser.parse_args(words)
    files = media.paths(options.media, "cam", options.count)
    seconds = 1.0 if options.quick else options.seconds
    task = {
        "question": "loader_cores",
        "cores": CORES,
        "paths": [str(path.resolve()) for path in files],
        "size": SIZE,
        "memory_budget": options.memory,
        "seconds": seconds,
    }
    compared = proved(files)
    print(f"{compared} frames are those of a plain decode", flush=True)
    result = CoresResult(
        provenance=origin({**task, "new_files": options.new_files}),
        media={"recipe": media.recipe()},
        compared=compared,
        loading=tuple(loaded(task, list(ways(is_quick=options.quick)), ask)),
        planning=tuple(planned(files, seconds / 4) for files in PLANNED),
        scanning=tuple(scanned(files, options.new_files // (5 if options.quick else 1), ask)),
    )
    result.save(options.out)
    for row in (*result.planning, *result.scanning):
        print(row.model_dump_json(exclude_none=True))
    print(options.out)


def proved(files: Sequence[Path]) -> int:
    """Hold frames of the loader against a plain decode; return how many."""
    setting = Setting(
        videos=VideoSet.open(files[:3]),
        batch_size=16,
        size=SIZE,
        memory_budget=1 << 28,
        frames_per_burst=8,
        workers=CORES,
        rho=0.0,
    )
    return check_equal(setting)


def ways(*, is_quick: bool) -> Iterator[Loading]:
    """What is timed, without repeats."""
    for threads in (1, 2):
        yield Loading(way="decoded", threads=threads)
    yield Loading(way="decoded", threads=1, processes=2)
    for threads in (1, 2):
        yield Loading(way="undecoded", threads=threads)
    networks: list[tuple[float, float | None]] = [(each, None) for each in LATENCIES_MS[1:]]
    networks = [(0.0, None), *networks, (0.0, MEGABYTES_PER_SECOND)]
    for latency, bandwidth in networks[-2:] if is_quick else networks:
        for is_naive, numbers in ((False, THREADS), (True, NAIVE_THREADS)):
            for threads in numbers[-1:] if is_quick else numbers:
                yield Loading(
                    way="decoded",
                    threads=threads,
                    latency_ms=latency,
                    megabytes_per_second=bandwidth,
                    is_naive=is_naive,
                )


def loaded(task: dict[str, Any], asked: Sequence[Loading], ask: Ask) -> Iterator[Loading]:
    """Time each; one whose first batch is not that of the others has failed."""
    expected: dict[bool, int] = {}
    for place, row in enumerate(asked):
        is_main = place < MAIN
        question = {
            **task,
            "paths": task["paths"][: None if is_main else _SLOW_FILES],
            "batch_size": _BATCH if is_main else _SLOW_BATCH,
            "frames_per_burst": _BURST if is_main else None,
            "threads": row.threads,
            "lookahead": _LOOKAHEAD if is_main else 1 if row.is_naive else _SLOW_LOOKAHEAD,
            "warm_up_seconds": (3.0 if is_main else 0.7) * task.get("seconds", 0.0),
            "way": row.way,
            "latency_ms": row.latency_ms,
            "megabytes_per_second": row.megabytes_per_second,
        }
        try:
            with ThreadPoolExecutor(row.processes) as pool:
                answers = list(pool.map(ask, [question] * row.processes))
        except WorkerError as error:
            yield row.model_copy(update={"failure": str(error)})
            continue
        sums = {each["checksum"] for each in answers} if row.way != "undecoded" else set()
        is_other = bool(sums) and sums != {expected.setdefault(is_main, min(sums))}
        found = row.model_copy(
            update={
                "repeats": tuple(Repeat(**each["repeat"]) for each in answers),
                "requests": answers[0]["requests"] or None,
                "failure": "its first batch is another" if is_other else None,
            }
        )
        said = row.model_dump(exclude_defaults=True)
        print(f"{place + 1}/{len(asked)} {said}: {found.speed:.0f} frames/s", flush=True)
        yield found


def planned(asked: tuple[int, int], seconds: float) -> Planning:
    """Plan batches of 128 uniform frames of videos of 300 frames, GOPs of 100; processor time."""
    files, lookahead = asked
    population = Population.of([np.full(3, 100, np.int64)] * files)
    order = Uniform(seed=1).order(population, 0)
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


def scanned(files: Sequence[Path], count: int, ask: Ask) -> Iterator[Scanning]:
    """Scan links to the videos, each a new file."""
    with TemporaryDirectory() as folder:
        links = link_files(files, Path(folder) / "videos", count)
        for way in ("one", "threads", "loader"):
            asked = {"question": "scan_ways", "cores": CORES, "way": way}
            found = ask({**asked, "paths": [str(link) for link in links]})
            yield Scanning(way=way, files=count, seconds=found["seconds"])


if __name__ == "__main__":
    main()
