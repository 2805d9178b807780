"""Planted bottlenecks are found, and the advised change has the predicted gain.

A simulation makes the advised change; its gain is compared with the prediction.
"""

import re
from collections.abc import Sequence
from statistics import fmean

import pytest

from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.findings.loop_simulation import LoopLoad
from headrace.profiling.findings.verdict import find
from headrace.profiling.metrics import Metrics
from headrace.profiling.run_records import Alternative
from headrace.profiling.session import Session
from profiling.loops import FIELDS, Loop, loop_ms, simulate_loop
from profiling.pipelines import Pipeline, simulate, step_ms
from report.recorded import changed

TOLERANCE = 0.2
"""Relative error of a predicted gain against the simulated gain."""


def even(**changes: float) -> Pipeline:
    return Pipeline(decode=4.0, preprocess=4.0, model=4.0, sink=4.0).with_(**changes)


NOTHING = 0.0
"""Milliseconds of a removed stage, for the largest gain of a change of this stage."""
SHORT_GOPS = "Re-encode the video with a keyframe every 30 frames"
"""Advice if more frames are decoded than requested; decoding gets faster by this factor."""
SMALLER = "Re-encode the video at a smaller size"
LARGER_COPIES = "--batch-size 32: fewer, larger copies"
FEWER_TRANSFERS = "--batch-size 32: fewer queue transfers"
TRIED = "--batch-size 8"
"""Advice if another batch size was measured after the run, with the speed of the change."""
LIGHTER = "--prep-level medium"
NO_VIDEO = "--no-video"
TWO_DECODE = {"decode": 40, "workers": {"decode": 2}}
THREE_PREPROCESS = {"workers": {"preprocess": 3}}
LIGHT = Pipeline(decode=0.5, preprocess=0.5, model=0.5, sink=0.5, overhead=2.0)

RUNS = {
    "decode": [
        ("decoding twice as many frames as requested", even(decode=20), SHORT_GOPS, 10),
        ("decoding five times as many frames", even(decode=20, model=9), SHORT_GOPS, 4),
        ("plain decoding", even(decode=20), SMALLER, NOTHING),
        ("decoding, the model close behind", even(decode=20, model=16), SMALLER, NOTHING),
        ("decoding by two threads", even(**TWO_DECODE), SMALLER, NOTHING),
        ("the same on two cores", even(**TWO_DECODE, model=8, cores=2), SHORT_GOPS, 10),
    ],
    "preprocess": [
        ("plain", even(preprocess=20), LIGHTER, NOTHING),
        ("uneven", even(preprocess=20, model=10, noise=0.3), LIGHTER, NOTHING),
        ("by three threads", even(preprocess=60, decode=8, **THREE_PREPROCESS), LIGHTER, NOTHING),
    ],
    "transfer": [
        ("the transfer", even(transfer=20), LARGER_COPIES, NOTHING),
        ("the same, the model behind", even(transfer=20, model=12), LARGER_COPIES, NOTHING),
    ],
    "model": [
        ("a model that is faster in larger batches", even(model=30), TRIED, 15),
        ("a gain limited by decoding", even(model=30, decode=12), TRIED, 5),
        ("nothing to try", even(model=30), "--stride 2: fewer frames", NOTHING),
        ("on one core with all other stages", even(model=20, cores=1), TRIED, 10),
    ],
    "sink": [
        ("drawing the video", even(sink=20), NO_VIDEO, NOTHING),
        ("the same on two cores", even(sink=20, model=12, decode=12, cores=2), NO_VIDEO, NOTHING),
        ("short queues", even(sink=20, capacity=1), NO_VIDEO, NOTHING),
    ],
    "Python overhead": [
        ("between the stages", LIGHT, FEWER_TRANSFERS, 1),
        ("between many light ones", even(transfer=4, overhead=6), FEWER_TRANSFERS, 3),
    ],
    "source": [("a paced source", even(source=30), "None", None)],
}
"""Bottleneck → (name, run, start of the advice, milliseconds of the bottleneck after the change);
None: the gain is not predicted."""


