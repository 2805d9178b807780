"""Options of configurations: help, bounds and checks, as annotations of dataclass fields."""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    get_args,
    get_origin,
)
from typing import get_type_hints as hints_of

from headrace.errors import ConfigError
from headrace.units import check_integers, one_of

CAMERAS: Final = "Comma-separated names of the cameras; by default all."
"""Help of `--cameras`, for all commands."""


class Configuration(Protocol):
    """A frozen dataclass whose fields have an `Option` as annotation."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


@dataclass(frozen=True)
class Option:
    """Annotation of a field: its flag on the command line, and its checks in `check_options`."""

    help: str
    """One sentence; also the field's documentation."""
    least: float | None = None
    """Smallest allowed value; in a tuple, of each number."""
    most: float | None = None
    """Largest allowed value."""
    above: float | None = None
    """Exclusive lower bound."""
    flags: tuple[str, ...] = ()
    """Flags; empty: `--` and the field's name, and `--no-...` for a bool."""
    metavar: str | None = None
    """Name of the value in the help; None: its type."""
    is_repeated: bool = False
    """For a tuple: whether the flag is repeated for each value, instead of commas."""
    check: Callable[[Any], object] | None = None
    """Raises a `HeadraceError` for an invalid value; called before any file is opened."""
    completions: Mapping[str, str] | None = None
    """Value for shell completion → description."""
    variable: str | None = None
    """Environment variable that is read if the flag is not given."""


@dataclass(frozen=True)
class VideoArgument:
    """Annotation of positional paths: files, folders and lists of them."""

    help: str = "Video files, or folders of them."
    is_needed: bool = True
    """Whether at least one path is required."""
    metavar: str | None = None
    """Name in the help; None: the field's name."""


@dataclass(frozen=True)
class SourceArgument(VideoArgument):
    """Annotation of positional sources, unchanged: paths, addresses, cameras."""


Videos: TypeAlias = Annotated[tuple[str, ...], VideoArgument()]
"""Paths of videos."""
FrameSize: TypeAlias = Annotated[
    tuple[int, int], Option("Height and width of the frames.", least=1, metavar="HxW")
]


@dataclass(frozen=True, kw_only=True)
class OptionField:
    """A field of a configuration with its option."""

    name: str
    kind: Any
    """Type of the field without the annotation."""
    option: Option | VideoArgument
    default: Any
    """`dataclasses.MISSING` if the field is required."""

    @property
    def is_size(self) -> bool:
        """Whether the values are a height and a width."""
        return self.kind in (tuple[int, int], tuple[int, int] | None)

    @property
    def item(self) -> Any:
        """Type of the values of a `tuple[type, ...]`; None for other types."""
        inside = get_args(self.kind)
        return inside[0] if get_origin(self.kind) is tuple and inside[1:] == (...,) else None


def option_fields(configuration: type[Configuration]) -> list[OptionField]:
    """Return the fields that have an option, in order."""
    options = []
    hints = hints_of(configuration, include_extras=True)
    for field in fields(configuration):
        kind, *notes = get_args(hints[field.name]) or [None]
        for note in notes:
            if isinstance(note, Option | VideoArgument):
                options.append(
                    OptionField(name=field.name, kind=kind, option=note, default=field.default)
                )
    return options


def check_options(configuration: Configuration) -> None:
    """Check every value against its option; None passes if the type allows it.

    Raises:
        ConfigError: a value is not allowed; names the field, the value and the allowed values.
    """
    for field in option_fields(type(configuration)):
        value = getattr(configuration, field.name)
        if isinstance(field.option, VideoArgument):
            if field.option.is_needed and not value:
                raise ConfigError("at least one video is needed, got none")
        elif get_origin(field.kind) is tuple and not isinstance(value, tuple):
            raise ConfigError(f"{field.name} must be a tuple, got {value!r}")
        elif isinstance(value, tuple):
            _check_several(field.name, value, field.option, _choices(field.item))
        elif value is not None or NoneType not in get_args(field.kind):
            _check(field.name, value, field.option, field.kind)


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _check(name: str, value: Any, option: Option, kind: Any) -> None:
    least, most, above, choices = option.least, option.most, option.above, _choices(kind)
    if choices:
        one_of(choices, **{name: value})
    if value is None and (least, most, above) != (None, None, None):
        raise ConfigError(f"{name} must be given, got None")
    if above is not None and not value > above:
        raise ConfigError(f"{name} must be > {above:g}, got {value}")
    if most is not None and not (least or 0) <= value <= most:
        raise ConfigError(f"{name} must be in [{least or 0:g}, {most:g}], got {value}")
    if kind in (int, int | None) and least is not None:
        check_integers(int(least), **{name: value})
    elif least is not None and not value >= least:
        raise ConfigError(f"{name} must be >= {least:g}, got {value}")


def _check_several(
    name: str, values: tuple[Any, ...], option: Option, choices: tuple[Any, ...]
) -> None:
    unknown = [value for value in values if choices and value not in choices]
    if unknown:
        raise ConfigError(f"{name} must be among {', '.join(choices)}; got {', '.join(unknown)}")
    if option.least is not None and not (values and min(values) >= option.least):
        got = ", ".join(map(str, values)) or "none"
        raise ConfigError(f"{name} must be numbers from {option.least:g} up, got {got}")
