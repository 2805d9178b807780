"""Functions that the release check runs inside an environment: `release_probes.py NAME WORD...`.

Imports only headrace and the standard library.
"""

import json
import sys
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
COMMANDS = {
    "nvtx": f"{RUN} --nvtx",
    "tensorboard": f"{RUN} --tensorboard log",
    "web": f"{RUN} --view web",
    "redis": "cache info --cache redis://127.0.0.1:9",
    "torchcodec": f"{RUN} --decode torchcodec",
}
"""Extra → a command that needs it. pynvvideocodec has none: its commands need a GPU first."""
NEEDS_DRIVER = {"pynvvideocodec"}
"""Packages that cannot be imported without a GPU driver."""


def packages() -> None:
    """Print each installed package with the bytes of its files."""
    sizes = {distribution.name.lower(): _bytes(distribution) for distribution in distributions()}
    print(json.dumps(sizes))


def versions(*extras: str) -> None:
    """Print headrace's version; import the packages of each extra."""
    by_name = {extra.name: extra for extra in all_extras()}
    for name in extras:
        missing = by_name[name].lacking()
        assert not missing, f"{name} lacks {missing}"
        for package in by_name[name].packages:
            if package.lower() not in NEEDS_DRIVER:
                _import_package(package)
    print(headrace.__version__)


def example(code: str) -> None:
    """Write `video.mp4`, and run `code`."""
    _write_video()
    exec(compile(code, "README.md", "exec"), {})


def missing_extras() -> None:
    """Print the output of each command of `COMMANDS` as JSON."""
    _write_video()
    outputs = dict[str, str]()
    for name, command in COMMANDS.items():
        output = StringIO()
        with redirect_stdout(output), redirect_stderr(output), suppress(SystemExit):
            main(command.split())
        outputs[name] = output.getvalue().strip()[-500:]
    print(json.dumps(outputs))


def _write_video() -> None:
    write_clip("video", SynthClip(num_frames=FRAMES))


def _import_package(package: str) -> None:
    """Import the module named like the package, or else its first module except tests."""
    files = Distribution.from_name(package).files or ()
    parts = [file.parts for file in files if file.name == "__init__.py"]
    modules = {folder for folder, *rest in parts if len(rest) == 1}
    expected = package.lower().replace("-", "_")
    module = expected if expected in modules else min(modules - {"tests", "test"}, default="")
    if module:
        import_module(module)


def _bytes(distribution: Distribution) -> int:
    paths = [Path(str(file.locate())) for file in distribution.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    {probe.__name__: probe for probe in (packages, versions, example, missing_extras)}[name](*words)
