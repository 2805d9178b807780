"""Options of `headrace run` and of its web page.

Most are fields of a configuration; those whose command-line form differs are defined here.
"""

import os
from pathlib import Path
from typing import Any, Final, Literal

import typer

from headrace.cli.config_flags import (
    DRY_RUN,
    SESSION_JSON,
    checking,
    configured,
    option,
    parameters,
)
from headrace.errors import ConfigError, reason_of
from headrace.extras import check_extra
from headrace.models.compute import MAX_BATCH_SIZE, Device
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

TOKEN_VARIABLE: Final = "HEADRACE_WEB_TOKEN"
"""Environment variable with the token; other users could read a command-line argument."""
_MAX_TOKEN_BYTES: Final = 4096


def check_batch_size(text: str) -> None:
    """Raise ConfigError if `text` is neither a batch size nor `auto`."""
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    if text != "auto" and (not is_number or int(text) < 1):
        allowed = ">= 1" if is_number else "a whole number, or auto"
        raise ConfigError(f"must be {allowed}, got {text!r}")


_SOURCE, *_INPUT = parameters(InputOptions)
PARAMETERS: Final = (
    _SOURCE,
    option("input_path", list[str] | None, None, "Alias of SOURCE.", metavar="SOURCE"),
    *_INPUT,
    *parameters(
        ComputeOptions,
        batch_size={
            "kind": str,
            "default": "16",
            "help": "Frames per step, in real time an upper limit; auto measures the best.",
            "metavar": "N|auto",
            "least": None,
            "check": check_batch_size,
        },
        device={
            "kind": Device | None,
            "default": None,
            "help": "Device of the model; by default cpu.",
        },
    ),
    option("infer_on_gpu", bool, False, "Alias of --device cuda.", "--infer-on-gpu"),
    *parameters(ExecutionOptions),
    *(parameter for parameter in parameters(FlowOptions) if parameter.name != "view"),
    *parameters(LiveClipOptions),
    *parameters(OutputOptions),
    *parameters(FlowOptions, only="view"),
    *parameters(WebOptions),
    option(
        "web_token_file",
        Path | None,
        None,
        "File with the token of the page; by default HEADRACE_WEB_TOKEN, or a generated token.",
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
        "Run again with the advised change, and print the gain.",
        "--apply-advice",
    ),
    DRY_RUN,
    option(
        "log_format",
        Literal["text", "json"],
        "text",
        "Format of the event lines of live sources on stderr.",
    ),
    SESSION_JSON,
    *parameters(TracingOptions),
)
"""Parameters in the order of `--help`."""


def run_options(typed: dict[str, Any]) -> RunOptions:
    """Return the options of a run from command-line values.

    Raises:
        typer.BadParameter: options contradict each other, or a required one is missing.
        ConfigError: a value is invalid.
    """
    if typed.get("sinks") and typed["apply_advice"]:
        raise typer.BadParameter(
            "--apply-advice would write every result to the sink twice; leave one of the two out",
            param_hint="'--sink'",
        )
    is_auto = typed["batch_size"] == "auto"
    return RunOptions(
        input=configured(InputOptions, typed, sources=_sources(typed)),
        compute=configured(
            ComputeOptions,
            typed,
            batch_size=MAX_BATCH_SIZE if is_auto else int(typed["batch_size"]),
            device=_device(typed),
            execution=configured(ExecutionOptions, typed, fit_batch=is_auto),
        ),
        output=configured(OutputOptions, typed),
        marks=configured(TracingOptions, typed),
        flow=configured(FlowOptions, typed),
        clips=configured(LiveClipOptions, typed),
    )


def files_among(read: InputOptions) -> tuple[str, ...]:
    """Return the paths of the video files among the sources; none with `--framerate`.

    Raises:
        ConfigError: a source is not an address.
    """
    from headrace.live.address import FileAddress, parse_addresses

    addresses = parse_addresses(read.sources, read.rate)
    if read.rate is not None:
        return ()
    return tuple(address.name for address in addresses if isinstance(address, FileAddress))


def _sources(typed: dict[str, Any]) -> tuple[str, ...]:
    arguments, flags = typed["sources"] or [], typed["input_path"] or []
    if arguments and flags:
        raise typer.BadParameter(
            "SOURCE is given, too; leave one of the two out", param_hint="'--input-path'"
        )
    if not (arguments or flags):
        raise typer.BadParameter(
            "give a video, a folder, a camera or an address", param_hint="'SOURCE'"
        )
    return (*arguments, *flags)


def _device(typed: dict[str, Any]) -> Device:
    if typed["infer_on_gpu"]:
        if typed["device"] == "cpu":
            raise typer.BadParameter(
                "contradicts --device cpu; leave one of the two out", param_hint="'--infer-on-gpu'"
            )
        return "cuda"
    device: Device = typed["device"] or "cpu"
    return device


def web_options(typed: dict[str, Any]) -> WebOptions | None:
    """Return the web options of `headrace run`; None without a page or metrics.

    Raises:
        ConfigError: a value is invalid, has no effect, or is a file without a token.
        BackendError: the extra `web` is not installed.
    """
    view, token_file = typed["view"], typed["web_token_file"]
    options = configured(
        WebOptions,
        typed,
        token=_token(token_file) if view in ("web", "metrics") else None,
        with_page=view == "web",
        health_timeout_seconds=parse_seconds(typed["health_timeout"]),
    )
    if view in ("web", "metrics"):
        check_extra("web", "a run that is shown as a web page or as metrics")
        return options
    if options != WebOptions(with_page=False) or token_file is not None:
        raise ConfigError(
            "--web-address, --web-port, --web-host, --web-token-file and --health-timeout need "
            f"--view web or metrics, got --view {view}"
        )
    return None


def _token(file: Path | None) -> str | None:
    """Return the token from the file or the environment; None if neither is given."""
    variable = os.environ.get(TOKEN_VARIABLE)
    if file is None:
        return variable
    if variable is not None:
        raise ConfigError(f"both --web-token-file and {TOKEN_VARIABLE} give a token; leave one out")
    try:
        with file.open("rb") as opened:
            token = opened.read(_MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "not ASCII text"
        raise ConfigError(
            f"cannot read the token in {file}: {reason}; give a file with only the token"
        ) from error
    if not token:
        raise ConfigError(f"{file} has no token; write one of at least 16 characters to it")
    return token
