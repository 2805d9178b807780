"""From what a training left behind to its session."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.profiling.input_records import DecodeCounters, LostFrame, lost_frame, summarize_all
from headrace.profiling.provenance import Provenance
from headrace.profiling.run_records import Accuracy, StartUpPart, TrainingRecord
from headrace.profiling.session import Outcome, Session
from headrace.profiling.stage_records import StageRecord
from headrace.profiling.steps import Step, Steps
from headrace.profiling.usage import Usage
from headrace.runs.ready import notes_on
from headrace.runs.recording import setup_of
from headrace.runs.retrain.learner import Learner
from headrace.runs.retrain.material import Material
from headrace.runs.retrain.options import RetrainOptions
from headrace.runs.retrain.trainer import PARTS
from headrace.training.loader import FrameLoader

_WARMUP_STEPS: Final = 1
"""Of which the first waits for decoding to begin."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a training ended."""

    outcome: Outcome
    error: str | None
    wall_seconds: float
    others_cpu_share: float | None
    usage: Usage
    head: str | None
    """The file of the head, if it was saved."""
    accuracy: Accuracy | None


def session_of(
    options: RetrainOptions,
    material: Material,
    learner: Learner,
    loader: FrameLoader,
    steps: Sequence[Step],
    ended: Ended,
    made: Provenance,
    startup: tuple[StartUpPart, ...],
) -> Session:
    """Return the session of a training; `loader` gave its batches.

    Content digests of the inputs, which cost reading them, are left out.
    """
    inputs, places = summarize_all(material.indexes, (error.source for error in material.left_out))
    return Session(
        kind="retrain",
        provenance=made,
        setup=setup_of(
            options.compute, learner.model, made, stride=options.input.stride, draws_video=False
        ),
        inputs=inputs,
        outcome=ended.outcome,
        error=ended.error,
        wall_seconds=ended.wall_seconds,
        startup=startup,
        others_cpu_share=ended.others_cpu_share,
        usage=ended.usage,
        warmup_steps=_WARMUP_STEPS if len(steps) > 2 * _WARMUP_STEPS else 0,
        steps=Steps.of(steps),
        stages=tuple(_stages(steps, learner.trainer.moved_bytes)),
        decode=DecodeCounters(**vars(loader.decoding)),
        lost=tuple(_lost(material, loader, places)),
        notes=notes_on(options.compute),
        training=_training(options, material, learner, ended),
        outputs=(ended.head,) if ended.head else (),
    )


def _stages(steps: Sequence[Step], moved_bytes: int) -> Iterator[StageRecord]:
    """Yield the parts of a step as stages: each waits while the others work, for no queue."""
    for name in steps[0].work_ms if steps else ():
        yield StageRecord(
            name=name,
            role=PARTS[name],
            workers=1,
            items=len(steps),
            busy_seconds=sum(step.work_ms[name] for step in steps) / 1e3,
            starved_seconds=0.0,
            blocked_seconds=0.0,
            moved_bytes=moved_bytes if PARTS[name] == "transfer" else 0,
            moved_to="cuda" if moved_bytes and PARTS[name] == "transfer" else None,
        )


def _lost(
    material: Material, loader: FrameLoader, places: Mapping[str, int]
) -> Iterator[LostFrame]:
    for error in material.left_out:
        place = places[error.source]
        yield LostFrame(input=place, index=None, pts_seconds=None, cause=str(error))
    for loss in loader.quarantined:
        yield lost_frame(loss, places[loss.source])


def _training(
    options: RetrainOptions, material: Material, learner: Learner, ended: Ended
) -> TrainingRecord:
    return TrainingRecord(
        classes=material.examples.classes,
        is_dummy=material.examples.is_dummy,
        videos=len(material.trained_on),
        frames=material.frames,
        held_out_videos=len(material.held_out),
        trained_parameters=learner.num_trained,
        accuracy=ended.accuracy,
        not_measured=None if ended.accuracy else _not_measured(options, material, ended),
        head=ended.head,
    )


def _not_measured(options: RetrainOptions, material: Material, ended: Ended) -> str:
    if material.examples.is_dummy:
        return "the labels are dummies, drawn at random; give real ones with --labels"
    if not options.input.held_out:
        return "no video was held out; leave out --held-out 0"
    if not material.held_out:
        return (
            "no class has a video to spare, and frames of one video are too alike to tell; "
            "label two videos or more of each class"
        )
    if ended.outcome != "complete":
        return "the training did not come to its end"
    return "no frame of the videos held out could be read"
