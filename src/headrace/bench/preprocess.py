"""Preprocessing benchmark: each level on CPU and GPU, with decoding and the model."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, get_args

import numpy as np
from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.benchmark import Context, SuiteSpec
from headrace.bench.charts import Charts, bars
from headrace.bench.config import (
    PREP_ON_GPU,
    SMALL_MODEL,
    BatchSize,
    BenchmarkConfig,
    ModelName,
    Repeats,
    TurnSeconds,
    Weights,
)
from headrace.bench.variant_benchmark import (
    UNCERTAIN,
    Rows,
    VariantBenchmark,
    VariantRecord,
    VariantRow,
    VariantSet,
    Work,
    figure,
)
from headrace.measuring.interleaved import AGAIN, ALIKE, NoiseCheck
from headrace.models.compute import Compute
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, percent
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column

if TYPE_CHECKING:
    from torch import Tensor

    from headrace.bench.model_work import ModelRuns
    from headrace.models.model import Model
    from headrace.models.results import Labels
    from headrace.preprocess.levels import Frames, Preprocess

    Models = Mapping["Place", Model[Labels]]
    Levels = Mapping[PrepLevel, Preprocess]

Place = Literal["cpu", "1 thread", "gpu"]
"""Device of a step: the CPU with PyTorch's default threads (as in a run) or with one thread, or a
GPU."""
LEVELS: Final[tuple[PrepLevel, ...]] = get_args(PrepLevel)
DECODE: Final = "decode"
TRANSFER: Final = "transfer"
INFER: Final = "infer"
MOST_APART: Final = 4.0
"""Max difference in grey levels: a CPU resizes in integers, a GPU in float32; see
`preprocess.levels`."""
MEAN_APART: Final = 0.5
"""Max mean difference in grey levels."""
_USUAL: Final = "medium"
"""Level that matches the model's evaluation transform."""


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig(BenchmarkConfig):
    """Options of `bench preprocess`."""

    one_video_of: ClassVar = "preprocess"
    model_name: ModelName = SMALL_MODEL
    """Light, so preprocessing matters, as it does with a GPU."""
    weights: Weights = "none"
    batch_size: BatchSize = 4
    """Small: the complex level of a large frame takes long."""
    seconds: TurnSeconds = 1.0
    repeats: Repeats = 3


class TimedStep(Record):
    """One timed step on one device."""

    way: str
    """Variant name: `medium, 1 thread`."""
    name: str
    """A level, or decode, transfer or infer."""
    place: Place


class Agreement(Record):
    """Difference of a level's tensors between the CPU and another device, in grey levels."""

    level: PrepLevel
    place: Place
    most: NonNegativeFloat
    mean: NonNegativeFloat


