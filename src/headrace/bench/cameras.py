"""Camera loading benchmark: decodes per picture and rate, by ranks, workers and dealing."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import NonNegativeInt, PositiveInt

from headrace.bench.benchmark import BenchmarkRecord, Context
from headrace.bench.camera_estimate import (
    CameraEstimate,
    CameraSetup,
    CameraVariant,
    worker_numbers,
)
from headrace.config_fields import CAMERAS, Option, check_options
from headrace.decode.index_store import IndexStore
from headrace.measuring.interleaved import Repetition, Stopwatch, interleave
from headrace.profiling.number_format import counted, seconds
from headrace.runtime.processor_affinity import available_cores
from headrace.runtime.rank_processes import run_ranks
from headrace.sampling.moment_windows import Sync
from headrace.video.camera_layout import CameraLayout, camera_names

if TYPE_CHECKING:
    from headrace.bench.camera_rank import CameraSubset, RankTask
    from headrace.loaders.cameras.camera_set import CameraSet


_TIMEOUT_SECONDS = 1800.0
_REHEARSED: Final = 12
"""Moments of the calibration."""
_FEWEST: Final = 2
"""Minimum moments per slot."""
_MINUTES_FROM: Final = 120
"""Seconds; shorter estimates are shown in whole seconds."""


@dataclass(frozen=True, kw_only=True)
class CamerasConfig:
    """Options of `bench cameras`."""

    index_file: Annotated[
        Path, Option("{video_dir: {clip: frames}}.", flags=("--index-file", "--index_file"))
    ]
    cameras: Annotated[str | None, Option(CAMERAS)] = None
    sync: Annotated[
        Sync, Option("Which frames of cameras belong together; by time, rates may differ.")
    ] = "index"
    tolerance_ms: Annotated[
        float, Option("How far from the reference's a frame may be, by time.", least=0)
    ] = 50.0
    reference: Annotated[
        str | None,
        Option("The camera whose frames are the moments, or longest; the first if not given."),
    ] = None
    rate: Annotated[
        str | None,
        Option(
            "Pictures a second; each camera is then a folder of pictures.", flags=("--framerate",)
        ),
    ] = None
    ranks: Annotated[tuple[int, ...], Option("Numbers of ranks, each a process.", least=1)] = (1, 2)
    workers: Annotated[tuple[int, ...], Option("Numbers of workers of each rank.", least=1)] = (2,)
    ways: Annotated[
        tuple[CameraVariant, ...], Option("Besides plain decoding: loader, dataset, wandering.")
    ] = ("loader", "dataset", "wandering")
    group_num: Annotated[int, Option("Clips in a batch.", least=1)] = 4
    size: Annotated[
        tuple[int, int] | None, Option("Height and width of the frames.", least=1, metavar="H W")
    ] = (256, 704)
    """(height, width); None: the cameras' own size."""
    repeats: Annotated[int, Option("Epochs of each.", least=1)] = 1
    max_seconds: Annotated[
        float,
        Option("Clips are cut for all epochs to take about so long; 0 reads them whole.", least=0),
    ] = 45.0

    def __post_init__(self) -> None:
        check_options(self)


class CameraRun(Repetition):
    """One epoch of one variant, from the moment all ranks are ready until the last one is done.

    CPU time of other programs is scaled down from the whole repetition, which includes startup.
    """

    way: CameraVariant
    ranks: PositiveInt
    workers: PositiveInt
    """Workers per rank."""
    delivered: PositiveInt
    """Pictures delivered: cameras × moments."""
    decoded: NonNegativeInt

    @property
    def rate(self) -> float:
        """Pictures per second of all ranks."""
        return self.delivered / self.seconds


class CamerasRecord(BenchmarkRecord):
    """Epochs of all variants."""

    clips: PositiveInt
    cameras: PositiveInt
    pictures: PositiveInt
    """Pictures in the set: moments × cameras."""
    pictures_read: PositiveInt | None = None
    """Pictures per epoch; None in records of older versions."""
    compared: PositiveInt
    """Pictures compared bit for bit between PyAV and headrace."""
    runs: tuple[CameraRun, ...]
    """Epochs in timing order."""


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
    from headrace.bench.camera_rank import CameraSubset, check_equal_cameras
    from headrace.loaders.cameras.camera_alignment import Alignment

    store = context.store or IndexStore()
    context.on_progress("opening cameras", 0, 0)
    all_moments = CameraSubset(
        layout=CameraLayout.read(
            config.index_file, camera_names(config.cameras), picture_rate=config.rate
        ),
        alignment=Alignment(
            sync=config.sync, tolerance_ms=config.tolerance_ms, reference=config.reference
        ),
    )
    cameras = all_moments.open(store)
    if config.size is None:
        cameras.common_size()
    provenance = context.provenance(config)
    compared = check_equal_cameras(all_moments, cameras.clips[0], store, config.size)
    setups = _setups(config)
    subset = _subset(config, all_moments, cameras, [setups[0], *setups * config.repeats], context)
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
        pictures_read=_pictures(subset.open(store)),
        compared=compared,
        runs=runs,
    )


