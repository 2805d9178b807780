"""Command-line options generated from the fields of a configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, replace
from inspect import Parameter, Signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args

import typer

from headrace.cli.sources import frame_size
from headrace.config_fields import (
    Configuration,
    Option,
    OptionField,
    SourceArgument,
    VideoArgument,
    option_fields,
)
from headrace.errors import HeadraceError
from headrace.video.image_sequence import RATE_OPTION

Config = TypeVar("Config", bound=Configuration)


def parameters(
    configuration: type[Configuration], *, only: str = "", **changed: dict[str, Any]
) -> list[Parameter]:
    """Return an argument or option for each annotated field, in order.

    Args:
        configuration: Class with the fields.
        only: Space-separated names of the fields to use; empty means all.
        changed: Field name → changed attributes of its `Option`; `kind` and `default` change the
            field.
    """
    names = only.split()
    result = []
    for field in option_fields(configuration):
        if not names or field.name in names:
            of_option = dict(changed.get(field.name, {}))
            of_field = {
                name: of_option.pop(name) for name in ("kind", "default") if name in of_option
            }
            changed_option = replace(field.option, **of_option)
            result.append(_parameter(replace(field, option=changed_option, **of_field)))
    return result


def configured(configuration: type[Config], typed: dict[str, Any], **given: Any) -> Config:
    """Return a configuration built from command-line values.

    Args:
        configuration: Class to build.
        typed: Parameter name → value from typer; names without a field are ignored.
        given: Further fields; they override `typed`.

    Raises:
        typer.BadParameter: a comma-separated list is malformed.
        ConfigError: a value is invalid, or a folder or list holds no video.
    """
    fields = option_fields(configuration)
    values = {
        field.name: _value(field, typed[field.name]) for field in fields if field.name in typed
    }
    return configuration(**values | given)


def with_parameters(
    run: Callable[..., None], parameters: Sequence[Parameter], summary: str
) -> Callable[..., None]:
    """Return `run` as a command function whose signature has these parameters."""

    def command(**typed: Any) -> None:
        run(**typed)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__doc__ = summary
    return command


def option(name: str, kind: Any, default: Any, help: str, *flags: str, **shown: Any) -> Parameter:
    """Return the parameter of a typer option; `shown` is passed to `typer.Option`."""
    return keyword(name, Annotated[kind, typer.Option(*flags, help=help, **shown)], default)


def flag_of(parameter: Parameter, typed: object) -> str:
    """Return the flag that sets a parameter to the value `typed`, such as `--no-video`."""
    [shown] = parameter.annotation.__metadata__
    flags = [flag for flag in shown.param_decls or () if flag.startswith("--")]
    prefix = "no-" if typed is False else ""
    return flags[0] if flags else f"--{prefix}{parameter.name.replace('_', '-')}"


def keyword(name: str, kind: Any, default: Any) -> Parameter:
    """Return a keyword-only parameter; it is required if `default` is `MISSING`."""
    default = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


StreamFlag: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Stream of the file: index among all streams, or v:1 for the second video stream."
    ),
]
JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
JSON: Final = keyword("json", JsonFlag, False)
SESSION_JSON: Final = option(
    "json", bool, False, "Print only the recorded session, as JSON.", "--json"
)
DRY_RUN: Final = option(
    "dry_run", bool, False, "Check all options and files; run nothing.", "--dry-run"
)


def checking(check: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Return an option callback that turns an error of `check` into a usage error."""

    def checked(typed: Any) -> Any:
        if typed is not None:
            try:
                check(typed)
            except HeadraceError as error:
                raise typer.BadParameter(str(error)) from error
        return typed

    return checked


def _parameter(field: OptionField) -> Parameter:
    option, kind, default = field.option, field.kind, field.default
    if isinstance(option, VideoArgument):
        item = str if isinstance(option, SourceArgument) else Path
        paths = list[item] if option.is_needed else list[item] | None  # type: ignore[valid-type]
        shown = typer.Argument(help=option.help, metavar=option.metavar)
        default = MISSING if option.is_needed else None
        return keyword(field.name, Annotated[paths, shown], default)
    least = option.least
    if isinstance(kind, UnionType) and str in get_args(kind) and int in get_args(kind):
        kind = str  # typer rejects `int | str`
    if option.is_repeated:
        kind, default = list[str] | None, None
    elif field.is_size:
        kind, least = str | None, None
        default = default and "x".join(map(str, default))
    elif field.item is not None:
        kind, least = str | None, None
        default = default if default is MISSING else ",".join(map(str, default)) or None
    shown = shown_option(option, min=least, max=option.most)
    return keyword(field.name, Annotated[kind, shown], default)


def shown_option(option: Option, **bounds: Any) -> Any:
    """Return the typer option of a field's `Option`, with `bounds` on its value."""
    return typer.Option(
        *option.flags,
        help=option.help,
        metavar=option.metavar,
        callback=option.check and checking(option.check),
        autocompletion=_completer(option.completions) if option.completions else None,
        envvar=option.variable,
        **bounds,
    )


RateFlag: TypeAlias = Annotated[str | None, shown_option(RATE_OPTION)]


def _completer(completions: Mapping[str, str]) -> Callable[[str], list[tuple[str, str]]]:
    def complete(start: str) -> list[tuple[str, str]]:
        return [(value, text) for value, text in completions.items() if value.startswith(start)]

    return complete


def _value(field: OptionField, typed: Any) -> Any:
    from headrace.video.find_videos import find_videos

    if isinstance(field.option, VideoArgument) and not isinstance(field.option, SourceArgument):
        return tuple(str(path) for path in find_videos(typed)) if typed else ()
    if isinstance(field.option, SourceArgument) or field.option.is_repeated:
        return tuple(typed or ())
    if field.is_size:
        return frame_size(typed)
    if field.item is None:
        return typed
    if typed is None:
        return ()
    parts = [part.strip() for part in typed.split(",")]
    is_number = field.item in (int, float)
    try:
        values = tuple(dict.fromkeys(map(field.item, parts) if is_number else filter(None, parts)))
    except ValueError:
        values = ()
    if not values or not all(parts):
        flag, *_ = (*field.option.flags, f"--{field.name.replace('_', '-')}")
        raise typer.BadParameter(
            f"must be {'numbers' if is_number else 'names'} separated by commas, got {typed!r}",
            param_hint=f"'{flag}'",
        )
    return values
