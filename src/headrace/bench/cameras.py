"""Camera loading benchmark: decodes per frame and rate, by ranks, workers and dealing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import NonNegativeInt, PositiveInt

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, SuiteSpec, deferred
from headrace.bench.charts import Line, lines
from headrace.config_fields import CAMERAS as CAMERA_NAMES
from headrace.config_fields import Option, check_options
from headrace.measuring.decode_counts import median_column
from headrace.measuring.interleaved import Repetition, RepetitionRow, grouped
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, percent
from headrace.report.benchmark_page import Column
from headrace.report.page import MARK, PLAIN, Chart
from headrace.sampling.moments import Sync

CameraVariant = Literal["decode", "loader", "dataset", "wandering"]
"""Variants of camera loading. `decode`: PyAV loop over every file in threads; the upper bound.
`loader`: `CameraLoader`. `dataset`: DataLoader with a `CameraStreamSampler`. `wandering`:
DataLoader that cuts the moments of all clips into one equal part per slot, also inside clips, and
deals batches round-robin to ranks and workers."""
_PASSED_ON: Final = 1.5
"""Time of decoding, collating and transfer in a DataLoader ÷ time of decoding; see
benchmarks/bench_cameras.py."""
_IN_WORKERS: Final[tuple[CameraVariant, ...]] = ("dataset", "wandering")
"""Variants that start DataLoader workers."""


class CameraSetup(NamedTuple):
    """Variant and processes of an epoch."""

    variant: CameraVariant
    ranks: int
    workers: int
    """Workers per rank."""


@dataclass(frozen=True, kw_only=True)
class CamerasConfig:
    """Options of `bench cameras`."""

    index_file: Annotated[
        Path,
        Option("JSON file: {video_dir: {clip: frames}}.", flags=("--index-file", "--index_file")),
    ]
    cameras: Annotated[str | None, Option(CAMERA_NAMES)] = None
    sync: Annotated[Sync, Option("Alignment of cameras: by index, or by time if rates differ.")] = (
        "index"
    )
    tolerance_ms: Annotated[
        float, Option("Max milliseconds between a frame and the reference's, by time.", least=0)
    ] = 50.0
    reference: Annotated[
        str | None,
        Option("Camera whose frames are the moments, or longest; default: the first."),
    ] = None
    rate: Annotated[
        str | None,
        Option(
            "Images per second; each camera is then a folder of images.", flags=("--framerate",)
        ),
    ] = None
    ranks: Annotated[tuple[int, ...], Option("Numbers of ranks; a rank is a process.", least=1)] = (
        1,
        2,
    )
    workers: Annotated[tuple[int, ...], Option("Numbers of workers per rank.", least=1)] = (2,)
    ways: Annotated[
        tuple[CameraVariant, ...],
        Option("Variants to compare with plain decoding: loader, dataset, wandering."),
    ] = ("loader", "dataset", "wandering")
    group_num: Annotated[int, Option("Clips per batch.", least=1)] = 4
    size: Annotated[
        tuple[int, int] | None, Option("Height and width of the frames.", least=1, metavar="HxW")
    ] = (256, 704)
    """(height, width); None: the cameras' own size."""
    repeats: Annotated[int, Option("Epochs per variant.", least=1)] = 1
    max_seconds: Annotated[
        float,
        Option("Approximate seconds of all epochs, by cutting clips; 0 reads all.", least=0),
    ] = 45.0

    def __post_init__(self) -> None:
        check_options(self)


class CameraRun(Repetition):
    """One epoch of one variant, from when all ranks are ready until the last one is done.

    CPU time of other programs is scaled down from the whole repetition, which includes startup.
    """

    way: CameraVariant
    ranks: PositiveInt
    workers: PositiveInt
    """Workers per rank."""
    delivered: PositiveInt
    """Frames delivered: cameras × moments."""
    decoded: NonNegativeInt

    @property
    def rate(self) -> float:
        """Frames per second of all ranks."""
        return self.delivered / self.seconds


