"""bench_overhead, bench_observe and bench_predictions."""

import pytest

from benchmark_fakes import result
from benchmarks.bench_observe import cost
from benchmarks.bench_overhead import (
    BENCHMARK,
    WAYS,
    Overhead,
    OverheadResult,
    Times,
    measuring,
    render,
)
from benchmarks.bench_predictions import (
    Planted,
    PlantedResult,
    Prediction,
    PredictionsResult,
    predictions,
)
from benchmarks.planted_loops import LOOPS, Loop, wall_seconds, with_change
from benchmarks.record import Repeat, Row, TimedResult, origin
from headrace.profiling.findings.finding import Change
from headrace.testing.synth import SynthClip, write_clip
from profiling.loops import Loop as SimulatedLoop
from profiling.loops import loop_ms, simulate_loop


def test_the_smallest_measurement_is_kept_and_can_be_read(tmp_path, capsys):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=24))
    out = tmp_path / "overhead.json"
    words = ["--turns", "1", "--steps", "4", "--batch-size", "2", "--video", clip, "--out", out]
    BENCHMARK.main([str(word) for word in words])
    found = OverheadResult.load(out)
    assert [row.way for row in found.rows] == list(WAYS)
    assert {len(row.turns) for row in found.rows} == {1}
    assert all(each.wall > 0 and each.cpu >= 0 for row in found.rows for each in row.turns)
    assert "bare: " in capsys.readouterr().out


def test_a_cost_is_the_median_of_the_turns_beside_bare():
    walls = {
        "bare": (0.010, 0.020, 0.040),
        "recorded": (0.011, 0.020, 0.041),
        "nvtx": (0.010, 0.020, 0.040),
        "trace": (0.020, 0.040, 0.080),
    }
    result = OverheadResult(
        provenance=origin({}),
        rows=tuple(
            Overhead(way=way, turns=tuple(Times(wall=wall, cpu=2 * wall) for wall in found))
            for way, found in walls.items()
        ),
        empty_step_seconds=(0.0002, 0.0001, 0.0003),
    )
    assert render(result) == (
        "bare: 20.00 ms a step\n"
        "recorded: +2.5% of a step (+0.0% to +10.0%); +2.5% of its CPU time (+0.0% to +10.0%)\n"
        "nvtx: +0.0% of a step (+0.0% to +0.0%); +0.0% of its CPU time (+0.0% to +0.0%)\n"
        "trace: +100.0% of a step (+100.0% to +100.0%); "
        "+100.0% of its CPU time (+100.0% to +100.0%)\n"
        "the runtime: 200 us a step, 1.00% of it"
    )


def test_a_prediction_is_held_against_the_median() -> None:
    found = Prediction(change="--no-video", predicted=2.2, measured=(1.9, 2.0, 2.6))
    assert found.off_by == pytest.approx(0.1)
    assert str(found) == "--no-video: predicted 2.20 times, measured 2.00 (1.90 to 2.60)"


def test_what_was_not_predicted_is_off_by_nothing() -> None:
    found = Prediction(change="--threads 1", predicted=None, measured=(0.9,))
    assert found.off_by is None
    assert str(found) == "--threads 1: predicted nothing, measured 0.90 (0.90 to 0.90)"


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("num_workers=0", {"workers": 0}),
        ("prefetch_factor=8", {"prefetch": 8}),
        ("persistent_workers=True", {"lives_on": True}),
        ("Half of the work in __getitem__", {"fetch": 10.0, "uneven": 2.0}),
        ("Half of the work in collate_fn", {"collate": 3.0}),
    ],
)
def test_what_is_advised_is_made(words: str, changed: dict[str, object]) -> None:
    loop = Loop(name="?", fetch=20.0, uneven=4.0, collate=6.0, workers=2)
    found = with_change(loop, Change(words=words, gain=2.0))
    assert vars(found) == {**vars(loop), **changed}
    assert with_change(loop, Change(words="A cheaper step")) is None


def test_every_planted_loop_has_a_name_of_its_own() -> None:
    assert len({loop.name for loop in LOOPS}) == len(LOOPS) >= 8


def test_the_time_of_a_loop_has_the_starts_of_its_epochs_once() -> None:
    loop = SimulatedLoop(fetch=10, step=10, workers=2, epochs=3, steps=60, start=300)
    assert 1e3 * wall_seconds(simulate_loop(loop)) == pytest.approx(loop_ms(loop), rel=0.02)


def test_the_cost_of_observing_is_the_median_over_pairs_of_turns() -> None:
    def row(name: str, *seconds: float) -> Row:
        repeats = tuple(Repeat(wall_seconds=each, frames=10) for each in seconds)
        return Row(name=name, kind="num_workers=0", repeats=repeats)

    rows = (row("plain", 1.0, 2.0, 4.0), row("observed", 1.01, 2.0, 4.8))
    result = TimedResult(provenance=origin({}), rows=rows)
    assert cost(result, "num_workers=0")[0] == pytest.approx(1.01)


def test_what_a_step_takes_more_stands_as_percent_of_it() -> None:
    walls = {"bare": 0.020, "recorded": 0.0202, "nvtx": 0.0201, "trace": 0.021}
    overhead = OverheadResult(
        provenance=result().provenance,
        rows=tuple(
            Overhead(way=way, turns=(Times(wall=walls[way], cpu=walls[way]),)) for way in WAYS
        ),
        empty_step_seconds=(60e-6,),
    )
    observe = result(
        *(
            Row(name=name, kind=f"num_workers={workers}", repeats=(Repeat(wall_seconds=seconds),))
            for workers in (0, 1)
            for name, seconds in (("plain", 2.0), ("observed", 2.01))
        )
    )
    made = observe.provenance.model_copy(update={"configuration": {"step_ms": 5.0}})
    text = measuring(overhead, observe.model_copy(update={"provenance": made}))
    assert "| a run, recorded as always | +1.0 % | +1.0 % | +1.0 % |" in text
    assert "| `observe`, num_workers=1 | +0.5 % | +0.5 % | +0.5 % |" in text
    assert "takes 60 µs a step: 0.3 % of this one" in text


def test_what_was_predicted_stands_beside_what_came() -> None:
    changes = (
        Prediction(change="--no-video", predicted=2.0, measured=(1.9, 2.1, 2.0)),
        Prediction(change="--threads 1", predicted=None, measured=(0.9,)),
    )
    text = predictions(PredictionsResult(provenance=result().provenance, changes=changes))
    assert "| `--no-video` | 2.00 | 2.00 | 1.90–2.10 |" in text
    assert "| `--threads 1` | nothing | 0.90 | 0.90–0.90 |" in text


def test_planted_loops_say_what_was_named_and_what_came_beside_other_programs() -> None:
    came = Prediction(
        change="num_workers=0",
        predicted=9.0,
        measured=(10.0, 12.0, 11.0),
        others_cpu_share=(0.02, 0.4, None),
    )
    loop = Planted(planted="tiny batches", named=("hand-over",), headline="?", applied=came)
    planted = PlantedResult(provenance=result().provenance, loops=(loop,))
    text = predictions(PredictionsResult(provenance=result().provenance, planted=planted))
    row = "| tiny batches | hand-over | `num_workers=0` | 9.00 | 11.00 | 10.00–12.00 |"
    assert row in text
    assert "Other programs took up to 40% of the processor time meanwhile." in text
