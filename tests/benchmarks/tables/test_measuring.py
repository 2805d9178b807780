"""Tests of benchmarks/tables/measuring.py."""

from benchmark_fakes import result
from benchmarks.bench_overhead import WAYS, Overhead, OverheadResult, Times
from benchmarks.bench_predictions import Planted, PlantedResult, Prediction, PredictionsResult
from benchmarks.record import Repeat, Row
from benchmarks.tables.measuring import measuring, predictions


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
