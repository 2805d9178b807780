"""Changelog, issue forms and CI jobs."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from headrace.cli.app import app

ROOT = Path(__file__).parents[1]
KINDS = {"added", "changed", "deprecated", "removed", "fixed", "security"}
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
COMMANDS = set(typer.main.get_command(app).list_commands(None))


def fault(fragment: Path) -> str | None:
    """Return the problem of a file of `changelog.d/`, or None."""
    name = re.fullmatch(r"[a-z0-9][a-z0-9-]*\.([a-z]+)\.md", fragment.name)
    if name is None or name[1] not in KINDS:
        return f"{fragment.name}: must be <name>.<kind>.md, kind of {', '.join(sorted(KINDS))}"
    return None if fragment.read_text("utf-8").strip() else f"{fragment.name}: is empty"


def test_changelog_entries_are_named_by_their_kind():
    waiting = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    assert [fault(path) for path in waiting if fault(path)] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.b.md", "x"), ("A.fixed.md", "x"), ("a.fixed.txt", "x"), ("a.fixed.md", "")],
)
def test_an_entry_with_another_name_or_without_text_is_a_problem(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    assert fault(path)


def test_the_changelog_starts_with_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert versions[0] == project["version"]


def steps() -> list[dict[str, Any]]:
    return [step for job in JOBS["jobs"].values() for step in job["steps"]]


def test_jobs_may_only_read_and_use_actions_by_commit():
    assert JOBS["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in JOBS["jobs"].values())
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", name)] == []


def test_jobs_call_the_make_targets_of_ci_and_only_existing_ones():
    targets = set(JOBS["jobs"]["linux"]["strategy"]["matrix"]["target"])
    lines = (ROOT / ".ci" / "run").read_text("utf-8")
    assert targets == set(re.findall(r"^make ([\w-]+)$", lines, re.MULTILINE))
    targets |= set(re.findall(r"make ([\w-]+)", " ".join(step.get("run", "") for step in steps())))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_the_machine_and_names_commands_that_exist(form):
    read = yaml.safe_load(form.read_text("utf-8"))
    assert read.keys() == {"name", "description", "labels", "body"}
    fields = {field["id"]: field for field in read["body"]}
    assert len(fields) == len(read["body"])
    assert "`headrace doctor`" in fields["doctor"]["attributes"]["label"]
    assert fields["doctor"]["validations"] == {"required": True}
    assert set(re.findall(r"`headrace (\w+)", form.read_text("utf-8"))) <= COMMANDS


def test_there_are_forms_for_failures_slowness_and_wrong_frames():
    assert [form.stem for form in FORMS] == ["bug", "slow", "wrong_frame"]
