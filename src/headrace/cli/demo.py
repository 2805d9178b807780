"""`headrace demo`: a classifier on generated videos, from file to report, without a download."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.config_flags import configured, parameters, with_parameters
from headrace.cli.progress import waiting
from headrace.cli.run import run_and_conclude
from headrace.cli.signals import ending_at_once
from headrace.runs.run_options import ComputeOptions, InputOptions, OutputOptions, RunOptions
from headrace.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from headrace.testing.demo import Demo


def _demo(**typed: Any) -> None:
    output = configured(OutputOptions, typed)
    with ending_at_once(), waiting("loading PyTorch", is_quiet=False):
        from headrace.runs.output_folder import prepare_folder
        from headrace.testing.demo import CLASSES, FITTED_FRAMES, draw_demo

    start_ns = SYSTEM_CLOCK.now_ns()
    prepare_folder(output.out)
    fitted = FITTED_FRAMES * len(CLASSES)
    print(f"Drawing two videos and fitting a classifier to {fitted} of their frames.", flush=True)
    drawn = draw_demo(output.out / "drawn")
    options = RunOptions(
        input=InputOptions(sources=tuple(map(str, drawn.videos))),
        compute=ComputeOptions(model_name=drawn.model_name, weights=str(drawn.head)),
        output=output,
    )
    print(f"$ {_command(drawn, output.out)}\n", flush=True)
    typed = {"dry_run": False, "json": False}
    other_seconds = (SYSTEM_CLOCK.now_ns() - start_ns) / 1e9
    run_and_conclude(options, lambda options: options, typed, other_seconds=other_seconds)
    print(_accuracy(output.out, drawn.videos))
    print("For your own video, with downloaded weights: headrace run VIDEO")


demo = with_parameters(
    _demo,
    parameters(OutputOptions, only="out", out={"default": Path("headrace_demo")}),
    "Run a classifier on generated videos, from file to report, without a download.",
)


def _command(drawn: "Demo", out: Path) -> str:
    """Return the equivalent `headrace run` command, in two lines."""
    videos, head = (shlex.quote(str(path)) for path in (drawn.head.parent, drawn.head))
    model = f"--model-name {drawn.model_name}"
    return f"headrace run {videos} {model} \\\n    --weights {head} --out {shlex.quote(str(out))}"


def _accuracy(out: Path, videos: Sequence[Path]) -> str:
    """Return the number of frames whose label is the class drawn in their video, as text."""
    lines = (out / "predictions.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    right = sum(row["label"] == Path(row["source"]).stem for row in rows)
    return f"Correct labels: {right} of {len(rows)} frames in {len(videos)} videos"
