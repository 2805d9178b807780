"""Helpers of command tests: flags of a small model, images, records, processes."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SQUEEZENET = ("--model-name", "squeezenet1_1", "--weights", "none")
FAST = (*SQUEEZENET, "--no-video")
MAIN = "from headrace.cli import main; main()"


def write_pictures(folder: Path, count: int, size: tuple[int, int] = (48, 64)) -> Path:
    """Write gray images 00000.jpg, 00001.jpg, ..., of increasing brightness."""
    folder.mkdir(parents=True)
    for number in range(count):
        grey = np.full((*size, 3), number * 9, np.uint8)
        Image.fromarray(grey).save(folder / f"{number:05d}.jpg")
    return folder


def recorded(folder: Path, name: str = "session.json") -> dict[str, Any]:
    """Return the record of a run as JSON."""
    return json.loads((folder / name).read_text("utf-8"))


def ran(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments; return its exit code and output."""
    options = {"timeout": 300, "capture_output": True, **options}
    return subprocess.run([sys.executable, *map(str, words)], text=True, check=False, **options)


def python(code: str, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a Python program; return its exit code and output."""
    return ran("-c", code, *words, **options)


PROFILE = ("-m", "headrace", "profile")


def profiled(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `headrace profile` in a folder; return its exit code and output."""
    return ran(*PROFILE, *words, cwd=folder)


def interrupted(
    folder: Path, *words: object, after: str, stream: str = "stdout", by: int = signal.SIGINT
) -> tuple[int, str]:
    """Send a signal to `headrace profile` once its script has printed the line `after`.

    Returns its exit code, and its stderr after the signal.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, *PROFILE, *map(str, words)]
    # A new session, so that no terminal sends Ctrl-C to both script and command.
    child = subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **pipes)
    assert any(line == after for line in getattr(child, stream))
    os.kill(child.pid, by)
    err = child.stderr.read()  # before its stdin is closed, which would end the script too
    child.communicate()
    return child.returncode, err


def transcript(call: Callable[..., tuple[int, str, str]], *lines: str) -> str:
    """Return command lines, each followed by its output and exit code."""
    pages = []
    for line in lines:
        code, out, err = call(*shlex.split(line))
        pages.append(f"$ headrace {line}\n{out}{err}[{code}]\n")
    return "\n".join(pages)


def reason(err: str) -> str:
    """Return the one line of stderr, without usage lines before it."""
    usage = ("Usage: ", "Try 'headrace ")
    [line] = [line for line in err.splitlines() if line and not line.startswith(usage)]
    return line


def pairwise(values: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Return combinations with a value per name that contain every pair of values.

    Greedy: each combination starts with a missing pair, and takes for the other names the values
    that add the most missing pairs.
    """
    names = list(values)
    missing = {
        frozenset([(a, x), (b, y)])
        for a, b in combinations(names, 2)
        for x in range(len(values[a]))
        for y in range(len(values[b]))
    }
    result = []
    while missing:
        positions = dict(min(missing, key=sorted))
        for name in names:
            if name not in positions:
                positions[name] = max(
                    range(len(values[name])),
                    key=lambda position, name=name: sum(
                        frozenset([(name, position), item]) in missing for item in positions.items()
                    ),
                )
        missing -= {frozenset(pair) for pair in combinations(positions.items(), 2)}
        result.append({name: values[name][positions[name]] for name in names})
    return result
