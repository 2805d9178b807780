"""How fast do uniform random frames come from 40 and 1,000 files, and from their proxies?

python -m benchmarks.bench_proxy --counts 40 --seconds 5     # a first look
python -m benchmarks.bench_proxy                             # the figures of the docs, 10 minutes

Twelve videos stand under many names, by hard links; so do their proxies. All of them lie in the
page cache, and each way runs in a process of its own. Time to make them is that of the command.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks import media
from benchmarks.proxied.many import many_proxies, many_videos
from benchmarks.proxied.shards import write_shards
from benchmarks.record import RESULTS, Repeat, Row, TimedResult, origin
from benchmarks.runner import Ask, WorkerError, ask_worker
from headrace.decode.index_store import IndexStore
from headrace.decode.proxy_rows import read_rows
from headrace.profiling.provenance import Record

GOPS = (1, 8, 30)
BATCH_SIZE, SIZE, BUDGET = 128, (256, 256), "256MiB"
ORIGINALS, BURSTS, SHARDS = "originals", "originals, bursts of 8", "JPEG shards, WebDataset"
FFCV = "JPEG shards, FFCV"


class ProxySet(Record):
    """The proxies of the videos at one GOP, or their JPEG shards."""

    name: str
    frames: int
    bytes: int
    original_bytes: int
    make_seconds: float
    psnr: float | None = None
    """Of luma, mean over all frames; None where it was not measured."""
    psnr_worst: float | None = None
    ssim: float | None = None


class ProxyResult(TimedResult):
    """What was made of the videos, and how fast each way was."""

    videos: int
    """Different ones, under all the names."""
    made: tuple[ProxySet, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the few videos and what was made of them lie."""

    folder: Path
    videos: Sequence[Path]
    shards: Sequence[Path]
    store: Path

    def proxies(self, gop: int) -> Path:
        """Return the folder of the proxies of a GOP."""
        return self.folder / f"gop{gop}"


def main(words: Sequence[str] | None = None) -> None:
    """Make, prove, time, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--originals", type=int, default=12, help="different videos")
    parser.add_argument("--counts", type=int, nargs="+", default=[40, 1000], help="files")
    parser.add_argument("--seconds", type=float, default=15, help="of each way")
    parser.add_argument("--warm-up", type=float, default=30, help="seconds, at most")
    parser.add_argument("--out", type=Path, default=RESULTS / "proxy.json")
    options = parser.parse_args(words)
    videos = media.paths(options.media, "web", options.originals)
    parameters = {
        **{"originals": len(videos), "counts": options.counts, "seconds": options.seconds},
        **{"warm_up": options.warm_up, "size": SIZE, "batch_size": BATCH_SIZE, "budget": BUDGET},
    }
    # On the disk of the videos, as hard links do not reach another.
    with TemporaryDirectory(dir=options.media.resolve(), prefix="proxies-") as folder:
        place, made = prepared(videos, Path(folder))
        timing = {"seconds": options.seconds, "warm_up_seconds": options.warm_up}
        rows = [row for count in options.counts for row in contest(place, count, timing)]
    result = ProxyResult(
        provenance=origin(parameters),
        media={"recipe": media.recipe(), "links": "hard links of the videos, under other names"},
        videos=len(videos),
        made=made,
        rows=tuple(rows),
    )
    result.save(options.out)
    print(options.out)


def prepared(videos: Sequence[Path], folder: Path) -> tuple[Place, tuple[ProxySet, ...]]:
    """Make the proxies and the shards of a few videos."""
    made = [_made(videos, folder / f"gop{gop}", gop) for gop in GOPS]
    began = perf_counter()
    shards = write_shards(videos, folder / "shards", SIZE)
    made.append(
        ProxySet(
            name=SHARDS,
            frames=made[0].frames,
            bytes=sum(each.stat().st_size for each in shards),
            original_bytes=made[0].original_bytes,
            make_seconds=perf_counter() - began,
        )
    )
    print(f"{SHARDS}: made in {made[-1].make_seconds:.0f} s", flush=True)
    place = Place(folder=folder, videos=videos, shards=shards, store=folder / "index")
    return place, tuple(made)


def contest(
    place: Place, count: int, timing: Mapping[str, float], ask: Ask = ask_worker
) -> Iterator[Row]:
    """Yield each way at `count` files: its frames are proved, then it is timed."""
    store, here = IndexStore(place.store), place.folder / f"{count} files"
    videos = many_videos(place.videos, here / "videos", count, store)
    sets = {gop: many_proxies(place.proxies(gop), here / f"gop{gop}", videos) for gop in GOPS}
    shards = [place.shards[number % len(place.shards)] for number in range(count)]
    asked: dict[str, Any] = {
        "question": "proxied_frames",
        "cores": 2,
        "videos": [str(path) for path in videos],
        "proxies": None,
        "shards": [str(path) for path in shards],
        "store": str(place.store),
        **{"size": SIZE, "batch_size": BATCH_SIZE, "memory_budget": BUDGET},
    }
    ways: dict[str, dict[str, Any]] = {
        ORIGINALS: {"way": "uniform"},
        BURSTS: {"way": "bursts"},
        **{f"proxies, GOP {gop}": {"way": "uniform", "proxies": str(sets[gop])} for gop in GOPS},
        SHARDS: {"way": "webdataset"},
    }
    for name, way in ways.items():
        yield _row(name, f"{count} files", {**asked, **way}, timing, ask)
    if find_spec("ffcv") is None:
        yield Row(name=FFCV, kind=f"{count} files", failure="not installed: it has no wheels")


def _row(
    name: str, kind: str, asked: Mapping[str, Any], timing: Mapping[str, float], ask: Ask
) -> Row:
    row = Row(name=name, kind=kind)
    try:
        if asked["proxies"] is not None:
            few = {**asked, "videos": asked["videos"][:4]}
            wrong = ask({**few, "warm_up_seconds": 0, "seconds": 0})["wrong"]
            if wrong:
                return row.model_copy(update={"failure": f"{wrong} frames are wrong"})
        row = row.model_copy(update={"repeats": (Repeat(**ask({**asked, **timing})),)})
    except WorkerError as error:
        print(f"{kind}, {name}: {error}", flush=True)
        return row.model_copy(update={"failure": str(error)})
    print(f"{kind}, {name}: {row.speed:.1f} frames/s", flush=True)
    return row


def _made(videos: Sequence[Path], out: Path, gop: int) -> ProxySet:
    """Make the proxies of one GOP by the command."""
    words = ["--size", f"{SIZE[0]}x{SIZE[1]}", "--gop", str(gop), "--no-gain", "-o", str(out)]
    began = perf_counter()
    subprocess.run(
        [sys.executable, "-m", "headrace", "proxy", *map(str, videos), *words],
        check=True,
        capture_output=True,
    )
    seconds = perf_counter() - began
    rows = list(read_rows(out))
    print(f"GOP {gop}: made in {seconds:.0f} s", flush=True)
    return ProxySet(
        name=f"proxies, GOP {gop}",
        frames=sum(row.frames for row in rows),
        bytes=sum(row.bytes for row in rows),
        original_bytes=sum(row.original_bytes for row in rows),
        make_seconds=seconds,
        psnr=fmean(row.psnr["mean"] for row in rows),
        psnr_worst=min(row.psnr["worst"] for row in rows),
        ssim=fmean(row.ssim["mean"] for row in rows),
    )


if __name__ == "__main__":
    main()
