"""Decode jobs of a chunk, and the decoders that run them."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from headrace.cache.result_cache import unheard
from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import ON_CPU, DecoderConfig, use_option_words
from headrace.decode.frame_outputs import Array
from headrace.decode.gpu.gpu_decoding import DeviceScheduler
from headrace.decode.open_decoder import capabilities_of, open_any_decoder
from headrace.decode.protocol import DecodeJob, Decoder, OnError
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import ConfigError
from headrace.planning.gop_ranges import GopRange
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex


def jobs(
    planned: Sequence[GopRange], *, conceals: bool, goes_on: bool = False
) -> Iterator[DecodeJob]:
    """Yield a job for each GOP range of one video; it continues only into an adjacent range.

    A sparse frame therefore costs one seek, and its GOP up to the frame.

    Args:
        planned: GOP ranges, in order.
        conceals: Whether damaged frames are concealed by FFmpeg.
        goes_on: Whether more frames follow the last range.
    """
    for stretch, following in zip_longest(planned, planned[1:]):
        index = stretch.index
        reads_on = goes_on
        if following is not None:
            reads_on = index.gop_of(following.wanted[0]) == index.gop_of(stretch.wanted[-1]) + 1
        yield DecodeJob(stretch.wanted, goes_on=reads_on, conceals=conceals)


class JobQueue:
    """Queue of jobs, taken and split by number of frames."""

    def __init__(self, line: Iterator[DecodeJob]) -> None:
        """Take nothing yet."""
        self._left = deque(line)

    def take(self, frames: int) -> list[DecodeJob]:
        """Return the jobs of the next `frames` frames, or of all remaining frames."""
        taken: list[DecodeJob] = []
        while frames and self._left:
            job = self._left.popleft()
            if len(job.wanted) > frames:
                self._left.appendleft(
                    DecodeJob(job.wanted[frames:], goes_on=job.goes_on, conceals=job.conceals)
                )
                job = DecodeJob(job.wanted[:frames], conceals=job.conceals)
            taken.append(job)
            frames -= len(job.wanted)
        return taken


def check_way(decode: str, *, rate: str | None, on_error: OnError) -> None:
    """Check a `--decode` value against the other options.

    Raises:
        ConfigError: the options contradict each other, or the device does not exist.
        BackendError: the backend is unknown.
    """
    decoding = DecoderConfig.parse(decode)
    if rate is not None and decoding != ON_CPU:
        raise ConfigError(
            f"--decode {decode} is for videos, and sources are pictures (--framerate); leave "
            "--decode out"
        )
    if on_error == "conceal" and decoding.backend == "torchcodec":
        raise ConfigError(
            "--on-error conceal needs a decoder that reports damaged frames, and --decode "
            f"{decode} does not; leave --decode out, or give --on-error skip"
        )


def check_decoder(decode: str, indexes: Iterable[StreamIndex] = ()) -> None:
    """Check that a decoder is installed and supports the videos. Except for PyAV, loads PyTorch.

    Raises:
        BackendError: the decoder is missing, or does not support a video.
    """
    decoding = DecoderConfig.parse(decode)
    if decoding == ON_CPU:
        return
    from headrace.loaders.loader_options import check_decoding

    with use_option_words():
        check_decoding(decoding)
        able = capabilities_of(decoding)
        for index in indexes:
            able.check(decoding, index)


def backend_facts(decode: str) -> dict[str, str]:
    """Return the request entry of a decoder; empty for PyAV, whose output is equal on every
    machine."""
    backend = DecoderConfig.parse(decode).backend
    return {} if backend == ON_CPU.backend else {"decoded_by": backend}


def spill_of(argument: Mapping[str, Any], decoding: DecoderConfig) -> SpillStore | None:
    """Return the store of a worker's argument; `Decoders` report its warnings.

    Raises as `open_spill`.
    """
    budget = argument.get("spill_budget")
    return open_spill(argument.get("spill"), decoding, budget=budget, on_warning=unheard)


class Decoders:
    """Opens the decoders of one worker. With `auto`, they share their measurements.

    Decoders may be opened in several threads; `frames` and `reasons` are for one thread.
    """

    def __init__(
        self,
        decoding: DecoderConfig,
        *,
        threads: int = 1,
        gpu: int = 0,
        spill: SpillStore | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            decoding: Backend and device.
            threads: Concurrent decoding threads.
            gpu: GPU index for `auto`.
            spill: Frames on a disk.
        """
        self._decoding, self._spill = decoding, spill
        self._scheduler = DeviceScheduler(cores=threads, gpu=gpu) if decoding.is_auto else None
        self._told: dict[str, int] = {}
        self._said: set[str] = set()

    def open(self, index: StreamIndex, shape: FrameFormat) -> Decoder[Array]:
        """Return a decoder of a video; the caller closes it. Raises: see `open_decoder`."""
        with use_option_words():
            return open_any_decoder(
                index, shape, self._decoding, scheduler=self._scheduler, spill=self._spill
            )

    def frames(self) -> dict[str, int]:
        """Return device (`cpu`, `cuda:0`) → frames decoded since the last call.

        Empty unless decoding is `auto`.
        """
        devices = {} if self._scheduler is None else self._scheduler.decoded_by.devices
        now = {device: done.frames for device, done in devices.items()}
        new = {device: frames - self._told.get(device, 0) for device, frames in now.items()}
        self._told = now
        return {device: frames for device, frames in new.items() if frames}

    def reasons(self) -> Iterator[str]:
        """Yield warnings of the disk, and why the CPU decodes files with `auto`, each once."""
        reasons = [] if self._spill is None else list(self._spill.warnings)
        if self._scheduler is not None:
            decoded_by = self._scheduler.decoded_by
            if decoded_by.no_gpu is not None:
                reasons.append(f"decoded by the CPU alone, as {decoded_by.no_gpu}")
            on_cpu = decoded_by.on_cpu.items()
            reasons += [f"decoded by the CPU: {file}: {reason}" for file, reason in on_cpu]
        yield from (reason for reason in reasons if reason not in self._said)
        self._said.update(reasons)
