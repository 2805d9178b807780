"""The options of `headrace run`, and the library's own values made of what was typed.

An option is the field of a configuration that it fills; what is typed in another way than it is
kept stands here.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import typer

from headrace.cli.config_flags import (
    DRY_RUN,
    SESSION_JSON,
    checking,
    configured,
    option,
    parameters,
)
from headrace.errors import ConfigError
from headrace.models.compute import LARGEST
from headrace.runs.run_options import (
    ComputeOptions,
    ExecutionOptions,
    FlowOptions,
    InputOptions,
    LiveClipOptions,
    OutputOptions,
    RunOptions,
    TracingOptions,
)
from headrace.sinks.web.web_options import WebOptions
from headrace.units import parse_seconds

if TYPE_CHECKING:
    from headrace.models.compute import Device


def check_batch_size(text: str) -> None:
    """Raise ConfigError where `text` is neither a size of a batch nor `auto`."""
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    if text != "auto" and (not is_number or int(text) < 1):
        must = "be >= 1" if is_number else "be a whole number, or auto"
        raise ConfigError(f"must {must}, got {text!r}")


_COMPUTE: Final = {each.name: each for each in parameters(ComputeOptions)} | {
    "batch_size": option(
        "batch_size",
        str,
        "16",
        "Frames in a step (in real time: at most); auto measures which serves best.",
        metavar="N|auto",
        callback=checking(check_batch_size),
    ),
    "device": option(
        "device",
        Literal["cpu", "cuda"] | None,
        None,
        "Where the model runs; cpu if left out.",
        show_default=False,
    ),
}
_SOURCE, *_INPUT = parameters(InputOptions)
PARAMETERS: Final = (
    _SOURCE,
    option("input_path", list[str] | None, None, "The same as SOURCE.", metavar="SOURCE"),
    *_INPUT,
    *_COMPUTE.values(),
    option("infer_on_gpu", bool, False, "The same as --device cuda.", "--infer-on-gpu"),
    *parameters(ExecutionOptions),
    *(each for each in parameters(FlowOptions) if each.name != "view"),
    *parameters(LiveClipOptions),
    *parameters(OutputOptions),
    *parameters(FlowOptions, only="view"),
    *parameters(WebOptions),
    option(
        "web_token_file",
        Path | None,
        None,
        "Holds its token; else HEADRACE_WEB_TOKEN does, or one is made.",
        metavar="FILE",
    ),
    option(
        "health_timeout",
        str,
        "10s",
        "Report unhealthy after this long without a result.",
        metavar="SPAN",
        callback=checking(parse_seconds),
    ),
    option(
        "apply_advice",
        bool,
        False,
        "Then run again with the change advised, and say what it brought.",
        "--apply-advice",
    ),
    DRY_RUN,
    option(
        "log_format",
        Literal["text", "json"],
        "text",
        "What happens to live sources, on stderr: lines of text, or of JSON.",
    ),
    SESSION_JSON,
    *parameters(TracingOptions),
)
"""In the order of `--help`."""


def run_options(typed: dict[str, Any]) -> RunOptions:
    """Return what to run, on what, with what, and where results go.

    Raises:
        typer.BadParameter: flags that contradict each other, or none that is needed.
        ConfigError: a value is not possible.
    """
    if typed.get("sinks") and typed["apply_advice"]:
        raise typer.BadParameter(
            "the second run of --apply-advice would write everything again; leave one out",
            param_hint="'--sink'",
        )
    is_auto = typed["batch_size"] == "auto"
    return RunOptions(
        input=configured(InputOptions, typed, sources=_sources(typed)),
        compute=configured(
            ComputeOptions,
            typed,
            batch_size=LARGEST if is_auto else int(typed["batch_size"]),
            device=_device(typed),
            execution=configured(ExecutionOptions, typed, fit_batch=is_auto),
        ),
        output=configured(OutputOptions, typed),
        marks=configured(TracingOptions, typed),
        flow=configured(FlowOptions, typed),
        clips=configured(LiveClipOptions, typed),
    )


def files_among(read: InputOptions) -> tuple[str, ...]:
    """Return the paths of the videos among the sources; with a rate, they are pictures.

    Raises:
        ConfigError: a source names nothing that can be one.
    """
    from headrace.live.address import FileAddress, parse_addresses

    found = parse_addresses(read.sources, read.rate)
    is_of_videos = read.rate is None
    return tuple(each.name for each in found if isinstance(each, FileAddress) and is_of_videos)


def _sources(typed: dict[str, Any]) -> tuple[str, ...]:
    listed, named_so = typed["sources"] or [], typed["input_path"] or []
    if listed and named_so:
        raise typer.BadParameter(
            "SOURCE is given already; give one of both", param_hint="'--input-path'"
        )
    if not (listed or named_so):
        raise typer.BadParameter(
            "give a video, a folder, a camera or an address", param_hint="'SOURCE'"
        )
    return (*listed, *named_so)


def _device(typed: dict[str, Any]) -> "Device":
    if typed["infer_on_gpu"]:
        if typed["device"] == "cpu":
            raise typer.BadParameter(
                "it contradicts --device cpu; give one of both", param_hint="'--infer-on-gpu'"
            )
        return "cuda"
    device: Device = typed["device"] or "cpu"
    return device
