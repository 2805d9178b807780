"""How often camera streams decode a frame, and how fast, by ranks, workers and way of dealing."""

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
from headrace.runtime.affinity import available_cores
from headrace.runtime.rank_processes import run_ranks
from headrace.sampling.moment_windows import Sync
from headrace.video.camera_layout import CameraLayout, camera_names

if TYPE_CHECKING:
    from headrace.bench.camera_rank import CameraSubset, RankTask
    from headrace.loaders.cameras.camera_set import CameraSet


_TIMEOUT_SECONDS = 1800.0
_REHEARSED: Final = 12
"""Moments of a first, short turn."""
_FEWEST: Final = 2
"""Moments that each slot has at least, however long they take."""
_MINUTES_FROM: Final = 120
"""Seconds; below, an estimate is told in whole ones."""


@dataclass(frozen=True, kw_only=True)
class CamerasConfig:
    """What is measured."""

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
    """None keeps that of the cameras."""
    repeats: Annotated[int, Option("Epochs of each.", least=1)] = 1
    max_seconds: Annotated[
        float,
        Option("Clips are cut for all epochs to take about so long; 0 reads them whole.", least=0),
    ] = 45.0

    def __post_init__(self) -> None:
        check_options(self)


class CameraRun(Repetition):
    """One epoch of one way, all ranks together, from when all were ready until the last was done.

    What other programs took is estimated from the whole turn, the start of the ranks included.
    """

    way: CameraVariant
    ranks: PositiveInt
    workers: PositiveInt
    """Of each rank."""
    delivered: PositiveInt
    """Pictures: one for each camera and moment."""
    decoded: NonNegativeInt

    @property
    def rate(self) -> float:
        """Pictures per second of all ranks."""
        return self.delivered / self.seconds


class CamerasRecord(BenchmarkRecord):
    """What was measured."""

    clips: PositiveInt
    cameras: PositiveInt
    pictures: PositiveInt
    """In the set: moments times cameras."""
    pictures_read: PositiveInt | None = None
    """In an epoch, of those; None in records made before clips were cut."""
    compared: PositiveInt
    """Pictures that came out equal, bit for bit, from a bare PyAV loop and from headrace."""
    runs: tuple[CameraRun, ...]
    """As they were timed, in turn."""


def measure_cameras(config: CamerasConfig, context: Context) -> CamerasRecord:
    """Prove that frames are equal, then time an epoch of each way, ranks and workers.

    Every rank is a process, as under torch.distributed, on the same cores. A short turn of plain
    decoding says how long all others will take, and how much of the clips is read; one that is not
    counted goes before them: it brings the files into memory, and bad media comes to light in it.

    Raises:
        ConfigError: the index file is none, or disagrees with the files.
        MediaError: a camera cannot be read, or a bare loop's frames are not headrace's.
        StageError: a rank failed.
    """
    from headrace.bench.camera_rank import CameraSubset, check_equal_cameras
    from headrace.loaders.cameras.camera_alignment import Alignment

    store = context.store or IndexStore()
    context.on_progress("opening cameras", 0, 0)
    whole = CameraSubset(
        layout=CameraLayout.read(
            config.index_file, camera_names(config.cameras), picture_rate=config.rate
        ),
        alignment=Alignment(
            sync=config.sync, tolerance_ms=config.tolerance_ms, reference=config.reference
        ),
    )
    found = whole.open(store)
    if config.size is None:
        found.common_size()
    made = context.provenance(config)
    compared = check_equal_cameras(whole, found.clips[0], store, config.size)
    turns = _turns(config)
    part = _part(config, whole, found, [turns[0], *turns * config.repeats], context)
    runs = interleave(
        turns,
        lambda turn: _run(config, part, turn, context),
        repeats=config.repeats,
        label=lambda turn: "{}, ranks {}, workers {}".format(*turn),
        warm_up=turns[0],
        on_progress=context.on_progress,
    )
    return CamerasRecord(
        provenance=made,
        clips=len(found.clips),
        cameras=len(found.cameras),
        pictures=_pictures(found),
        pictures_read=_pictures(part.open(store)),
        compared=compared,
        runs=runs,
    )


