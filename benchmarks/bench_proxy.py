"""How many uniformly random frames per second come from 40 and 1,000 files, and from proxies?

python -m benchmarks.bench_proxy --counts 40 --seconds 5     # a first look
python -m benchmarks.bench_proxy                             # the full run, 10 minutes

Twelve videos and their proxies are hard-linked to many names. All files are in the page cache, and
each variant runs in its own process. The encoding time of proxies is that of `headrace proxy`.
"""

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import av
import numpy as np
from PIL import Image
from torch.utils.data import DataLoader

from benchmarks.adapters import Delivery
from benchmarks.kit import SIZE, Benchmark, task_of, tried
from benchmarks.loading import know, link_files
from benchmarks.markdown import figure, machine, others, rendered
from benchmarks.media import DEFAULT_ROOT, paths, recipe
from benchmarks.record import Repeat, Row, TimedResult, origin, ratios
from benchmarks.worker import Ask, WorkerError, ask_worker, headrace_command, steady
from headrace import FrameLoader, FrameReader, IndexStore, Proxies
from headrace.decode.converter import ArrayConverter
from headrace.decode.proxies import VIDEOS, read_rows, write_rows
from headrace.profiling.provenance import Record
from headrace.video.frame_format import FrameFormat, Orientation

GOPS = (1, 8, 30)
BATCH_SIZE, BUDGET = 128, "256MiB"
ORIGINALS, BURSTS, SHARDS = "originals", "originals, bursts of 8", "JPEG shards, WebDataset"
FFCV = "JPEG shards, FFCV"
WORKERS = 2
PROVED = 3
"""Batches whose frames are compared."""
QUALITY = 90
"""JPEG quality."""


class ProxySet(Record):
    """Proxies of the videos with one GOP length, or JPEG shards."""

    name: str
    frames: int
    bytes: int
    original_bytes: int
    make_seconds: float
    psnr: float | None = None
    """Luma PSNR in dB, mean over all frames; None: not measured."""
    psnr_worst: float | None = None
    ssim: float | None = None


class ProxyResult(TimedResult):
    """Proxies and shards of the videos, and the speed of each variant."""

    videos: int
    """Number of distinct videos behind all names."""
    made: tuple[ProxySet, ...] = ()


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    originals: int = 12,
    counts: tuple[int, ...] = (40, 1000),
    seconds: float = 15.0,
    warm_up: float = 30.0,
) -> Iterator[ProxyResult]:
    """Create proxies and shards; compare frames and time all variants.

    Args:
        media: folder of the videos
        originals: number of distinct videos
        counts: numbers of files
        seconds: min timed seconds per variant
        warm_up: max seconds of warm-up
    """
    videos = paths(media, "web", originals)
    # On the file system of the videos, so that hard links work.
    with TemporaryDirectory(dir=media.resolve(), prefix="proxies-") as folder:
        copies = prepare(videos, Path(folder))
        timing = {"seconds": seconds, "warm_up_seconds": warm_up}
        rows = [row for n in counts for row in contest(videos, Path(folder), n, timing)]
    parameters = {"originals": len(videos), "counts": counts, "seconds": seconds}
    parameters |= {"warm_up": warm_up, "size": SIZE, "batch_size": BATCH_SIZE, "budget": BUDGET}
    yield ProxyResult(
        provenance=origin(**parameters),
        media={"recipe": recipe(), "links": "hard links of the videos, under other names"},
        videos=len(videos),
        made=copies,
        rows=tuple(rows),
    )


def prepare(videos: Sequence[Path], folder: Path) -> tuple[ProxySet, ...]:
    """Create the proxies and shards of the videos in `folder`."""
    copies = [_make_proxies(videos, folder / f"gop{gop}", gop) for gop in GOPS]
    began = perf_counter()
    num_bytes = sum(s.stat().st_size for s in write_shards(videos, folder / "shards", SIZE))
    seconds = perf_counter() - began
    counts = {"frames": copies[0].frames, "original_bytes": copies[0].original_bytes}
    copies.append(ProxySet(name=SHARDS, bytes=num_bytes, make_seconds=seconds, **counts))
    print(f"{SHARDS}: created in {seconds:.0f} s", flush=True)
    return tuple(copies)