def short_run_ms(plan: Pipeline) -> float:
    """Return the milliseconds per frame of a short run."""
    return 1e3 / Metrics.of(simulate(plan.with_(steps=12))).fps_mean


@pytest.mark.parametrize(
    ("bound_by", "plan", "words", "after_ms"),
    [
        pytest.param(bound_by, *run, id=f"{bound_by}: {name}")
        for bound_by, runs in RUNS.items()
        for name, *run in runs
    ],
)
def test_a_planted_bottleneck_of_a_run_is_found_with_its_gain(bound_by, plan, words, after_ms):
    run, part = simulate(plan), bound_by.removeprefix("Python ")
    after = None if after_ms is None else plan.with_(**{part: after_ms})
    wasted = getattr(plan, part) / after_ms if words == SHORT_GOPS and after_ms else 1
    decode = changed(run.decode, frames_delivered=1000, frames_decoded=round(1000 * wasted))
    session = changed(run, decode=decode)
    if words == TRIED and after:
        other = Alternative(
            option="--batch-size 8",
            options={"batch_size": 8},
            ms_per_frame=short_run_ms(after),
            baseline_ms_per_frame=short_run_ms(plan),
        )
        session = changed(session, alternatives=(other,))
    finding = find(session)[-1]
    assert finding.bound_by == (bound_by,)
    assert str(finding.change).startswith(words)
    if after:
        gain = step_ms(run) / step_ms(simulate(after))
        assert predicted(finding) == pytest.approx(gain, rel=TOLERANCE)


TINY = Loop(fetch=0.02, collate=0.02, step=0.05, workers=2, handover=0.9, batch_bytes=32)
MUCH = {"fetch": 90, "step": 5, "workers": 8, "handover": 20}
PYTHON = Loop(fetch=0.1, collate=9, step=0.5, workers=2, holds_gil=True, batch_bytes=400_000)
LOOPS = {
    "step": {
        "never waits": Loop(fetch=10, step=30, workers=2),
        "hardly waits": Loop(fetch=25, step=30, workers=1),
        "a slow model, batches of a sixth": Loop(fetch=12, step=72),
        "logging at every step": Loop(fetch=9, step=4, log=40),
        "logging at every step, hardly waits": Loop(fetch=30, step=2, log=40, workers=1),
        "an evaluation every ten steps": Loop(fetch=9, step=4, log=400, log_every=10),
        "no workers, batches of a third": Loop(fetch=10, step=20),
        "uneven samples": Loop(fetch=20, step=13, workers=2, noise=1.0),
    },
    "loading": {
        "costly batches": Loop(fetch=40, step=20),
        "costly batches, two cores": Loop(fetch=40, step=20, cores=2),
        "very costly batches": Loop(fetch=200, step=20, steps=100),
        "one core": Loop(fetch=40, step=20, cores=1),
        "a slow disk": Loop(fetch=99, step=9, from_disk=0.9, cores=2),
        "large batches": Loop(fetch=20, step=9, batch_bytes=10_000_000),
    },
    "loader workers": {
        "one worker too few": Loop(fetch=60, step=20, workers=1),
        "two workers too few": Loop(fetch=100, step=10, workers=2),
        "two workers, two cores": Loop(fetch=60, step=9, workers=2, cores=2),
        "two workers, a slow disk": Loop(fetch=90, step=10, workers=2, from_disk=0.9, cores=2),
        "slow collating": Loop(fetch=5, collate=50, step=10, workers=2, cores=2),
        "slow Python collating": PYTHON,
        "the same, two cores": PYTHON.with_(cores=2, batch_bytes=100_000),
        "very uneven samples": Loop(fetch=30, step=5, workers=2, noise=1.8),
        "uneven samples, one worker": Loop(fetch=9, step=4, workers=1, noise=1.5),
    },
    "queue transfer": {
        "tiny batches": TINY,
        "tiny batches, two cores": TINY.with_(fetch=0.05, step=0.3, workers=4, handover=2, cores=2),
        "small uneven batches": TINY.with_(fetch=0.1, step=0.1, handover=1, noise=1),
        "large batches of little cost": Loop(fetch=5, step=10, workers=1, handover=60),
        "large batches of much cost": Loop(**MUCH, batch_bytes=10_000_000),
    },
    "start-up": {
        "epochs of few steps": Loop(fetch=10, step=10, workers=2, epochs=20, start=800),
    },
}
"""Bottleneck → name → loop."""
with_loops = pytest.mark.parametrize(
    ("bound_by", "plan"),
    [
        pytest.param(bound_by, plan, id=f"{bound_by}: {name}")
        for bound_by, plans in LOOPS.items()
        for name, plan in plans.items()
    ],
)


