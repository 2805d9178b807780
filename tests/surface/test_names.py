"""Public names, help pages and keys: how things are called, and what is kept under which name."""

import re
from importlib import import_module
from pathlib import Path

import pytest
import typer

import headrace
from headrace.cache.content_digests import ContentDigests
from headrace.cache.key import ChunkKey
from headrace.cli import main
from headrace.cli.app import app
from headrace.decode.index_store import IndexStore
from headrace.extraction.extraction_options import OutputSpec, RequestedVideo
from headrace.models.memory_table import MemoryKey, MemoryTables
from headrace.video.source import Source
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


@pytest.fixture
def plain(monkeypatch):
    """The environment of a console that is none: 80 columns, nothing set by the user."""
    for name in ("FORCE_COLOR", "HEADRACE_CACHE", "HEADRACE_WEB_TOKEN", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


def test_every_command_says_this_of_itself(holds, plain, capsys):
    pages = []
    for command in _commands(typer.main.get_command(app), ()):
        with pytest.raises(SystemExit) as end:
            main([*command, "--help"])
        assert end.value.code == 0
        pages.append(capsys.readouterr().out)
    holds("help.txt", f"\n{'-' * 80}\n\n".join(pages))


def _commands(command, path):
    yield path
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name), (*path, name))


RECORDED = Path(__file__).parent / "recorded"


def test_a_known_input_gives_a_known_key(holds, tmp_path):
    request = OutputSpec(
        kind="frames",
        asked={"frames": "every 8", "size": None},
        videos=(RequestedVideo(name="a", path="/videos/a.mp4", size=1, mtime_ns=2),),
    )
    memory = MemoryKey(
        device="A GPU",
        memory_bytes=1,
        driver=None,
        torch="2.5",
        model="resnet18",
        precision="float32",
        prep_level="medium",
        input=(3, 224, 224),
    )
    with ContentDigests(tmp_path) as digests:
        content = digests.of(Source(RECORDED / "videos" / "a.mp4"))
    lines = [
        f"chunk of results: {_chunk().digest}",
        f"chunk of results, what it is made of: {_chunk().text}",
        f"content of a video: {content}",
        f"index of a video: {IndexStore(tmp_path).entry(Source('/videos/a.mp4')).name}",
        f"index of a stream: {IndexStore(tmp_path).entry(Source('/videos/a.mp4', 1)).name}",
        f"memory of a model: {MemoryTables(tmp_path).entry(memory).name}",
        f"request of an extraction: {request.digest}",
    ]
    holds("keys.txt", "\n".join(lines) + "\n")


def _chunk() -> ChunkKey:
    return ChunkKey(
        kind="features 1",
        content="sha256:00",
        selection={"pts": [0, 512, 1024], "time_base": "1/12800"},
        decode={"backend": "pyav", "device": "cpu"},
        preprocess={"crop": [224, 224], "mean": 0.5},
        model={"name": "resnet18", "layers": ["avgpool"]},
        numerics={},
    )
