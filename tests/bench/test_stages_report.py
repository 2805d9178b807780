"""Which stage is the costliest, what would bound a run, and what is said where turns differ."""

import pytest

from headrace.bench.stages import Bound, StagesRecord, StagesRow, StagesTurn, rows_of
from headrace.bench.stages_report import STAGES
from headrace.measuring.interleaved import Spread
from headrace.profiling.machine import provenance
from headrace.profiling.setup import Setup
from headrace.report.experiment import render_experiment, render_experiment_text

USUAL = {"decode": (30.0, 30.0), "preprocess": (10.0, 10.0), "model": (16.0, 32.0)}
"""Role -> wall and processor time of a batch of 10 frames."""


def turn(costs, batches=2, times=1.0, others=0.0):
    seconds = batches * sum(wall for wall, _ in costs.values()) / 1e3
    return StagesTurn(
        seconds=seconds,
        cpu_seconds=seconds,
        others_cpu_seconds=others * seconds,
        work_ms={role: (wall * times,) * batches for role, (wall, _) in costs.items()},
        cpu_ms={role: (cpu * times,) * batches for role, (_, cpu) in costs.items()},
    )


def recorded(*turns, cores=4, traced=10, **setup):
    made = provenance({}, ("headrace", "bench", "stages"))
    machine = made.machine.model_copy(update={"usable_cores": cores})
    usual = {"batch_size": 10, "model": "resnet50", "prep_level": "medium"}
    return StagesRecord(
        provenance=made.model_copy(update={"machine": machine}),
        setup=Setup(**{**usual, **setup}),
        size=(720, 1280),
        model_seconds=0.5,
        turns=turns,
        traced=traced,
    )


def found(*turns, **options):
    [finding] = STAGES.page(recorded(*turns, **options)).findings
    return finding


def test_rows_are_medians_of_a_frame_over_all_batches():
    slow = {"decode": (60.0, 50.0), "preprocess": (10.0, 10.0), "model": (15.0, 30.0)}
    rows = rows_of(recorded(turn(USUAL), turn(slow, batches=1), turn(USUAL)))
    decode, preprocess, model = rows
    assert [row.role for row in rows] == ["decode", "preprocess", "model"]
    assert (decode.ms, decode.cpu_ms, decode.batches) == (3, 3, 5)
    assert decode.p95_ms is None
    assert decode.rate == Spread(
        median=pytest.approx(333, abs=1),
        lowest=pytest.approx(167, abs=1),
        highest=pytest.approx(333, abs=1),
    )
    assert (decode.parts, preprocess.parts, model.parts) == (3, 1, pytest.approx(1.6))
    assert decode.share == pytest.approx(3 / 5.6)


def test_a_p95_takes_90_batches():
    assert rows_of(recorded(turn(USUAL, batches=45), turn(USUAL, batches=45)))[0].p95_ms == 3


def test_a_transfer_is_a_stage_but_not_in_the_ratio():
    costs = {**USUAL, "transfer": (1.0, 1.0)}
    record = recorded(turn(costs), device="cuda")
    rows = rows_of(record)
    assert [round(row.parts, 1) for row in rows] == [3.0, 1.0, 1.6, 0.1]
    [finding] = STAGES.page(record).findings
    assert "L_dec : L_prep : L_inf = 3.0 : 1.0 : 1.6" in finding.headline
    assert any("a transfer ends when its event has come" in line for line in finding.evidence)


def row(role, ms, cpu_ms):
    rate = Spread(median=1, lowest=1, highest=1)
    return StagesRow(
        role=role,
        ms=ms,
        p95_ms=None,
        cpu_ms=cpu_ms,
        share=0,
        parts=1,
        batches=1,
        rate=rate,
        others=None,
    )


@pytest.mark.parametrize(
    ("decode", "preprocess", "model", "cores", "expected"),
    [
        # One stage alone, in its one thread: then what is left is the next one, or the cores.
        ((4, 4), (1, 1), (8, 8), 4, ("model", False, 8, 8 / 1.25)),
        ((4, 4), (9, 9), (8, 8), 16, ("preprocess", False, 9, 9 / 8)),
        # All cores: their time goes to the stage that takes most of it.
        ((12, 12), (1, 1), (2, 3), 4, ("decode", True, 4, 4 / 2)),
        ((4, 4), (1, 1), (4, 8), 2, ("model", True, 6.5, 6.5 / 2.5)),
        # A GPU's work takes no core.
        ((4, 4), (1, 1), (8, 0.5), 8, ("model", False, 8, 8 / 1)),
    ],
)
def test_a_run_is_bound_by_its_slowest_stage_or_by_the_cores(
    decode, preprocess, model, cores, expected
):
    rows = [row("decode", *decode), row("preprocess", *preprocess), row("model", *model)]
    bound = Bound.of(rows, cores)
    assert (bound.role, bound.is_cores) == expected[:2]
    assert (bound.ms, bound.most) == (pytest.approx(expected[2]), pytest.approx(expected[3]))
    assert bound.rate == pytest.approx(1e3 / expected[2])


