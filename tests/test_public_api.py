"""Public names of headrace, and the modules that an import loads."""

import ast
import builtins
from pathlib import Path

import headrace
from cli.kit import python

PUBLIC = sorted({*headrace.__all__, "open"})
"""All public names; docs/reference/api.md has their signatures."""


def test_the_public_names_are_sorted_and_a_star_import_has_no_open():
    assert headrace.__all__ == [name for name in PUBLIC if name != "open"]


def test_a_star_import_hides_no_builtin_and_has_the_live_loop():
    names = {}
    exec("from headrace import *", names)
    assert names["live"] is headrace.live
    assert "open" not in names
    assert not set(headrace.__all__) & set(dir(builtins))
    assert headrace.open is not open


def test_every_public_name_loads_from_the_module_in_the_stub():
    declared = {}
    for node in ast.walk(ast.parse(Path(headrace.__file__).with_suffix(".pyi").read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace."):
            declared |= {alias.name: node.module for alias in node.names}
    assert sorted(declared) == PUBLIC
    for name in PUBLIC:
        assert getattr(headrace, name).__module__ == declared[name]


def test_a_name_that_does_not_exist_is_an_attribute_error():
    assert not hasattr(headrace, "read_everything")
    assert set(PUBLIC) <= set(dir(headrace))


def test_live_is_the_loop_after_imports_of_the_package_live():
    code = """
import headrace
from headrace.live.live_source import LiveFrame
assert callable(headrace.live) and LiveFrame.__module__ == "headrace.live.live_source"
from headrace.live.live_source import LiveSource
assert callable(headrace.live)
"""
    assert python(code).returncode == 0


def modules_after(*command: str) -> set[str]:
    done = python(f"import sys; {'; '.join(command)}; print(*sys.modules)")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_loads_neither_torch_nor_ffmpeg():
    assert modules_after("import headrace").isdisjoint({"torch", "av", "numpy", "pydantic"})


def test_help_loads_neither_torch_nor_ffmpeg():
    loaded = modules_after(
        "from contextlib import suppress",
        "from headrace.cli import main",
        "exec('with suppress(SystemExit): main([\"--help\"])')",
    )
    assert "headrace.cli.app" in loaded
    assert loaded.isdisjoint({"torch", "av", "numpy", "pydantic"})