class PreprocessRecord(VariantRecord):
    """Repetitions of all steps."""

    model: str
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the decoded frames."""
    threads: PositiveInt
    """Intra-op threads on the CPU of steps other than `1 thread`."""
    steps: tuple[TimedStep, ...]
    compared: PositiveInt
    """Frames compared before timing, for each level and device."""
    agreement: tuple[Agreement, ...]


@contextmanager
def _prepare(config: PreprocessConfig, context: Context) -> Iterator[VariantSet[PreprocessRecord]]:
    """Check that all devices give equal tensors; yield every step on every device.

    Raises:
        ConfigError, MediaError: model or video is not available.
        BackendError: tensors differ between GPU and CPU.
    """
    import torch

    from headrace.bench.model_work import decoding, model_runs
    from headrace.preprocess.levels import build_preprocess

    with model_runs(config, config.batch_size, config.seconds, context) as runs:
        index = runs.cached.index
        load = partial(runs.load, frame_size=index.info.upright_size)
        models: dict[Place, Model[Labels]] = {"cpu": load(Compute(device="cpu"))}
        if torch.get_num_threads() > 1:
            models["1 thread"] = models["cpu"]
        if torch.cuda.is_available():
            models["gpu"] = load(Compute(device="cuda"))
        levels = {level: build_preprocess(level, models["cpu"].input) for level in LEVELS}
        agreement = tuple(_agreements(runs, models, levels))
        works: dict[tuple[str, Place], Work] = {
            (DECODE, "cpu"): runs.flow(partial(decoding, index, config.batch_size)),
            **_timed_passes(runs, models, levels),
        }
        steps = {
            f"{name}, {device}": TimedStep(way=f"{name}, {device}", name=name, place=device)
            for name, device in works
        }
        yield VariantSet(
            variants=dict(zip(steps, works.values(), strict=True)),
            settled=lambda variant: _threads(steps[variant].place),
            record=partial(
                PreprocessRecord,
                model=config.model_name,
                size=index.info.upright_size,
                threads=torch.get_num_threads(),
                steps=tuple(steps.values()),
                compared=len(runs.cached.batches),
                agreement=agreement,
            ),
        )


def _agreements(runs: "ModelRuns", models: "Models", levels: "Levels") -> Iterator[Agreement]:
    """Yield the difference of each device's tensors from the CPU's, for one frame per batch."""
    from headrace.bench.model_work import check_frames_equal

    frames, std = np.stack([batch[0] for batch in runs.cached.batches]), models["cpu"].input.std
    for device in [device for device in models if device != "cpu"]:
        for level, preprocess in levels.items():
            with _threads(device):
                tensors = _on_device(preprocess, device)(frames).cpu()
            most, mean = check_frames_equal(
                f"tensors of preprocessing ({level}) differ between {device} and the CPU",
                preprocess(frames),
                tensors,
                std,
                allowed=(MOST_APART, MEAN_APART),
                fix="preprocess on the CPU",
            )
            yield Agreement(level=level, place=device, most=most, mean=mean)


def _timed_passes(
    runs: "ModelRuns", models: "Models", levels: "Levels"
) -> dict[tuple[str, Place], Work]:
    """Return the work of each step on cached batches."""
    from headrace.bench.model_work import on_device
    from headrace.runs.run_stages import Transfer

    batches = runs.cached.batches
    works: dict[tuple[str, Place], Work] = {
        (level, device): runs.passes(batches, _on_device(preprocess, device))
        for level, preprocess in levels.items()
        for device in models
    }
    tensors = [levels[_USUAL](batch) for batch in batches]
    for device, model in models.items():
        if device == "gpu":
            works[TRANSFER, device] = runs.passes(tensors, Transfer("cuda").carry)
        works[INFER, device] = runs.passes(on_device(tensors, model.compute.device), model.run)
    return works


def _threads(device: Place) -> AbstractContextManager[None]:
    from headrace.models.device import operation_threads

    return operation_threads(1 if device == "1 thread" else None)


def _on_device(preprocess: "Preprocess", device: Place) -> "Preprocess":
    """Return preprocessing of CPU frames on a device; for a GPU, with the transfer."""
    from torch.cuda import current_stream

    from headrace.runs.run_stages import Transfer

    if device != "gpu":
        return preprocess
    carrier = Transfer("cuda")

    def transfer_and_preprocess(frames: "Frames") -> "Tensor":
        tensor = preprocess(carrier.carry(frames))
        current_stream().synchronize()  # so that the timing includes the GPU's work
        return tensor

    return transfer_and_preprocess


_CHANGES: Final = {
    "cpu, 1 thread": Change(words="headrace run --threads 1", options={"threads": 1}),
    "gpu": PREP_ON_GPU,
}
"""Path → change of a run to use it."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """Steps of a frame from file to result."""

    name: str
    """Device of preprocessing, and the model's device if it differs."""
    rows: Rows[TimedStep]
    """Its steps, in order."""

    @property
    def ms(self) -> float:
        """Sum of its steps: the time of a frame without overlap."""
        return sum(row.ms.median for row in self.rows)


def _by_step(rows: Rows[TimedStep]) -> dict[tuple[str, Place], VariantRow[TimedStep]]:
    return {(row.facts.name, row.facts.place): row for row in rows}


def paths(rows: Rows[TimedStep]) -> tuple[Path, ...]:
    """Return the paths with the usual level, the reference first."""
    by_step = _by_step(rows)
    steps: dict[str, tuple[tuple[str, Place], ...]] = {"cpu": ((_USUAL, "cpu"), (INFER, "cpu"))}
    if (INFER, "gpu") in by_step:
        steps = {
            "cpu, model on gpu": ((_USUAL, "cpu"), (TRANSFER, "gpu"), (INFER, "gpu")),
            "gpu": ((_USUAL, "gpu"), (INFER, "gpu")),
            **steps,
        }
    elif (INFER, "1 thread") in by_step:
        steps["cpu, 1 thread"] = ((_USUAL, "1 thread"), (INFER, "1 thread"))
    return tuple(
        Path(name=name, rows=(by_step[DECODE, "cpu"], *(by_step[step] for step in later)))
        for name, later in steps.items()
    )


def _answer(record: PreprocessRecord, rows: Rows[TimedStep]) -> tuple[Finding, ...]:
    base, *others = paths(rows)
    used = {row.variant: row for path in (base, *others) for row in path.rows}
    noise = record.noise(list(used.values()))
    levels = {row.facts.place: row.ms.median for row in rows if row.facts.name == _USUAL}
    cost = f"{decimal(levels['cpu'])} ms/frame on the CPU"
    if "gpu" in levels:
        cost = f"{decimal(levels['gpu'])} ms/frame on the GPU, {cost}"
    else:
        cost = f"{cost}, {percent(levels['cpu'] / base.ms)} of decode, transform and infer"
    headline = f"Preprocessing ({_USUAL}) takes {cost}"
    if noise.doubt:
        headline = f"{noise.doubt} how long preprocessing ({_USUAL}) takes; by the medians, {cost}"
    change, advice = _change(noise, base, others)
    evidence = (*_evidence(record, rows), *noise.sentences("Repetitions of one step"))
    return (Finding(headline=headline, evidence=evidence, change=change, advice=advice),)


