"""Decode speed on this machine, measured on a few GOPs; estimated rates of stored frames."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.decode.converter import ArrayConverter
from headrace.decode.exact_planes import PlanesWriter
from headrace.decode.frame_outputs import Array
from headrace.decode.open_decoder import open_decoder
from headrace.decode.packing import PackedFrames, PackingTrial, exact_planes, trials_of
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import MediaError
from headrace.loaders.planned_loader import MAX_OPEN_FILES
from headrace.loaders.video_set import VideoSet
from headrace.measuring.interleaved import Stopwatch, cores_of_others
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.imap import imap
from headrace.sampling.decode_cost import Speed, share_out
from headrace.sampling.population import Population
from headrace.video.frame_format import FrameFormat

_PROBES = 24
"""Max probed GOPs."""
_SECONDS = 4.0
"""Time limit."""
_LONGEST_STRETCH = 100
"""Max frames decoded of a long GOP."""
_READING_SECONDS = 0.0001
"""Seconds to read a packed frame from the page cache or a local SSD; assumed, not measured."""
_PYTHON_SECONDS = 12e-6
"""Seconds of Python per delivered frame: CPU time of `look_ahead`, and of the iterating thread of a
`FrameLoader` of 32x32 frames."""
_COPIED_BYTES = 2**25
"""Bytes of the frames that are copied to time a copy: more than a processor's cache."""


@dataclass(frozen=True, kw_only=True)
class MeasuredSpeed:
    """Constants of the cost model, and their basis."""

    speed: Speed
    gops: int
    """GOPs decoded."""
    frames: int
    """Frames decoded, repeats included."""
    seconds: float
    """Duration."""
    packed: tuple[PackedFrames, ...] = ()
    """Size and times of each lossless codec, on one frame per GOP."""
    others: float | None = None
    """Cores kept busy by other programs during the measurement; None: unknown."""

    @property
    def is_told_apart(self) -> bool:
        """Whether the times of seeking, decoding and converting could be separated.

        With noise or short files, one of them becomes 0, and predicted rates are too high.
        """
        speed = self.speed
        times = (speed.seconds_per_seek, speed.seconds_per_decoded, speed.seconds_per_delivered)
        return min(times) > 0


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One timed decode job."""

    opens: int
    decoded: int
    delivered: int
    seconds: float


def measure_speed(
    videos: VideoSet,
    size: tuple[int, int],
    *,
    workers: int,
    max_open: int = MAX_OPEN_FILES,
    clock: Clock = SYSTEM_CLOCK,
) -> MeasuredSpeed:
    """Return the decode cost of these videos while all workers decode; takes about 4 s.

    Up to 24 frames, spread evenly over the videos, choose the GOPs, so GOPs are weighted by length
    as in random access. Each GOP is decoded four times: its first frame after opening the file,
    its first frame, a later frame, and all frames up to that one. A least-squares fit of relative
    errors separates the costs. Files in the page cache read faster.

    Args:
        videos: Videos to decode.
        size: (height, width) of the frames.
        workers: Threads that decode at the same time.
        max_open: Files that stay open between jobs. With more videos, some files are opened again;
            this counts as part of a seek.
        clock: Clock for the timings.

    Raises:
        MediaError: none of the chosen GOPs can be decoded.
    """
    watch, population = Stopwatch(clock), videos.population
    frames = np.linspace(0, population.num_frames - 1, _PROBES).astype(np.int64)
    gops = np.unique(population.gop_of(frames))

    def gops_in_time() -> Iterator[int]:
        for number, gop in enumerate(_spread_order(gops).tolist()):
            if number >= workers and watch.seconds > _SECONDS:
                return
            yield gop

    shape, all_trials = FrameFormat(size=size), list[list[PackingTrial]]()

    @contextmanager
    def worker() -> Iterator[Callable[[int], list[list[_Run] | MediaError]]]:
        trials = trials_of(shape, clock)
        all_trials.append(trials)
        yield lambda gop: [_time_gop(videos, gop, shape, clock, trials)]

    with closing(imap(worker, gops_in_time(), workers=workers, capacity=1, name="probe")) as probes:
        results = list(probes)
    done = [result for result in results if not isinstance(result, MediaError)]
    if not done:
        raise next(error for error in results if isinstance(error, MediaError))
    runs = list(chain(*done))
    repetition = watch.stop(max(watch.seconds, 1e-9))
    return MeasuredSpeed(
        speed=_fit_speed(runs, videos, workers, max_open, _time_collating(shape, clock)),
        gops=len(done),
        frames=sum(run.decoded for run in runs),
        seconds=repetition.seconds,
        packed=_merge_trials(all_trials),
        others=cores_of_others([repetition]),
    )


def _merge_trials(all_trials: list[list[PackingTrial]]) -> tuple[PackedFrames, ...]:
    """Return size and times of each exact codec, over the trials of all threads."""
    totals, *others = all_trials
    for trials in others:
        for total, trial in zip(totals, trials, strict=True):
            total.add(trial)
    return tuple(trial.facts for trial in totals if trial.is_exact and trial.num_frames)


def _spread_order(gops: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the GOPs in an order in which every prefix is spread over all GOPs."""
    return np.concatenate([gops[start::5] for start in range(5)])