def _turns(config: CamerasConfig) -> list[CameraSetup]:
    """Return what is run, in order; plain decoding, which all are compared with, is always."""
    ways: tuple[CameraVariant, ...] = ("decode", *(way for way in config.ways if way != "decode"))
    return [(way, *by) for by in product(config.ranks, config.workers) for way in ways]


def _part(
    config: CamerasConfig,
    whole: "CameraSubset",
    found: "CameraSet",
    turns: list[CameraSetup],
    context: Context,
) -> "CameraSubset":
    """Return what each of the turns reads, and say how long all of them take."""
    context.on_progress("rehearsing", 0, 0)
    pace = _rehearsed(config, whole.cut(found, _REHEARSED, 1), found, turns, context)
    part, pictures = whole, _pictures(found)
    said = counted(pictures, "picture")
    if config.max_seconds:
        slots = config.group_num * max(ranks * workers for _, ranks, workers in turns)
        fitting = pace.pictures(turns, config.max_seconds) // len(found.cameras)
        moments = max(_FEWEST * slots, fitting)
        if moments * len(found.cameras) < pictures:
            part = whole.cut(found, moments, slots)
            pictures = _pictures(part.open(context.store or IndexStore()))
            said = f"{pictures:,} of {said} (--max-seconds 0 reads all)"
    whole_seconds = round(pace.seconds(turns, pictures))
    took = f"{whole_seconds} s" if whole_seconds < _MINUTES_FROM else seconds(whole_seconds)
    context.on_word(f"Time: about {took} for {counted(len(turns), 'epoch')} of {said}")
    return part


def _rehearsed(
    config: CamerasConfig,
    part: "CameraSubset",
    found: "CameraSet",
    turns: list[CameraSetup],
    context: Context,
) -> CameraEstimate:
    from headrace.bench.camera_rank import CalibrationTask, rehearse

    [decoding] = _tasks(config, part, ("decode", 1, 1), context)
    task = CalibrationTask(decoding=decoding, workers=worker_numbers(turns))
    watch = Stopwatch(context.clock)
    [taken], seconds_taken = run_ranks(
        rehearse, [task], timeout_seconds=_TIMEOUT_SECONDS, clock=context.clock
    )
    indexes = [index for clip in found.clips for index in clip.indexes]
    return CameraEstimate(
        start_seconds=max(0.0, watch.seconds - seconds_taken),
        worker_seconds=taken.worker_seconds,
        picture_seconds=taken.decode_seconds / taken.delivered,
        cores=len(available_cores()),
        gop=sum(map(len, indexes)) / sum(len(index.gop_lengths) for index in indexes),
    )


def _pictures(found: "CameraSet") -> int:
    return sum(map(len, found.clips)) * len(found.cameras)


def _tasks(
    config: CamerasConfig, part: "CameraSubset", turn: CameraSetup, context: Context
) -> "list[RankTask]":
    """Return what each rank of a turn does."""
    from headrace.bench.camera_rank import RankTask

    way, ranks, workers = turn
    return [
        RankTask(
            way=way,
            part=part,
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
    config: CamerasConfig, part: "CameraSubset", turn: CameraSetup, context: Context
) -> CameraRun:
    from headrace.bench.camera_rank import run_rank

    way, ranks, workers = turn
    watch = Stopwatch(context.clock)
    results, wall_seconds = run_ranks(
        run_rank,
        _tasks(config, part, turn, context),
        timeout_seconds=_TIMEOUT_SECONDS,
        clock=context.clock,
    )
    whole = watch.turn(watch.seconds)
    return CameraRun(
        way=way,
        ranks=ranks,
        workers=workers,
        seconds=wall_seconds,
        delivered=sum(each.delivered for each in results),
        decoded=sum(each.decoded for each in results),
        cpu_seconds=sum(each.cpu_seconds for each in results),
        others_cpu_seconds=(whole.others_cpu_seconds or 0.0) * wall_seconds / whole.seconds,
    )
