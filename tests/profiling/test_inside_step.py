"""The cause of a slow step is its largest part; advice has a gain only if it can be predicted."""

import pytest

from headrace.profiling import step_records
from headrace.profiling.findings.inside_step import parts_ms
from headrace.profiling.findings.loop_simulation import LoopLoad
from headrace.profiling.findings.verdict import find
from headrace.profiling.session import Session
from headrace.report.step_chart import step_chart
from profiling.loops import Loop, loop_ms, simulate_loop
from report.recorded import changed

STEPS = 299
"""Number of measured steps of a simulated loop."""
SLOW_STEP = Loop(fetch=2, step=40)


def part(name: str, ms: float, *, steps: int = STEPS, **others: float) -> step_records.StepPart:
    return step_records.StepPart(**{"name": name, "steps": steps, "ms": ms, "cpu_ms": ms, **others})


def with_inside(session: Session, *parts: step_records.StepPart, **fields: object) -> Session:
    inside = step_records.InsideStep(parts=parts, **fields)
    return changed(session, loader=changed(session.loader, inside=inside))


def seen_at(location: str, share: float) -> dict[str, object]:
    place = step_records.StepPlace(
        location=location, function="log_images", part="rest", share=share
    )
    return {"samples": 100, "places": (place,)}


FROZEN = "forward without gradients"
EVALUATION = [
    part(FROZEN, 14, steps=3),
    *(part("batches of another loader", 12, steps=3), part("rest", 14)),
]
OTHER_THREADS = "Move the Python work of the other threads into a process"
CASES = {
    "backward": ([part("backward", 22), part("forward", 10), part("rest", 8)], "model", None),
    "no part": ([part("optimizer", 14), part("copy to a device", 13), part("rest", 13)], "", None),
    "optimizer": ([part("optimizer", 25), part("forward", 10), part("rest", 5)], "optimizer", None),
    "a frozen model": ([part(FROZEN, 30), part("rest", 10)], FROZEN, None),
    "an evaluation": (EVALUATION, "evaluation", "Evaluate half as often"),
    "checkpoints": (
        *([part("checkpointing", 20, steps=10), part("forward", 20)], "checkpointing"),
        "Save half as often",
    ),
    "logging": ([part("logging", 30), part("rest", 10)], "logging", "Log half as often"),
    "the GIL": ([part("rest", 40, cpu_ms=10, gil_wait_ms=28)], "GIL", OTHER_THREADS),
    "the GIL little": ([part("rest", 10, gil_wait_ms=4), part("forward", 30)], "model", None),
    "a GPU": ([part("forward", 2, device_ms=30), part("rest", 38, cpu_ms=1)], "model", None),
}


@pytest.mark.parametrize(("parts", "cause", "change"), CASES.values(), ids=CASES)
def test_the_cause_of_a_slow_step_is_its_largest_part(parts, cause, change):
    (finding,) = find(with_inside(simulate_loop(SLOW_STEP), *parts))
    assert finding.bound_by == ("step",)
    assert finding.cause == cause
    if change is None:
        assert finding.advice.gain is None
    else:
        assert finding.advice.words == change
        assert finding.advice.gain > 1.1


@pytest.mark.parametrize("workers", [0, 2])
def test_the_gain_of_halving_a_part_is_that_of_the_changed_loop(workers: int) -> None:
    plan = SLOW_STEP.with_(workers=workers, fetch=12, log=30)
    session = with_inside(simulate_loop(plan), part("logging", 30), part("rest", 40))
    change = find(session)[0].advice
    slow = with_inside(simulate_loop(plan), part("logging", 60), part("rest", 10))
    advice = find(slow)[0].advice
    assert change.gain is None
    gain = loop_ms(plan) / loop_ms(plan.with_(log=0))
    assert advice.gain == pytest.approx(gain, rel=0.05)


def test_slow_code_of_the_user_is_named_with_the_gain_of_halving_it() -> None:
    session = with_inside(
        simulate_loop(SLOW_STEP), part("rest", 32), part("forward", 8), **seen_at("a.py:7", 0.75)
    )
    (finding,) = find(session)
    assert finding.cause == "own code"
    assert " in other code of the loop at a.py:7 (log_images)." in finding.headline
    assert str(finding.change).startswith(
        "Half of the work at a.py:7 (log_images): about 1.5 times as fast"
    )
    assert "Costliest lines of the step, by samples: a.py:7 (log_images) 75 %." in finding.evidence


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"in_optimizer": True}, "Half of the work at a.py:7 (optimizer): about 1.4 times as fast"),
        ({"in_optimizer": True, "share": 0.3}, "A cheaper optimizer: "),
        ({}, "A cheaper optimizer: "),
    ],
    ids=["most of it in a line", "less in a line", "an optimizer of PyTorch"],
)
def test_slow_code_in_the_users_own_optimizer_is_named(fields, change) -> None:
    seen = seen_at("a.py:7", 0.6)
    (place,) = seen["places"]
    seen["places"] = (changed(place, part="optimizer", **fields),)
    parts = (part("optimizer", 30), part("forward", 10))
    (finding,) = find(with_inside(simulate_loop(SLOW_STEP), *parts, **seen))
    assert finding.cause == "optimizer"
    assert str(finding.change).startswith(change)


