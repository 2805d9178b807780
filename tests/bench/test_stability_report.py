"""What bench stability says of its figures, and what it leaves open."""

import pytest

from headrace.bench.stability import (
    StabilityConfig,
    StabilityRecord,
    _needed_seconds,
    announce,
    rows_of,
)
from headrace.bench.stability_report import STABILITY
from headrace.bench.stability_search import Candidate, StabilityTurn
from headrace.profiling.machine import provenance
from headrace.report.experiment import render_experiment, render_experiment_text


def turn(batch_size, queue_depth, cv, rate, *, others=0.0):
    """A turn whose FPS is `rate` in the mean, with this CV."""
    return StabilityTurn(
        seconds=10,
        cpu_seconds=10,
        others_cpu_seconds=10 * others,
        batch_size=batch_size,
        queue_depth=queue_depth,
        warm_up=27 if queue_depth == 8 else 10,
        fps=(rate * (1 - cv), rate * (1 + cv)) * 50,
        frames_per_second=rate,
    )


def recorded(*turns, repeats=1, **changed):
    made = provenance({}, ("headrace", "bench", "stability"))
    machine = made.machine.model_copy(update={"usable_cores": 4})
    return StabilityRecord(
        provenance=made.model_copy(update={"machine": machine}),
        **{
            "target": 0.05,
            "iterations": 100,
            "repeats": repeats,
            "run_depth": 2,
            "max_seconds": 90,
            "model_seconds": 0.5,
            "left_out": (),
            "unbegun": None,
            "turns": turns,
            **changed,
        },
    )


USUAL = (turn(1, 8, 0.2, 30), turn(2, 8, 0.03, 50), turn(2, 2, 0.04, 48), turn(2, 1, 0.09, 40))


def found(*turns, **changed):
    [finding] = STABILITY.page(recorded(*turns, **changed)).findings
    return finding


def test_the_text_is_candidates_and_the_smallest_that_is_steady():
    assert render_experiment_text(STABILITY.page(recorded(*USUAL))) == TEXT


TEXT = """\
Steadiness of the frame rate: FPS over 100 iterations of decode, preprocess, model

  batch × queue     CV  lowest  highest  intervals  mean FPS  std FPS  frames/s  steady
          1 × 8  0.200   0.200    0.200      0.200      30.0     6.00      30.0      no
          2 × 1  0.090   0.090    0.090      0.090      40.0     3.60      40.0      no
          2 × 2  0.040   0.040    0.040      0.040      48.0     1.92      48.0     yes
          2 × 8  0.030   0.030    0.030      0.030      50.0     1.50      50.0     yes

The frame rate is steady from batch size 2, queue depth 2 on: CV 0.040, below 0.05
  - FPS of an iteration is the frames of a batch ÷ the time since the batch before came out. CV is
    standard deviation ÷ mean over 100 iterations.
  - That a deeper queue is no less steady is taken for granted: shorter ones are tried only where
    the deepest is steady.
  - Left out: the first 10 to 27 results of each turn, by the depth of the queues, while these fill;
    and 0.5 s to make the model ready.
  Try next: --batch-size 2 of headrace run, whose queues hold 2: CV 0.040 instead of 0.200 with
    batch size 1, queue depth 8.
"""


def test_the_change_is_an_option_of_a_run_where_its_queues_are_as_deep():
    advice = found(*USUAL).advice
    assert advice.options == {"batch_size": 2}
    assert advice.gain is None, "steady is not fast"
    assert advice.rests_on == "CV 0.040 instead of 0.200 with batch size 1, queue depth 8"


def test_where_deeper_queues_are_needed_than_a_run_has_it_is_said_how():
    finding = found(turn(1, 8, 0.2, 30), turn(2, 8, 0.03, 50), turn(2, 2, 0.3, 48))
    assert finding.headline.startswith("The frame rate is steady from batch size 2, queue depth 8")
    assert finding.change.startswith("Pipeline(capacity=8) with batches of 2: CV 0.030")
    assert finding.advice.options == {}


def test_where_the_smallest_is_steady_there_is_nothing_to_change():
    finding = found(turn(1, 1, 0.01, 30))
    assert (finding.change, finding.advice) == (None, None)


