"""Equal sessions show no difference, planted differences are found, others are listed."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from headrace.profiling.comparison import Comparison, compare
from headrace.profiling.environment_diff import has_same_input, warnings
from headrace.profiling.figures import (
    DRAWS,
    MIN_STEPS,
    block_length,
    quantile_estimate,
    ratio_estimate,
)
from headrace.profiling.findings.loop_simulation import LoopLoad
from headrace.profiling.input_records import SourceSummary
from headrace.profiling.run_records import Usage
from headrace.profiling.session import Session
from headrace.sampling.bias import resampled_sums
from profiling.loops import Loop, simulate_loop
from profiling.sessions import series, session
from report.recorded import MACHINE, SOURCE

REPEATS = 60


def coverage(estimate, correlation, truth):
    """Return how often the interval of the ratio of two figures contains the true ratio."""
    count = 0
    for repeat in range(REPEATS):
        a, b = ([repeat, side] for side in range(2))
        first = estimate(series(100.0, a, correlation=correlation), 2 * repeat)
        other = estimate(series(100.0 * truth, b, correlation=correlation), 2 * repeat + 1)
        low, high = np.quantile(other.deviations - first.deviations, (0.025, 0.975))
        shift = np.log(other.value / first.value)
        count += shift + low <= np.log(truth) <= shift + high
    return count / REPEATS


def per_frame(values, seed):
    return ratio_estimate(values, np.full(len(values), 16.0), seed)


def median(values, seed):
    return quantile_estimate(values, 0.5, seed)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize("estimate", [per_frame, median])
def test_an_interval_contains_the_true_difference_about_as_often_as_its_level(
    estimate, correlation
):
    assert 0.89 <= coverage(estimate, correlation, truth=1.1) <= 1.0


def test_an_interval_of_a_high_percentile_does_too():
    assert 0.89 <= coverage(lambda v, s: quantile_estimate(v, 0.95, s), 0.5, truth=1.1) <= 1.0


def test_intervals_without_blocks_would_be_too_narrow():
    values = series(100.0, 1, steps=1000, correlation=0.9)
    block = block_length(values)
    assert block > 5
    columns = np.stack([values, np.ones(1000)], axis=1)
    spreads = [
        np.std(sums[:, 0] / sums[:, 1])
        for sums in (resampled_sums(columns, size, DRAWS, 0) for size in (1, block))
    ]
    assert spreads[1] > 2 * spreads[0]


def test_blocks_are_short_for_uncorrelated_neighbors():
    lengths = [block_length(series(1.0, k, steps=400, correlation=0.0)) for k in range(20)]
    assert np.median(lengths) == 7
    assert block_length(np.ones(50)) == 1
    assert block_length(np.arange(3.0)) == 1


def test_the_same_seed_gives_the_same_draws_and_sums_of_whole_blocks():
    columns = np.stack([np.arange(10.0), np.ones(10)], axis=1)
    first = resampled_sums(columns, 3, 50, 7)
    assert (first == resampled_sums(columns, 3, 50, 7)).all()
    assert not (first == resampled_sums(columns, 3, 50, 8)).all()
    assert (first[:, 1] == 12).all()


def test_figures_are_sums_over_sums_and_nearest_ranks():
    values = np.arange(1.0, 101.0)
    assert ratio_estimate(values, np.full(100, 2.0), 0).value == 5050 / 200
    assert quantile_estimate(values, 0.95, 0).value == 95.0
    assert quantile_estimate(values, 0.5, 0).value == 50.0
    assert ratio_estimate(np.zeros(0), np.zeros(0), 0) is None
    assert quantile_estimate(np.zeros(0), 0.5, 0) is None


def test_few_steps_have_no_interval():
    assert per_frame(series(1.0, 0, steps=MIN_STEPS - 1), 0).deviations is None
    assert per_frame(series(1.0, 0, steps=MIN_STEPS, correlation=0.0), 0).deviations is not None
    assert per_frame(np.zeros(100), 0).deviations is None


NONE = "no difference shown"


def video(content: str | None) -> tuple[SourceSummary, ...]:
    return (SOURCE.model_copy(update={"content": content}),)


def by_name(run: Any) -> dict[str, Any]:
    return {figure.name: figure for figure in run.differences}


def verdicts(*sides: dict[str, Session]) -> dict[str, str]:
    return {name: figure.verdict for name, figure in by_name(compare(*sides).runs[0]).items()}


def test_equal_sessions_show_no_difference_at_about_the_stated_rate():
    outcomes = [
        verdict
        for pair in range(12)
        for verdict in verdicts(
            {"a": session(2 * pair, steps=150), "b": session(2 * pair + 1, steps=150)}
        ).values()
    ]
    assert 0.89 <= outcomes.count("no difference shown") / len(outcomes) <= 1.0


def test_only_the_slower_stage_and_the_throughput_are_worse():
    fast, slow = session(1), session(2, model_ms=120.0)
    found = by_name(compare({"fast": fast, "slow": slow}).runs[0])
    assert found["The model"].verdict == found["Throughput"].verdict == "worse"
    assert {found[name].verdict for name in ("Decoding", "Preprocessing")} == {NONE}
    low, high = found["The model"].interval
    assert low < 0.2 < high
    assert found["Throughput"].change == pytest.approx(1 / 1.2 - 1, abs=0.06)
    swapped = verdicts({"slow": slow, "fast": fast})
    assert (swapped["The model"], swapped["Throughput"]) == ("better", "better")


@pytest.mark.parametrize(
    ("decode_ms", "factor", "verdict"),
    [(1.2, 1.1, NONE), (1.2, 2.0, "worse"), (80.0, 1.05, NONE), (80.0, 1.2, "worse")],
)
def test_a_small_part_of_a_step_varies_more_from_run_to_run(decode_ms, factor, verdict):
    pair = {"a": session(1, decode_ms=decode_ms, spread=0.02)}
    pair["b"] = session(2, decode_ms=decode_ms * factor, spread=0.02)
    assert verdicts(pair)["Decoding"] == verdict


def test_each_run_is_compared_with_the_first_and_the_result_is_reproducible():
    runs = {"a": session(1), "b": session(2), "c": session(3)}
    comparison = compare(runs)
    assert [run.name for run in comparison.runs] == ["b", "c"]
    assert comparison == compare(runs)
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison


def test_a_figure_with_one_value_per_run_has_no_interval():
    usage = Usage(cpu_seconds=32.0, peak_memory_bytes=1 << 30)
    more = Usage(cpu_seconds=64.0, peak_memory_bytes=3 << 29)
    (run,) = compare({"a": session(1, usage=usage), "b": session(2, usage=more)}).runs
    memory, cpu = by_name(run)["Peak memory"], by_name(run)["CPU time"]
    assert (memory.change, memory.interval, memory.verdict) == (0.5, None, "not known")
    assert (cpu.first, cpu.change) == (10.0, 1.0)


def test_environment_differences_leave_out_the_output_folder():
    provenance = session(1).provenance
    other = provenance.model_copy(
        update={
            "versions": {**provenance.versions, "torch": "2.16.0"},
            "commit": "abcdef012345",
            "command": ("headrace", "run", "a.mp4", "--out", "elsewhere"),
            "configuration": {**provenance.configuration, "batch_size": 8, "out": "elsewhere"},
            "machine": MACHINE.model_copy(update={"governor": "powersave"}),
        }
    )
    same = provenance.model_copy(update={"command": ("headrace", "run", "a.mp4")})
    (run,) = compare({"a": session(1, provenance=same), "b": session(2, provenance=other)}).runs
    assert [(d.part, d.name, d.first, d.other) for d in run.circumstances] == [
        ("versions", "commit", "0123456789ab", "abcdef012345"),
        ("versions", "torch", "2.15.0", "2.16.0"),
        ("machine", "governor", "–", "powersave"),
        ("configuration", "batch_size", "16", "8"),
    ]


def test_sessions_with_different_inputs_are_compared_on_request():
    first, other = session(1, inputs=video("sha256:1")), session(2, inputs=video("sha256:2"))
    (run,) = compare({"a": first, "b": other}, any_input=True).runs
    assert run.warnings[0].startswith("The inputs differ")
    assert has_same_input(first, first)
    assert has_same_input(first, session(2, inputs=video(None))) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"warmup_steps": 3}, "The warm-up differs: 0 steps are left out of a, 3 of b."),
        ({"outcome": "interrupted"}, "b was interrupted: its figures"),
        ({"outcome": "failed"}, "b failed: its figures"),
        ({"pace": "schedule"}, "One was paced by full speed, the other by schedule"),
        ({"kind": "live"}, "One is a run session, the other a live session."),
        (
            {"inputs": video(None)},
            "It is not known whether both read the same input: no checksum is recorded in b.",
        ),
        ({"count": 50}, "b has 50 steps: below 100"),
    ],
)
def test_a_doubtful_comparison_has_a_warning(changes, words):
    first = session(1, inputs=video("sha256:1"))
    given = {"inputs": video("sha256:1"), "count": 200, **changes}
    other = session(2, steps=given.pop("count"), **given)
    assert any(words in warning for warning in warnings(first, other, ("a", "b")))
    assert not list(warnings(first, first, ("a", "a")))


def test_the_first_warning_of_different_kinds_is_the_kind():
    first = session(1, inputs=video("sha256:1"))
    other = session(2, inputs=video("sha256:2"), kind="live", warmup_steps=3)
    found = [*warnings(first, other, ("a", "b"))]
    assert found[0] == "One is a run session, the other a live session."
    assert len(found) > 2


def test_loops_are_compared_without_the_first_step_of_each_epoch():
    slow = simulate_loop(Loop(fetch=40, step=20, epochs=3, start=5_000))
    fast = simulate_loop(Loop(fetch=40, step=20, epochs=3, start=5_000, workers=4))
    found = by_name(compare({"slow": slow, "fast": fast}).runs[0])
    assert [*found] == [
        *("Wait per step", "Time per step, wait included", "Throughput", "fetch", "collate", "step")
    ]
    wait, whole, throughput, fetch, *_ = found.values()
    assert not list(warnings(slow, fast, ("a", "b")))  # of the input, which loops do not record
    load = LoopLoad.of(slow)
    firsts = [load.wait_ms, load.total_ms, 16e3 / load.total_ms]
    assert [wait.first, whole.first, throughput.first] == pytest.approx(firsts)
    assert (throughput.unit, throughput.verdict) == ("samples/s", "better")
    assert (wait.verdict, fetch.verdict) == ("better", NONE)


def test_the_time_of_a_paced_source_is_not_compared_with_full_speed():
    paced = session(2, pace="schedule")
    both = compare({"a": session(1), "b": paced}).runs[0]
    assert "The model" in by_name(both)
    assert not {"Decoding", "Service time, median", "Service time, p95"} & {*by_name(both)}
    assert any("decoding and service time are left out" in words for words in both.warnings)
    alike = compare({"a": session(1, pace="schedule"), "b": paced}).runs[0]
    assert {"Decoding", "Service time, median"} <= {*by_name(alike)}


@pytest.mark.parametrize("which", ["a", "b"])
def test_no_difference_is_shown_if_other_programs_used_the_cpu(which):
    runs = {"a": session(1), "b": session(3, model_ms=150.0)}
    sessions = {
        name: run.model_copy(update={"others_cpu_share": 0.99 if name == which else 0.02})
        for name, run in runs.items()
    }
    (quiet,), (busy,) = compare(runs).runs, compare(sessions).runs
    assert quiet.disturbances == ()
    assert {figure.verdict for figure in quiet.differences} >= {"worse"}
    assert busy.disturbances == (f"Other programs used 99 % of the CPU time during {which}.",)
    assert {figure.verdict for figure in busy.differences} <= {"inconclusive", "not known"}


def side(name: str, seeds: range, *, wander: float = 0.08, **changes: Any) -> dict[str, Session]:
    """Return repeats; the time of the model varies from run to run by `wander`."""
    model_ms, steps = changes.pop("model_ms", 100.0), changes.pop("steps", 60)
    factors = {seed: np.exp(np.random.default_rng([seed, 9]).normal(0, wander)) for seed in seeds}
    return {
        f"{name}{seed}": session(seed, model_ms=model_ms * factors[seed], steps=steps, **changes)
        for seed in seeds
    }


@pytest.fixture
def few_draws(monkeypatch):
    """Reduce the draws: with repeats, intervals do not depend on them."""
    monkeypatch.setattr("headrace.profiling.figures.DRAWS", 50)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("others", [None, 0.4], ids=["quiet", "busy"])
def test_equal_repeats_show_no_difference_at_about_the_stated_rate(others: float | None) -> None:
    """Repeats are needed, because steps of a single run do not show how runs vary."""
    outcomes = []
    for pair in range(40):
        first = side("a", range(10 * pair, 10 * pair + 3), others_cpu_share=others)
        other = side("b", range(10 * pair + 5, 10 * pair + 8), others_cpu_share=others)
        (run,) = compare(first, other).runs
        outcomes.append(run.differences[0].verdict)
    assert outcomes.count("no difference shown") >= 36
    assert {*outcomes} <= {"no difference shown", "better", "worse"}
    words = (
        "Other programs used the CPU during 6 of 6 runs. The spread from run to run includes it."
    )
    assert (words in run.warnings) == (others is not None)
    assert not any("below 100" in words for words in run.warnings)  # intervals are over the runs


@pytest.mark.usefixtures("few_draws")
def test_a_difference_beyond_the_spread_of_repeats_is_found() -> None:
    quiet = {"wander": 0.02, "steps": 200}
    found = [
        verdicts(
            side("a", range(first, first + 5), **quiet),
            side("b", range(first + 5, first + 10), **quiet, model_ms=110.0),
        )["Throughput"]
        for first in range(0, 200, 10)
    ]
    assert found.count("worse") >= 19


def test_repeats_have_their_spread_and_the_smallest_change_that_would_be_shown() -> None:
    (run,) = compare(side("a", range(4)), side("b", range(5, 9))).runs
    throughput = by_name(run)["Throughput"]
    assert run.name == "b5, b6, b7, b8"
    assert 0.03 < throughput.between < 0.2
    assert 0.005 < throughput.within < throughput.between
    low, high = np.log1p(throughput.interval)
    drop, rise = np.log1p(throughput.least)
    assert (-drop, rise) == pytest.approx(((high - low) / 2, (high - low) / 2))
    single = compare({"a": session(1), "b": session(2)}).runs[0].differences[0]
    assert (single.between, single.least is not None) == (None, True)


def test_the_interval_of_repeats_is_by_students_t() -> None:
    """Computed by hand: 1, 2 and 4 against 8 seconds; pooled deviation, 2 degrees of freedom."""
    usages = {
        name: Usage(cpu_seconds=seconds) for name, seconds in zip("abcd", (1, 2, 4, 8), strict=True)
    }
    runs = {name: session(1, usage=usage) for name, usage in usages.items()}
    other = {"d": runs.pop("d")}
    (run,) = compare(runs, other).runs
    cpu = by_name(run)["CPU time"]
    reach = 4.302652730 * np.log(2) * np.sqrt(1 / 3 + 1)
    assert cpu.change == pytest.approx(3.0)
    assert np.log1p(cpu.interval) == pytest.approx([np.log(4) - reach, np.log(4) + reach])


def test_a_run_that_is_no_repeat_is_named() -> None:
    first, other = side("a", range(2)), side("b", range(5, 7))
    provenance = first["a1"].provenance
    larger = {**provenance.configuration, "batch_size": 99}
    changed = provenance.model_copy(update={"configuration": larger})
    first["a1"] = first["a1"].model_copy(update={"provenance": changed, "outcome": "interrupted"})
    (run,) = compare(first, other).runs
    assert any(
        words.startswith("a1 is no repeat of a0: they differ in batch_size")
        for words in run.warnings
    )
    assert any(words.startswith("a1 was interrupted") for words in run.warnings)
    assert run.disturbances == ()


def test_disturbed_repeats_of_sides_without_turns_are_inconclusive() -> None:
    """Other programs disturbed only the second side, so they are no spread but a difference."""
    later = session(1).provenance.created + timedelta(hours=1)
    provenance = session(1).provenance.model_copy(update={"created": later})
    other = side("b", range(5, 8), model_ms=130.0, provenance=provenance)
    (quiet,) = compare(side("a", range(3)), other).runs
    assert quiet.differences[0].verdict == "worse"
    busy = {name: run.model_copy(update={"others_cpu_share": 0.6}) for name, run in other.items()}
    (run,) = compare(side("a", range(3)), busy).runs
    assert {figure.verdict for figure in run.differences} <= {"inconclusive", "not known"}
    assert len(run.disturbances) == 3


def test_a_figure_that_is_equal_in_all_runs_has_not_changed() -> None:
    usage = Usage(cpu_seconds=0.7, peak_memory_bytes=123_456_789)
    runs = {name: session(k, usage=usage) for k, name in enumerate("abcd")}
    single = {"d": runs.pop("d")}
    for sides in ((single, runs), (runs, single)):
        memory = by_name(compare(*sides).runs[0])["Peak memory"]
        assert (memory.verdict, memory.interval) == (NONE, (0.0, 0.0))
