"""Every public name, as it is called; what the pages of docs/ import from deeper is public too."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import headrace
from surface.signatures import described

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/**/*.md", "deploy/**/*.md", "examples/**/*.py", "examples/**/*.ipynb")
_IMPORTED = re.compile(r"from (headrace\.[\w.]+) import (\([^)]*\)|[^\n\"\\]*)")
TESTING = ("fake_clock", "synth", "damage", "nuscenes", "rtsp")
"""Modules of `headrace.testing`, whose public names are for the tests of users."""


def test_the_names_of_the_root_are_called_like_this(holds):
    names = sorted({*headrace.__all__, "open"})
    lines = [line for name in names for line in described(name, _of("headrace", name))]
    holds("names.txt", "\n".join(lines) + "\n")


def test_the_names_that_pages_and_examples_import_are_called_like_this(holds):
    lines = list[str]()
    for module, name in sorted(set(_imported_by_pages())):
        lines += [f"# {module}", *described(name, _of(module, name))]
    holds("names_of_pages.txt", "\n".join(lines) + "\n")


def test_the_fakes_for_tests_of_users_are_called_like_this(holds):
    lines = list[str]()
    for module in TESTING:
        found = import_module(f"headrace.testing.{module}")
        own = [
            name
            for name, thing in vars(found).items()
            if not name.startswith("_") and getattr(thing, "__module__", "") == found.__name__
        ]
        lines.append(f"# headrace.testing.{module}")
        for name in sorted({*getattr(found, "__all__", ()), *own}):
            lines += described(name, getattr(found, name))
    holds("names_of_testing.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("module", ["headrace.sampling.selection", "headrace.errors"])
def test_what_pages_import_is_found(module):
    assert module in {home for home, _ in _imported_by_pages()}


def _imported_by_pages():
    for pattern in PAGES:
        for path in ROOT.glob(pattern):
            for module, names in _IMPORTED.findall(path.read_text("utf-8")):
                yield from ((module, name) for name in re.findall(r"\w+", names))


def _of(module, name):
    return getattr(import_module(module), name)
