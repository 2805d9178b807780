"""What a suite measures, what it takes from before, and what it leaves out with a reason."""

import json

import pytest

from bench.suite.fakes import HEAVY, MODEL, NEVER, WHOLE, contest
from headrace.bench.benchmark import options_of, write_benchmark
from headrace.bench.config import USUAL_MODEL
from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.suite_record import BenchmarkOutcome, SuiteRecord
from headrace.bench.suite.suite_selection import (
    NOT_ASKED,
    Choice,
    SuiteConfig,
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
    found = plan_suite((WHOLE, MODEL, HEAVY, NEVER), ASKED, choice, folder=tmp_path, **facts)
    return {each.benchmark.name: each for each in found}


def due(found):
    return [name for name, each in found.items() if each.is_due]


@pytest.fixture
def earlier(tmp_path):
    """A suite that measured `whole` with the options it would have today."""
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


@pytest.mark.parametrize("experiment", BENCHMARKS, ids=lambda each: each.name)
def test_every_experiment_takes_part_or_says_why_not(experiment):
    config = config_of(experiment, ASKED)
    assert experiment.terms.seconds > 0
    if isinstance(config, str):
        assert len(config) > 20, "a sentence"
        return
    assert isinstance(config, experiment.config)
    assert config_of(experiment, SuiteConfig(videos=("a.mp4", "b.mp4"))), "several are no error"
    json.dumps(plain(options_of(config)))
    words = command_alone(experiment, config)
    assert words[:4] == ("headrace", "bench", experiment.name, "a.mp4")
    assert [word for word in words if word.startswith("--")] == [
        f"--{field.name.replace('_', '-')}"
        for field in option_fields(experiment.config)[1:]
        if getattr(config, field.name) != field.default
    ], "the command alone gives the same options"


def test_options_are_typed_as_the_command_line_reads_them():
    workers = next(each for each in BENCHMARKS if each.name == "workers")
    config = WorkersConfig(videos=("a b.mp4",), workers=(0, 2), size=(64, 32), repeats=1)
    assert command_alone(workers, config)[3:] == (
        *("a b.mp4", "--workers", "0,2", "--size", "64", "32", "--repeats", "1"),
    )


def test_an_experiment_of_one_video_takes_the_first_of_several():
    scenarios = next(each for each in BENCHMARKS if each.name == "scenarios")
    config = config_of(scenarios, SuiteConfig(videos=("a.mp4", "b.mp4")))
    assert config.videos == ("a.mp4",)


def test_all_experiments_run_the_model_that_is_asked_for():
    asked = SuiteConfig(videos=("a.mp4",), model_name="resnet50", prep_level="simple")
    for experiment in BENCHMARKS:
        config = config_of(experiment, asked)
        if not isinstance(config, str) and hasattr(config, "model_name"):
            assert config.model_name == "resnet50"
            assert getattr(config, "prep_level", "simple") == "simple"
            assert config_of(experiment, ASKED).model_name == USUAL_MODEL


def test_all_that_apply_are_due_at_first(tmp_path):
    found = planned(tmp_path)
    assert due(found) == ["whole", "model", "heavy"]
    assert found["never"].result.outcome == "not possible"
    assert found["never"].result.why == "it takes no videos"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Choice(only=("model",)), ["model"]),
        (Choice(skip=("model",)), ["whole", "heavy"]),
        (Choice(only=("model", "whole"), skip=("model",)), ["whole"]),
    ],
)
def test_what_is_not_asked_for_is_left_out(tmp_path, choice, names):
    found = planned(tmp_path, choice)
    assert due(found) == names
    left = [each.result for name, each in found.items() if name not in [*names, "never"]]
    assert {(each.outcome, each.why) for each in left} == {("left out", NOT_ASKED)}


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (
            Choice(only=("models",)),
            r"--only names no benchmark: got 'models'; did you mean model\?",
        ),
        (Choice(skip=("x",)), "--skip names no benchmark: got 'x'; there are heavy, model, never"),
        (Choice(only=("model",), skip=("model",)), "leave no benchmark"),
    ],
)
def test_a_choice_that_names_nothing_is_refused(tmp_path, choice, said):
    with pytest.raises(ConfigError, match=said):
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
"""What is asked for after `whole` was measured and `model` failed, and what is due then."""


@pytest.mark.parametrize(("given", "names"), LATER.values(), ids=LATER)
def test_what_was_measured_of_the_same_is_taken_and_the_rest_is_due(
    tmp_path, earlier, given, names
):
    found = planned(tmp_path, earlier=earlier, **given)
    assert due(found) == names
    whole = found["whole"].result
    assert whole.is_taken == (whole.outcome == "measured") == ("whole" not in names)


def test_other_options_are_measured_anew(tmp_path, earlier):
    result = earlier.chapters[0].model_copy(update={"configuration": {"repeats": 9}})
    other = earlier.model_copy(update={"chapters": (result,)})
    assert "whole" in due(planned(tmp_path, earlier=other))


def test_a_record_that_was_replaced_is_measured_anew(tmp_path, earlier):
    record = contest(1.5)
    write_benchmark(WHOLE, record, WHOLE.page(record), tmp_path)
    assert "whole" in due(planned(tmp_path, earlier=earlier))
