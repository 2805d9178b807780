"""The changes open to a session that a stage bound, each with the gain that the figures predict."""

from collections.abc import Iterator
from typing import Final

from headrace.profiling.findings.finding import Change, listing
from headrace.profiling.findings.gains import gain
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
    size = f" than {videos[0].height}×{videos[0].width}" if videos else ""
    yield Change(
        words=f"Re-encode the video at a smaller size{size}: half the height and width is a "
        "quarter of the pixels to decode",
        most=_most(session, top, others),
    )


def _of_preprocess(session: Session, top: StageLoad, others: list[StageLoad]) -> Iterator[Change]:
    most = _most(session, top, others)
    lighter = {"complex": "medium", "medium": "simple"}.get(session.setup.prep_level or "")
    if lighter:
        words = f"--prep-level {lighter}: less work per frame, and other pictures"
        measured = list(_measured(session, f"--prep-level {lighter}", words))
        yield from measured or [Change(words=words, most=most, options={"prep_level": lighter})]
        return
    yield Change(
        words="Smaller videos: what is resized costs by the pixels it has before", most=most
    )


def _of_transfer(session: Session, top: StageLoad, others: list[StageLoad]) -> Iterator[Change]:
    carried = [stage for stage in session.stages if stage.role == "transfer" and stage.busy_seconds]
    speed = sum(stage.moved_bytes for stage in carried) / 1e9
    seconds = sum(stage.busy_seconds for stage in carried)
    said = f"{speed / seconds:.2g} GB/s were carried" if seconds and speed else None
    yield Change(
        words=f"--batch-size {2 * session.setup.batch_size}: fewer, larger copies",
        rests_on=said,
        most=_most(session, top, others),
        options={"batch_size": 2 * session.setup.batch_size},
    )


def _of_model(session: Session, top: StageLoad, others: list[StageLoad]) -> Iterator[Change]:
    setup, gpus = session.setup, session.provenance.machine.gpus
    most = _most(session, top, others)
    for each in session.alternatives:
        yield from _measured(session, each.option)
    if setup.device == "cpu" and gpus:
        yield Change(
            words=f"--device cuda: this machine has a {gpus[0].name}",
            most=most,
            options={"device": "cuda"},
        )
        return
    tried = listing([each.option for each in session.alternatives]) if session.alternatives else ""
    reason = f"tried and no faster: {tried}" if tried else None
    if setup.smaller_model:
        yield Change(
            words=f"--model-name {setup.smaller_model}",
            rests_on=reason,
            most=most,
            options={"model_name": setup.smaller_model},
        )
    elif setup.device != "cpu":
        words = f"--batch-size {2 * setup.batch_size}: a GPU is quicker per frame on larger batches"
        options = {"batch_size": 2 * setup.batch_size}
        yield Change(words=words, rests_on=reason, most=most, options=options)
    else:
        words = f"A smaller model than {setup.model or 'this one'}"
        yield Change(words=words, rests_on=reason, most=most)


def _of_sink(session: Session, top: StageLoad, others: list[StageLoad]) -> Iterator[Change]:
    if session.setup.draws_video:
        rest = max(others, key=lambda load: load.busy) if others else top
        words = "--no-video, if the predictions are what you need"
        measured = list(_measured(session, "--no-video", words))
        predicted = Change(
            words=words,
            gain=_most(session, top, others),
            rests_on=f"{ROLES[rest.role].phrase} comes next, busy {100 * rest.busy:.0f} %",
            options={"video": False},
        )
        yield from measured or [predicted]
        return
    yield Change(words="Fewer or faster outputs", most=_most(session, top, others))


def _most(session: Session, top: StageLoad, others: list[StageLoad]) -> float | None:
    """The gain if the stage took no time at all."""
    return gain(session, top, others, float("inf")) if others else None


def _measured(session: Session, option: str, words: str | None = None) -> Iterator[Change]:
    """Yield the change to an option that was tried after the run, with what it brought."""
    for each in session.alternatives:
        if each.option == option:
            yield Change(
                words=words or option,
                gain=each.baseline_ms_per_frame / each.ms_per_frame,
                rests_on=f"tried for a moment: {each.ms_per_frame:.3g} ms a frame, "
                f"{each.baseline_ms_per_frame:.3g} as it was",
                options=each.options,
            )
