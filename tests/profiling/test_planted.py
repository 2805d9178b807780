"""Bottlenecks that were planted are found, and what the advice predicts is what then happens.

After each verdict its change is made in the simulator, and the gain is held against the prediction.
"""

import re
from dataclasses import dataclass

import pytest

from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.findings.verdict import find
from headrace.profiling.metrics import Metrics
from headrace.profiling.setup import Alternative
from profiling.loops import Loop, loop_ms, simulate_loop
from profiling.pipelines import Pipeline, simulate, step_ms

TOLERANCE = 0.2
"""Of a gain, by which the prediction may differ from what the simulator gives."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A run, what bounds it, and what its change makes of it."""

    name: str
    plan: Pipeline
    bound_by: str
    says: str
    """How the change begins."""
    after: Pipeline | None
    """The run with the change; None: the change brings nothing that a figure tells."""
    is_tried: bool = False
    """Whether another batch size ran for a moment after the run, as `after` does."""
    amplification: float = 1.0


def even(**changes: float) -> Pipeline:
    return Pipeline(decode=4.0, preprocess=4.0, model=4.0, sink=4.0).with_(**changes)


NOTHING = 0.0
"""A stage that takes no time is left out: the most that a change of it can bring."""

RUNS = [
    Planted(
        name="decoding twice what is wanted",
        plan=even(decode=20.0),
        bound_by="decode",
        says="Re-encode the video with a keyframe every 30 frames",
        after=even(decode=10.0),
        amplification=2.0,
    ),
    Planted(
        name="decoding five times what is wanted",
        plan=even(decode=20.0, model=9.0),
        bound_by="decode",
        says="Re-encode the video with a keyframe every 30 frames",
        after=even(decode=4.0, model=9.0),
        amplification=5.0,
    ),
    Planted(
        name="plain decoding",
        plan=even(decode=20.0),
        bound_by="decode",
        says="Re-encode the video at a smaller size",
        after=even(decode=NOTHING),
    ),
    Planted(
        name="decoding, the model close behind",
        plan=even(decode=20.0, model=16.0),
        bound_by="decode",
        says="Re-encode the video at a smaller size",
        after=even(decode=NOTHING, model=16.0),
    ),
    Planted(
        name="decoding by two threads",
        plan=even(decode=40.0, workers={"decode": 2}),
        bound_by="decode",
        says="Re-encode the video at a smaller size",
        after=even(decode=NOTHING),
    ),
    Planted(
        name="decoding by two threads on two cores",
        plan=even(decode=40.0, model=8.0, cores=2, workers={"decode": 2}),
        bound_by="decode",
        says="Re-encode the video with a keyframe every 30 frames",
        after=even(decode=10.0, model=8.0, cores=2, workers={"decode": 2}),
        amplification=4.0,
    ),
    Planted(
        name="preprocessing",
        plan=even(preprocess=20.0),
        bound_by="preprocess",
        says="--prep-level medium",
        after=even(preprocess=NOTHING),
    ),
    Planted(
        name="preprocessing, uneven",
        plan=even(preprocess=20.0, model=10.0, noise=0.3),
        bound_by="preprocess",
        says="--prep-level medium",
        after=even(preprocess=NOTHING, model=10.0, noise=0.3),
    ),
    Planted(
        name="preprocessing by three threads",
        plan=even(preprocess=60.0, decode=8.0, workers={"preprocess": 3}),
        bound_by="preprocess",
        says="--prep-level medium",
        after=even(preprocess=NOTHING, decode=8.0),
    ),
    Planted(
        name="the transfer",
        plan=even(transfer=20.0),
        bound_by="transfer",
        says="--batch-size 32: fewer, larger copies",
        after=even(transfer=NOTHING),
    ),
    Planted(
        name="the transfer, the model behind",
        plan=even(transfer=20.0, model=12.0),
        bound_by="transfer",
        says="--batch-size 32: fewer, larger copies",
        after=even(transfer=NOTHING, model=12.0),
    ),
    Planted(
        name="a model that likes larger batches",
        plan=even(model=30.0),
        bound_by="model",
        says="--batch-size 8",
        after=even(model=15.0),
        is_tried=True,
    ),
    Planted(
        name="a model that likes them more than the rest can bear",
        plan=even(model=30.0, decode=12.0),
        bound_by="model",
        says="--batch-size 8",
        after=even(model=5.0, decode=12.0),
        is_tried=True,
    ),
    Planted(
        name="a model with nothing to try",
        plan=even(model=30.0),
        bound_by="model",
        says="A smaller model than resnet50",
        after=even(model=NOTHING),
    ),
    Planted(
        name="a model on one core with all the rest",
        plan=even(model=20.0, cores=1),
        bound_by="model",
        says="--batch-size 8",
        after=even(model=10.0, cores=1),
        is_tried=True,
    ),
    Planted(
        name="drawing the video",
        plan=even(sink=20.0),
        bound_by="sink",
        says="--no-video",
        after=even(sink=NOTHING),
    ),
    Planted(
        name="drawing the video on two cores",
        plan=even(sink=20.0, model=12.0, decode=12.0, cores=2),
        bound_by="sink",
        says="--no-video",
        after=even(sink=NOTHING, model=12.0, decode=12.0, cores=2),
    ),
    Planted(
        name="short queues",
        plan=even(sink=20.0, capacity=1),
        bound_by="sink",
        says="--no-video",
        after=even(sink=NOTHING, capacity=1),
    ),
    Planted(
        name="Python between the stages",
        plan=Pipeline(decode=0.5, preprocess=0.5, model=0.5, sink=0.5, overhead=2.0),
        bound_by="Python overhead",
        says="--batch-size 32: fewer hand-overs",
        after=Pipeline(decode=0.5, preprocess=0.5, model=0.5, sink=0.5, overhead=1.0),
    ),
    Planted(
        name="Python between many light stages",
        plan=even(transfer=4.0, overhead=6.0),
        bound_by="Python overhead",
        says="--batch-size 32: fewer hand-overs",
        after=even(transfer=4.0, overhead=3.0),
    ),
    Planted(
        name="a source that gives no more",
        plan=even(source=30.0),
        bound_by="source",
        says="None",
        after=None,
    ),
]


