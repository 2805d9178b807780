"""From what was typed behind `headrace run` to the library's own values."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from headrace.models.compute import Device
    from headrace.runs.live.options import LiveOptions
    from headrace.runs.options import InputOptions, RunOptions

Options = TypeVar("Options")


def run_options(typed: dict[str, Any]) -> "RunOptions":
    """Return what to run, on what, with what, and where results go.

    Raises:
        typer.BadParameter: flags that contradict each other, or none that is needed.
        ConfigError: a value is not possible.
    """
    from headrace.models.compute import LARGEST
    from headrace.runs.options import (
        ComputeOptions,
        ExecutionOptions,
        InputOptions,
        MarkOptions,
        OutputOptions,
        RunOptions,
    )

    if typed.get("sink") and typed["try_advised"]:
        raise typer.BadParameter(
            "the second run of --try would write everything again; leave one out",
            param_hint="'--sink'",
        )
    is_auto = typed["batch_size"] == "auto"
    execution = named(
        ExecutionOptions,
        typed,
        fit_batch=is_auto,
        amp=typed["use_amp"],
        compile=typed["enable_compile"],
    )
    return RunOptions(
        input=named(InputOptions, typed, sources=_sources(typed)),
        compute=named(
            ComputeOptions,
            typed,
            batch_size=LARGEST if is_auto else int(typed["batch_size"]),
            device=_device(typed),
            execution=execution,
        ),
        output=named(OutputOptions, typed, sinks=tuple(typed.get("sink") or ())),
        marks=named(MarkOptions, typed),
    )


def live_options(plain: "RunOptions", typed: dict[str, Any]) -> "LiveOptions":
    """Return the same for sources that are read as they come.

    Raises:
        ConfigError: a value is not possible.
    """
    from headrace.runs.live.options import ClipOptions, FlowOptions, LiveOptions

    flow, clips = named(FlowOptions, typed), named(ClipOptions, typed)
    return LiveOptions.of(plain, flow=flow, clips=clips, view=typed["view"])


def files_among(read: "InputOptions") -> tuple[str, ...]:
    """Return the paths of the videos among the sources; with a rate, they are pictures.

    Raises:
        ConfigError: a source names nothing that can be one.
    """
    from headrace.live.address import FileAddress, addresses_of

    found = addresses_of(read.sources, read.rate)
    is_of_videos = read.rate is None
    return tuple(each.name for each in found if isinstance(each, FileAddress) and is_of_videos)


def named(options: type[Options], typed: dict[str, Any], **given: object) -> Options:
    """Return options whose fields are the flags of the same names; `given` come before those."""
    of_flags = {
        field.name: typed[field.name]
        for field in fields(options)  # type: ignore[arg-type]
        if field.name in typed
    }
    return options(**of_flags | given)


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
