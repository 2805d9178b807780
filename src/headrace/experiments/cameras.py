"""How often camera streams decode a frame, and how fast, by ranks, workers and way of dealing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import get_args

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.experiments.camera_equality import check_equal_cameras
from headrace.experiments.camera_rank import CameraWay, RankTask, run_rank
from headrace.experiments.progress import OnProgress, unseen
from headrace.experiments.record import ExperimentRecord
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Record
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.processes import run_together
from headrace.sizes import check_integers
from headrace.training.cameras.camera_set import CameraSet
from headrace.video.camera_layout import CameraLayout

_TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True, kw_only=True)
class CamerasConfig:
    """What is measured."""

    index_file: Path
    """`{video_dir: {clip: frame_count}}`."""
    ways: tuple[CameraWay, ...] = ("loader", "dataset", "wandering")
    """Besides `decode`, which all are compared with."""
    ranks: tuple[int, ...] = (1, 2, 4, 8)
    workers: tuple[int, ...] = (1, 2)
    """Of each rank: threads, or processes of a DataLoader."""
    group_num: int = 4
    """Clips in a batch."""
    size: tuple[int, int] | None = (256, 704)
    """(height, width) of the frames; None keeps that of the cameras."""
    repeats: int = 1
    """Epochs of each way; how often it decodes does not change."""

    def __post_init__(self) -> None:
        for name in ("ranks", "workers"):
            numbers = getattr(self, name)
            if not numbers or min(numbers) < 1:
                got = ", ".join(map(str, numbers)) or "none"
                raise ConfigError(f"{name} must be numbers from 1 up, got {got}")
        check_integers(1, group_num=self.group_num, repeats=self.repeats)
        unknown = set(self.ways) - set(get_args(CameraWay))
        if unknown:
            raise ConfigError(
                f"there is no way {', '.join(sorted(unknown))}; there is "
                f"{', '.join(get_args(CameraWay))}"
            )


class CameraRun(Record):
    """One epoch of one way, all ranks together."""

    way: CameraWay
    ranks: PositiveInt
    workers: PositiveInt
    """Of each rank."""
    seconds: PositiveFloat
    """From when all ranks were ready until the last was done."""
    delivered: PositiveInt
    """Pictures: one for each camera and moment."""
    decoded: NonNegativeInt
    cpu_seconds: NonNegativeFloat
    """Processor time of all ranks and their workers."""


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


def measure_cameras(
    config: CamerasConfig,
    *,
    command: Sequence[str] = (),
    on_progress: OnProgress = unseen,
    index_store: Path | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> CamerasRecord:
    """Prove that frames are equal, then time an epoch of each way, ranks and workers.

    Every rank is a process, as under torch.distributed, on the same cores. One pass of plain
    decoding goes before them without being timed: it brings the files into memory, and bad media
    comes to light in it.

    Args:
        config: What is measured.
        command: The command line it came from, if any.
        on_progress: Called before each turn.
        index_store: Folder of the indexes; None means the user's cache folder.
        clock: What times.

    Raises:
        ConfigError: the index file is none, or disagrees with the files.
        MediaError: a camera cannot be read, or a bare loop's frames are not headrace's.
        StageError: a rank failed.
    """
    store = IndexStore(index_store) if index_store else IndexStore()
    layout = CameraLayout.read(config.index_file)
    found = CameraSet.open(layout, store=store)
    if config.size is None:
        found.common_size()
    made = provenance(asdict(config), command, clock)
    compared = check_equal_cameras(layout, store, config.size)
    turns = _turns(config)
    runs = []
    for number, (way, ranks, workers) in enumerate([turns[0], *turns]):
        on_progress(f"{way}, ranks {ranks}, workers {workers}", number, len(turns) + 1)
        runs.append(_run(config, way, ranks, workers, index_store, clock))
    moments = sum(map(len, found.clips))
    return CamerasRecord(
        provenance=made,
        clips=len(found.clips),
        cameras=len(found.cameras),
        pictures=moments * len(found.cameras),
        compared=compared,
        runs=tuple(runs[1:]),
    )


def _turns(config: CamerasConfig) -> list[tuple[CameraWay, int, int]]:
    """Return what is run, in order: repeats take turns, so that none has all the luck."""
    ways: tuple[CameraWay, ...] = ("decode", *(way for way in config.ways if way != "decode"))
    return [
        (way, ranks, workers)
        for ranks, workers in product(config.ranks, config.workers)
        for way in ways
    ] * config.repeats


def _run(
    config: CamerasConfig,
    way: CameraWay,
    ranks: int,
    workers: int,
    index_store: Path | None,
    clock: Clock,
) -> CameraRun:
    tasks = [
        RankTask(
            way=way,
            index_file=config.index_file,
            rank=rank,
            ranks=ranks,
            workers=workers,
            group_num=config.group_num,
            size=config.size,
            index_store=index_store,
        )
        for rank in range(ranks)
    ]
    results, seconds = run_together(run_rank, tasks, timeout_seconds=_TIMEOUT_SECONDS, clock=clock)
    return CameraRun(
        way=way,
        ranks=ranks,
        workers=workers,
        seconds=seconds,
        delivered=sum(each.delivered for each in results),
        decoded=sum(each.decoded for each in results),
        cpu_seconds=sum(each.cpu_seconds for each in results),
    )
