"""Selection of a suite: benchmarks to measure, reused results, and reasons to skip."""

import json

import pytest

from bench.suite.fakes import HEAVY, MODEL, NEVER, WHOLE, contest
from headrace.bench.benchmark import options_of, write_benchmark
from headrace.bench.config import USUAL_MODEL
from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.suite_selection import (
    NOT_SELECTED,
    BenchmarkOutcome,
    Choice,
    SuiteConfig,
    SuiteRecord,
    command_alone,
    config_of,
    plan_suite,
)
from headrace.bench.workers import WorkersConfig
from headrace.config_fields import option_fields
from headrace.errors import ConfigError
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import plain

ASKED = SuiteConfig(videos=("a.mp4",))
MADE = provenance({}, ())
EVERYTHING = Choice()


def planned(tmp_path, choice=EVERYTHING, earlier=None, *, contents=("sha256:0",), made=MADE):
    facts = {"earlier": earlier, "contents": contents, "provenance": made}
    plans = plan_suite((WHOLE, MODEL, HEAVY, NEVER), ASKED, choice, folder=tmp_path, **facts)
    return {plan.benchmark.name: plan for plan in plans}


def due(plans):
    return [name for name, plan in plans.items() if plan.is_due]


@pytest.fixture
def earlier(tmp_path):
    """Return a suite that has measured `whole` with the current options."""
    record = contest(1.5)
    record = record.model_copy(
        update={"provenance": MADE.model_copy(update={"created": record.provenance.created})}
    )
    write_benchmark(WHOLE, record, WHOLE.page(record), tmp_path)
    result = BenchmarkOutcome(
        experiment="whole",
        outcome="measured",
        created=record.provenance.created,
        configuration=plain(options_of(config_of(WHOLE, ASKED))),
    )
    failed = BenchmarkOutcome(experiment="model", outcome="failed", why="no disk")
    return SuiteRecord(
        provenance=MADE, videos=ASKED.videos, contents=("sha256:0",), chapters=(result, failed)
    )


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_benchmark_has_a_configuration_or_a_reason(benchmark):
    config = config_of(benchmark, ASKED)
    assert benchmark.terms.seconds > 0
    if isinstance(config, str):
        assert len(config) > 20, "a sentence"
        return
    assert isinstance(config, benchmark.config)
    assert config_of(benchmark, SuiteConfig(videos=("a.mp4", "b.mp4"))), "several are no error"
    json.dumps(plain(options_of(config)))
    words = command_alone(benchmark, config)
    assert words[:4] == ("headrace", "bench", benchmark.name, "a.mp4")
    assert [word for word in words if word.startswith("--")] == [
        f"--{field.name.replace('_', '-')}"
        for field in option_fields(benchmark.config)[1:]
        if getattr(config, field.name) != field.default
    ], "the command alone gives the same options"


def test_options_are_written_as_the_command_line_reads_them():
    workers = next(row for row in BENCHMARKS if row.name == "workers")
    config = WorkersConfig(videos=("a b.mp4",), workers=(0, 2), size=(64, 32), repeats=1)
    assert command_alone(workers, config)[3:] == (
        *("a b.mp4", "--size", "64x32", "--workers", "0,2", "--repeats", "1"),
    )


def test_a_benchmark_of_one_video_takes_the_first_of_several():
    scenarios = next(row for row in BENCHMARKS if row.name == "scenarios")
    config = config_of(scenarios, SuiteConfig(videos=("a.mp4", "b.mp4")))
    assert config.videos == ("a.mp4",)


def test_all_benchmarks_use_the_chosen_model():
    options = SuiteConfig(videos=("a.mp4",), model_name="resnet50", prep_level="simple")
    for benchmark in BENCHMARKS:
        config = config_of(benchmark, options)
        if not isinstance(config, str) and hasattr(config, "model_name"):
            assert config.model_name == "resnet50"
            assert getattr(config, "prep_level", "simple") == "simple"
            assert config_of(benchmark, ASKED).model_name == USUAL_MODEL


def test_all_applicable_benchmarks_are_due_at_first(tmp_path):
    plans = planned(tmp_path)
    assert due(plans) == ["whole", "model", "heavy"]
    assert plans["never"].result.outcome == "not possible"
    assert plans["never"].result.why == "it takes no videos"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Choice(only=("model",)), ["model"]),
        (Choice(skip=("model",)), ["whole", "heavy"]),
        (Choice(only=("model", "whole"), skip=("model",)), ["whole"]),
    ],
)
def test_unselected_benchmarks_are_left_out(tmp_path, choice, names):
    plans = planned(tmp_path, choice)
    assert due(plans) == names
    left = [plan.result for name, plan in plans.items() if name not in [*names, "never"]]
    assert {(result.outcome, result.why) for result in left} == {("left out", NOT_SELECTED)}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            Choice(only=("models",)),
            r"--only must name a benchmark, got 'models'; did you mean model\?",
        ),
        (
            Choice(skip=("x",)),
            "--skip must name a benchmark, got 'x'; give one of heavy, model, never, whole",
        ),
        (Choice(only=("model",), skip=("model",)), "leave no benchmark"),
    ],
)
def test_an_invalid_choice_is_refused(tmp_path, choice, message):
    with pytest.raises(ConfigError, match=message):
        planned(tmp_path, choice)


ANOTHER_MACHINE = MADE.machine.model_copy(update={"cpu": "another"})
OTHER_VERSIONS = {**MADE.versions, "torch": "1.0"}
EVERY = ["whole", "model", "heavy"]
LATER = {
    "the same": ({}, ["model", "heavy"]),
    "something else": ({"choice": Choice(only=("model",))}, ["model"]),
    "all again": ({"choice": Choice(again=True)}, EVERY),
    "something else again": ({"choice": Choice(again=True, only=("model",))}, ["model"]),
    "another video": ({"contents": ("sha256:1",)}, EVERY),
    "other versions": ({"made": MADE.model_copy(update={"versions": OTHER_VERSIONS})}, EVERY),
    "another machine": ({"made": MADE.model_copy(update={"machine": ANOTHER_MACHINE})}, EVERY),
}
"""Request after `whole` was measured and `model` failed -> due benchmarks."""


@pytest.mark.parametrize(("given", "names"), LATER.values(), ids=LATER)
def test_equal_measurements_are_reused_and_the_rest_is_due(tmp_path, earlier, given, names):
    plans = planned(tmp_path, earlier=earlier, **given)
    assert due(plans) == names
    whole = plans["whole"].result
    assert whole.is_taken == (whole.outcome == "measured") == ("whole" not in names)


def test_other_options_are_measured_again(tmp_path, earlier):
    result = earlier.chapters[0].model_copy(update={"configuration": {"repeats": 9}})
    other = earlier.model_copy(update={"chapters": (result,)})
    assert "whole" in due(planned(tmp_path, earlier=other))


def test_a_replaced_record_is_measured_again(tmp_path, earlier):
    record = contest(1.5)
    write_benchmark(WHOLE, record, WHOLE.page(record), tmp_path)
    assert "whole" in due(planned(tmp_path, earlier=earlier))