def _make_proxies(videos: Sequence[Path], out: Path, gop: int) -> ProxySet:
    """Create the proxies of one GOP length with `headrace proxy`."""
    words = ("--size", f"{SIZE[0]}x{SIZE[1]}", "--gop", gop, "--no-gain", "-o", out)
    command = headrace_command("proxy", *videos, *words)
    began = perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    seconds = perf_counter() - began
    rows = list(read_rows(out))
    print(f"GOP {gop}: created in {seconds:.0f} s", flush=True)
    counts = ("frames", "bytes", "original_bytes")
    return ProxySet(
        **{name: sum(getattr(row, name) for row in rows) for name in counts},
        name=f"proxies, GOP {gop}",
        make_seconds=seconds,
        psnr=fmean(row.psnr["mean"] for row in rows),
        psnr_worst=min(row.psnr["worst"] for row in rows),
        ssim=fmean(row.ssim["mean"] for row in rows),
    )


def write_shards(videos: Sequence[Path], folder: Path, size: tuple[int, int]) -> list[Path]:
    """Write a tar file per video with one JPEG per frame, the input of WebDataset and FFCV."""
    folder.mkdir(parents=True)
    paths = [folder / f"{number:04}.tar" for number in range(len(videos))]
    for video, path in zip(videos, paths, strict=True):
        frames = (frame for batch in FrameReader([video], size=size) for frame in batch.frames)
        with tarfile.open(path, "w") as tar:
            for number, frame in enumerate(frames):
                jpeg = io.BytesIO()
                Image.fromarray(frame).save(jpeg, "JPEG", quality=QUALITY)
                entry = tarfile.TarInfo(f"{path.stem}-{number:06}.jpg")
                entry.size = jpeg.tell()
                jpeg.seek(0)
                tar.addfile(entry, jpeg)
    return paths


def many_proxies(few: Path, folder: Path, videos: Sequence[Path]) -> Path:
    """Link the proxies in `few` as proxies of `videos`, links to their originals in a cycle."""
    rows = list(read_rows(few))
    (folder / VIDEOS).mkdir(parents=True)
    linked_rows = []
    for row, video in zip(cycle(rows), videos, strict=False):
        linked = replace(
            row, path=str(video.absolute()), name=video.stem, proxy=f"{VIDEOS}/{video.stem}.mp4"
        )
        for suffix in (".mp4", ".npz"):
            known = (few / row.proxy).with_suffix(suffix)
            os.link(known, (folder / linked.proxy).with_suffix(suffix))
        linked_rows.append(linked)
    write_rows(folder, linked_rows)
    return folder


def contest(
    few: Sequence[Path],
    folder: Path,
    count: int,
    timing: Mapping[str, float],
    ask: Ask = ask_worker,
) -> Iterator[Row]:
    """Yield the row of each variant at `count` files; frames are compared before timing.

    The files link to the `few` videos. `folder` has their proxies and shards.
    """
    store, here = folder / "index", folder / f"{count} files"
    videos = link_files(few, here / "videos", count)
    know(few, videos, IndexStore(store))
    shards = [*islice(cycle(sorted((folder / "shards").iterdir())), count)]
    common = {"size": SIZE, "batch_size": BATCH_SIZE, "memory_budget": BUDGET}
    loader = task_of("loading:load", videos, WORKERS, store=str(store), **common)
    tasks: dict[str, Any] = {ORIGINALS: loader, BURSTS: {**loader, "frames_per_burst": 8}}
    for gop in GOPS:
        proxies = many_proxies(folder / f"gop{gop}", here / f"gop{gop}", videos)
        tasks[f"proxies, GOP {gop}"] = {**loader, "proxies": str(proxies)}
    tasks[SHARDS] = task_of("bench_proxy", shards, WORKERS, batch_size=BATCH_SIZE)
    for name, task in tasks.items():
        yield time_row(Row(name=name, kind=f"{count} files"), task, timing, ask)
    if find_spec("ffcv") is None:
        yield Row(name=FFCV, kind=f"{count} files", failure="not installed: it has no wheels")