class CamerasRecord(BenchmarkRecord):
    """Epochs of all variants."""

    clips: PositiveInt
    cameras: PositiveInt
    pictures: PositiveInt
    """Frames in the set: moments × cameras."""
    pictures_read: PositiveInt | None = None
    """Frames per epoch; None in records of older versions."""
    compared: PositiveInt
    """Frames compared bit for bit between PyAV and headrace."""
    runs: tuple[CameraRun, ...]
    """Epochs in timing order."""


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


ONCE: Final = 1.02
"""Max decodes per frame at which frames count as decoded once."""
LABELS: Final[dict[CameraVariant, str]] = {
    "decode": "bare PyAV loop",
    "loader": "CameraLoader",
    "dataset": "DataLoader, slots stay",
    "wandering": "DataLoader, slots wander",
}
QUOTED: Final = (
    "The example of accvlab.on_demand_video_decoder, whose slots wander, reports 2,481.54, "
    "2,885.02, 3,236.65 and 3,497.02 frames/s on 1, 2, 4 and 8 A100 GPUs (SXM4, 80 GB; EPYC 7J13; "
    "NuScenes-mini over NFS: 10 clips, 6 cameras, H.265, 1600x900, GOP 30, no B-frames). Its "
    "hardware differs, so only its scaling, 1.41 times from 1 to 8, is comparable."
)
_SHORT_SECONDS: Final = 5.0
_COLORS: Final = {"loader": PLAIN, "dataset": "#8a6fb0", "wandering": MARK}


@dataclass(frozen=True, kw_only=True)
class CamerasRow(RepetitionRow[CameraRun]):
    """Epochs of one variant with one number of ranks and workers."""

    plain: Sequence[CameraRun]
    """Epochs of plain decoding with the same ranks and workers."""

    @property
    def variant(self) -> CameraVariant:
        """Variant of loading."""
        return self.first.way

    @property
    def processes(self) -> tuple[int, int]:
        """Ranks, and workers per rank."""
        return self.first.ranks, self.first.workers

    @property
    def amplification(self) -> float:
        """Frames decoded ÷ frames delivered."""
        return self.first.decoded / self.first.delivered

    @property
    def share(self) -> float:
        """Rate ÷ rate of plain decoding."""
        return self.rate.median / RepetitionRow(repetitions=self.plain).rate.median


def rows_of(record: CamerasRecord) -> tuple[CamerasRow, ...]:
    """Return one row per variant, ranks and workers, in run order."""
    groups = grouped(record.runs, lambda run: (run.way, run.ranks, run.workers))
    return tuple(
        CamerasRow(repetitions=runs, plain=groups["decode", ranks, workers])
        for (_, ranks, workers), runs in groups.items()
    )


def _answer(record: CamerasRecord, rows: tuple[CamerasRow, ...]) -> tuple[Finding, ...]:
    staying = [row for row in rows if row.variant in ("loader", "dataset")]
    wandering = [row for row in rows if row.variant == "wandering"]
    noise, change, advice = record.noise(rows), None, None
    headline = "Only plain decoding was measured"
    if staying:
        times = max(row.amplification for row in staying)
        headline = "If slots stay, " + (
            "every frame is decoded once, with any number of ranks and workers"
            if times <= ONCE
            else f"frames are decoded up to {decimal(times)} times"
        )
    if staying and wandering:
        words = "CameraLoader, or CameraStreamSampler with the DataLoader's number of workers"
        rates = {row.processes: row.rate.median for row in wandering}
        known = [row for row in staying if row.processes in rates]
        gains = [(row.rate.median / rates[row.processes], row) for row in known]
        times, best = max(gains, key=lambda gain: gain[0])
        gain = f"{decimal(times)} times the frames/s of wandering slots ({_name(best)})"
        doubt = f"; {noise.doubt[0].lower()}{noise.doubt[1:]}" if noise.doubt else ""
        change = f"{words}: {gain}{doubt}."
        advice = None if doubt else Change(words=words, gain=times, evidence=gain)
    evidence = (
        *_evidence(record, staying, wandering),
        *noise.sentences("Epochs of one variant"),
        QUOTED,
    )
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _evidence(
    record: CamerasRecord, staying: list[CamerasRow], wandering: list[CamerasRow]
) -> Iterator[str]:
    yield f"All ranks share {counted(record.cores, 'usable core')}."
    if staying:
        worst = max(staying, key=lambda row: row.amplification)
        yield (
            f"If slots stay, at most {decimal(worst.amplification)} frames are decoded per "
            f"delivered frame ({_name(worst)})."
        )
        best = max(staying, key=lambda row: row.share)
        yield (
            f"The best variant reaches {percent(best.share)} of plain decoding: {_name(best)}, "
            f"{decimal(best.rate.median)} frames/s."
        )
    if wandering:
        worst = max(wandering, key=lambda row: row.amplification)
        yield (
            f"If slots wander, up to {decimal(worst.amplification)} frames are decoded per "
            f"delivered frame ({_name(worst)})."
        )
    read = record.pictures_read or record.pictures
    if read < record.pictures:
        yield (
            f"Clips were cut: an epoch has {read:,} of {counted(record.pictures, 'frame')}; "
            "--max-seconds 0 reads all."
        )
    shortest = min(run.seconds for run in record.runs)
    if shortest < _SHORT_SECONDS:
        yield (
            f"The shortest epoch took {decimal(shortest)} s, so worker startup distorts its rate; "
            "use longer or more clips (--max-seconds)."
        )


