"""What the release check runs with the Python of an environment: `release_probes.py NAME WORD...`.

Imports nothing but headrace and the standard library.
"""

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from importlib.metadata import Distribution, distributions
from io import StringIO
from pathlib import Path

import headrace
from headrace.cli import main
from headrace.extras import extras as all_extras
from headrace.testing.synth import SynthClip, write_clip

FRAMES = 64
RUN = (
    "run video.mp4 --model-name squeezenet1_1 --weights none --no-video --quiet --max-steps 1 "
    "--out out"
)
DOORS = {
    "parquet": "extract frames video.mp4 --out frames --every 1",
    "nvtx": f"{RUN} --nvtx",
    "tensorboard": f"{RUN} --tensorboard log",
    "web": f"{RUN} --view web",
    "redis": "cache info --cache redis://127.0.0.1:9",
    "torchcodec": f"{RUN} --decode torchcodec",
}
"""Extra → a command that asks for it. Without a GPU none asks for pynvvideocodec."""
NEEDS_DRIVER = {"pynvvideocodec"}
"""Packages that cannot be imported without the driver of a GPU."""


def packages() -> None:
    """Print each installed package, and the bytes of its files."""
    print(json.dumps({found.name.lower(): _bytes(found) for found in distributions()}))


def versions(*extras: str) -> None:
    """Print headrace's version; import what each extra brings."""
    found = {extra.name: extra for extra in all_extras()}
    for name in extras:
        assert not found[name].lacking(), f"{name} lacks {found[name].lacking()}"
        for package in found[name].packages:
            if package.lower() not in NEEDS_DRIVER:
                _import_first(package)
    print(headrace.__version__)


def example(code: str) -> None:
    """Draw `video.mp4`, and run `code`."""
    _draw()
    exec(compile(code, "README.md", "exec"), {})


def doors() -> None:
    """Print as JSON what each command of `DOORS` says."""
    _draw()
    said = {name: _said(lambda words=words: main(words.split())) for name, words in DOORS.items()}
    print(json.dumps(said))


def _said(call: Callable[[], None]) -> str:
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), suppress(SystemExit):
        call()
    return printed.getvalue().strip()[-500:]


def _draw() -> None:
    write_clip("video", SynthClip(num_frames=FRAMES))


def _import_first(package: str) -> None:
    """Import the package's first module that is no part of its tests."""
    found = Distribution.from_name(package)
    files = [file.parts for file in found.files or () if file.name == "__init__.py"]
    names = {parts[0] for parts in files if len(parts) == 2}
    own = package.lower().replace("-", "_")
    chosen = own if own in names else min(names - {"tests", "test"}, default="")
    if chosen:
        import_module(chosen)


def _bytes(found: Distribution) -> int:
    paths = [Path(str(file.locate())) for file in found.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    {"packages": packages, "versions": versions, "example": example, "doors": doors}[name](*words)
