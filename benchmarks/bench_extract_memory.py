"""Does extracting take as much memory in the last minutes of a video of an hour as in the first?

python -m benchmarks.bench_extract_memory --minutes 5     # a first look
python -m benchmarks.bench_extract_memory                 # a record that is kept, about two minutes

The video is a clip that is repeated packet by packet. Memory is that of all processes of the
command together, as a share of what they share (PSS), some four times a second.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import psutil

from benchmarks import media
from benchmarks.looped import looped
from benchmarks.record import RESULTS, ROOT, Result, origin
from headrace.profiling.provenance import Record

_EVERY_SECONDS = 0.25
_CLIP_SECONDS = 10


class Sample(Record):
    """What all processes held at one moment."""

    seconds: float
    """Since the command began."""
    num_bytes: int
    processes: int


class MemoryResult(Result):
    """One run of a command."""

    samples: tuple[Sample, ...]
    pictures: int
    media_seconds: float
    """That the video lasts."""
    wall_seconds: float

    @property
    def working(self) -> tuple[Sample, ...]:
        """Those while as many processes ran as ever did: neither start-up nor closing report."""
        most = max(each.processes for each in self.samples)
        return tuple(each for each in self.samples if each.processes == most)

    def quarter(self, number: int) -> float:
        """Return the median bytes of a quarter, from 0, of the time that all worked."""
        found = self.working
        begin, end = (len(found) * each // 4 for each in (number, number + 1))
        return median(each.num_bytes for each in found[begin:end])

    @property
    def growth(self) -> float:
        """Of the last quarter over the second, as a share: near 0 is flat."""
        return self.quarter(3) / self.quarter(1) - 1


def main() -> None:
    """Run, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--minutes", type=int, default=60, help="that the video lasts")
    parser.add_argument("--fps", default="1/2", help="frames that are taken of each second")
    parser.add_argument("--out", type=Path, default=RESULTS / "extract_memory.json")
    options = parser.parse_args()
    [clip] = media.paths(options.media, "web", 1)
    video = looped(clip, options.minutes * 60 // _CLIP_SECONDS)
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        began = perf_counter()
        samples = watched(command(video, out, options.fps))
        seconds = perf_counter() - began
        pictures = len(list(out.glob("*.jpg")))
    result = MemoryResult(
        provenance=origin({"minutes": options.minutes, "fps": options.fps}),
        media={"recipe": media.recipe()},
        samples=tuple(samples),
        pictures=pictures,
        media_seconds=options.minutes * 60.0,
        wall_seconds=seconds,
    )
    result.save(options.out)
    quarters = ", ".join(f"{result.quarter(n) / 2**20:.0f}" for n in range(4))
    print(f"{pictures} pictures in {seconds:.0f} s; MiB in each quarter: {quarters}")
    print(options.out)


def command(video: Path, out: Path, fps: str) -> list[str]:
    """Return what is run."""
    words = ["extract", "frames", str(video), "-o", str(out), "--fps", fps, "--format", "jpg"]
    return [sys.executable, "-m", "headrace", *words, "--json"]


def watched(words: Sequence[str]) -> list[Sample]:
    """Run a command and sample its memory until it ends.

    Raises:
        RuntimeError: it failed.
    """
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    began, samples = perf_counter(), []
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment) as process:
        while True:
            if found := _held(process.pid):
                seconds = perf_counter() - began
                samples.append(Sample(seconds=seconds, num_bytes=sum(found), processes=len(found)))
            try:
                process.wait(_EVERY_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
    if process.returncode:
        raise RuntimeError(f"the command ended with exit code {process.returncode}")
    return samples


def _held(pid: int) -> list[int]:
    """Return the bytes of a process and of each below it; of shared pages, its part of them."""
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
        return [each.memory_full_info().pss for each in family]
    except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        return []  # one ended meanwhile


if __name__ == "__main__":
    main()
