"""What tests of commands share: the flags of a small model, pictures, records, processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SQUEEZENET = ("--model-name", "squeezenet1_1", "--weights", "none")
FAST = (*SQUEEZENET, "--no-video")
MAIN = "from headrace.cli import main; main()"


def write_pictures(folder: Path, count: int, size: tuple[int, int] = (48, 64)) -> Path:
    """Write grey pictures 00000.jpg, 00001.jpg, ..., each brighter than the one before."""
    folder.mkdir(parents=True)
    for number in range(count):
        grey = np.full((*size, 3), number * 9, np.uint8)
        Image.fromarray(grey).save(folder / f"{number:05d}.jpg")
    return folder


def recorded(folder: Path, name: str = "session.json") -> dict[str, Any]:
    """Return the record of a run as JSON."""
    return json.loads((folder / name).read_text("utf-8"))


def python(code: str, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its exit code and what it printed."""
    command = [sys.executable, "-c", code, *map(str, words)]
    options = {"timeout": 300, "capture_output": True, **options}
    return subprocess.run(command, text=True, check=False, **options)


def reason(err: str) -> str:
    """Return the one line on stderr, without the usage of the command that may stand before it."""
    usage = ("Usage: ", "Try 'headrace ")
    [line] = [line for line in err.splitlines() if line and not line.startswith(usage)]
    return line
