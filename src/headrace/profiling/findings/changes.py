"""The changes open to a session that a stage bound, each with the gain that the figures predict."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headrace.profiling.findings.finding import Change, listing
from headrace.profiling.findings.gains import gain
from headrace.profiling.findings.lighter import (
    larger_copies,
    lighter_preprocessing,
    smaller_model,
    smaller_video,
)
from headrace.profiling.findings.loads import StageLoad
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.profiling.stages import ROLES

WASTEFUL: Final = 1.5
"""Frames decoded per frame delivered from which decoding less is worth a re-encoding."""
SPARSE: Final = 8
"""Stride from which a GOP as short as the stride is worth its larger file."""
WORTHWHILE: Final = 1.05
"""A smaller gain is not told from none."""


def best_change(
    session: Session, metrics: Metrics, top: StageLoad, others: list[StageLoad]
) -> Change:
    """Return the change with the largest predicted gain for a session that `top` bound.

    Where no gain is known, the first that is open to it.
    """
    match top.role:
        case "decode":
            found = _of_decode(session, metrics, top, others)
        case "preprocess":
            found = _of_preprocess(session, top, others)
        case "transfer":
            found = _of_transfer(session, top, others)
        case "model":
            found = _of_model(session, top, others)
        case "sink":
            found = _of_sink(session, top, others)
    changes = list(found)
    known = [change for change in changes if change.gain and change.gain >= WORTHWHILE]
    return max(known, key=lambda change: change.gain or 0) if known else changes[-1]


def _of_decode(
    session: Session, metrics: Metrics, top: StageLoad, others: list[StageLoad]
) -> Iterator[Change]:
    stride, videos = session.setup.stride, session.inputs
    # Between wanted frames that are close, what is decoded extra is the price of any GOP.
    is_sparse = stride >= SPARSE
    wasted = (metrics.amplification or 1.0) / (1 if is_sparse else stride)
    length = stride if is_sparse else 30
    longest = max((video.gop.mean for video in videos if video.gop), default=None)
    if wasted >= WASTEFUL and (longest is None or longest > length):
        yield Change(
            words="Re-encode the video with a keyframe every "
            f"{length} frames (ffmpeg -g {length}), so that less is decoded for each frame",
            gain=gain(session, top, others, wasted),
            rests_on=f"{metrics.amplification:.2f} frames are decoded for each that is wanted",
        )
        return
    if session.kind == "run" and not videos and not session.sources:
        yield Change(
            words="Smaller pictures: half the height and width is a quarter of the pixels to read",
            most=_most(session, top, others),
        )
        return
    size = (videos[0].height, videos[0].width) if videos else None
    yield smaller_video(size, most=_most(session, top, others))


def _of_preprocess(session: Session, top: StageLoad, others: list[StageLoad]) -> Iterator[Change]:
    change = lighter_preprocessing(session.setup, most=_most(session, top, others))
    yield _with_gain(session, change)


def _of_transfer(session: Session, top: StageLoad, others: list[StageLoad]) -> Iterator[Change]:
    carried = [stage for stage in session.stages if stage.role == "transfer" and stage.busy_seconds]
    speed = sum(stage.moved_bytes for stage in carried) / 1e9
    seconds = sum(stage.busy_seconds for stage in carried)
    said = f"{speed / seconds:.2g} GB/s were carried" if seconds and speed else None
    yield larger_copies(session.setup, most=_most(session, top, others), rests_on=said)


def _of_model(session: Session, top: StageLoad, others: list[StageLoad]) -> Iterator[Change]:
    setup, gpus = session.setup, session.provenance.machine.gpus
    most = _most(session, top, others)
    for each in session.alternatives:
        yield _with_gain(session, Change(words=each.option, options=each.options))
    if setup.device == "cpu" and gpus:
        yield Change(
            words=f"--device cuda: this machine has a {gpus[0].name}",
            most=most,
            options={"device": "cuda"},
        )
        return
    tried = listing([each.option for each in session.alternatives]) if session.alternatives else ""
    reason = f"tried and no faster: {tried}" if tried else None
    if setup.device != "cpu" and not setup.smaller_model:
        words = f"--batch-size {2 * setup.batch_size}: a GPU is quicker per frame on larger batches"
        options = {"batch_size": 2 * setup.batch_size}
        yield Change(words=words, rests_on=reason, most=most, options=options)
    else:
        yield smaller_model(setup, most=most, rests_on=reason)


def _of_sink(session: Session, top: StageLoad, others: list[StageLoad]) -> Iterator[Change]:
    if session.setup.draws_video:
        rest = max(others, key=lambda load: load.busy) if others else top
        predicted = Change(
            words="--no-video, if the predictions are what you need",
            gain=_most(session, top, others),
            rests_on=f"{ROLES[rest.role].phrase} comes next, busy {100 * rest.busy:.0f} %",
            options={"video": False},
        )
        yield _with_gain(session, predicted)
        return
    yield Change(words="Fewer or faster outputs", most=_most(session, top, others))


def _most(session: Session, top: StageLoad, others: list[StageLoad]) -> float | None:
    """The gain if the stage took no time at all."""
    return gain(session, top, others, float("inf")) if others else None


def _with_gain(session: Session, change: Change) -> Change:
    """Return the change with what it brought, where its options were tried after the run."""
    for each in session.alternatives:
        if each.options == change.options:
            return replace(
                change,
                gain=each.baseline_ms_per_frame / each.ms_per_frame,
                rests_on=f"tried for a moment: {each.ms_per_frame:.3g} ms a frame, "
                f"{each.baseline_ms_per_frame:.3g} as it was",
                most=None,
            )
    return change