def a_moment_ms(plan: Pipeline) -> float:
    """Milliseconds per frame of a few steps, as a rehearsal of them tells."""
    rate = Metrics.of(simulate(plan.with_(steps=12))).fps_mean
    assert rate is not None
    return 1e3 / rate


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case.name)
def test_a_planted_bottleneck_of_a_run_is_found_with_its_gain(case: Planted) -> None:
    session = simulate(case.plan)
    decode = session.decode.model_copy(
        update={"frames_delivered": 1000, "frames_decoded": round(1000 * case.amplification)}
    )
    session = session.model_copy(update={"decode": decode})
    if case.is_tried and case.after:
        other = Alternative(
            option="--batch-size 8",
            options={"batch_size": 8},
            ms_per_frame=a_moment_ms(case.after),
            baseline_ms_per_frame=a_moment_ms(case.plan),
        )
        session = session.model_copy(update={"alternatives": (other,)})
    finding = find(session)[-1]
    assert finding.bound_by == (case.bound_by,)
    assert str(finding.change).startswith(case.says)
    if case.after is not None:
        assert predicted(finding) == pytest.approx(
            step_ms(case.plan) / step_ms(case.after), rel=TOLERANCE
        )


LOOPS = [
    ("a loop that is never kept waiting", Loop(fetch=10, step=30, workers=2), "step"),
    ("a loop just kept fed", Loop(fetch=25, step=30, workers=1), "step"),
    ("a slow model, batches of a sixth", Loop(fetch=12, step=72), "step"),
    ("logging at every step", Loop(fetch=9, step=4, log=40), "step"),
    ("logging at every step, fed", Loop(fetch=30, step=2, log=40, workers=1), "step"),
    ("an evaluation now and then", Loop(fetch=9, step=4, log=400, log_every=10), "step"),
    ("no workers, batches of a third", Loop(fetch=10, step=20), "step"),
    ("no workers, dear batches", Loop(fetch=40, step=20), "loading"),
    ("no workers, dear batches, two cores", Loop(fetch=40, step=20, cores=2), "loading"),
    ("no workers, very dear batches", Loop(fetch=200, step=20), "loading"),
    ("no workers, one core", Loop(fetch=40, step=20, cores=1), "loading"),
    ("no workers, a slow disk", Loop(fetch=99, step=9, from_disk=0.9, cores=2), "loading"),
    ("no workers, large batches", Loop(fetch=20, step=9, batch_bytes=10_000_000), "loading"),
    ("one worker too few", Loop(fetch=60, step=20, workers=1), "loader workers"),
    ("two workers too few", Loop(fetch=100, step=10, workers=2), "loader workers"),
    ("two workers, two cores", Loop(fetch=60, step=9, workers=2, cores=2), "loader workers"),
    (
        "two workers, a slow disk",
        Loop(fetch=90, step=10, workers=2, from_disk=0.9, cores=2),
        "loader workers",
    ),
    ("slow collating", Loop(fetch=5, collate=50, step=10, workers=2, cores=2), "loader workers"),
    ("uneven samples", Loop(fetch=20, step=13, workers=2, noise=1.0), "step"),
    ("very uneven samples", Loop(fetch=30, step=5, workers=2, noise=1.8), "loader workers"),
    ("uneven samples, one worker", Loop(fetch=9, step=4, workers=1, noise=1.5), "loader workers"),
    (
        "tiny batches",
        Loop(fetch=0.02, collate=0.02, step=0.05, workers=2, handover=0.9, batch_bytes=32),
        "hand-over",
    ),
    (
        "tiny batches, two cores",
        Loop(fetch=0.05, collate=0.02, step=0.3, workers=4, handover=2, cores=2, batch_bytes=32),
        "hand-over",
    ),
    (
        "small uneven batches",
        Loop(fetch=0.1, collate=0.02, step=0.1, workers=2, handover=1, noise=1, batch_bytes=32),
        "hand-over",
    ),
    (
        "large batches that cost little",
        Loop(fetch=5, step=10, workers=1, handover=60, batch_bytes=1_000_000),
        "hand-over",
    ),
    (
        "large batches that cost much",
        Loop(fetch=90, step=5, workers=8, handover=20, batch_bytes=10_000_000),
        "hand-over",
    ),
    (
        "epochs of few steps",
        Loop(fetch=10, step=10, workers=2, epochs=20, start=800),
        "start-up",
    ),
]


