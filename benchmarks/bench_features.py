"""How long until a model's features of videos are kept, beside decoding and the model alone?

python -m benchmarks.bench_features --count 2 --repeats 1     # a first look
python -m benchmarks.bench_features                           # a record that is kept, eight minutes

Whole commands, from their start, of videos that nothing is known of. Beside `headrace extract
features` stand a bare loop, and one in the way of v-iashin/video_features, whose frames are other
ones, since it encodes the videos anew. With each cache the command runs twice: the second run finds
what the first one kept. Redis is started for it, where redis-server is there. A quarter of the
videos by themselves tell what is left when start-up, the same for few and many, is taken off.
"""

import argparse
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import media
from benchmarks.extracting.model import write_weights
from benchmarks.record import RESULTS, Repeat, Result, origin
from benchmarks.runner import WorkerError, ask_worker
from headrace.profiling.provenance import Record

QUARTER = "a quarter"
WAYS = (
    *("bare", "bare, a quarter", "one_by_one", "none", "none, a quarter"),
    *("sqlite", "sqlite, again", "redis", "redis, again"),
)
"""Two loops; then the caches of headrace, in its first run and in its second; some with a quarter
of the videos as well."""
NEAR = 0.999
"""Cosine of a feature with the bare loop's: conversions to RGB may differ by a grey level."""


class FeatureRow(Record):
    """One way."""

    way: str
    repeats: tuple[Repeat, ...] = ()
    failure: str | None = None


class FeaturesResult(Result):
    """All of them."""

    rows: tuple[FeatureRow, ...]
    least_cosine: float
    """Of a feature of headrace with the bare loop's, over all."""

    def ratios(self, way: str, other: str) -> list[float]:
        """Return how many times as fast a way is as another, turn by turn; [] if one failed."""
        rows = {row.way: row.repeats for row in self.rows}
        pairs = zip(rows.get(way, ()), rows.get(other, ()), strict=False)
        return [slow.wall_seconds / fast.wall_seconds for fast, slow in pairs]

    def further(self) -> list[float]:
        """Return how many times as fast as the bare loop further videos are, turn by turn."""
        rows = {row.way: row.repeats for row in self.rows}
        ways = [rows.get(way, ()) for way in ("bare", "bare, a quarter", "none", "none, a quarter")]
        return [
            (bare.wall_seconds - first.wall_seconds) / (ours.wall_seconds - few.wall_seconds)
            for bare, first, ours, few in zip(*ways, strict=False)
        ]


def main() -> None:
    """Prove, time, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=12, help="videos of 10 s")
    parser.add_argument("--rate", type=int, default=15, help="features a second")
    parser.add_argument("--repeats", type=int, default=3, help="of each, in turn")
    parser.add_argument("--out", type=Path, default=RESULTS / "features.json")
    options = parser.parse_args()
    paths = [path.resolve() for path in media.paths(options.media, "web", options.count)]
    parameters = {name: getattr(options, name) for name in ("count", "rate", "repeats")}
    with TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.pth"
        write_weights(weights)
        asked = {"paths": [*map(str, paths)], "weights": str(weights), "rate": options.rate}
        least = least_cosine(asked, Path(folder))
        if least < NEAR:
            raise SystemExit(f"features are not those of the bare loop: a cosine of {least:.4f}")
        rows = contest(asked, options.repeats)
    result = FeaturesResult(
        provenance=origin({**parameters, "cores": os.cpu_count()}),
        media={"recipe": media.recipe()},
        rows=tuple(rows),
        least_cosine=least,
    )
    result.save(options.out)
    for row in rows:
        seconds = [each.wall_seconds for each in row.repeats]
        print(f"{row.way}: {row.failure or f'{median(seconds):.1f} s'}")
    print(options.out)


Ask = Callable[..., dict[str, Any]]


def least_cosine(asked: Mapping[str, Any], folder: Path, ask: Ask = ask_worker) -> float:
    """Return the least cosine between a feature of headrace and the bare loop's; 0: not as many."""
    found = {}
    for way in ("bare", "headrace"):
        kept = folder / f"{way}.npy"
        with TemporaryDirectory() as cache:
            told = {**_question(asked), "way": way, "cache": "none", "kept": str(kept)}
            ask(told, cache=Path(cache))
        found[way] = np.load(kept)
    if len({each.shape for each in found.values()}) > 1:
        return 0.0
    lengths = [np.linalg.norm(each, axis=1) for each in found.values()]
    products = (found["bare"] * found["headrace"]).sum(1)
    return float((products / (lengths[0] * lengths[1])).min())


def contest(asked: Mapping[str, Any], repeats: int, ask: Ask = ask_worker) -> list[FeatureRow]:
    """Return each way's row; the ways take turns."""
    rows = {way: FeatureRow(way=way) for way in WAYS}
    for _ in range(repeats):
        for first in ("bare", "one_by_one", "none", "sqlite", "redis"):
            with TemporaryDirectory() as folder, _cache(first) as cache:
                for way in (way for way in WAYS if way.partition(",")[0] == first):
                    loop = {} if first in {"bare", "one_by_one"} else {"way": "headrace"}
                    told = {**_question(asked), "way": first, "cache": cache, **loop}
                    if way.endswith(QUARTER):
                        told["paths"] = asked["paths"][: max(1, len(asked["paths"]) // 4)]
                    rows[way] = _timed(rows[way], partial(ask, told, cache=Path(folder)))
    return list(rows.values())


def _question(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"question": "extract_features", "cores": None, "kept": None, **asked}


def _timed(row: FeatureRow, ask: Callable[[], dict[str, Any]]) -> FeatureRow:
    if row.failure is not None:
        return row
    try:
        repeat = Repeat(**ask())
    except WorkerError as error:
        return row.model_copy(update={"failure": str(error)})
    print(f"{row.way}: {repeat.wall_seconds:.1f} s", flush=True)
    return row.model_copy(update={"repeats": (*row.repeats, repeat)})


@contextmanager
def _cache(name: str) -> Iterator[str]:
    """Give what `--cache` is told; a Redis of its own lives as long as the block."""
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


if __name__ == "__main__":
    main()
