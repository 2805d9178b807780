"""What bound a run, the numbers that show it, and the one change to try."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from headrace.profiling.metrics import Metrics
from headrace.profiling.session import QueueRecord, Session, StageName, StageRecord

Bound = Literal["start-up", "decode", "preprocess", "transfer", "model", "sink"]

ALIKE: Final = 0.9
"""A stage at least this fraction as busy as the busiest one cannot be told from it."""
BUSY: Final = 0.5
"""Below this share of the time no stage counts as what bound the run."""
FEWEST_STEPS: Final = 10
"""Fewer measured steps say nothing."""
ENOUGH_STEPS: Final = 90
"""Fewer measured steps are a hint only; a p95 needs as many."""
WASTEFUL: Final = 1.5
"""Frames decoded per frame delivered from which decoding less is the first thing to try."""
SPARSE: Final = 8
"""Stride from which a GOP as short as the stride is worth its larger file."""

STAGE_PHRASES: Final[dict[StageName, str]] = {
    "decode": "decoding",
    "preprocess": "preprocessing",
    "transfer": "the transfer to the device",
    "model": "the model",
    "sink": "drawing and writing",
}
"""How a sentence names each stage."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing the numbers show."""

    headline: str
    """One sentence."""
    bound_by: tuple[Bound, ...] = ()
    """What set the pace, the busiest first; several when the numbers cannot tell them apart,
    empty when they do not show it."""
    evidence: tuple[str, ...] = ()
    """The numbers, one sentence each, also those that speak against it."""
    change: str | None = None
    """The one thing to try next."""


@dataclass(frozen=True, kw_only=True)
class StageLoad:
    """How busy one stage was while frames flowed."""

    name: StageName
    busy: float
    """Share in [0, 1] of the time from the first step's start to the last step's output, mean
    over its workers. The stage near 1 sets the pace."""
    starved: float
    """Share of the same time without input: what comes before is slower."""
    blocked: float
    """Share of the same time without room: what comes after is slower."""


def find(session: Session) -> tuple[Finding, ...]:
    """What the session shows, the most important first; never empty."""
    metrics = Metrics.of(session)
    if metrics.steps < FEWEST_STEPS or not stage_loads(session):
        return (_too_short(metrics),)
    pace = _pace(session, metrics)
    if metrics.startup_seconds > session.wall_seconds / 2:
        return (_startup(session, metrics), pace)
    return (pace,)


def stage_loads(session: Session) -> tuple[StageLoad, ...]:
    """How busy each stage was, in the order the frames take; empty without steps."""
    seconds = _flow_seconds(session)
    if not seconds:
        return ()
    return tuple(_load(stage, seconds) for stage in session.stages)


def _flow_seconds(session: Session) -> float:
    """From the first step's start to the last step's output; 0 without steps."""
    steps = session.steps
    if not len(steps):
        return 0.0
    return (steps.started_ms[-1] + steps.total_ms[-1] - steps.started_ms[0]) / 1e3


def _load(stage: StageRecord, seconds: float) -> StageLoad:
    whole = stage.workers * seconds
    busy = min(1.0, stage.busy_seconds / whole)
    blocked = min(1.0 - busy, stage.blocked_seconds / whole)
    # What it waited for the first step, before frames flowed, is in its record too.
    starved = min(1.0 - busy - blocked, stage.starved_seconds / whole)
    return StageLoad(name=stage.name, busy=busy, starved=starved, blocked=blocked)


def _occupancy(queue: QueueRecord, seconds: float) -> float:
    """Mean share in use while frames flowed; before, it was empty."""
    return min(1.0, queue.occupancy_mean * queue.elapsed_seconds / seconds)


def _too_short(metrics: Metrics) -> Finding:
    return Finding(
        headline="Too short to tell what bound the run: "
        f"{_counted(metrics.steps, 'step')} after warm-up, {FEWEST_STEPS} is the least.",
        change="Run a longer video, or a smaller --batch-size for more steps.",
    )


def _startup(session: Session, metrics: Metrics) -> Finding:
    share = metrics.startup_seconds / session.wall_seconds
    return Finding(
        headline=f"Bound by start-up: {metrics.startup_seconds:.1f} s of "
        f"{session.wall_seconds:.1f} s ({_percent(share)}) passed before the first measured step.",
        bound_by=("start-up",),
        evidence=(f"The warm-up, {_counted(session.warmup_steps, 'step')}, is part of it.",)
        if session.warmup_steps
        else (),
        change="Judge the speed by a longer video: start-up is paid once per run.",
    )


def _pace(session: Session, metrics: Metrics) -> Finding:
    """What set the pace once frames flowed."""
    loads = sorted(stage_loads(session), key=lambda load: load.busy, reverse=True)
    top = loads[0]
    alike = [load for load in loads if load.busy >= ALIKE * top.busy]
    evidence = (
        _shares(stage_loads(session)),
        *_queue_evidence(session, top),
        *_core_evidence(session, loads),
        *_amplification_evidence(metrics),
        *_length_evidence(metrics),
    )
    if top.busy < BUSY:
        return Finding(
            headline="No stage was busy half of the time: the busiest, "
            f"{STAGE_PHRASES[top.name]}, {_percent(top.busy)}.",
            evidence=evidence,
            change=f"{_batch_size(session)}: fewer hand-overs between the stages.",
        )
    return Finding(
        headline=_headline(alike, loads[len(alike) :]),
        bound_by=tuple(load.name for load in alike),
        evidence=evidence,
        change=_change(top.name, session, metrics),
    )


