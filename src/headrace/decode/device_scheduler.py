"""Chooser: sends decode jobs to the GPU or the CPU, measures what they take, says where and why."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from av.codec.hwaccel import hwdevices_available

from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import BackendError
from headrace.planning.earliest_completion import DeviceQueue, ThroughputEstimates, earliest_device
from headrace.runtime.affinity import available_cores
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fork_safety import ForkSafeLock, check_cuda_after_fork
from headrace.runtime.synchronization import CapacityLimiter


@dataclass(frozen=True, kw_only=True)
class DeviceTotals:
    """What was done on one way of decoding."""

    jobs: int = 0
    """Jobs that were ended there."""
    frames: int = 0
    """Frames that it delivered. Over all ways: each that was delivered, once."""
    seconds: float = 0.0
    """That threads were at it, added up; their wait for a turn is left out. Over `frames` it tells
    what a frame takes there while all are at work."""


@dataclass(frozen=True, kw_only=True)
class DeviceCounters:
    """What each way of decoding did, of `DecoderConfig(device="auto")`."""

    ways: Mapping[str, DeviceTotals] = field(default_factory=dict)
    """`cpu`, and the GPU as in `cuda:0` if there is one, to what was done there."""
    no_gpu: str | None = None
    """Why no file goes to the GPU, or none any more; None: it takes part."""
    on_cpu: Mapping[str, str] = field(default_factory=dict)
    """Each file that only the CPU decodes, and why, where others may go to the GPU."""

    def __str__(self) -> str:
        """Return it in one line; of the files on the CPU alone the first."""
        said = [
            f"{way}: {done.jobs} jobs, {done.frames} frames, {done.seconds:.2f} s"
            for way, done in self.ways.items()
        ]
        if self.no_gpu is not None:
            said.append(f"the CPU alone, as {self.no_gpu}")
        for file, reason in [*self.on_cpu.items()][:1]:
            said.append(f"{len(self.on_cpu)} of the files by the CPU alone, as {file}: {reason}")
        return "; ".join(said)


CPU: Final = "cpu"
"""The way of decoding that is always there."""
AT_ONCE: Final = 8
"""Decoders on the GPU at a time. It has one engine or some, which the driver shares out; SPDL has
seven at a time on an H100. Fewer would leave engines idle; more take memory, and on a GPU of one
engine each takes longer, which is measured. What is best, no GPU has told us."""
WAITING: Final = 32
"""Threads besides those that decode: where the GPU is many times as fast as a core, so many jobs
wait for it before one is sooner done on the CPU."""

_CPU_RATE: Final = 1.5e-3
"""Seconds a core takes for a million pixels: 1.5 ns a pixel at 720p (recommendation.py)."""
_GPU_RATE: Final = 1.0e-3
"""Seconds NVDEC takes, for one job at a time: H.264 of 1600x900 at 707 frames/s on an A100, by
ACCV-Lab's figures (docs/gpu.md). Until it is measured here."""
_GPU_BEGINS: Final = 0.27
"""Seconds that the first job takes besides, for CUDA and a decoder: huggingface/lerobot#913."""
_GIVES_UP: Final = 3
"""Files that the GPU fails on, before any that it decodes, until no more are tried."""


@dataclass(kw_only=True, eq=False)
class ScheduledJob:
    """A job that was sent one way; or a row of them, which read on and stay there."""

    way: str
    codec: str
    seconds: float
    """That it takes, estimated."""
    spent_ns: int = 0
    """Of that, what is done."""