def test_where_nothing_is_steady_the_best_is_named():
    finding = found(turn(1, 8, 0.2, 30), turn(2, 8, 0.081, 31))
    assert finding.headline == (
        "CV < 0.05 was not reached; the best is 0.081, with batch size 2, queue depth 8"
    )
    assert finding.change.startswith("Larger --batch-sizes")
    assert finding.advice is None


def test_larger_batches_are_not_advised_where_they_were_less_steady():
    finding = found(turn(1, 8, 0.06, 44), turn(2, 8, 0.125, 62), turn(4, 8, 0.138, 76))
    assert finding.change == (
        "No change is known but to have nothing else run: larger batches were less steady, CV "
        "0.125 with batch size 2, queue depth 8."
    )


def test_the_median_of_the_turns_counts_and_what_they_came_to_is_said():
    turns = [turn(1, 2, cv, 30) for cv in (0.04, 0.3, 0.03)]
    finding = found(*turns, repeats=3)
    assert "steady from batch size 1, queue depth 2 on: CV 0.040" in finding.headline
    assert "Its turns came to 0.030 to 0.300, on both sides of 0.05." in finding.evidence
    certain = found(*[turn(1, 2, cv, 30) for cv in (0.01, 0.02)], repeats=2)
    assert "Its turns came to 0.010 to 0.020, all on one side of 0.05." in certain.evidence


@pytest.mark.parametrize(
    ("turns", "doubt"),
    [
        ([turn(1, 2, 0.01, 30, others=3)], "Other programs ran meanwhile, so it is uncertain"),
        ([turn(1, 2, 0.01, 30), turn(1, 2, 0.01, 60)], "Too unsteady to say"),
    ],
)
def test_on_a_disturbed_machine_there_is_no_verdict(turns, doubt):
    finding = found(*turns, repeats=len(turns))
    assert finding.headline.startswith(f"{doubt} from where on the frame rate is steady; by the")
    assert finding.change.startswith("The same again")
    assert finding.advice is None


def test_what_was_not_tried_is_said():
    evidence = " ".join(found(*USUAL, left_out=(8, 16), unbegun=(4, 8)).evidence)
    assert "no time for batch size 4, queue depth 8 (--max-seconds 90)" in evidence
    assert "Not tried, as the video has fewer frames: batch size 8, 16." in evidence


def test_few_iterations_are_no_figure_to_quote():
    evidence = found(*USUAL, iterations=20).evidence
    assert "Fewer than 100 iterations are a look at it, no figure to quote." in evidence


def test_iterations_of_results_that_came_at_once_are_told_apart():
    one = turn(1, 2, 0.5, 30)
    bursts = one.model_copy(update={"fps": (10.0,) * 99 + (4000.0,)})
    said = [sentence for sentence in found(bursts).evidence if "right after each other" in sentence]
    assert said
    assert "up to 4,000 frames/s" in said[0]


def test_the_series_shown_is_that_of_the_turn_nearest_the_median():
    [row] = rows_of(recorded(*[turn(1, 2, cv, 30) for cv in (0.5, 0.1, 0.2)], repeats=3))
    assert row.cv.median == pytest.approx(0.2)
    assert max(row.fps) == pytest.approx(36)


def test_an_old_record_gives_the_same_page_again():
    record = recorded(*USUAL)
    again = StabilityRecord.model_validate_json(record.model_dump_json())
    assert render_experiment(STABILITY.page(again)) == render_experiment(STABILITY.page(record))


def test_how_long_it_can_take_is_said_first():
    said = announce(StabilityConfig(videos=("a",)))
    assert said.startswith("Time: about 90.0 s (--max-seconds), more only if the first candidate")


def test_the_time_a_candidate_needs_is_that_of_its_frames():
    same = Candidate(batch_size=1, queue_depth=8)
    turns = [turn(1, 8, 0.2, 30)]
    assert _needed_seconds(turns, same, 3) == 30
    assert _needed_seconds(turns, Candidate(batch_size=4, queue_depth=8), 3) == 120
    assert _needed_seconds(turns, Candidate(batch_size=1, queue_depth=1), 3) < 30
