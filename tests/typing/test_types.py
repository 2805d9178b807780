"""The public API under strict type checkers: what a user writes passes, what is wrong is refused.

Pyright comes as basedpyright, whose wheels hold its JavaScript and Node; the package `pyright`
downloads both when it first runs. Its mode `strict` is that of Pyright.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FILES = [str(FOLDER / name) for name in ("uses.py", "mistakes.py")]


def test_mypy_takes_the_uses_and_refuses_the_mistakes():
    """With the settings and the cache of `make types`, which has checked the package before."""
    _checked("mypy", *FILES)


@pytest.mark.slow
def test_pyright_takes_the_uses_and_refuses_the_mistakes(tmp_path):
    settings = {
        "include": FILES,
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    _checked("basedpyright", "--project", str(tmp_path), "--pythonpath", sys.executable)


def _checked(checker: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", checker, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