def _setups(config: CamerasConfig) -> list[CameraSetup]:
    """Return the setups in order; plain decoding, the reference, is always included."""
    variants: tuple[CameraVariant, ...] = (
        "decode",
        *(variant for variant in config.ways if variant != "decode"),
    )
    return [(variant, *by) for by in product(config.ranks, config.workers) for variant in variants]


def _subset(
    config: CamerasConfig,
    all_moments: "CameraSubset",
    cameras: "CameraSet",
    setups: list[CameraSetup],
    context: Context,
) -> "CameraSubset":
    """Return the subset for each setup; report the estimated time."""
    context.on_progress("rehearsing", 0, 0)
    estimate = _calibrate(config, all_moments.cut(cameras, _REHEARSED, 1), cameras, setups, context)
    subset, pictures = all_moments, _pictures(cameras)
    amount = counted(pictures, "picture")
    if config.max_seconds:
        slots = config.group_num * max(ranks * workers for _, ranks, workers in setups)
        fitting = estimate.pictures(setups, config.max_seconds) // len(cameras.cameras)
        moments = max(_FEWEST * slots, fitting)
        if moments * len(cameras.cameras) < pictures:
            subset = all_moments.cut(cameras, moments, slots)
            pictures = _pictures(subset.open(context.store or IndexStore()))
            amount = f"{pictures:,} of {amount} (--max-seconds 0 reads all)"
    whole_seconds = round(estimate.seconds(setups, pictures))
    took = f"{whole_seconds} s" if whole_seconds < _MINUTES_FROM else seconds(whole_seconds)
    context.on_word(f"Time: about {took} for {counted(len(setups), 'epoch')} of {amount}")
    return subset


def _calibrate(
    config: CamerasConfig,
    subset: "CameraSubset",
    cameras: "CameraSet",
    setups: list[CameraSetup],
    context: Context,
) -> CameraEstimate:
    from headrace.bench.camera_rank import CalibrationTask, rehearse

    [decoding] = _tasks(config, subset, ("decode", 1, 1), context)
    task = CalibrationTask(decoding=decoding, workers=worker_numbers(setups))
    watch = Stopwatch(context.clock)
    [calibration], seconds_taken = run_ranks(
        rehearse, [task], timeout_seconds=_TIMEOUT_SECONDS, clock=context.clock
    )
    indexes = [index for clip in cameras.clips for index in clip.indexes]
    return CameraEstimate(
        start_seconds=max(0.0, watch.seconds - seconds_taken),
        worker_seconds=calibration.worker_seconds,
        picture_seconds=calibration.decode_seconds / calibration.delivered,
        cores=len(available_cores()),
        gop=sum(map(len, indexes)) / sum(len(index.gop_lengths) for index in indexes),
    )


def _pictures(cameras: "CameraSet") -> int:
    return sum(map(len, cameras.clips)) * len(cameras.cameras)


def _tasks(
    config: CamerasConfig, subset: "CameraSubset", setup: CameraSetup, context: Context
) -> "list[RankTask]":
    """Return the task of each rank."""
    from headrace.bench.camera_rank import RankTask

    variant, ranks, workers = setup
    return [
        RankTask(
            variant=variant,
            part=subset,
            rank=rank,
            ranks=ranks,
            workers=workers,
            group_num=config.group_num,
            size=config.size,
            index_store=context.store.folder if context.store else None,
        )
        for rank in range(ranks)
    ]


def _run(
    config: CamerasConfig, subset: "CameraSubset", setup: CameraSetup, context: Context
) -> CameraRun:
    from headrace.bench.camera_rank import run_rank

    variant, ranks, workers = setup
    watch = Stopwatch(context.clock)
    results, wall_seconds = run_ranks(
        run_rank,
        _tasks(config, subset, setup, context),
        timeout_seconds=_TIMEOUT_SECONDS,
        clock=context.clock,
    )
    all_moments = watch.stop(watch.seconds)
    return CameraRun(
        way=variant,
        ranks=ranks,
        workers=workers,
        seconds=wall_seconds,
        delivered=sum(result.delivered for result in results),
        decoded=sum(result.decoded for result in results),
        cpu_seconds=sum(result.cpu_seconds for result in results),
        others_cpu_seconds=(all_moments.others_cpu_seconds or 0.0)
        * wall_seconds
        / all_moments.seconds,
    )