def assert_gains(plan: Loop, findings: Sequence[Finding]) -> None:
    """Check that the predicted gains are those of the changed loop."""
    for finding in findings:
        after = finding.advice and changed_loop(plan, finding.advice)
        if after:
            gain = loop_ms(plan) / loop_ms(after)
            assert predicted(finding) == pytest.approx(gain, rel=TOLERANCE)


@with_loops
def test_a_planted_bottleneck_of_a_loop_is_found_with_its_gain(plan: Loop, bound_by: str) -> None:
    findings = find(simulate_loop(plan))
    assert findings[0].bound_by == (bound_by,)
    assert_gains(plan, findings)
    if bound_by in ("loading", "loader workers"):
        assert findings[0].cause == ("collate_fn" if plan.collate > plan.fetch else "__getitem__")
    if bound_by == "step":
        assert_no_setting_of_the_loader(*findings)
    if bound_by == "queue transfer":
        assert_neither_workers_nor_prefetch(plan, findings[0].advice)


def assert_no_setting_of_the_loader(first: Finding, *others: Finding) -> None:
    """Check that the finding has the upper bound of the gain of settings of the loader."""
    assert first.advice.words.startswith("A cheaper step")
    best = max([finding.advice.gain or 0.0 for finding in others if finding.advice], default=1.0)
    bound = re.search(r"settings of the loader gain at most ([0-9.]+) times", str(first))
    assert best <= float(bound[1]) * 1.01


def assert_neither_workers_nor_prefetch(plan: Loop, advice: Change) -> None:
    """Check that the advice is another one, and that these settings gain nothing."""
    assert advice.words.startswith(("num_workers=0", "Return uint8 from the workers"))
    assert (advice.gain or 0.0) > 1
    for other in (plan.with_(prefetch=16), plan.with_(workers=plan.workers + 2)):
        assert loop_ms(plan) / loop_ms(other) < 1.05


