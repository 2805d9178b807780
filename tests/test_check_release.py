"""The release check: plan, table, exit codes, missing tools, and the sizes on a page."""

import sys
import tomllib
from pathlib import Path

import pytest

from scripts.check_release import RUNNING_PYTHON, exit_code, facts, main, plan, table
from scripts.release_environment import STEPS, Environment, Outcome, Step
from scripts.release_probes import COMMANDS
from scripts.release_sizes import with_sizes

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
PYTHONS = {"3.11", "3.12", "3.13", "3.14"}

RUN = Environment("3.11", "uv", ("run",))
PASSED = Outcome(RUN, [Step("install", "", 3.4), Step("import", "", 0.9)])
FAILED = Outcome(Environment("3.12", "pip"), [Step("install", "no space left", 1.0)])
SKIPPED = Outcome(Environment("3.14", "uv"), skipped="no Python 3.14 on this machine")


@pytest.mark.parametrize("full", [False, True])
def test_the_plan_has_every_python_and_every_extra_alone_on_the_running_one(full):
    planned = plan(full=full)
    assert {environment.python for environment in planned} == PYTHONS
    assert planned[0].python == RUNNING_PYTHON
    for python in PYTHONS if full else {RUNNING_PYTHON}:
        environments = [environment for environment in planned if environment.python == python]
        assert {e.extras[0] for e in environments if len(e.extras) == 1} == EXTRAS
        assert {environment.installer for environment in environments} == {"uv", "pip"}
        assert any(environment.is_sdist for environment in environments)
    assert len({environment.name for environment in planned}) == len(planned)


def test_the_plan_has_each_step_and_each_command_needs_an_extra():
    assert {name for environment in plan(full=False) for name in environment.steps} == set(STEPS)
    assert set(COMMANDS) < EXTRAS


def test_the_table_has_a_line_for_each_environment_and_all_problems():
    assert table([PASSED, FAILED, SKIPPED]).splitlines() == [
        "environment             steps            result                                   seconds",
        "3.11 uv  headrace[run]  install, import  ok                                       4",
        "3.12 pip headrace       install          FAILED                                   1",
        "3.14 uv  headrace       -                SKIPPED: no Python 3.14 on this machine  -",
        "1 passed, 1 failed, 1 skipped",
        "",
        "3.12 pip headrace",
        "install: no space left",
    ]


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([PASSED], 0),
        ([PASSED, SKIPPED], 0),
        ([PASSED, FAILED, SKIPPED], 1),
        ([SKIPPED], 3),
    ],
)
def test_the_exit_code_is_0_only_if_something_was_checked_and_nothing_failed(outcomes, code):
    assert exit_code(outcomes) == code


def test_json_has_the_result_as_one_word():
    results = [facts(outcome)["result"] for outcome in (PASSED, FAILED, SKIPPED)]
    assert results == ["ok", "failed", "skipped"]


def test_an_unknown_environment_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--only", "fortran"])
    assert end.value.code == 2
    assert "--only 'fortran' matches none of these" in capsys.readouterr().err


def test_without_uv_one_sentence_names_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("scripts.release.TOOLS", tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["--only", "redis"])
    assert end.value.code == 3
    assert capsys.readouterr().err == (
        f"check_release: uv is not installed in {tmp_path}; use make release or make "
        f"release-check, or run {sys.executable} -m pip install --requirement "
        "requirements-release.txt\n"
    )


def test_the_sizes_on_the_page_are_those_that_an_extra_adds_to_the_base():
    base, web = (
        Outcome(Environment("3.11", "uv", extras), packages=packages)
        for extras, packages in [((), {"a": 2**20}), (("web",), {"a": 2**20, "b": 3 * 2**19})]
    )
    other = Outcome(Environment("3.12", "uv", ("web",)), packages={"c": 1})
    page = "Before\n<!-- sizes -->\nold\n<!-- /sizes -->\nAfter\n"
    written = with_sizes(page, {"wheel": 2**20, "sdist": 2**21}, [base, web, other])
    assert written.startswith("Before\n<!-- sizes -->\nThe wheel has 1.0 MiB, the sdist 2.0 MiB.")
    assert written.endswith("| `headrace[web]` | +1 | +1.5 MiB |\n<!-- /sizes -->\nAfter\n")
    assert "| `headrace` | 1 | 1.0 MiB |\n" in written


@pytest.mark.parametrize(
    ("page", "outcomes"), [("no marks", [PASSED]), ("<!-- sizes --><!-- /sizes -->", [PASSED])]
)
def test_sizes_without_marks_or_a_base_are_refused(page, outcomes):
    with pytest.raises(ValueError, match=r"needs|not installed"):
        with_sizes(page, {"wheel": 1, "sdist": 1}, outcomes)
