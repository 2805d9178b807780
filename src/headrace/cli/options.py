"""Options of the command line, made from the fields of a configuration."""

from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from headrace.measuring.config_fields import Configuration, Option, OptionField, option_fields

Config = TypeVar("Config", bound=Configuration)


def parameters(configuration: type[Configuration]) -> list[Parameter]:
    """Return an argument or option for each annotated field, in order."""
    return [_parameter(field) for field in option_fields(configuration)]


def flags(*groups: type) -> list[Parameter]:
    """Return a parameter for each field of the groups, as it is annotated for typer, in order."""
    found = []
    for group in groups:
        hints = get_type_hints(group, include_extras=True)
        found += [keyword(field.name, hints[field.name], field.default) for field in fields(group)]
    return found


def configured(configuration: type[Config], typed: dict[str, Any], **given: Any) -> Config:
    """Return the configuration of what was typed, by the names of its fields.

    Args:
        configuration: Whose fields they are.
        typed: What typer made of the command line.
        given: Fields that are no options.

    Raises:
        typer.BadParameter: a list of numbers is none.
        ConfigError: a value is not possible, or a folder or list holds no video.
    """
    fields = {field.name: field for field in option_fields(configuration)}
    return configuration(**given, **{name: _value(fields[name], typed[name]) for name in typed})


def with_parameters(
    run: Callable[..., None], parameters: list[Parameter], summary: str
) -> Callable[..., None]:
    """Return `run`, which takes whatever keywords, as a function of these parameters."""

    def command(**typed: Any) -> None:
        run(**typed)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__doc__ = summary
    return command


def keyword(name: str, kind: Any, default: Any) -> Parameter:
    """Return a parameter that is given by its name; without a default, it must be."""
    default = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _parameter(field: OptionField) -> Parameter:
    option, kind, default = field.option, field.kind, field.default
    if not isinstance(option, Option):
        paths = list[Path] if option.is_needed else list[Path] | None
        needed = MISSING if option.is_needed else None
        return keyword(field.name, Annotated[paths, typer.Argument(help=option.help)], needed)
    least, most = option.least, option.most
    if isinstance(kind, UnionType) and str in get_args(kind):
        kind = str  # what is typed is text, whatever else the field takes
    if field.item is not None:
        kind, least = str, None
        default = default if default is MISSING else ",".join(map(str, default))
    shown = typer.Option(
        *option.flags, help=option.help, min=least, max=most, metavar=option.metavar
    )
    return keyword(field.name, Annotated[kind, shown], default)


def _value(field: OptionField, typed: Any) -> Any:
    from headrace.video.manifest import find_videos

    if not isinstance(field.option, Option):
        return tuple(str(path) for path in find_videos(typed)) if typed else ()
    if field.item is None:
        return typed
    parts = [part.strip() for part in typed.split(",")]
    if field.item not in (int, float):
        return tuple(parts)
    try:
        return tuple(dict.fromkeys(map(field.item, parts)))
    except ValueError as error:
        flag, *_ = (*field.option.flags, f"--{field.name.replace('_', '-')}")
        raise typer.BadParameter(
            f"numbers with commas between them, got {typed!r}", param_hint=flag
        ) from error
