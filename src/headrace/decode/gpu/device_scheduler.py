"""Device scheduler: sends decode jobs to the CPU or the GPU, and measures their time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from av.codec.hwaccel import hwdevices_available

from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import BackendError
from headrace.planning.earliest_completion import DeviceQueue, ThroughputEstimates, earliest_device
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fork_safety import ForkSafeLock, check_cuda_after_fork
from headrace.runtime.processor_affinity import available_cores
from headrace.runtime.synchronization import CapacityLimiter


@dataclass(frozen=True, kw_only=True)
class DeviceTotals:
    """Totals of one decoding device."""

    jobs: int = 0
    """Jobs completed there."""
    frames: int = 0
    """Frames delivered from there. Summed over devices, each delivered frame counts once."""
    seconds: float = 0.0
    """Thread time spent decoding, without waits for a free decoder. Divided by `frames` it is the
    cost of a frame under full load."""


@dataclass(frozen=True, kw_only=True)
class DeviceCounters:
    """Totals per decoding device, with `DecoderConfig(device="auto")`."""

    devices: Mapping[str, DeviceTotals] = field(default_factory=dict)
    """Device (`cpu`, and `cuda:N` if there is a GPU) -> its totals."""
    no_gpu: str | None = None
    """Reason that the GPU is not used, or not any more; None while it is used."""
    on_cpu: Mapping[str, str] = field(default_factory=dict)
    """File that only the CPU decodes -> reason; other files may go to the GPU."""

    def __str__(self) -> str:
        """Return one line; it names only the first of the files that stay on the CPU."""
        parts = [
            f"{device}: {totals.jobs} jobs, {totals.frames} frames, {totals.seconds:.2f} s"
            for device, totals in self.devices.items()
        ]
        if self.no_gpu is not None:
            parts.append(f"the CPU alone, as {self.no_gpu}")
        for file, reason in [*self.on_cpu.items()][:1]:
            parts.append(f"{len(self.on_cpu)} of the files by the CPU alone, as {file}: {reason}")
        return "; ".join(parts)


CPU: Final = "cpu"
"""The device that is always present."""
GPU_DECODERS: Final = 8
"""Decoders on the GPU at a time, which share its engines; SPDL uses seven on an H100. Fewer leave
engines idle; more take memory, and slow each other on a GPU with one engine, as measured. The best
number is not measured."""
WAITING_THREADS: Final = 32
"""Threads that wait for the GPU: if it is many times as fast as a core, this many jobs wait for it
before the CPU would finish one sooner."""

_CPU_RATE: Final = 1.5e-3
"""Seconds per million pixels on a core: 1.5 ns a pixel at 720p (recommendation.py)."""
_GPU_RATE: Final = 1.0e-3
"""Seconds per million pixels on NVDEC with one job at a time, until measured: H.264 of 1600x900 at
707 frames/s on an A100, by ACCV-Lab's figures (docs/gpu.md)."""
_GPU_START_SECONDS: Final = 0.27
"""Seconds of the first job to start CUDA and a decoder: huggingface/lerobot#913."""
_MAX_FAILED_FILES: Final = 3
"""The GPU is not used after failing on this many files without decoding any."""


@dataclass(kw_only=True, eq=False)
class ScheduledJob:
    """A job on one device, or a sequence of jobs that continue there."""

    device: str
    codec: str
    seconds: float
    """Estimated duration in seconds."""
    spent_ns: int = 0
    """Time spent so far in nanoseconds."""