def test_waits_for_a_core_are_subtracted_from_parts_on_a_busy_machine() -> None:
    session = simulate_loop(SLOW_STEP.with_(cores=1, others=1))
    parts = (part("forward", 40, cpu_ms=38), part("rest", 42, cpu_ms=2))
    (finding,) = find(with_inside(session, *parts, samples=0))
    assert finding.is_corrected
    assert finding.cause == "model"


def test_parts_are_never_above_the_step() -> None:
    session = with_inside(simulate_loop(SLOW_STEP), part("rest", 55), part("forward", 10))
    load = LoopLoad.of(session)
    assert sum(parts_ms(load).values()) == pytest.approx(load.step_ms)


def test_an_older_record_has_no_parts() -> None:
    session = simulate_loop(SLOW_STEP)
    old = changed(session, loader=changed(session.loader, inside=None))
    (finding,) = find(old)
    assert finding.cause == ""
    assert step_chart(old.loader) is None
    assert Session.model_validate_json(old.model_dump_json(exclude={"loader": {"inside"}})) == old


@pytest.mark.parametrize(
    ("made_by", "change"),
    [
        ("MeanBackward0", "Keep numbers, not tensors with their graph: loss.item() or "
         "loss.detach()."),
        (None, "Find what the loop keeps: a list, a cache, a log."),
    ],
)  # fmt: skip
def test_memory_growth_is_a_finding_with_the_kept_tensors(made_by, change):
    growth = step_records.MemoryGrowth(
        **{"where": "host", "step_bytes": 1.5e6, "first_step": 1200, "last_step": 1500},
        **{"first_bytes": 500_000_000, "last_bytes": 950_000_000},
    )
    kept = step_records.KeptTensors(
        shape=(16, 10), dtype="float32", device="cpu", made_by=made_by, tensors=300
    )
    loop = simulate_loop(SLOW_STEP)
    fields = {"growth": (growth,), "kept": (kept,), "kept_since": 1250}
    _, finding = find(with_inside(loop, part("rest", 40), **fields))
    assert finding.headline == (
        "Main memory grows by 1.50 MB a step: from 500 MB at step 1,200 to 950 MB at step 1,500."
    )
    assert finding.evidence[0].startswith(
        "300 tensors were kept after step 1,250: float32, of shape 16×10, on cpu."
    )
    assert ("MeanBackward0" in finding.evidence[0]) == (made_by is not None)
    assert finding.change == change


def test_a_loader_that_still_fills_is_not_called_a_leak():
    growth = step_records.MemoryGrowth(
        **{"where": "host", "step_bytes": 1.5e6, "first_step": 20, "last_step": 60},
        **{"first_bytes": 500_000_000, "last_bytes": 560_000_000},
    )
    loop = with_inside(simulate_loop(SLOW_STEP), part("rest", 40), growth=(growth,), kept=())
    *_, finding = find(changed(loop, loader=changed(loop.loader, kind="headrace", workers=None)))
    assert finding.change.startswith("Repeat it with more steps: the loader may still be filling")


@pytest.mark.parametrize(("kind", "is_said"), [("DataLoader", True), ("headrace", False)])
def test_decoding_threads_are_not_counted_as_cores_of_the_step(kind, is_said):
    session = simulate_loop(SLOW_STEP)
    session = changed(session, loader=changed(session.loader, kind=kind))
    text = " ".join(words for finding in find(session) for words in finding.evidence)
    assert ("cores busy during this time" in text) == is_said


def test_the_chart_has_a_bar_for_each_part_and_state_of_its_thread() -> None:
    session = with_inside(
        simulate_loop(SLOW_STEP),
        part("forward", 30, cpu_ms=20, gil_wait_ms=4, device_ms=25),
        part("rest", 10),
    )
    chart = step_chart(session.loader)
    bars = {trace.name: dict(zip(trace.y, trace.x, strict=True)) for trace in chart.figure.data}
    assert bars == {
        "worked": {"forward": 20, "rest": 10},
        "GIL": {"forward": 4, "rest": 0},
        "waited": {"forward": 6, "rest": 0},
        "GPU": {"forward": 25, "rest": 0},
    }