@with_loops
def test_other_programs_change_neither_the_verdict_nor_its_gain(plan: Loop, bound_by: str) -> None:
    if plan.epochs == 1 and plan.noise < 1:
        plan = plan.with_(steps=plan.steps // 2)  # other programs make the simulation slow
    busy = simulate_loop(plan.with_(others=round(1.5 * plan.cores)))
    assert busy.others_cpu_share > 0.4
    findings = find(busy)
    assert findings[0].bound_by == (bound_by,)
    if bound_by == "start-up":  # waits for a core are not known during a start
        assert "as far as can be seen on a busy machine" in findings[0].headline
        return
    assert "without waits for a core" in findings[0].headline
    assert_gains(plan, findings)


@pytest.mark.parametrize("steps", [200, 2400])
@pytest.mark.parametrize("late", [0.3, 3.0])
def test_shares_stay_shares_in_a_loop_whose_steps_change(steps: int, late: float) -> None:
    """A long loop is simulated by its last steps, a short loop by repeated steps."""
    session = simulate_loop(Loop(fetch=10, step=30, workers=2, cores=2, others=3, steps=steps))
    half = session.steps.work_ms["step"][steps // 2 :]
    work = (*session.steps.work_ms["step"][: steps // 2], *(late * ms for ms in half))
    changed_steps = changed(session.steps, work_ms={**session.steps.work_ms, "step": work})
    load = LoopLoad.of(changed(session, steps=changed_steps))
    assert load.is_corrected
    assert 0.0 <= load.waiting <= 1.0
    assert load.step_ms == pytest.approx(fmean(load.rest))


def test_figures_of_a_busy_machine_add_up_if_a_wait_was_counted_late() -> None:
    """Some waits of fetch are counted in collate, and some waits belong to no step."""
    session = simulate_loop(Loop(fetch=2, collate=1, step=20, cores=1, others=2))
    waits = session.steps.core_wait_ms
    late = {
        "fetch": tuple(0.0 for _ in waits["fetch"]),
        "collate": tuple(a + b for a, b in zip(waits["fetch"], waits["collate"], strict=True)),
        "step": tuple(ms + 5 for ms in waits["step"]),
        "wait": waits["wait"],
    }
    session = changed(session, steps=changed(session.steps, core_wait_ms=late))
    load = LoopLoad.of(session)
    assert load.is_corrected
    assert load.batch_ms == pytest.approx((load.fetch_ms or 0) + (load.collate_ms or 0))
    text = " ".join(map(str, (words for finding in find(session) for words in finding.evidence)))
    shares = re.search(
        r"worked (\d+) % of the time, waited (\d+) % for a core, and (\d+) % for something else",
        text,
    )
    assert 99 <= sum(map(int, shares.groups())) <= 101
    assert "it mostly waits, for example" not in text


def test_figures_of_a_busy_machine_state_what_is_not_included() -> None:
    plan = Loop(fetch=40, step=20, cores=2, others=2)
    (finding,) = find(simulate_loop(plan))
    assert finding.headline == (
        "The loop waits for data 67 % of the time, without waits for a core: a step takes 91.2 ms, "
        "30.4 of them waiting for a core; of the other 60.8 ms, 40.6 are waits for data."
    )
    assert any("Not included: waits for a core" in words for words in finding.evidence)
    session = simulate_loop(plan)
    work = {"step": session.steps.work_ms["step"]}  # of a loader without costs of batches
    for steps in ({"core_wait_ms": {}}, {"work_ms": work}):
        unknown = changed(session, steps=changed(session.steps, **steps))
        assert "as far as can be seen on a busy machine" in find(unknown)[0].headline


def test_only_the_first_finding_has_times_with_and_without_waits_for_a_core() -> None:
    step, wait = find(simulate_loop(Loop(fetch=300, step=700, cores=1, others=2, steps=100)))
    assert ": a step takes 3,0" in step.headline
    assert "waiting for a core" not in wait.headline


def test_times_of_seconds_are_written_in_whole_milliseconds() -> None:
    slow = Loop(fetch=4_000, step=2_000, steps=30)
    slow_transfer = slow.with_(fetch=1, step=1, workers=2, handover=3_000)
    for plan in (slow, slow.with_(step=1_000, workers=1), slow_transfer):
        text = "\n".join(map(str, find(simulate_loop(plan))))
        assert re.search(r"\d,\d{3} ms", text)
        assert "e+" not in text


def without_costs(session: Session) -> Session:
    """Return the session without costs of batches."""
    steps = session.steps
    waits = {name: steps.core_wait_ms[name] for name in ("wait", "step")}
    work = {"step": steps.work_ms["step"]}
    return changed(session, steps=changed(steps, work_ms=work, core_wait_ms=waits))


FEWER = "ewer threads and workers, at most 1 together, one per core (num_threads, "
QUIET = "Repeat it on a quiet machine (other programs used 80 % of the CPU time), or with f"
CHEAPER = "A cheaper step (model, optimizer, logging, evaluation)"


@pytest.mark.parametrize(
    ("others", "share", "change"),
    [(4, 0.8, QUIET + FEWER), *((4, n, f"F{FEWER}") for n in (None, 0.02)), (0, 0.0, CHEAPER)],
)
def test_a_step_that_mostly_waits_for_a_core_needs_a_core_first(others, share, change):
    session = without_costs(simulate_loop(Loop(fetch=1, step=40, cores=1, others=others)))
    (finding,) = find(changed(session, others_cpu_share=share))
    assert finding.bound_by == ("step",)
    assert str(finding.change).startswith(change)


def test_a_gain_that_depends_on_unknown_figures_is_a_bound() -> None:
    disk, tiny = (
        find(simulate_loop(plan))[0].advice for plan in (LOOPS["loading"]["a slow disk"], TINY)
    )
    assert str(disk).startswith("num_workers=8; expected gain not known before it is tried (")
    assert str(disk).endswith(
        f"; at most {disk.most:.1f} times, if the disk or network that batches wait for serves 8 "
        "workers as fast as one)."
    )
    assert disk.prediction.startswith("an upper bound of ")
    assert str(tiny).startswith("num_workers=0: at least ")
    assert tiny.prediction.startswith("at least ")


def test_a_shorter_step_gains_no_more_than_the_cores_allow() -> None:
    """Loop and workers compute 40 ms a step: no step of two cores is shorter than 20 ms."""
    load = LoopLoad.of(simulate_loop(Loop(fetch=30, step=24, workers=4, cores=2)))
    cpu_ms = (load.loader.loop_cpu_ms or 0.0) + (load.loader.batch_cpu_ms or 0.0)
    least_ms = (cpu_ms - 12) / 2
    assert load.gain_of_step(12) == pytest.approx(load.total_ms / least_ms, rel=0.05)


def predicted(finding: Finding) -> float:
    """Return the predicted gain, or its upper bound."""
    return finding.advice.gain or finding.advice.most


def changed_loop(plan: Loop, advice: Change) -> Loop | None:
    """Return the loop with the advised change; None for a change outside the loader."""
    if advice.options:
        return plan.with_(**{FIELDS[name]: value for name, value in advice.options.items()})
    match advice.words:
        case "Half of the work in __getitem__":
            return plan.with_(fetch=plan.fetch / 2)
        case "Half of the work in collate_fn (train.py:9)":
            return plan.with_(collate=plan.collate / 2)
    if advice.words.startswith("Return uint8 from the workers"):
        return plan.with_(handover=plan.handover / 4, batch_bytes=plan.batch_bytes // 4)
    assert advice.words.startswith("A cheaper step")
    return None


def test_every_kind_of_bottleneck_is_planted() -> None:
    assert {*RUNS, *LOOPS} == {
        *("decode", "preprocess", "transfer", "model", "sink", "Python overhead", "source"),
        *("step", "loading", "loader workers", "queue transfer", "start-up"),
    }


@pytest.mark.parametrize(("others", "bound"), [(0.0, "model"), (0.4, "decode")])
def test_waits_for_a_core_do_not_change_the_bottleneck_on_a_busy_machine(others, bound):
    """The model is busy 20 of 20 ms, half of them in waits for a core; decoding is busy 14 ms."""
    session = simulate(even(decode=14, model=20))
    waits = {"model": 0.5, "decode": 0.0, "preprocess": 0.0, "sink": 0.0}
    stages = tuple(
        changed(stage, core_wait_seconds=waits[stage.role] * stage.busy_seconds)
        for stage in session.stages
    )
    (finding,) = find(changed(session, stages=stages, others_cpu_share=others))
    assert finding.bound_by == (bound,)
    assert finding.is_corrected == bool(others)
    assert any("waits for a core" in sentence for sentence in finding.evidence) == bool(others)


def test_waits_for_a_core_are_subtracted_only_if_known_for_all_stages() -> None:
    session = simulate(even(decode=14, model=20))
    first, *others = session.stages
    stages = (changed(first, core_wait_seconds=0.1), *others)
    (finding,) = find(changed(session, stages=stages, others_cpu_share=0.4))
    assert finding.bound_by == ("model",)
    assert not finding.is_corrected


def test_the_default_collate_function_is_named_by_the_bytes_that_it_stacks() -> None:
    session = simulate_loop(LOOPS["loader workers"]["slow collating"])
    session = changed(session, loader=changed(session.loader, collate="default"))
    assert str(find(session)[0].change).startswith(
        "Half of the bytes of a sample: PyTorch's default collate_fn stacks 1 MB a batch: about 1."
    )
