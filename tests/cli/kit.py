"""What tests of commands share: the flags of a small model, pictures, records, processes."""

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
    """Write grey pictures 00000.jpg, 00001.jpg, ..., each brighter than the one before."""
    folder.mkdir(parents=True)
    for number in range(count):
        grey = np.full((*size, 3), number * 9, np.uint8)
        Image.fromarray(grey).save(folder / f"{number:05d}.jpg")
    return folder


def recorded(folder: Path, name: str = "session.json") -> dict[str, Any]:
    """Return the record of a run as JSON."""
    return json.loads((folder / name).read_text("utf-8"))


def ran(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these words, and return its exit code and what it printed."""
    options = {"timeout": 300, "capture_output": True, **options}
    return subprocess.run([sys.executable, *map(str, words)], text=True, check=False, **options)


def python(code: str, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its exit code and what it printed."""
    return ran("-c", code, *words, **options)


PROFILE = ("-m", "headrace", "profile")


def profiled(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `headrace profile` in a folder, and return its exit code and what it printed."""
    return ran(*PROFILE, *words, cwd=folder)


def interrupted(
    folder: Path, *words: object, after: str, stream: str = "stdout", by: int = signal.SIGINT
) -> tuple[int, str]:
    """Send a signal to `headrace profile` when its script has printed a line.

    Returns its exit code, and what it printed on stderr from then on.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, *PROFILE, *map(str, words)]
    # In a session of its own: no terminal whose Ctrl-C reaches script and command.
    child = subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **pipes)
    assert any(line == after for line in getattr(child, stream))
    os.kill(child.pid, by)
    err = child.stderr.read()  # before the end of its input, which would end it, too
    child.communicate()
    return child.returncode, err


def transcript(call: Callable[..., tuple[int, str, str]], *lines: str) -> str:
    """Return command lines, each with all that it printed and its exit code below it."""
    pages = []
    for line in lines:
        code, out, err = call(*shlex.split(line))
        pages.append(f"$ headrace {line}\n{out}{err}[{code}]\n")
    return "\n".join(pages)


def reason(err: str) -> str:
    """Return the one line on stderr, without the usage of the command that may stand before it."""
    usage = ("Usage: ", "Try 'headrace ")
    [line] = [line for line in err.splitlines() if line and not line.startswith(usage)]
    return line


def pairwise(values: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Return combinations, a value for each name, so that each pair of values is in one of them.

    Greedy: each combination begins with a pair that is in none yet, and takes for the other names
    the values that bring the most pairs of that kind.
    """
    names = list(values)
    missing = {
        frozenset([(a, x), (b, y)])
        for a, b in combinations(names, 2)
        for x in range(len(values[a]))
        for y in range(len(values[b]))
    }
    found = []
    while missing:
        chosen = dict(min(missing, key=sorted))
        for name in names:
            if name not in chosen:
                chosen[name] = max(
                    range(len(values[name])),
                    key=lambda place, name=name: sum(
                        frozenset([(name, place), item]) in missing for item in chosen.items()
                    ),
                )
        missing -= {frozenset(pair) for pair in combinations(chosen.items(), 2)}
        found.append({name: values[name][chosen[name]] for name in names})
    return found
