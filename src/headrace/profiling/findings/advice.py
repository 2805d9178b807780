"""Table of advice: the change to try, by kind of session and bottleneck."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final

from headrace.profiling.findings.finding import Change
from headrace.profiling.findings.utilization import StageUtilization, arrived_per_delivered, gain
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import three_digits
from headrace.profiling.run_records import ROLES, Role, Setup
from headrace.profiling.session import Session

WASTEFUL: Final = 1.5
"""Min frames decoded per frame delivered for the advice to re-encode."""
SPARSE: Final = 8
"""Min stride for the advice to re-encode with GOPs of this length; the file gets larger."""
WORTHWHILE: Final = 1.05
"""Min gain of an advised change; smaller gains cannot be distinguished from noise."""
CLIPS: Final = "clips"
"""Name of the stage that forms clips."""
LIGHTER_LEVEL: Final = {"complex": "medium", "medium": "simple"}
"""Preprocessing level → the next level with less work."""
_WASTEFUL_PICTURES: Final = 4.0
"""Min frames decoded per image for the advice to extract keyframes."""


@dataclass(frozen=True)
class Advice:
    """Change that applies if a fact is true; facts fill the placeholders of its texts."""

    words: str
    """See `Change`."""
    when: str = ""
    """Name of the fact that must be true; empty: always applies."""
    gain: str = ""
    """Name of the fact with the predicted gain; empty: no prediction."""
    evidence: str = ""
    """See `Change`."""
    effect: str = ""
    """See `Change`."""
    option: tuple[str, str] | None = None
    """Option of a run that makes the change, and name of the fact with its value."""

    def change(self, facts: Mapping[str, Any]) -> Change:
        """Return the change for a session with these facts."""
        predicted = facts.get(self.gain)
        return Change(
            words=self.words.format_map(facts),
            gain=predicted,
            evidence=self.evidence.format_map(facts) or None,
            most=facts["most"] if predicted is None else None,
            effect=self.effect,
            options={self.option[0]: facts[self.option[1]]} if self.option else {},
        )


_CUDA: Final = Advice("--device cuda: this machine has a {gpu}", "gpu", option=("device", "cuda"))
_SMALLER: Final = Advice("--model-name {smaller}", "smaller", option=("model_name", "smaller"))
_LARGER: Final = ("batch_size", "larger")
_FEWER_FRAMES: Final = Advice("--stride {longer}", effect="fewer frames of the same video")
_STRIDE: Final = ("stride", "longer")
_SMALLER_SIZE: Final = Advice("A smaller --size, or fewer frames")
_FEWER_SIMILAR: Final = "--stride: fewer similar frames"
_MORE_WORKERS: Final = Advice(
    "--workers {cores}: this process may use {cores} cores",
    "idle_cores",
    gain="idle_cores",
    evidence="{workers} of them had a worker",
)
_SMALLER_FRAMES: Final = (
    Advice(f"An even smaller --size, or {_FEWER_SIMILAR}", "is_resized"),
    Advice("--size with fewer pixels: frames are decoded at this size, with less to resize"),
)

ANY_PART: Final = ""
"""Any other part of an extraction, such as a custom one."""
ADVICE: Final[dict[tuple[str, str], tuple[Advice, ...]]] = {
    ("run", "decode"): (
        Advice(
            "Re-encode the video with a keyframe every {gop} frames (ffmpeg -g {gop}), to decode "
            "fewer frames",
            "shorter_gop",
            gain="shorter_gop",
            evidence="{amplification:.2f} frames are decoded per requested frame",
        ),
        Advice(
            "Smaller pictures: half the height and width is a quarter of the pixels to read",
            "reads_pictures",
        ),
        Advice(
            "Re-encode the video at a smaller size{than}: half the height and width is a quarter "
            "of the pixels to decode"
        ),
    ),
    ("run", "preprocess"): (
        Advice(
            "--prep-level {lighter}: less work per frame; pixels differ",
            "lighter",
            option=("prep_level", "lighter"),
        ),
        Advice("Smaller videos: the cost of a resize grows with the pixels of its input"),
    ),
    ("run", "transfer"): (
        Advice("--batch-size {larger}: fewer, larger copies", evidence="{copied}", option=_LARGER),
    ),
    ("run", "model"): (
        _CUDA,
        _SMALLER,
        Advice(
            "--batch-size {larger}: a GPU takes less time per frame in larger batches",
            "is_on_gpu",
            option=_LARGER,
        ),
        replace(_FEWER_FRAMES, when="has_own_weights", option=_STRIDE),
        Advice("Fewer pictures, or a machine with a GPU", "reads_pictures"),
        _FEWER_FRAMES,
    ),
    ("live", "model"): (
        _CUDA,
        Advice("A larger --clip-hop: fewer clips of the same frames", "has_clips"),
        Advice(
            "--stride {sustainable}",
            "sustainable",
            effect="fewer frames of the same source, and the model keeps up",
            evidence="{per_delivered:.2g} frames arrived per frame delivered",
            option=("stride", "sustainable"),
        ),
        Advice("--stride {longer}", effect="fewer frames of the same source", option=_STRIDE),
    ),
    ("run", "sink"): (
        Advice(
            "--no-video, if the predictions are what you need",
            "draws_video",
            gain="most",
            evidence="{next} comes next, busy {next_busy:.0f} %",
            option=("video", "off"),
        ),
        Advice("Fewer or faster outputs"),
    ),
    ("run", "Python overhead"): (
        Advice(
            "--batch-size {larger}: fewer queue transfers between the stages",
            gain="half_the_overhead",
            evidence="{half}",
            option=_LARGER,
        ),
    ),
    ("retrain", "decode"): _SMALLER_FRAMES,
    ("retrain", "preprocess"): _SMALLER_FRAMES,
    ("retrain", "transfer"): (Advice("--batch-size {larger}: fewer, larger copies"),),
    ("retrain", "model"): (
        _CUDA,
        Advice(
            "No --checkpoint-gradients, if the memory allows it: no second forward pass",
            "checkpoint_gradients",
        ),
        Advice("A later --train-from: fewer layers need a backward pass", "train_from"),
        _SMALLER,
        Advice(_FEWER_SIMILAR),
    ),
    ("extract", "decode"): (
        _MORE_WORKERS,
        Advice(
            "--keyframes, if nearby frames are good enough: only written frames are decoded",
            "is_wasteful",
        ),
        Advice("Fewer frames, or videos of fewer pixels"),
    ),
    ("extract", "prepare"): (
        _MORE_WORKERS,
        Advice("--prep-level simple, which changes the features", "has_model"),
        _SMALLER_SIZE,
    ),
    ("extract", "transfer"): (_MORE_WORKERS, Advice("Videos of fewer pixels")),
    ("extract", "model"): (
        _MORE_WORKERS,
        Advice("A model with less arithmetic, or --device cuda on a machine with a GPU"),
    ),
    ("extract", "encode"): (
        _MORE_WORKERS,
        Advice("--format jpg: faster to encode, slightly lossy", "is_lossless"),
        _SMALLER_SIZE,
    ),
    ("extract", "write"): (
        _MORE_WORKERS,
        Advice("A faster disk for -o, or --dtype float16", "has_model"),
        Advice("A faster disk for -o, or --format with smaller files"),
    ),
    ("extract", ANY_PART): (_MORE_WORKERS, _SMALLER_SIZE),
}
"""(kind of session, bottleneck) → advice; the first applicable advice is used. Live runs have an
entry of their own for the model, with advice to reduce the frames; otherwise they count as runs."""


def advised(kind: str, part: str, facts: Mapping[str, Any]) -> Change:
    """Return the first applicable change for a part of a session of this kind."""
    candidates = ADVICE.get((kind, part)) or ADVICE[kind, ANY_PART]
    return next(a for a in candidates if not a.when or facts.get(a.when)).change(facts)


def lighter_work(
    role: Role, setup: Setup, *, size: tuple[int, int] | None = None, most: float | None = None
) -> Change:
    """Return a change that reduces the work of a stage; its gain is not predicted.

    Args:
        role: Role of the stage.
        setup: Setup of the run.
        size: (height, width) of the video; None: unknown.
        most: See `Change`.
    """
    return advised("run", role, _setup_facts(setup, size, most))


def best_change(
    session: Session, metrics: Metrics, top: StageUtilization, others: Sequence[StageUtilization]
) -> Change:
    """Return the change with the largest gain for a session whose bottleneck is `top`.

    Changes that were tried after the run have measured gains. If no gain is known, the result is
    the first applicable change.
    """
    kind = "live" if (session.kind, top.role) == ("live", "model") else "run"
    change = advised(kind, top.role, _run_facts(session, metrics, top, others))
    measured = [
        Change(
            words=alternative.option,
            gain=alternative.baseline_ms_per_frame / alternative.ms_per_frame,
            evidence=f"measured: {three_digits(alternative.ms_per_frame)} ms/frame, before "
            f"{three_digits(alternative.baseline_ms_per_frame)} ms/frame",
            options=alternative.options,
        )
        for alternative in session.alternatives
    ]
    for candidate in measured:
        if candidate.options == change.options:
            change = replace(candidate, words=change.words)
    candidates = [*(measured if top.role == "model" else ()), change]
    known = [change for change in candidates if change.gain and change.gain >= WORTHWHILE]
    return max(known, key=lambda change: change.gain or 0.0, default=change)


def share_facts(session: Session, metrics: Metrics, share: float) -> dict[str, Any]:
    """Return the facts of a session with sequential parts; its bottleneck took `share` of it."""
    options, machine = session.provenance.configuration, session.provenance.machine
    workers = max((stage.workers for stage in session.stages), default=1)
    has_idle = options.get("workers") is not None and workers < machine.usable_cores
    return {
        **_setup_facts(session.setup, None, 1 / (1 - share) if share < 1 else None),
        "gpu": _idle_gpu(session),
        "is_resized": options.get("size") is not None,
        "checkpoint_gradients": options.get("checkpoint_gradients"),
        "train_from": options.get("train_from") is not None,
        "cores": machine.usable_cores,
        "workers": workers,
        "idle_cores": machine.usable_cores / workers if has_idle else None,
        "is_wasteful": (metrics.amplification or 0) >= _WASTEFUL_PICTURES,
        "is_lossless": options.get("format") not in (None, "jpg"),
        "has_model": metrics.cost is not None and "model" in metrics.cost.stages,
    }


def _setup_facts(setup: Setup, size: tuple[int, int] | None, most: float | None) -> dict[str, Any]:
    return {
        "most": most,
        "larger": 2 * setup.batch_size,
        "longer": 2 * setup.stride,
        "has_own_weights": setup.has_own_weights,
        "lighter": LIGHTER_LEVEL.get(setup.prep_level or ""),
        "smaller": setup.smaller_model,
        "than": f" than {size[0]}×{size[1]}" if size else "",
        **dict.fromkeys(("copied", "half"), ""),
        "cuda": "cuda",
        "off": False,
    }


def _run_facts(
    session: Session, metrics: Metrics, top: StageUtilization, others: Sequence[StageUtilization]
) -> dict[str, Any]:
    setup, videos = session.setup, session.inputs
    size = (videos[0].height, videos[0].width) if videos else None
    # At a small stride, frames between the requested ones are decoded whatever the GOP length.
    is_sparse = setup.stride >= SPARSE
    wasted = (metrics.amplification or 1.0) / (1 if is_sparse else setup.stride)
    gop = setup.stride if is_sparse else 30
    longest = max((video.gop.mean for video in videos if video.gop), default=None)
    can_be_shorter = wasted >= WASTEFUL and (longest is None or longest > gop)
    rest = max(others, key=lambda load: load.busy, default=top)
    per_delivered = setup.stride * arrived_per_delivered(session)
    return {
        **_setup_facts(setup, size, gain(session, top, others, float("inf")) if others else None),
        "per_delivered": per_delivered,
        "sustainable": ceil(per_delivered) if per_delivered > setup.stride else None,
        "gop": gop,
        "shorter_gop": gain(session, top, others, wasted) if can_be_shorter else None,
        "amplification": metrics.amplification,
        "reads_pictures": reads_pictures(session),
        "copied": _measure_copy_speed(session),
        "gpu": _idle_gpu(session),
        "is_on_gpu": setup.device != "cpu",
        "draws_video": setup.draws_video,
        "has_clips": any(stage.name == CLIPS for stage in session.stages),
        "next": ROLES[rest.role].phrase,
        "next_busy": 100 * rest.busy,
    }


def reads_pictures(session: Session) -> bool:
    """Return whether the session is a run on pictures, which records no inputs."""
    return session.kind == "run" and not session.inputs and not session.sources


def _measure_copy_speed(session: Session) -> str:
    stages = [stage for stage in session.stages if stage.role == "transfer" and stage.busy_seconds]
    gigabytes = sum(stage.moved_bytes for stage in stages) / 1e9
    seconds = sum(stage.busy_seconds for stage in stages)
    return f"{gigabytes / seconds:.2g} GB/s were copied" if seconds and gigabytes else ""


def _idle_gpu(session: Session) -> str | None:
    gpus = session.provenance.machine.gpus
    return gpus[0].name if gpus and session.setup.device == "cpu" else None


def overhead_change(session: Session, lost: float | None = None) -> Change:
    """Return the change to fewer queue transfers; `lost`: their share of the time, if known."""
    facts = _setup_facts(session.setup, None, None)
    if lost is not None:
        facts["half_the_overhead"] = 2 / (2 - lost)
        facts["half"] = "half as many transfers for the same frames"
    return advised("run", "Python overhead", facts)