@pytest.mark.parametrize(
    ("costs", "options", "said"),
    [
        ({"model": (90.0, 90.0)}, {"smaller_model": "resnet18"}, {"model_name": "resnet18"}),
        ({"preprocess": (90.0, 90.0)}, {}, {"prep_level": "simple"}),
        ({"preprocess": (90.0, 90.0)}, {"prep_level": "simple"}, {}),
        ({"decode": (900.0, 900.0)}, {}, {}),
        ({"transfer": (900.0, 9.0)}, {}, {"batch_size": 20}),
    ],
)
def test_the_advice_is_less_work_for_what_would_bound_a_run(costs, options, said):
    finding = found(turn({**USUAL, **costs}), **options)
    advice = finding.advice
    assert advice.options == said
    assert advice.gain is None, "what a lighter stage takes was not measured"
    assert advice.most > 1
    assert f"takes {'90.0' if 900.0 in next(iter(costs.values())) else '9.00'} ms" in (
        advice.rests_on
    )
    assert finding.change == str(advice)
    assert finding.bound_by == tuple(costs)


def test_where_turns_differ_there_is_no_verdict_and_no_advice():
    finding = found(turn(USUAL), turn(USUAL, times=2))
    assert finding.headline == (
        "Too unsteady to say which stage is the costliest; by the medians decoding, 54 % of what a "
        "frame takes"
    )
    assert finding.advice is None
    assert finding.bound_by == ()
    assert finding.change.startswith("The same again")
    assert not any("A run overlaps" in line for line in finding.evidence)


def test_a_stage_that_is_slower_in_its_fastest_turn_than_the_others_in_any_is_named_all_the_same():
    said = "Costliest in sequence is decoding, in every turn. "
    finding = found(turn(USUAL), turn(USUAL, times=1.4))
    assert finding.headline == said + "Too unsteady to say by how much"
    assert finding.advice is None
    disturbed = found(turn(USUAL, others=3.0), turn(USUAL, times=1.01, others=3.0))
    assert disturbed.headline == (
        said + "Other programs ran meanwhile, so it is uncertain by how much"
    )
    assert disturbed.evidence[0] == "By the medians L_dec : L_prep : L_inf = 3.0 : 1.0 : 1.6."
    assert "which stage is the costliest" in found(turn(USUAL, others=3.0)).headline, "one turn"


def test_without_a_trace_none_is_named():
    assert not any("trace" in line for line in found(turn(USUAL), traced=0).evidence)


def test_the_text_is_rows_and_answer():
    assert render_experiment_text(STAGES.page(recorded(turn(USUAL), turn(USUAL)))) == TEXT


TEXT = """\
Time by stage: resnet50, a video of 720×1280, batches of 10

       stage    ms       p95 ms  share  parts  CPU ms  frames/s  slowest  fastest
      decode  3.00  n too small   54 %    3.0    3.00       333      333      333
  preprocess  1.00  n too small   18 %    1.0    1.00     1,000    1,000    1,000
       model  1.60  n too small   29 %    1.6    3.20       625      625      625

Costliest in sequence is decoding, 54 % of what a frame takes; L_dec : L_prep : L_inf = 3.0 : 1.0 :
1.6
  - One after the other a frame takes decode 3.00, preprocess 1.00, model 1.60 ms: 5.60 ms, 179
    frames/s.
  - A run overlaps its stages, and decodes in a thread for each core: at best 556 frames/s, 3.11
    times as fast, bound by the 4 cores, 44 % of whose time the model takes; what it writes comes on
    top.
  - The model was ready after 0.5 s; that, and the batches of about a second before the first turn,
    are left out.
  - A trace of 10 more batches, for ui.perfetto.dev: stages.trace.json.gz. The profiler was off
    while the times above were taken.
  Try next: A smaller model than resnet50; what it brings is not known before it is tried, and less
    than 1.8 times as fast, the bound of this part taking no time at all (the model takes 3.20 ms of
    processor time a frame).
"""


def test_the_chart_has_a_bar_for_each_stage_and_no_mark_where_a_p95_is_unknown():
    [chart] = STAGES.page(recorded(turn(USUAL))).charts
    bars, p95 = chart.figure.data
    assert list(bars.x) == ["decode", "preprocess", "model"]
    assert list(bars.y) == [3, 1, pytest.approx(1.6)]
    assert list(p95.x) == []
    assert "p95" not in chart.reading
    [chart] = STAGES.page(recorded(turn(USUAL, batches=90))).charts
    assert list(chart.figure.data[1].y) == [3, 1, pytest.approx(1.6)]


def test_an_old_record_gives_the_same_page_again():
    record = recorded(turn(USUAL))
    again = StagesRecord.model_validate_json(record.model_dump_json())
    assert render_experiment(STAGES.page(again)) == render_experiment(STAGES.page(record))