def _name(row: CamerasRow) -> str:
    ranks, workers = row.processes
    return f"{LABELS[row.variant]}, {counted(ranks, 'rank')} x {counted(workers, 'worker')}"


def _charts(rows: tuple[CamerasRow, ...]) -> tuple[Chart, ...]:
    max_workers = max(row.first.workers for row in rows)
    groups = grouped(
        [row for row in rows if row.variant != "decode"],
        lambda row: (row.variant, row.first.workers),
    )

    def lines_of(value: Callable[[CamerasRow], float]) -> list[Line]:
        return [
            Line(
                f"{LABELS[variant]}, {counted(workers, 'worker')}",
                [(row.first.ranks, value(row)) for row in group],
                color=_COLORS[variant],
                is_dotted=workers != max_workers,
            )
            for (variant, workers), group in groups.items()
        ]

    ranks = {"title_text": "ranks", "tickvals": sorted({row.first.ranks for row in rows})}
    return (
        lines(
            lines_of(lambda row: row.amplification),
            name="decoded",
            title="Frames decoded per delivered frame",
            reading="1: each frame is decoded once. Solid lines: the largest number of workers; "
            "dotted lines: fewer.",
            x=ranks,
            y="decoded ÷ delivered",
        ),
        lines(
            lines_of(lambda row: row.rate.median),
            name="speed",
            title="Frames per second of all ranks together",
            reading="Ranks share the cores of one machine, so at best a line is level.",
            x=ranks,
            y="frames/s, all ranks",
        ),
    )


CAMERAS: Final[Benchmark[CamerasConfig, CamerasRecord, CamerasRow]] = Benchmark(
    name="cameras",
    summary="Count decodes per frame of camera streams, and time them, by ranks and workers.",
    config=CamerasConfig,
    record=CamerasRecord,
    measure=deferred("camera_epochs:measure_cameras"),
    title=lambda record: (
        f"Camera streams by ranks and workers: {counted(record.clips, 'clip')} of "
        f"{counted(record.cameras, 'camera')}, {counted(record.pictures, 'frame')}"
    ),
    rows=rows_of,
    columns=(
        Column("variant", lambda row: LABELS[row.variant]),
        Column("ranks", lambda row: str(row.first.ranks)),
        Column("workers", lambda row: str(row.first.workers)),
        Column("frames/s", lambda row: decimal(row.rate.median)),
        Column("decoded/delivered", lambda row: f"{row.amplification:.2f}"),
        median_column("CPU ms", lambda run: run.cpu_seconds / run.delivered * 1000),
        Column("of plain", lambda row: percent(row.share)),
    ),
    reading="Frames of all ranks together, one per camera and moment. The last column is "
    "frames/s ÷ frames/s of plain decoding with the same ranks and workers.",
    answer=_answer,
    charts=lambda record, rows: _charts(rows),
    names_machine=False,
    terms=SuiteSpec(
        config=lambda videos: (
            "it needs clips of several cameras, not videos: headrace bench cameras --index-file"
        ),
        concerns="loading",
    ),
)