@pytest.mark.parametrize(("name", "plan", "bound_by"), LOOPS, ids=[case[0] for case in LOOPS])
def test_a_planted_bottleneck_of_a_loop_is_found_with_its_gain(
    name: str, plan: Loop, bound_by: str
) -> None:
    findings = find(simulate_loop(plan))
    assert findings[0].bound_by == (bound_by,)
    for finding in findings:
        if finding.advice is None:
            continue
        after = changed(plan, finding.advice)
        if after is not None:
            assert predicted(finding) == pytest.approx(
                loop_ms(plan) / loop_ms(after), rel=TOLERANCE
            )


@pytest.mark.parametrize(
    "plan", [pytest.param(plan, id=name) for name, plan, bound_by in LOOPS if bound_by == "step"]
)
def test_work_between_batches_is_not_answered_with_settings_of_the_loader(plan: Loop) -> None:
    """What they would bring at most is said, and no more comes."""
    first, *others = find(simulate_loop(plan))
    assert first.advice is not None
    assert first.advice.words.startswith("A cheaper step")
    best = max([each.advice.gain or 0.0 for each in others if each.advice], default=1.0)
    found = re.search(r"no setting of the loader brings more than ([0-9.]+) times", str(first))
    assert found is not None
    assert best <= float(found[1]) * 1.01


@pytest.mark.parametrize(
    "plan",
    [pytest.param(plan, id=name) for name, plan, bound_by in LOOPS if bound_by == "hand-over"],
)
def test_hand_over_is_never_answered_with_more_workers_or_batches_ahead(plan: Loop) -> None:
    first = find(simulate_loop(plan))[0]
    assert first.advice is not None
    assert first.advice.words.startswith(("num_workers=0", "Let the workers give uint8"))
    assert (first.advice.gain or 0.0) > 1
    # What was advised before, applied: it brings nothing.
    for other in (plan.with_(prefetch=16), plan.with_(workers=plan.workers + 2)):
        assert loop_ms(plan) / loop_ms(other) < 1.05


def predicted(finding: Finding) -> float:
    """The gain, or the most that it can be where no figure tells."""
    assert finding.advice is not None
    found = finding.advice.gain or finding.advice.most
    assert found is not None
    return found


def changed(plan: Loop, advice: Change) -> Loop | None:
    """The loop with the change that was advised; None where it brings nothing."""
    name, _, value = advice.words.partition("=")
    match name:
        case "num_workers":
            return plan.with_(workers=int(value))
        case "prefetch_factor":
            return plan.with_(prefetch=int(value))
        case "persistent_workers":
            return plan.with_(lives_on=True)
        case "Half of the work in __getitem__":
            return plan.with_(fetch=plan.fetch / 2)
        case "Half of the work in collate_fn":
            return plan.with_(collate=plan.collate / 2)
    if advice.words.startswith("Let the workers give uint8"):
        return plan.with_(handover=plan.handover / 4, batch_bytes=plan.batch_bytes // 4)
    assert advice.words.startswith("A cheaper step")
    return None


def test_at_least_thirty_bottlenecks_are_planted() -> None:
    assert len(RUNS) + len(LOOPS) >= 30
    assert {case.bound_by for case in RUNS} | {case[2] for case in LOOPS} >= {
        *("decode", "preprocess", "transfer", "model", "sink", "Python overhead", "source"),
        *("step", "loading", "loader workers", "hand-over", "start-up"),
    }
