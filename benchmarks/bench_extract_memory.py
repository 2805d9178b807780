"""Does the memory of an extraction grow over a video of one hour?

python -m benchmarks.bench_extract_memory --minutes 5     # a first look
python -m benchmarks.bench_extract_memory                 # the full run, about 2 minutes

The video repeats a clip, packet by packet. Memory is the PSS of all processes of the command,
sampled four times per second.
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
    """Memory of all processes at one moment."""

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
        """Samples with the max number of processes, which excludes start-up and final report."""
        most = max(sample.processes for sample in self.samples)
        return tuple(sample for sample in self.samples if sample.processes == most)

    def quarter(self, number: int) -> float:
        """Return the median bytes of a quarter, 0 to 3, of the time with all processes."""
        samples = self.working
        begin, end = (len(samples) * n // 4 for n in (number, number + 1))
        return median(sample.num_bytes for sample in samples[begin:end])

    @property
    def growth(self) -> float:
        """Relative growth from the second quarter to the last; near 0 is flat."""
        return self.quarter(3) / self.quarter(1) - 1


def measure(
    *, media: Path = DEFAULT_ROOT, minutes: int = 60, fps: str = "1/2"
) -> Iterator[MemoryResult]:
    """Run an extraction and sample its memory.

    Args:
        media: folder of the videos
        minutes: duration of the video
        fps: extracted frames per second of video
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
        sampled(lambda: _pss_bytes(process.pid), _EVERY_SECONDS) as samples,
    ):
        process.wait()
    if process.returncode:
        raise RuntimeError(f"the command failed with exit status {process.returncode}")
    return [
        Sample(seconds=seconds, num_bytes=sum(sizes), processes=len(sizes))
        for seconds, sizes in samples
    ]


def _pss_bytes(pid: int) -> list[int]:
    """Return the PSS bytes of a process and of each descendant."""
    parent = psutil.Process(pid)
    return [
        process.memory_full_info().pss for process in (parent, *parent.children(recursive=True))
    ]


def flat(memory: MemoryResult) -> str:
    """Return a sentence on the memory in each quarter of the run."""
    quarters = ", ".join(f"{memory.quarter(n) / 2**20:,.0f}" for n in range(4))
    return (
        f"Memory of all processes while {memory.pictures:,} images of a video of "
        f"{memory.media_seconds / 60:.0f} min are extracted in {memory.wall_seconds:.0f} s: "
        f"{quarters} MiB in the four quarters of this time (medians), {100 * memory.growth:+.0f} % "
        f"from the second quarter to the last. {machine(memory)}"
    )


BENCHMARK = Benchmark("extract_memory", __doc__, measure, flat)

if __name__ == "__main__":
    BENCHMARK.main()
