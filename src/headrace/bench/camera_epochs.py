"""Epochs of `bench cameras`: calibration, cut of the clips, timing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final

from headrace.bench.benchmark import Context
from headrace.bench.camera_rank import CameraSubset, RankTask, calibrate, check_equal, run_rank
from headrace.bench.cameras import CameraRun, CamerasConfig, CamerasRecord, CameraVariant
from headrace.decode.index_store import IndexStore
from headrace.loaders.cameras.camera_alignment import Alignment
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.measuring.interleaved import Stopwatch, interleave
from headrace.profiling.number_format import counted, seconds
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.processor_affinity import available_cores
from headrace.runtime.spawned_processes import run_ranks
from headrace.video.camera_layout import CameraLayout, camera_names

CameraSetup = tuple[CameraVariant, int, int]
"""Variant, number of ranks, workers per rank."""
_TIMEOUT_SECONDS: Final = 1800.0
_CALIBRATED: Final = 12
"""Moments of the calibration."""
_FEWEST: Final = 2
"""Minimum moments per slot."""
_MINUTES_FROM: Final = 120
"""Seconds; shorter estimates are reported in whole seconds."""
_PASSED_ON: Final = 1.5
"""Time of decoding, collating and transfer in a DataLoader ÷ time of decoding; see
benchmarks/bench_cameras.py."""
_IN_WORKERS: Final[tuple[CameraVariant, ...]] = ("dataset", "wandering")
"""Variants that start DataLoader workers."""


def measure_cameras(config: CamerasConfig, context: Context) -> CamerasRecord:
    """Check that frames are equal, then time an epoch of each variant, ranks and workers.

    Every rank is a process, as under torch.distributed, on the same cores. A calibration estimates
    the run time and shortens the clips to fit. An uncounted first epoch fills the page cache and
    finds bad media.

    Raises:
        ConfigError: the index file is malformed, or contradicts the files.
        MediaError: a camera cannot be read, or headrace's frames differ from a PyAV loop's.
        StageError: a rank failed.
    """
    context.on_progress("opening cameras", 0, 0)
    names = camera_names(config.cameras)
    whole = CameraSubset(
        layout=CameraLayout.read(config.index_file, names, picture_rate=config.rate),
        alignment=Alignment(
            sync=config.sync, tolerance_ms=config.tolerance_ms, reference=config.reference
        ),
        size=config.size,
        store=context.store or IndexStore(),
    )
    cameras = whole.open()
    if config.size is None:
        cameras.common_size()
    provenance = context.provenance(config)
    compared = check_equal(whole, cameras.clips[0])
    # Plain decoding, the reference, is always included.
    variants: dict[CameraVariant, None] = dict.fromkeys(("decode", *config.ways))
    setups = [(name, *by) for by in product(config.ranks, config.workers) for name in variants]
    subset = _subset(config, whole, cameras, [setups[0], *setups * config.repeats], context)
    runs = interleave(
        setups,
        lambda setup: _run(config, subset, setup, context),
        repeats=config.repeats,
        label=lambda setup: "{}, ranks {}, workers {}".format(*setup),
        warm_up=setups[0],
        on_progress=context.on_progress,
    )
    return CamerasRecord(
        provenance=provenance,
        clips=len(cameras.clips),
        cameras=len(cameras.cameras),
        pictures=_pictures(cameras),
        pictures_read=_pictures(subset.open()),
        compared=compared,
        runs=runs,
    )


def _subset(
    config: CamerasConfig,
    whole: CameraSubset,
    cameras: CameraSet,
    setups: Sequence[CameraSetup],
    context: Context,
) -> CameraSubset:
    """Calibrate; return the subset for each setup; report the estimated time."""
    context.on_progress("calibrating", 0, 0)
    [decoding] = _tasks(config, whole.cut(cameras, _CALIBRATED, 1), ("decode", 1, 1))
    calibration = partial(calibrate, workers=worker_numbers(setups), clock=SYSTEM_CLOCK)
    watch = Stopwatch(context.clock)
    [(picture_seconds, worker_seconds)], seconds_taken = run_ranks(
        calibration, [decoding], timeout_seconds=_TIMEOUT_SECONDS, clock=context.clock
    )
    indexes = [index for clip in cameras.clips for index in clip.indexes]
    estimate = CameraEstimate(
        start_seconds=max(0.0, watch.seconds - seconds_taken),
        worker_seconds=worker_seconds,
        picture_seconds=picture_seconds,
        cores=len(available_cores()),
        gop=sum(map(len, indexes)) / sum(len(index.gop_lengths) for index in indexes),
    )
    subset, pictures = whole, _pictures(cameras)
    amount = counted(pictures, "frame")
    if config.max_seconds:
        slots = config.group_num * max(ranks * workers for _, ranks, workers in setups)
        fitting = estimate.pictures(setups, config.max_seconds) // len(cameras.cameras)
        moments = max(_FEWEST * slots, fitting)
        if moments * len(cameras.cameras) < pictures:
            subset = whole.cut(cameras, moments, slots)
            pictures = _pictures(subset.open())
            amount = f"{pictures:,} of {amount} (--max-seconds 0 reads all)"
    whole_seconds = round(estimate.seconds(setups, pictures))
    duration = f"{whole_seconds} s" if whole_seconds < _MINUTES_FROM else seconds(whole_seconds)
    context.on_word(f"Time: about {duration} for {counted(len(setups), 'epoch')} of {amount}")
    return subset


def _pictures(cameras: CameraSet) -> int:
    return sum(map(len, cameras.clips)) * len(cameras.cameras)


def _tasks(config: CamerasConfig, subset: CameraSubset, setup: CameraSetup) -> list[RankTask]:
    """Return the task of each rank."""
    variant, ranks, workers = setup
    return [
        RankTask(
            variant=variant,
            part=subset,
            rank=rank,
            ranks=ranks,
            workers=workers,
            group_num=config.group_num,
        )
        for rank in range(ranks)
    ]


def _run(
    config: CamerasConfig, subset: CameraSubset, setup: CameraSetup, context: Context
) -> CameraRun:
    variant, ranks, workers = setup
    tasks, watch = _tasks(config, subset, setup), Stopwatch(context.clock)
    results, wall_seconds = run_ranks(
        run_rank, tasks, timeout_seconds=_TIMEOUT_SECONDS, clock=context.clock
    )
    whole = watch.stop(watch.seconds)
    delivered, decoded, cpu_seconds = (sum(parts) for parts in zip(*results, strict=True))
    return CameraRun(
        way=variant,
        ranks=ranks,
        workers=workers,
        seconds=wall_seconds,
        delivered=delivered,
        decoded=decoded,
        cpu_seconds=cpu_seconds,
        others_cpu_seconds=(whole.others_cpu_seconds or 0.0) * wall_seconds / whole.seconds,
    )


def worker_numbers(setups: Sequence[CameraSetup]) -> tuple[int, ...]:
    """Return the distinct numbers of DataLoader workers over all setups, ascending."""
    return tuple(sorted({workers for variant, _, workers in setups if variant in _IN_WORKERS}))


@dataclass(frozen=True, kw_only=True)
class CameraEstimate:
    """Estimated run times, from one rank with one worker."""

    start_seconds: float
    """Startup of a process, seconds."""
    worker_seconds: Mapping[int, float]
    """Number of DataLoader workers → seconds of their startup and shutdown."""
    picture_seconds: float
    """Decoding of one picture, seconds."""
    cores: int
    """Cores shared by ranks and workers."""
    gop: float
    """Mean frames of a GOP: the max decoded per delivered frame of `wandering`."""

    def seconds(self, setups: Sequence[CameraSetup], pictures: int) -> float:
        """Return the seconds of all setups with `pictures` each."""
        starting, per_picture = self._total_seconds(setups)
        return starting + pictures * per_picture

    def pictures(self, setups: Sequence[CameraSetup], seconds: float) -> int:
        """Return the pictures per setup for a total of `seconds`; 0 if startup alone exceeds it."""
        starting, per_picture = self._total_seconds(setups)
        return max(0, int((seconds - starting) / per_picture))

    def _total_seconds(self, setups: Sequence[CameraSetup]) -> tuple[float, float]:
        """Return the startup seconds of all setups, and their seconds per further picture."""
        starting = per_picture = 0.0
        for variant, ranks, workers in setups:
            processes, decoded = ranks * workers, 1.0
            starting += self.start_seconds * self._slowdown(ranks)
            if variant in _IN_WORKERS:
                of_rank = self.worker_seconds[workers]
                starting += of_rank * self._slowdown(processes) / self._slowdown(workers)
                decoded = _PASSED_ON
            if variant == "wandering":
                decoded *= max(1.0, min(processes, self.gop))
            per_picture += self.picture_seconds * decoded / min(self.cores, processes)
        return starting, per_picture

    def _slowdown(self, processes: int) -> float:
        """Return the slowdown of `processes` that share the cores."""
        return max(1.0, processes / self.cores)