def _time_gop(
    videos: VideoSet, gop: int, shape: FrameFormat, clock: Clock, trials: Sequence[PackingTrial]
) -> list[_Run] | MediaError:
    population = videos.population
    start = population.gop_start[gop : gop + 1]
    video, first = (int(numbers[0]) for numbers in population.locate(start))
    length = int(min(population.gop_lengths[gop], _LONGEST_STRETCH))
    last = first + length - 1
    decoder = open_decoder(videos.indexes[video], shape)
    try:
        jobs = ((first,), (first,), (last,), tuple(range(first, last + 1)))
        runs = [_time_job(decoder, wanted, clock) for wanted in jobs]
        middle = (first + length // 2,)
        to_rgb = ArrayConverter(shape, decoder.index.info.orientation, str(decoder.index.source))
        writer = PlanesWriter(exact_planes(shape), to_rgb, clock=clock)
        for _, frame in decoder.run(DecodeJob(middle, goes_on=False), writer):
            for trial in trials:
                trial.measure(frame, writer.sample)
        return runs
    except MediaError as error:
        return error
    finally:
        decoder.close()


def _time_job(decoder: Decoder[Array], wanted: tuple[int, ...], clock: Clock) -> _Run:
    """Time one job of an idle decoder, as if it follows a job of another file."""
    decoder.rest()
    before = DecodeCounters() + decoder.counters
    started_ns = clock.now_ns()
    delivered = sum(1 for _ in decoder.run(DecodeJob(wanted, goes_on=False)))
    seconds = (clock.now_ns() - started_ns) / 1e9
    counters = decoder.counters - before
    return _Run(
        opens=counters.opens,
        decoded=counters.frames_decoded,
        delivered=delivered,
        seconds=max(seconds, 1e-9),
    )


def _time_collating(shape: FrameFormat, clock: Clock) -> float:
    """Return the seconds to plan a frame and to copy it from memory to a batch."""
    assert shape.size is not None
    frame_bytes = shape.frame_bytes(shape.size)
    frames = np.ones((max(1, _COPIED_BYTES // frame_bytes), frame_bytes), np.uint8)
    row = np.ones(frame_bytes, np.uint8)
    started_ns = clock.now_ns()
    for frame in frames:
        row[...] = frame
    return _PYTHON_SECONDS + (clock.now_ns() - started_ns) / 1e9 / len(frames)


def _fit_speed(
    runs: list[_Run], videos: VideoSet, workers: int, max_open: int, collating: float
) -> Speed:
    opening, seeking, decoding, delivering = share_out(
        np.array([(run.opens, 1, run.decoded, run.delivered) for run in runs], np.float64),
        np.array([run.seconds for run in runs]),
    )
    indexes = videos.indexes
    open_share = min(1.0, max_open / len(indexes))
    droppable = sum(int(index.is_disposable.sum()) for index in indexes if index.can_skip)
    return Speed(
        seconds_per_seek=seeking + (1 - open_share) * opening,
        seconds_per_decoded=decoding,
        seconds_per_delivered=delivering,
        seconds_per_collated=collating,
        workers=workers,
        droppable_share=min(0.99, droppable / videos.population.num_frames),
    )


@dataclass(frozen=True, kw_only=True)
class SpillEstimate:
    """Store of all frames of a set, for batches of random frames."""

    codec: str
    bytes_per_frame: int
    """Bytes of a packed frame."""
    disk_bytes: int
    """Bytes of all frames of the set."""
    free_bytes: int | None
    """Free bytes of the disk; None: no folder."""
    first_epoch: float
    """Mean frames per second of the first epoch: every GOP is decoded once and stored."""
    later_epochs: float
    """Frames per second of later epochs: frames are read and unpacked."""

    @property
    def fits(self) -> bool:
        """Whether the disk has room for the set; True without a folder."""
        return self.free_bytes is None or self.disk_bytes <= self.free_bytes


def estimate_spill(
    population: Population, decoding: MeasuredSpeed, folder: str | None
) -> SpillEstimate | None:
    """Return the estimate for the codec with the smallest packets, which stores use.

    None: no codec packs the frames.
    """
    if not decoding.packed:
        return None
    packed, speed = min(decoding.packed, key=lambda packed: packed.bytes_per_frame), decoding.speed
    reading = packed.unpack_seconds + _READING_SECONDS + speed.seconds_per_collated
    storing = (
        speed.seconds_per_seek * len(population.gop_lengths) / population.num_frames
        + speed.seconds_per_decoded
        + speed.seconds_per_delivered
        + packed.pack_seconds
    )
    return SpillEstimate(
        codec=packed.codec,
        bytes_per_frame=packed.bytes_per_frame,
        disk_bytes=packed.bytes_per_frame * population.num_frames,
        free_bytes=None if folder is None else _free_bytes(Path(folder)),
        first_epoch=speed.workers / (storing + reading),
        later_epochs=speed.workers / reading,
    )


def _free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk of a folder that may not exist yet."""
    folder = folder.expanduser().absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free