def time_row(row: Row, task: Mapping[str, Any], timing: Mapping[str, float], ask: Ask) -> Row:
    """Return the row with a repeat; compares the first frames of proxies before."""

    def take(row: Row) -> Row:
        if "proxies" in task:
            few = {**task, "case": "bench_proxy:proof", "paths": task["paths"][:4]}
            if wrong := ask(few)["wrong"]:
                raise WorkerError(f"{wrong} frames are wrong")
        return row.timed(Repeat(**ask({**task, **timing})))

    return tried(row, take)


def proof(
    *, paths: list[str], proxies: str, store: str, size: Any, workers: int, **options: Any
) -> Any:
    """Return the number of `wrong` frames in the first batches, by a plain linear decode."""
    sources = Proxies(proxies).all(paths)
    expected: dict[int, list[np.ndarray]] = {}
    wrong = 0
    options |= {"size": tuple(size), "index_store": IndexStore(Path(store))}
    with FrameLoader(sources, num_threads=workers, **options) as loader:
        for batch, _ in zip(loader, range(PROVED), strict=False):
            frames = batch.frames.movedim(1, -1).numpy()
            delivered = zip(batch.video.tolist(), batch.index.tolist(), frames, strict=True)
            for video, index, frame in delivered:
                if video not in expected:
                    expected[video] = _plain(sources[video].proxy, (frame.shape[0], frame.shape[1]))
                wrong += not np.array_equal(frame, expected[video][index])
    return {"wrong": wrong}


def _plain(path: Path, size: tuple[int, int]) -> list[np.ndarray]:
    converter = ArrayConverter(FrameFormat(size=size), Orientation(), str(path))
    with av.open(str(path)) as container:
        return [converter.convert(frame, None) for frame in container.decode(video=0)]


def answer(
    *, paths: list[str], batch_size: int, workers: int, warm_up_seconds: float, seconds: float
) -> dict[str, Any]:
    """Time WebDataset as its documentation shows: random shards, a shuffle buffer, Pillow."""
    webdataset = import_module("webdataset")  # has no types
    dataset = (
        webdataset.WebDataset(paths, resampled=True, shardshuffle=False)
        .shuffle(1000)
        .decode("rgb8")
        .to_tuple("jpg")
        .batched(batch_size)
    )
    batches = (frames for (frames,) in DataLoader(dataset, batch_size=None, num_workers=workers))
    return steady(Delivery(batches), seconds, warm_up_seconds=warm_up_seconds)


def proxied(result: ProxyResult) -> str:
    """Return a line per number of files and variant, then one per set of proxies or shards."""

    def over_originals(row: Row) -> str:
        shares = ratios(row, result.row(ORIGINALS, row.kind), "frames_per_second")
        return f"{shares[0]:.1f}" if shares else ""

    speeds = rendered(
        result.rows,
        {
            "files": lambda row: row.kind,
            "variant": lambda row: row.name,
            "frames/s": lambda row: f"{row.speed:,.0f}",
            "÷ originals": over_originals,
            "decoded per frame": lambda row: figure(row.amplification, ".1f"),
            "CPU ms per frame": lambda row: figure(row.repeats[0].cpu_ms_per_frame, ".2f"),
        },
        labels=2,
    )
    size = str(result.provenance.configuration["size"]).replace(",", "x")
    copies = rendered(
        result.made,
        {
            "copies": lambda copies: copies.name,
            "bytes ÷ originals": lambda copies: f"{copies.bytes / copies.original_bytes:.2f}",
            "PSNR, mean (min)": lambda copies: (
                "" if copies.psnr is None else f"{copies.psnr:.1f} ({copies.psnr_worst:.1f}) dB"
            ),
            "SSIM": lambda copies: figure(copies.ssim, ".3f"),
            "encoding, frames/s": lambda copies: f"{copies.frames / copies.make_seconds:,.0f}",
        },
        f"{result.videos} distinct videos, 1280x720, hard-linked to the number of files; proxies "
        f"and JPEGs are {size}. {others(result.rows)} {machine(result)}",
    )
    return f"{speeds}\n\n{copies}"


BENCHMARK = Benchmark("proxy", __doc__, measure, proxied)

if __name__ == "__main__":
    BENCHMARK.main()
