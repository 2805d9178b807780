"""How often camera streams decode a frame, and how fast, by ranks, workers and way of dealing."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

from pydantic import NonNegativeInt, PositiveInt

from headrace.decode.index_store import IndexStore
from headrace.experiments.camera_ways import CameraWay
from headrace.experiments.contend import Stopwatch, Turn, take_turns
from headrace.experiments.experiment import Context
from headrace.experiments.options import Option, check_options
from headrace.experiments.record import ExperimentRecord
from headrace.runtime.processes import run_together
from headrace.video.camera_layout import CameraLayout

_TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True, kw_only=True)
class CamerasConfig:
    """What is measured."""

    index_file: Annotated[
        Path, Option("{video_dir: {clip: frames}}.", flags=("--index-file", "--index_file"))
    ]
    ranks: Annotated[tuple[int, ...], Option("Numbers of ranks, each a process.", least=1)] = (
        *(1, 2, 4, 8),
    )
    workers: Annotated[tuple[int, ...], Option("Numbers of workers of each rank.", least=1)] = (
        *(1, 2),
    )
    ways: Annotated[
        tuple[CameraWay, ...], Option("Besides plain decoding: loader, dataset, wandering.")
    ] = ("loader", "dataset", "wandering")
    group_num: Annotated[int, Option("Clips in a batch.", least=1)] = 4
    size: Annotated[
        tuple[int, int] | None, Option("Height and width of the frames.", least=1, metavar="H W")
    ] = (256, 704)
    """None keeps that of the cameras."""
    repeats: Annotated[int, Option("Epochs of each.", least=1)] = 1

    def __post_init__(self) -> None:
        check_options(self)


class CameraRun(Turn):
    """One epoch of one way, all ranks together, from when all were ready until the last was done.

    What other programs took is estimated from the whole turn, the start of the ranks included.
    """

    way: CameraWay
    ranks: PositiveInt
    workers: PositiveInt
    """Of each rank."""
    delivered: PositiveInt
    """Pictures: one for each camera and moment."""
    decoded: NonNegativeInt


class CamerasRecord(ExperimentRecord):
    """What was measured."""

    clips: PositiveInt
    cameras: PositiveInt
    pictures: PositiveInt
    """In the set: moments times cameras."""
    compared: PositiveInt
    """Pictures that came out equal, bit for bit, from a bare PyAV loop and from headrace."""
    runs: tuple[CameraRun, ...]
    """As they were timed, in turn."""


def measure_cameras(config: CamerasConfig, context: Context) -> CamerasRecord:
    """Prove that frames are equal, then time an epoch of each way, ranks and workers.

    Every rank is a process, as under torch.distributed, on the same cores. One pass of plain
    decoding goes before them without being timed: it brings the files into memory, and bad media
    comes to light in it.

    Raises:
        ConfigError: the index file is none, or disagrees with the files.
        MediaError: a camera cannot be read, or a bare loop's frames are not headrace's.
        StageError: a rank failed.
    """
    from headrace.experiments.camera_equality import check_equal_cameras
    from headrace.training.cameras.camera_set import CameraSet

    store = context.store or IndexStore()
    layout = CameraLayout.read(config.index_file)
    found = CameraSet.open(layout, store=store)
    if config.size is None:
        found.common_size()
    made = context.provenance(config)
    compared = check_equal_cameras(layout, store, config.size)
    turns = _turns(config)
    runs = take_turns(
        turns,
        lambda turn: _run(config, *turn, context),
        repeats=config.repeats,
        label=lambda turn: "{}, ranks {}, workers {}".format(*turn),
        warm_up=turns[0],
        on_progress=context.on_progress,
    )
    moments = sum(map(len, found.clips))
    return CamerasRecord(
        provenance=made,
        clips=len(found.clips),
        cameras=len(found.cameras),
        pictures=moments * len(found.cameras),
        compared=compared,
        runs=runs,
    )


def _turns(config: CamerasConfig) -> list[tuple[CameraWay, int, int]]:
    """Return what is run, in order; plain decoding, which all are compared with, is always."""
    ways: tuple[CameraWay, ...] = ("decode", *(way for way in config.ways if way != "decode"))
    return [
        (way, ranks, workers)
        for ranks, workers in product(config.ranks, config.workers)
        for way in ways
    ]


def _run(
    config: CamerasConfig, way: CameraWay, ranks: int, workers: int, context: Context
) -> CameraRun:
    from headrace.experiments.camera_rank import RankTask, run_rank

    tasks = [
        RankTask(
            way=way,
            index_file=config.index_file,
            rank=rank,
            ranks=ranks,
            workers=workers,
            group_num=config.group_num,
            size=config.size,
            index_store=context.store.folder if context.store else None,
        )
        for rank in range(ranks)
    ]
    watch = Stopwatch(context.clock)
    results, seconds = run_together(
        run_rank, tasks, timeout_seconds=_TIMEOUT_SECONDS, clock=context.clock
    )
    whole = watch.turn(watch.seconds)
    return CameraRun(
        way=way,
        ranks=ranks,
        workers=workers,
        seconds=seconds,
        delivered=sum(each.delivered for each in results),
        decoded=sum(each.decoded for each in results),
        cpu_seconds=sum(each.cpu_seconds for each in results),
        others_cpu_seconds=(whole.others_cpu_seconds or 0.0) * seconds / whole.seconds,
    )
