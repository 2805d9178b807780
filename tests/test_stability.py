"""The page on stability has each public name, command and file format."""

import ast
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
import typer

import headrace
from headrace.cli.app import app
from house_rules import house

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "stability.md").read_text("utf-8")
LEVELS = {"stable", "provisional"}


def rows(heading: str) -> list[list[str]]:
    """Return the cells of each row of all tables below a heading, without the header rows."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    tables = [line.strip("| ").split(" | ") for line in lines if not line.startswith("|---")]
    return [cells for cells in tables if cells[0] not in ("Level", "File")]


def coded(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_public_name_and_command_has_one_level():
    levelled = rows("Names")
    assert {level for level, *_ in levelled} == LEVELS
    found = Counter(name for cells in levelled for name in coded(cells[-1]))
    commands = typer.main.get_command(app).list_commands(None)
    assert found == Counter({*headrace.__all__, "open", *commands})


def constants() -> set[str]:
    """Return the dotted names of all file format versions in the source."""
    found = set()
    for module in house():
        name = module.name.removeprefix("headrace.")
        for node in ast.walk(module.tree):
            match node:
                case ast.AnnAssign(target=ast.Name(id=target), value=value):
                    pass
                case ast.Assign(targets=[ast.Name(id=target)], value=value):
                    pass
                case ast.ClassDef(name=target, body=body):
                    versions = [
                        line.value
                        for line in body
                        if isinstance(line, ast.AnnAssign)
                        and ast.unparse(line.target) == "version"
                        and isinstance(line.value, ast.Constant)
                        and isinstance(line.value.value, int)
                    ]
                    found |= {f"{name}.{target}" for _ in versions}
                    continue
                case _:
                    continue
            is_layout = isinstance(value, ast.Call) and ast.unparse(value.func) == "Schema"
            if is_layout or re.fullmatch(r"_?([A-Z]+_)?VERSIONS?", target):
                found.add(f"{name}.{target}")
    return found


FORMATS = {coded(cells[-1])[0]: cells for cells in rows("Files")}


def test_every_version_in_the_source_is_in_the_table():
    assert FORMATS.keys() == constants()


@pytest.mark.parametrize("said_in", FORMATS)
def test_the_table_has_the_version_that_the_source_has(said_in):
    module, _, name = said_in.rpartition(".")
    value = getattr(import_module(f"headrace.{module}"), name)
    if isinstance(value, type):
        value = value.model_fields["version"].default
    value = getattr(value, "version", value)
    shown = ", ".join(value) if isinstance(value, tuple) else str(value)
    assert FORMATS[said_in][1] == shown
