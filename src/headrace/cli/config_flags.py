"""Options of the command line, made from the fields of a configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, replace
from inspect import Parameter, Signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, get_args

import typer

from headrace.config_fields import (
    Configuration,
    Option,
    OptionField,
    SourceArgument,
    VideoArgument,
    option_fields,
)
from headrace.errors import HeadraceError

Config = TypeVar("Config", bound=Configuration)


def parameters(
    configuration: type[Configuration], *, only: str = "", **changed: dict[str, Any]
) -> list[Parameter]:
    """Return an argument or option for each annotated field, in order.

    Args:
        configuration: Whose fields they are.
        only: Names of fields, with spaces between them, where others are no options here.
        changed: Name of a field to what its `Option` has otherwise here; `kind` and `default` are
            the field's.
    """
    chosen = only.split() or [field.name for field in option_fields(configuration)]
    found = []
    for field in option_fields(configuration):
        if field.name in chosen:
            new = dict(changed.get(field.name, {}))
            own = {name: new.pop(name) for name in ("kind", "default") if name in new}
            found.append(_parameter(replace(field, option=replace(field.option, **new), **own)))
    return found


def configured(configuration: type[Config], typed: dict[str, Any], **given: Any) -> Config:
    """Return the configuration of what was typed, by the names of its fields.

    Args:
        configuration: Whose fields they are.
        typed: What typer made of the command line; what is no field of it is passed over.
        given: Fields that are no options, or are others than was typed.

    Raises:
        typer.BadParameter: a list of numbers or names is none.
        ConfigError: a value is not possible, or a folder or list holds no video.
    """
    fields = {field.name: field for field in option_fields(configuration)}
    found = {name: _value(fields[name], typed[name]) for name in fields if name in typed}
    return configuration(**found | given)


def with_parameters(
    run: Callable[..., None], parameters: Sequence[Parameter], summary: str
) -> Callable[..., None]:
    """Return `run`, which takes whatever keywords, as a function of these parameters."""

    def command(**typed: Any) -> None:
        run(**typed)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__doc__ = summary
    return command


def option(name: str, kind: Any, default: Any, help: str, *flags: str, **shown: Any) -> Parameter:
    """Return a parameter that typer makes an option of; `shown` is given to `typer.Option`."""
    return keyword(name, Annotated[kind, typer.Option(*flags, help=help, **shown)], default)


def flag_of(parameter: Parameter, typed: object) -> str:
    """Return the flag by which a value of a parameter is typed."""
    [shown] = parameter.annotation.__metadata__
    named = [flag for flag in shown.param_decls or () if flag.startswith("--")]
    off = "no-" if typed is False else ""
    return named[0] if named else f"--{off}{parameter.name.replace('_', '-')}"


def keyword(name: str, kind: Any, default: Any) -> Parameter:
    """Return a parameter that is given by its name; without a default, it must be."""
    default = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


JSON: Final = option("json", bool, False, "Print JSON, nothing else.", "--json")
SESSION_JSON: Final = option(
    "json", bool, False, "Print the recorded session as JSON, nothing else.", "--json"
)
DRY_RUN: Final = option("dry_run", bool, False, "Check everything, run nothing.", "--dry-run")


def checking(check: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Return the callback of an option: what `check` raises of a value that was typed is usage."""

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
        one = str if isinstance(option, SourceArgument) else Path
        paths = list[one] if option.is_needed else list[one] | None  # type: ignore[valid-type]
        needed = MISSING if option.is_needed else None
        shown = typer.Argument(help=option.help, metavar=option.metavar)
        return keyword(field.name, Annotated[paths, shown], needed)
    least, most = option.least, option.most
    if isinstance(kind, UnionType) and str in get_args(kind) and int in get_args(kind):
        kind = str  # what is typed is text, whatever else the field takes
    if option.is_repeated:
        kind, default = list[str] | None, None
    elif field.item is not None:
        kind, least = str | None, None
        default = default if default is MISSING else ",".join(map(str, default)) or None
    shown = shown_option(option, min=least, max=most)
    return keyword(field.name, Annotated[kind, shown], default)


def shown_option(option: Option, **bounds: Any) -> Any:
    """Return what typer shows and checks of an option."""
    return typer.Option(
        *option.flags,
        help=option.help,
        metavar=option.metavar,
        callback=option.check and checking(option.check),
        autocompletion=_completing(option.completions) if option.completions else None,
        envvar=option.variable,
        **bounds,
    )


def _completing(known: Mapping[str, str]) -> Callable[[str], list[tuple[str, str]]]:
    def completed(begun: str) -> list[tuple[str, str]]:
        return [(value, words) for value, words in known.items() if value.startswith(begun)]

    return completed


def _value(field: OptionField, typed: Any) -> Any:
    from headrace.video.find_videos import find_videos

    if isinstance(field.option, VideoArgument) and not isinstance(field.option, SourceArgument):
        return tuple(str(path) for path in find_videos(typed)) if typed else ()
    if isinstance(field.option, SourceArgument) or field.option.is_repeated:
        return tuple(typed or ())
    if field.item is None:
        return typed
    if typed is None:
        return ()
    parts = [part.strip() for part in typed.split(",")]
    flag, *_ = (*field.option.flags, f"--{field.name.replace('_', '-')}")
    if field.item not in (int, float):
        if not all(parts):
            raise typer.BadParameter(
                f"names with commas between them, got {typed!r}", param_hint=f"'{flag}'"
            )
        return tuple(dict.fromkeys(parts))
    try:
        return tuple(dict.fromkeys(map(field.item, parts)))
    except ValueError as error:
        raise typer.BadParameter(
            f"numbers with commas between them, got {typed!r}", param_hint=flag
        ) from error
