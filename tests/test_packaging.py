"""The wheel is the package, all of it and nothing else, and it installs; the sdist builds it."""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


MAX_SDIST_BYTES = 5 * 2**20
TESTED = ("Makefile", "constraints.txt", "tests/conftest.py", "scripts/demo.py", "docs/design.md")
"""Some of what the tests read."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the sdist, and of the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    _python("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (built,) = dist.glob("*.whl")
    return built


def test_the_sdist_holds_what_the_tests_need_and_nothing_that_is_left_by_a_run(dist: Path) -> None:
    (built,) = dist.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert files >= set(TESTED)
    left = [name for name in files if "__pycache__" in name or name.startswith((".venv", "build/"))]
    assert left == []
    assert built.stat().st_size < MAX_SDIST_BYTES


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    files = {
        file.relative_to(SOURCE).as_posix()
        for file in (SOURCE / "headrace").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert "headrace/py.typed" in files
    assert {name for name in _names(wheel) if ".dist-info/" not in name} == files


def test_the_wheel_brings_the_licence_and_the_command(wheel: Path) -> None:
    folder = f"headrace-{PROJECT['version']}.dist-info"
    assert f"{folder}/licenses/LICENSE" in _names(wheel)
    with zipfile.ZipFile(wheel) as archive:
        commands = archive.read(f"{folder}/entry_points.txt").decode()
    assert "headrace = headrace.cli:main" in commands


def test_an_installed_wheel_is_imported_from_where_it_lies(wheel: Path, tmp_path: Path) -> None:
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    _python("-m", "pip", "install", *options, "--target", str(tmp_path), str(wheel))
    where = _python("-c", "import headrace; print(headrace.__file__)", path=tmp_path)
    assert Path(where.strip()) == tmp_path / "headrace" / "__init__.py"


def test_the_lowest_versions_that_are_allowed_are_those_that_are_tried() -> None:
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints-lowest.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
    extras = PROJECT["optional-dependencies"]
    for each in map(Requirement, [*PROJECT["dependencies"], *extras["run"], *extras["parquet"]]):
        (lowest,) = (bound.version for bound in each.specifier if bound.operator == ">=")
        assert Version(pins[each.name]) == Version(lowest), each.name


def test_the_declared_version_is_the_installed_one() -> None:
    assert version("headrace") == PROJECT["version"]


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _python(*arguments: str, path: Path | None = None) -> str:
    """What this interpreter prints; it looks for modules in `path` first."""
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
