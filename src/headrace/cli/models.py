"""`headrace models`: list of models and their preprocessing."""

import json as json_format
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.config_flags import JsonFlag

if TYPE_CHECKING:
    from headrace.models.catalogue import ListedModel
    from headrace.preprocess.spec import InputSpec

_DEFAULT: Final = "mobilenet_v2"
"""Default model of `headrace run`."""


def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Names, parts of names, or patterns such as resnet*."),
    ] = None,
    prep: Annotated[
        bool, typer.Option("--prep", help="Print the operations of each preprocessing level.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """List the available models with their size and weights."""
    from headrace.models.catalogue import list_models
    from headrace.report.text import aligned

    listed = list_models(names or ([_DEFAULT] if prep else []))
    if json:
        print(json_format.dumps([_facts(model, prep=prep) for model in listed], indent=1))
        return
    header = ("model", "input", "size", "params", "file")
    for line in aligned([header, *map(_row, listed)]):
        print(line.removeprefix("  "))
    if prep:
        for model in listed:
            print("\n".join(("", *_levels(model))))
    else:
        if not all(model.is_at_hand for model in listed):
            print("\nA size in the last column is that of a weights file to download at first use.")
        print("\nheadrace run accepts every model, headrace annotate detectors only.")


def _row(model: "ListedModel") -> tuple[str, ...]:
    return (
        model.name,
        model.kind,
        _size(model.input),
        f"{model.parameters / 1e6:6.1f}M",
        "local" if model.is_at_hand else _bytes(model.weights_bytes).rjust(7),
    )


def _size(spec: "InputSpec") -> str:
    if spec.crop is None:
        return "any"
    frames = "" if spec.num_frames is None else f"{spec.num_frames}x"
    return f"{frames}{spec.crop}x{spec.crop}"


def _bytes(size: int) -> str:
    mebibytes = size / 2**20
    return f"{mebibytes:.0f} MiB" if mebibytes < 1000 else f"{mebibytes / 1024:.1f} GiB"


def _levels(model: "ListedModel") -> Iterator[str]:
    yield f"Preprocessing of {model.name}: functions of torchvision.transforms.v2.functional, in"
    yield "order, on uint8 [N, 3, H, W]; equal on CPU and GPU"
    for level, calls in _calls(model).items():
        yield f"  {level}"
        yield from (f"    {call}" for call in calls)


def _calls(model: "ListedModel") -> dict[str, list[str]]:
    from typing import get_args

    from headrace.preprocess.levels import operations
    from headrace.preprocess.spec import PrepLevel

    return {
        level: [operation.call for operation in operations(level, model.input)]
        for level in get_args(PrepLevel)
    }


def _facts(model: "ListedModel", *, prep: bool) -> dict[str, Any]:
    size = model.input.crop
    return {
        "name": model.name,
        "kind": model.kind,
        "parameters": model.parameters,
        "height": size,
        "width": size,
        "num_frames": model.input.num_frames,
        "weights": model.weights,
        "weights_bytes": model.weights_bytes,
        "is_at_hand": model.is_at_hand,
    } | ({"prep": _calls(model)} if prep else {})
