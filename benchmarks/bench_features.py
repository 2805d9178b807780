"""How long until a model's features of videos are kept, beside decoding and the model alone?

python -m benchmarks.bench_features --count 2 --repeats 1     # a first look
python -m benchmarks.bench_features                           # a record that is kept, eight minutes

Whole commands, from their start, of videos that nothing is known of. Beside `headrace extract
features` stand a bare loop, and one in the way of v-iashin/video_features, whose frames are other
ones, since it encodes the videos anew. With each cache the command runs twice: the second run finds
what the first one kept. Redis is started for it, where redis-server is there. A quarter of the
videos by themselves tell what is left when start-up, the same for few and many, is taken off.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.feature_loops import NAME, WIDTH, write_weights
from benchmarks.kit import CORES, Benchmark, begin, tried
from benchmarks.markdown import DISTURBED, machine, rendered, spread
from benchmarks.media import DEFAULT_ROOT, paths
from benchmarks.record import Repeat, Row, TimedResult, ratios
from benchmarks.worker import Meter, ask_worker, headrace_command
from headrace import read_features

QUARTER = "a quarter"
WAYS = {
    "bare": "decode + model, a bare loop",
    "bare, a quarter": "the same, a quarter of the videos",
    "one_by_one": "one video at a time, encoded anew, batch 1",
    "none": "**headrace**, no cache",
    "none, a quarter": "**headrace**, no cache, a quarter of the videos",
    "sqlite": "**headrace**, SQLite, first run",
    "sqlite, again": "**headrace**, SQLite, second run",
    "redis": "**headrace**, Redis, first run",
    "redis, again": "**headrace**, Redis, second run",
}
"""Two loops; then headrace's caches, in the first and second run; some also with a quarter of the
videos."""
LOOPS = ("bare", "one_by_one")
NEAR = 0.999
"""Min cosine of a feature with the bare loop's: RGB conversions may differ by a grey level."""
BAR, CACHE_BAR = 0.95, 20.0
Ask = Callable[..., dict[str, Any]]


class FeaturesResult(TimedResult):
    """All variants."""

    least_cosine: float
    """Min cosine of headrace's features with the bare loop's."""

    def ratios(self, way: str, other: str) -> list[float]:
        """Return the speed-up of a variant over another in each round; [] if one failed."""
        return ratios(self.row(other), self.row(way), "wall_seconds")

    def further(self) -> list[float]:
        """Return the speed-up over the bare loop for additional videos, in each round."""
        ways = ("bare", "bare, a quarter", "none", "none, a quarter")
        rows = [self.row(way) for way in ways]
        seconds = [row.values("wall_seconds") if row else [] for row in rows]
        return [
            (bare - first) / (ours - few) for bare, first, ours, few in zip(*seconds, strict=False)
        ]


def measure(
    *, media: Path = DEFAULT_ROOT, count: int = 12, rate: int = 15, repeats: int = 3
) -> Iterator[FeaturesResult]:
    """Prove and time all variants.

    Args:
        media: their folder
        count: videos of 10 s
        rate: features a second
        repeats: of each, in turn
    """
    files = [str(path.resolve()) for path in paths(media, "web", count)]
    with TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.pth"
        write_weights(weights)
        asked = {"paths": files, "weights": str(weights), "rate": rate}
        least = least_cosine(asked, Path(folder))
        if least < NEAR:
            raise SystemExit(f"features are not those of the bare loop: a cosine of {least:.4f}")
        rows = contest(asked, repeats)
    made = begin(count=count, rate=rate, repeats=repeats, cores=CORES)
    yield FeaturesResult(**made, rows=tuple(rows), least_cosine=least)


def least_cosine(asked: Mapping[str, Any], folder: Path, ask: Ask = ask_worker) -> float:
    """Return the min cosine of headrace's features with the bare loop's; 0: counts differ."""
    found = {}
    for way in ("bare", "headrace"):
        kept = folder / f"{way}.npy"
        with TemporaryDirectory() as cache:
            ask({**_request(asked, way), "kept": str(kept)}, cache=Path(cache))
        found[way] = np.load(kept)
    if len({array.shape for array in found.values()}) > 1:
        return 0.0
    lengths = [np.linalg.norm(array, axis=1) for array in found.values()]
    products = (found["bare"] * found["headrace"]).sum(1)
    return float((products / (lengths[0] * lengths[1])).min())