class DeviceScheduler:
    """Sends each job to the device that completes it first. Thread-safe; shared by all decoders.

    Until jobs of a codec were measured on a way, rates of others' machines stand in; each way is
    tried once with each codec, and now and then again.
    """

    def __init__(
        self,
        *,
        cores: int | None = None,
        gpu: int = 0,
        tries: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Look for no GPU yet.

        Args:
            cores: Jobs that the CPU does at a time; None: one for each core of this process.
            gpu: Number of the GPU.
            tries: Whether ways are tried that do not promise to be sooner; not where one file is
                read by one thread.
            clock: What measures jobs.
        """
        self.clock = clock
        self._lock = ForkSafeLock()
        self._gpu = f"cuda:{gpu}"
        self._tries = tries
        cores = len(available_cores()) if cores is None else cores
        self._at_once = {CPU: cores, self._gpu: AT_ONCE}
        self._places = {
            way: CapacityLimiter(most, clock=clock) for way, most in self._at_once.items()
        }
        self._rates = ThroughputEstimates(start={CPU: _CPU_RATE, self._gpu: _GPU_RATE})
        self._under_way: list[ScheduledJob] = []
        self._done: dict[str, DeviceTotals] = {CPU: DeviceTotals()}
        self._on_cpu: dict[str, str] = {}
        self._failed: set[str] = set()
        self._is_asked = False
        self._no_gpu: str | None = None

    @property
    def gpu(self) -> str | None:
        """The way of the GPU, as in `cuda:0`; None: it is not here, or fails. CUDA is not started.

        Asked of the machine once.
        """
        with self._lock:
            if not self._is_asked:
                self._is_asked = True
                self._no_gpu = why_cpu_alone(int(self._gpu.partition(":")[2]))
                if self._no_gpu is None:
                    self._done[self._gpu] = DeviceTotals()
            return self._gpu if self._no_gpu is None else None

    @property
    def num_ways(self) -> int:
        """How many ways there are."""
        return 1 if self.gpu is None else 2

    @property
    def threads(self) -> int:
        """How many threads to have: for the jobs of the CPU, and to wait for the GPU."""
        return self._at_once[CPU] + (0 if self.gpu is None else WAITING)

    @property
    def decoded_by(self) -> DeviceCounters:
        """What was done so far, and what went to the CPU for which reason."""
        with self._lock:
            return DeviceCounters(
                ways=dict(self._done), no_gpu=self._no_gpu, on_cpu=dict(self._on_cpu)
            )

    def may_use_gpu(self, source: str) -> bool:
        """Return whether the GPU may be asked for a file: it is there, and did not fail on it."""
        return self.gpu is not None and source not in self._on_cpu

    def refuse(self, source: str, error: BackendError | str) -> None:
        """Note why the GPU does not decode a file; it is not asked for it again."""
        # What is said behind it is for who asked for that GPU alone.
        reason = re.split(r"[;:,] (?:or )?(?:leave gpu out|give another)", str(error))[0]
        with self._lock:
            self._on_cpu[source] = reason

    def fail(self, source: str, error: BackendError | str) -> None:
        """Note that the GPU was tried on a file, and why it failed."""
        self.refuse(source, error)
        with self._lock:
            self._failed.add(source)
            if not self._done[self._gpu].jobs and len(self._failed) >= _GIVES_UP:
                self._no_gpu = (
                    f"{self._gpu} failed on the first {_GIVES_UP} files that it was tried on, "
                    f"as on the last: {self._on_cpu[source]}"
                )

    def send(self, codec: str, megapixels: float, ways: Sequence[str]) -> ScheduledJob:
        """Return which of the ways a job goes that decodes about so many million pixels.

        Tell of it by `done`, and `forget` it when no more is done with it.
        """
        with self._lock:
            seconds = {way: self._rates.seconds(way, codec, megapixels) for way in ways}
            for way in ways:
                has_begun = way == CPU or self._done[way].jobs
                seconds[way] += 0 if has_begun else _GPU_BEGINS
            way = earliest_device(self._queues(codec, ways), seconds)
            sent = ScheduledJob(way=way, codec=codec, seconds=seconds[way])
            self._under_way.append(sent)
            return sent

    def place(self, sent: ScheduledJob) -> AbstractContextManager[None]:
        """Return a block that is done by so many threads at a time as its way takes jobs."""
        return _taken(self._places[sent.way])

    def done(
        self, sent: ScheduledJob, *, frames: int, megapixels: float, spent_ns: int, is_whole: bool
    ) -> None:
        """Note what came of a job, or of one of its row.

        Args:
            sent: Where it went.
            frames: Delivered.
            megapixels: Million pixels that were decoded.
            spent_ns: How long it took.
            is_whole: Whether it was ended there, so that it tells how long such jobs take.
        """
        with self._lock:
            sent.spent_ns += spent_ns
            before = self._done[sent.way]
            has_begun = sent.way == CPU or before.jobs > 0
            self._done[sent.way] = DeviceTotals(
                jobs=before.jobs + is_whole,
                frames=before.frames + frames,
                seconds=before.seconds + spent_ns / 1e9,
            )
            if is_whole and megapixels and has_begun:
                self._rates = self._rates.with_job(sent.way, sent.codec, megapixels, spent_ns / 1e9)

    def forget(self, sent: ScheduledJob) -> None:
        """Have nothing under way for it any more."""
        with self._lock:
            self._under_way.remove(sent)

    def _queues(self, codec: str, ways: Sequence[str]) -> dict[str, DeviceQueue]:
        """Return what is under way on each; only on those to be tried, if there are such."""
        busy = {(each.way, each.codec) for each in self._under_way}
        untried = [
            way
            for way in ways
            if self._tries and self._rates.is_unknown(way, codec) and (way, codec) not in busy
        ]
        return {
            way: DeviceQueue(
                parallel_jobs=self._at_once[way],
                remaining_seconds=tuple(
                    max(0.0, each.seconds - each.spent_ns / 1e9)
                    for each in self._under_way
                    if each.way == way
                ),
            )
            for way in untried or ways
        }


def why_cpu_alone(gpu: int) -> str | None:
    """Return why nothing can be decoded on a GPU in this process; None if it can be tried.

    Imports PyTorch; CUDA is not started.
    """
    import torch

    from headrace.runtime.cuda_diagnostics import explain_missing_gpu

    count = torch.cuda.device_count()
    if gpu >= count:
        return f"PyTorch finds no GPU {gpu}" + ("" if count else f": {explain_missing_gpu()}")
    if "cuda" not in hwdevices_available():
        return "PyAV's FFmpeg is built without CUDA"
    try:
        check_cuda_after_fork(f"GPU {gpu} was to decode")
    except BackendError as error:
        return str(error)
    return None


def device_of(decoding: DecoderConfig) -> str:
    """Return where frames lie that stay on their device; by `auto` GPU 0, if it is here."""
    return _gpu_or_cpu() if decoding.is_auto else decoding.device


def _gpu_or_cpu() -> str:
    return CPU if why_cpu_alone(0) is not None else "cuda:0"


@contextmanager
def _taken(room: CapacityLimiter) -> Iterator[None]:
    room.acquire(1)
    try:
        yield
    finally:
        room.release(1)