class DeviceScheduler:
    """Sends each job to the device that finishes it first. Thread-safe; shared by a loader's
    decoders.

    Until a codec's jobs are measured on a device, the rates of other machines are used. Each device
    is tried once per codec, and again from time to time.
    """

    def __init__(
        self,
        *,
        cores: int | None = None,
        gpu: int = 0,
        explores: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Probe no GPU yet.

        Args:
            cores: Jobs on the CPU at a time; None: one per core of this process.
            gpu: Index of the GPU.
            explores: Whether to try devices that are not estimated to be faster; False if one
                thread reads one file.
            clock: Clock that measures jobs.
        """
        self.clock = clock
        self._lock = ForkSafeLock()
        self._gpu = f"cuda:{gpu}"
        self._explores = explores
        cores = len(available_cores()) if cores is None else cores
        self._at_once = {CPU: cores, self._gpu: GPU_DECODERS}
        self._limiters = {
            device: CapacityLimiter(limit, clock=clock) for device, limit in self._at_once.items()
        }
        self._rates = ThroughputEstimates(start={CPU: _CPU_RATE, self._gpu: _GPU_RATE})
        self._running: list[ScheduledJob] = []
        self._totals: dict[str, DeviceTotals] = {CPU: DeviceTotals()}
        self._on_cpu: dict[str, str] = {}
        self._failed: set[str] = set()
        self._is_probed = False
        self._no_gpu: str | None = None

    @property
    def gpu(self) -> str | None:
        """The GPU's device name, `cuda:N`; None if it is missing or has failed.

        Probes the machine once; does not start CUDA.
        """
        with self._lock:
            if not self._is_probed:
                self._is_probed = True
                self._no_gpu = cpu_only_reason(int(self._gpu.partition(":")[2]))
                if self._no_gpu is None:
                    self._totals[self._gpu] = DeviceTotals()
            return self._gpu if self._no_gpu is None else None

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return 1 if self.gpu is None else 2

    @property
    def threads(self) -> int:
        """Number of threads to run: for jobs on the CPU, and for waiting jobs of the GPU."""
        return self._at_once[CPU] + (0 if self.gpu is None else WAITING_THREADS)

    @property
    def decoded_by(self) -> DeviceCounters:
        """Totals so far, and the reasons why files stay on the CPU."""
        with self._lock:
            return DeviceCounters(
                devices=dict(self._totals), no_gpu=self._no_gpu, on_cpu=dict(self._on_cpu)
            )

    def may_use_gpu(self, source: str) -> bool:
        """Return whether a file may go to the GPU: the GPU is present and has not failed on it."""
        return self.gpu is not None and source not in self._on_cpu

    def mark_unsupported(self, source: str, error: BackendError | str) -> None:
        """Record why the GPU cannot decode a file, which stays on the CPU."""
        # The rest of the message is advice for an explicit device.
        reason = re.split(r"[;:,] (?:or )?(?:leave gpu out|give another)", str(error))[0]
        with self._lock:
            self._on_cpu[source] = reason

    def mark_failed(self, source: str, error: BackendError | str) -> None:
        """Record that the GPU failed on a file, and why."""
        self.mark_unsupported(source, error)
        with self._lock:
            self._failed.add(source)
            if not self._totals[self._gpu].jobs and len(self._failed) >= _MAX_FAILED_FILES:
                self._no_gpu = (
                    f"{self._gpu} failed on the first {_MAX_FAILED_FILES} files, the last with: "
                    f"{self._on_cpu[source]}"
                )

    def schedule(self, codec: str, megapixels: float, devices: Sequence[str]) -> ScheduledJob:
        """Return a job of about `megapixels` million pixels with its device.

        Call `record` with its results, and `finish` at its end.
        """
        with self._lock:
            seconds = {device: self._rates.seconds(device, codec, megapixels) for device in devices}
            for device in devices:
                has_begun = device == CPU or self._totals[device].jobs
                seconds[device] += 0 if has_begun else _GPU_START_SECONDS
            device = earliest_device(self._queues(codec, devices), seconds)
            job = ScheduledJob(device=device, codec=codec, seconds=seconds[device])
            self._running.append(job)
            return job

    @contextmanager
    def slot(self, job: ScheduledJob) -> Iterator[None]:
        """Wait until the job's device may run another job, and hold its slot inside."""
        limiter = self._limiters[job.device]
        limiter.acquire(1)
        try:
            yield
        finally:
            limiter.release(1)

    def record(
        self, job: ScheduledJob, *, frames: int, megapixels: float, spent_ns: int, is_complete: bool
    ) -> None:
        """Record the result of a job, or of one of its sequence.

        Args:
            job: The scheduled job.
            frames: Delivered frames.
            megapixels: Million pixels decoded.
            spent_ns: Duration in nanoseconds.
            is_complete: Whether it ran to its end, so that its duration is a measurement.
        """
        with self._lock:
            job.spent_ns += spent_ns
            before = self._totals[job.device]
            has_begun = job.device == CPU or before.jobs > 0
            self._totals[job.device] = DeviceTotals(
                jobs=before.jobs + is_complete,
                frames=before.frames + frames,
                seconds=before.seconds + spent_ns / 1e9,
            )
            if is_complete and megapixels and has_begun:
                self._rates = self._rates.with_job(
                    job.device, job.codec, megapixels, spent_ns / 1e9
                )

    def finish(self, job: ScheduledJob) -> None:
        """Remove a job from the running ones."""
        with self._lock:
            self._running.remove(job)

    def _queues(self, codec: str, devices: Sequence[str]) -> dict[str, DeviceQueue]:
        """Return the queue of each device; only of untested devices if there are any."""
        busy = {(job.device, job.codec) for job in self._running}
        untested = [
            device
            for device in devices
            if self._explores
            and self._rates.is_unknown(device, codec)
            and (device, codec) not in busy
        ]
        return {
            device: DeviceQueue(
                parallel_jobs=self._at_once[device],
                remaining_seconds=tuple(
                    max(0.0, job.seconds - job.spent_ns / 1e9)
                    for job in self._running
                    if job.device == device
                ),
            )
            for device in untested or devices
        }


def cpu_only_reason(gpu: int) -> str | None:
    """Return why the GPU cannot decode in this process; None if it may.

    Imports PyTorch; does not start CUDA.
    """
    import torch

    from headrace.runtime.cuda_diagnostics import explain_missing_gpu

    count = torch.cuda.device_count()
    if gpu >= count:
        return f"PyTorch finds no GPU {gpu}" + ("" if count else f": {explain_missing_gpu()}")
    if "cuda" not in hwdevices_available():
        return "PyAV's FFmpeg is built without CUDA"
    try:
        check_cuda_after_fork(f"decoding on GPU {gpu} was requested")
    except BackendError as error:
        return str(error)
    return None


def device_of(decoding: DecoderConfig) -> str:
    """Return the device that frames stay on; for `auto` GPU 0, if present."""
    return _auto_device() if decoding.is_auto else decoding.device


def _auto_device() -> str:
    return "cuda:0" if cpu_only_reason(0) is None else CPU