def _change(noise: NoiseCheck, base: Path, others: Sequence[Path]) -> tuple[str, Change]:
    """Return the fastest path as a sentence and as a value."""
    if noise.doubt:
        return AGAIN, UNCERTAIN
    best = min((base, *(p for p in others if p.name in _CHANGES)), key=lambda path: path.ms)
    evidence = f"decode, transform and infer: {decimal(best.ms)} ms against {decimal(base.ms)} ms"
    if best is base or best.ms > ALIKE * base.ms:
        return (
            f"No gain: no path is clearly faster than {base.name}.",
            Change(words=f"keep preprocessing on {base.name}", gain=1.0, evidence=evidence),
        )
    change, gain = _CHANGES[best.name], base.ms / best.ms
    return (
        f"{change.words}: a frame takes {decimal(best.ms)} ms instead of "
        f"{decimal(base.ms)}, {decimal(gain)} times as fast.",
        replace(change, gain=gain, evidence=evidence),
    )


def _evidence(record: PreprocessRecord, rows: Rows[TimedStep]) -> Iterator[str]:
    for path in paths(rows):
        steps = ", ".join(
            f"{'transform' if row.facts.name in LEVELS else row.facts.name} "
            f"{decimal(row.ms.median)}"
            for row in path.rows
        )
        yield f"A frame on {path.name}: {steps}; {decimal(path.ms)} ms in total."
    yield (
        "A run overlaps these steps, so the longest one limits its rate; the sum is the time of a "
        "single frame."
    )
    if all(step.place != "gpu" for step in record.steps):
        yield "PyTorch finds no GPU, so only the CPU was measured."
    if record.agreement:
        max_difference = max(agreed.most for agreed in record.agreement)
        yield (
            f"Before timing, the tensors of {counted(record.compared, 'frame')} were compared "
            f"between devices: they differ by at most {decimal(max_difference)} grey levels "
            f"(allowed: {MOST_APART:g}, {MEAN_APART:g} on average)."
        )


def _charts(rows: Rows[TimedStep]) -> Charts:
    by_step, frame_paths = _by_step(rows), paths(rows)
    devices = list(dict.fromkeys(row.facts.place for row in rows))
    names = list(dict.fromkeys(row.facts.name for row in rows))

    def ms_of(name: str) -> list[float]:
        return [
            sum(row.ms.median for row in path.rows if row.facts.name == name)
            for path in frame_paths
        ]

    steps = {"decode": DECODE, "transform": _USUAL, "transfer": TRANSFER, "infer": INFER}
    return (
        bars(
            [f"transform: {name}" if name in LEVELS else name for name in names],
            {
                device: [
                    by_step[name, device].ms if (name, device) in by_step else None
                    for name in names
                ]
                for device in devices
            },
            "ms per frame",
            name="steps",
            title="Decode, transform and infer",
            axis="step",
            reading="Time per frame of each step, run alone; transform by level. On a GPU, "
            "transform includes the transfer of frames.",
        ),
        bars(
            [path.name for path in frame_paths],
            {label: ms_of(name) for label, name in steps.items() if any(ms_of(name))},
            "ms per frame",
            name="paths",
            title="One frame, from file to result",
            axis="preprocessed on",
            is_stacked=True,
            reading=f"Medians, with level {_USUAL}: the time of a single frame.",
        ),
    )


PREPROCESS: Final = VariantBenchmark(
    name="preprocess",
    summary="Time each level of preprocessing on CPU and GPU, with decoding and the model.",
    config=PreprocessConfig,
    record=PreprocessRecord,
    prepare=_prepare,
    title=lambda record: (
        f"Decode, transform and infer: frames of {record.size[0]}x{record.size[1]}, {record.model}"
    ),
    reading=lambda record, rows: (
        "Medians over the repetitions; each step runs alone. On the CPU, PyTorch uses "
        f"{counted(record.threads, 'intra-op thread')}, or 1 where noted; decoding uses all cores. "
        "Levels: see headrace models --prep."
    ),
    facts=lambda record: {step.way: step for step in record.steps},
    columns=(
        Column("step", lambda row: row.facts.name),
        Column("device", lambda row: row.facts.place),
        figure("ms/frame", lambda row: row.ms.median),
        figure("min", lambda row: row.ms.lowest),
        figure("max", lambda row: row.ms.highest),
        figure("frames/s", lambda row: row.rate.median),
    ),
    answer=_answer,
    rates=None,
    charts=_charts,
    terms=SuiteSpec(seconds=45),
).benchmark()
