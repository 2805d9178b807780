"""The wheel has exactly the files of the package and installs; the sdist builds it."""

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
"""Some files that the tests read."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the sdist and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    _python("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (built,) = dist.glob("*.whl")
    return built


def test_the_sdist_has_the_files_of_the_tests_and_no_build_output(dist: Path) -> None:
    (built,) = dist.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert files >= set(TESTED)
    left = [name for name in files if "__pycache__" in name or name.startswith((".venv", "build/"))]
    assert left == []
    assert built.stat().st_size < MAX_SDIST_BYTES


def test_the_wheel_has_exactly_the_files_of_the_package(wheel: Path) -> None:
    files = {
        file.relative_to(SOURCE).as_posix()
        for file in (SOURCE / "headrace").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert "headrace/py.typed" in files
    assert {name for name in _names(wheel) if ".dist-info/" not in name} == files


def test_the_wheel_has_the_licence_and_the_command(wheel: Path) -> None:
    folder = f"headrace-{PROJECT['version']}.dist-info"
    assert f"{folder}/licenses/LICENSE" in _names(wheel)
    with zipfile.ZipFile(wheel) as archive:
        commands = archive.read(f"{folder}/entry_points.txt").decode()
    assert "headrace = headrace.cli:main" in commands


def test_an_installed_wheel_is_imported_from_its_folder(wheel: Path, tmp_path: Path) -> None:
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    _python("-m", "pip", "install", *options, "--target", str(tmp_path), str(wheel))
    where = _python("-c", "import headrace; print(headrace.__file__)", path=tmp_path)
    assert Path(where.strip()) == tmp_path / "headrace" / "__init__.py"


def test_the_lowest_allowed_versions_are_the_tested_ones() -> None:
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints-lowest.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
    extras = PROJECT["optional-dependencies"]
    for each in map(Requirement, [*PROJECT["dependencies"], *extras["run"], *extras["parquet"]]):
        (lowest,) = (bound.version for bound in each.specifier if bound.operator == ">=")
        assert Version(pins[each.name]) == Version(lowest), each.name


def test_the_extra_of_the_commands_brings_what_their_tables_need() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(extras["parquet"]) <= set(extras["run"])


def test_the_declared_version_is_installed() -> None:
    assert version("headrace") == PROJECT["version"]


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _python(*arguments: str, path: Path | None = None) -> str:
    """Return the output of this interpreter, with `path` first in its search path."""
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