def contest(asked: Mapping[str, Any], repeats: int, ask: Ask = ask_worker) -> list[Row]:
    """Return each variant's row; repeats are interleaved."""
    rows = {way: Row(name=way) for way in WAYS}
    for _ in range(repeats):
        for first in ("bare", "one_by_one", "none", "sqlite", "redis"):
            with TemporaryDirectory() as folder, _cache(first) as cache:
                request = _request(asked, first if first in LOOPS else "headrace", cache)

                def take(row: Row, request: Any = request, folder: Any = folder) -> Any:
                    paths = request["paths"]
                    if row.name.endswith(QUARTER):
                        paths = paths[: max(1, len(paths) // 4)]
                    return row.timed(Repeat(**ask(request | {"paths": paths}, cache=Path(folder))))

                for way, row in rows.items():
                    if way.partition(",")[0] == first and row.is_sound:
                        rows[way] = tried(row, take)
    return list(rows.values())


def _request(asked: Mapping[str, Any], way: str, cache: str = "none") -> dict[str, Any]:
    return {"case": "bench_features", "way": way, "cache": cache, "kept": None, **asked}


@contextmanager
def _cache(name: str) -> Iterator[str]:
    """Yield the value of `--cache`; a separate Redis server runs during the block."""
    if name != "redis":
        yield name if name == "sqlite" else "none"
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    words += ["--maxmemory", "512mb", "--maxmemory-policy", "allkeys-lru"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            next((line for line in server.stdout if "Ready to accept" in line), None)
            yield f"redis://127.0.0.1:{port}"
        finally:
            server.terminate()


def answer(
    *, way: str, paths: list[str], weights: str, rate: int, cache: str, kept: str | None
) -> dict[str, Any]:
    """Time a command, `headrace` or a loop; with `kept`, store all features in that file.

    Indexes and cache are in this process's XDG_CACHE_HOME.
    """
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        if way == "headrace":
            words = ("--model-name", NAME, "--weights", weights, "--fps", rate, "--cache", cache)
            command = headrace_command("extract", "features", *paths, "-o", out, *words, "--json")
        else:
            out.mkdir()
            command = [sys.executable, "-m", "benchmarks.feature_loops"]
            command += [way, weights, str(rate), str(out), *paths]
        meter = Meter()
        subprocess.run(command, check=True, capture_output=True)
        spent = meter.read()
        found = features_in(out)
        if kept:
            np.save(kept, found)
        return {**spent, "frames": len(found)}


def features_in(out: Path) -> NDArray[np.float32]:
    """Return all features of a folder, float32 [N, 1280], in the order of videos and frames."""
    if arrays := sorted(out.glob("*.npy")):
        return np.concatenate([np.load(path) for path in arrays])
    found = read_features(out).values()
    return np.concatenate([each.features.numpy() for each in found]).reshape(-1, WIDTH)


def features(result: FeaturesResult) -> str:
    """Return a line per variant, then the results of the two bars."""

    def beside(row: Row, other: str) -> str:
        return "" if row.name.endswith(QUARTER) else spread(result.ratios(row.name, other), ".2f")

    said = result.provenance.configuration
    shares = [share for row in result.rows for share in row.values("others_share")]
    disturbed = max(shares, default=0.0)
    judged = (
        f"Other work took {disturbed:.0%} of the CPU time in the worst run: no verdict. "
        if disturbed > DISTURBED
        else _judged(result)
    )
    return rendered(
        [row for way in WAYS if (row := result.row(way))],
        {
            "": lambda row: WAYS[row.name],
            "seconds": lambda row: spread(row.values("wall_seconds"), ".1f"),
            "times as fast as the loop": lambda row: beside(row, "bare"),
            "as headrace without a cache": lambda row: beside(row, "none"),
        },
        f"mobilenet_v2, the {said['rate']} frames a second of {said['count']} web videos of 10 s, "
        f"1280×720; whole commands, imports included; {said['repeats']} rounds in turn "
        "(min–max). The features of headrace are those of the bare loop (least cosine "
        f"{result.least_cosine:.5f}). {judged}{machine(result)}",
    )


def _judged(result: FeaturesResult) -> str:
    found = []
    for what, times, bar in (
        ("further videos beside the loop's", result.further(), BAR),
        ("the second run from SQLite", result.ratios("sqlite, again", "none"), CACHE_BAR),
    ):
        if times:
            held = "held" if median(times) >= bar else "**not held**"
            found.append(f"{what}: {spread(times, '.2f')} times as fast, bar of {bar:g} {held}")
    text = "; ".join(found)
    return f"{text[:1].upper()}{text[1:]}. " if text else ""


BENCHMARK = Benchmark("features", __doc__, measure, features)

if __name__ == "__main__":
    BENCHMARK.main()
