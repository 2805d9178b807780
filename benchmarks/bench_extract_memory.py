"""Does extracting take as much memory in the last minutes of a video of an hour as in the first?

python -m benchmarks.bench_extract_memory --minutes 5     # a first look
python -m benchmarks.bench_extract_memory                 # a record that is kept, about two minutes

The video is a clip that is repeated packet by packet. Memory is that of all processes of the
command together, as a share of what they share (PSS), some four times a second.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import psutil

from benchmarks.kit import Benchmark, begin
from benchmarks.live.figures import sampled
from benchmarks.markdown import machine
from benchmarks.media import DEFAULT_ROOT, loop_media, paths
from benchmarks.record import Result
from benchmarks.worker import headrace_command, python_path
from headrace.profiling.provenance import Record

_EVERY_SECONDS = 0.25
_CLIP_SECONDS = 10


class Sample(Record):
    """Memory of all processes at one time."""

    seconds: float
    """Seconds since the start of the command."""
    num_bytes: int
    processes: int


class MemoryResult(Result):
    """One run of a command."""

    samples: tuple[Sample, ...]
    pictures: int
    media_seconds: float
    """Duration of the video."""
    wall_seconds: float

    @property
    def working(self) -> tuple[Sample, ...]:
        """Samples with the max number of processes, so without start-up and final report."""
        most = max(sample.processes for sample in self.samples)
        return tuple(sample for sample in self.samples if sample.processes == most)

    def quarter(self, number: int) -> float:
        """Return the median bytes of a quarter, 0 to 3, of the time with all processes."""
        working = self.working
        begin, end = (len(working) * quarter_index // 4 for quarter_index in (number, number + 1))
        return median(sample.num_bytes for sample in working[begin:end])

    @property
    def growth(self) -> float:
        """Relative growth from the second quarter to the last; near 0 is flat."""
        return self.quarter(3) / self.quarter(1) - 1


def measure(
    *, media: Path = DEFAULT_ROOT, minutes: int = 60, fps: str = "1/2"
) -> Iterator[MemoryResult]:
    """Run a command, and sample its memory.

    Args:
        media: their folder
        minutes: that the video lasts
        fps: frames that are taken of each second
    """
    video = loop_media(paths(media, "web", 1)[0], minutes * 60 // _CLIP_SECONDS)
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = ("--json", "-o", out, "--fps", fps, "--format", "jpg")
        began = perf_counter()
        samples = sample_memory(headrace_command("extract", "frames", video, *words))
        times: Any = {"wall_seconds": perf_counter() - began, "media_seconds": minutes * 60.0}
        about = {**begin(minutes=minutes, fps=fps), "pictures": len(list(out.glob("*.jpg")))}
        yield MemoryResult(samples=tuple(samples), **about, **times)


def sample_memory(words: Sequence[str]) -> list[Sample]:
    """Run a command and sample its memory until it ends.

    Raises:
        RuntimeError: the command failed.
    """
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with (
        subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment) as process,
        sampled(lambda: _held(process.pid), _EVERY_SECONDS) as working,
    ):
        process.wait()
    if process.returncode:
        raise RuntimeError(f"the command ended with exit code {process.returncode}")
    return [
        Sample(seconds=seconds, num_bytes=sum(held), processes=len(held))
        for seconds, held in working
    ]


def _held(pid: int) -> list[int]:
    """Return the PSS bytes of a process and of each descendant."""
    parent = psutil.Process(pid)
    return [
        process.memory_full_info().pss for process in (parent, *parent.children(recursive=True))
    ]


def flat(memory: MemoryResult) -> str:
    """Return the memory of the processes over an hour."""
    quarters = ", ".join(f"{memory.quarter(n) / 2**20:,.0f}" for n in range(4))
    return (
        f"A video of {memory.media_seconds / 60:.0f} min, {memory.pictures:,} pictures in "
        f"{memory.wall_seconds:.0f} s: all processes together held {quarters} MiB in the four "
        f"quarters of that time (medians): {100 * memory.growth:+.0f} % from the second to the "
        f"last. {machine(memory)}"
    )


BENCHMARK = Benchmark("extract_memory", __doc__, measure, flat)

if __name__ == "__main__":
    BENCHMARK.main()