def _headline(alike: Sequence[StageLoad], others: Sequence[StageLoad]) -> str:
    names = _listing([STAGE_PHRASES[load.name] for load in alike])
    shares = _listing([_percent(load.busy) for load in alike])
    if len(alike) > 1:
        return f"Bound by {names} alike: busy {shares} of the time, too close to rank."
    if not others:
        return f"Bound by {names}: busy {shares} of the time."
    rest = f"{STAGE_PHRASES[others[0].name]} comes next with {_percent(others[0].busy)}"
    return f"Bound by {names}: busy {shares} of the time; {rest}."


def _shares(loads: Sequence[StageLoad]) -> str:
    return "Busy: " + ", ".join(f"{load.name} {_percent(load.busy)}" for load in loads) + "."


def _queue_evidence(session: Session, top: StageLoad) -> tuple[str, ...]:
    """What the queues around the busiest stage say; a bottleneck has a full one before it and an
    empty one after it."""
    names = [stage.name for stage in session.stages]
    place = names.index(top.name)
    after = names[place + 1] if place + 1 < len(names) else None
    seconds = _flow_seconds(session)
    found: list[str] = []
    for queue in session.queues:
        mean = _occupancy(queue, seconds)
        if queue.feeds == top.name:
            found.append(_queue_line("before", mean, agrees=mean >= BUSY))
        elif queue.feeds == after:
            found.append(_queue_line("after", mean, agrees=mean < BUSY))
    return tuple(found)


def _queue_line(side: str, mean: float, *, agrees: bool) -> str:
    verdict = "as" if agrees else "not as"
    return (
        f"The queue {side} it was {_percent(mean)} full on average, {verdict} {side} a bottleneck."
    )


def _core_evidence(session: Session, loads: Sequence[StageLoad]) -> tuple[str, ...]:
    workers = {stage.name: stage.workers for stage in session.stages}
    threads = sum(load.busy * workers[load.name] for load in loads)
    cores = session.provenance.machine.usable_cores
    if session.provenance.configuration.get("device") != "cpu" or threads <= cores:
        return ()
    return (
        f"The stages kept {threads:.1f} threads busy on {_counted(cores, 'core')}: a busy stage "
        "may have been waiting for a core.",
    )


def _amplification_evidence(metrics: Metrics) -> tuple[str, ...]:
    if metrics.amplification is None:
        return ()
    return (f"Frames decoded per frame delivered: {metrics.amplification:.2f}.",)


def _length_evidence(metrics: Metrics) -> tuple[str, ...]:
    if metrics.steps >= ENOUGH_STEPS:
        return ()
    return (f"Only {_counted(metrics.steps, 'step')} after warm-up: a hint, not a measurement.",)


def _change(name: StageName, session: Session, metrics: Metrics) -> str:
    match name:
        case "decode":
            return _decode_change(session, metrics)
        case "preprocess":
            return _preprocess_change(session)
        case "transfer":
            return f"{_batch_size(session)}: fewer, larger copies."
        case "model":
            return _model_change(session)
        case "sink":
            return f"{_stride(session)}: fewer frames to draw and write, and fewer results."


def _decode_change(session: Session, metrics: Metrics) -> str:
    stride = _integer(session, "stride", 1)
    source = session.source
    # Between wanted frames that are close, what is decoded extra is the price of any GOP.
    is_sparse = stride >= SPARSE
    wasted = (metrics.amplification or 1.0) / (1 if is_sparse else stride)
    length = stride if is_sparse else 30
    if wasted >= WASTEFUL and (source.gop is None or source.gop.mean > length):
        return (
            f"Re-encode the video with a keyframe every {length} frames (ffmpeg -g {length}): "
            "less is decoded for each frame that is wanted."
        )
    if source.has_b_frames and stride == 1:
        return "--stride 2: of the frames nobody asks for, some B-frames need not be decoded."
    return (
        f"Re-encode the video at a smaller size than {source.height}×{source.width}: half the "
        "height and width is a quarter of the pixels to decode."
    )


def _preprocess_change(session: Session) -> str:
    level = session.provenance.configuration.get("prep_level")
    if level == "complex":
        return "--prep-level medium: less work per frame."
    if level == "medium":
        return "--prep-level simple: less work per frame."
    return f"{_stride(session)}: fewer frames to preprocess, and fewer results."


def _model_change(session: Session) -> str:
    model = session.provenance.configuration.get("model", "this one")
    if session.provenance.configuration.get("device") == "cpu" and session.provenance.machine.gpus:
        return f"--device cuda: this machine has a {session.provenance.machine.gpus[0].name}."
    if (
        session.provenance.configuration.get("device") != "cpu"
        and _integer(session, "batch_size", 1) < 64
    ):
        return f"{_batch_size(session)}: a GPU is quicker per frame on larger batches."
    return f"A smaller model than {model}."


def _batch_size(session: Session) -> str:
    return f"--batch-size {2 * _integer(session, 'batch_size', 1)}"


def _stride(session: Session) -> str:
    return f"--stride {2 * _integer(session, 'stride', 1)}"


def _integer(session: Session, option: str, default: int) -> int:
    value = session.provenance.configuration.get(option)
    return value if isinstance(value, int) else default


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _listing(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
