"""The release check: its plan, its table and exit code, and the sizes it writes into a page."""

import tomllib
from pathlib import Path

import pytest

from scripts.check_release import OWN, exit_code, facts, main, plan, table
from scripts.release_environment import STEPS, Environment, Outcome, Step
from scripts.release_probes import DOORS
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
def test_every_python_and_on_this_one_every_extra_alone_is_planned(full):
    planned = plan(full=full)
    assert {each.python for each in planned} == PYTHONS
    assert planned[0].python == OWN
    for python in PYTHONS if full else {OWN}:
        of_python = [each for each in planned if each.python == python]
        alone = {each.extras[0] for each in of_python if len(each.extras) == 1}
        assert alone == EXTRAS
        assert {each.installer for each in of_python} == {"uv", "pip"}
        assert any(each.is_sdist for each in of_python)
    assert len({each.name for each in planned}) == len(planned)


def test_each_step_is_run_somewhere_and_each_door_is_an_extra():
    assert {name for each in plan(full=False) for name in each.steps} == set(STEPS)
    assert set(DOORS) < EXTRAS


def test_the_table_has_a_line_for_each_environment_and_tells_all_problems():
    assert table([PASSED, FAILED, SKIPPED]).splitlines() == [
        "environment             was run          result                                   seconds",
        "3.11 uv  headrace[run]  install, import  ok                                       4",
        "3.12 pip headrace       install          FAILED                                   1",
        "3.14 uv  headrace       nothing          SKIPPED: no Python 3.14 on this machine  -",
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
def test_a_failure_fails_and_a_check_of_nothing_is_no_success(outcomes, code):
    assert exit_code(outcomes) == code


def test_json_says_the_result_in_a_word():
    results = [facts(each)["result"] for each in (PASSED, FAILED, SKIPPED)]
    assert results == ["ok", "failed", "skipped"]


def test_environments_that_do_not_exist_are_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--only", "fortran"])
    assert ended.value.code == 2
    assert "--only 'fortran' is in none of these" in capsys.readouterr().err


def test_the_sizes_of_a_page_are_what_an_extra_adds_to_the_base():
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
def test_sizes_without_a_place_or_a_base_are_refused(page, outcomes):
    with pytest.raises(ValueError, match=r"needs|not installed"):
        with_sizes(page, {"wheel": 1, "sdist": 1}, outcomes)
