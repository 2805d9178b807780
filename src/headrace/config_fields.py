"""Options: what the fields of a configuration say of themselves, to people and to checks."""

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

CAMERAS: Final = "Names of the cameras, with commas; all if not given."
"""What `--cameras` is, of whatever command."""


class Configuration(Protocol):
    """A frozen dataclass whose fields are annotated with an `Option`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


@dataclass(frozen=True)
class Option:
    """Stands in the annotation of a field; the command line and `check_options` read it."""

    help: str
    """One sentence: it is the field's documentation as well."""
    least: float | None = None
    """Smallest value; of a tuple, of each of its numbers."""
    most: float | None = None
    above: float | None = None
    """The value is greater than this."""
    flags: tuple[str, ...] = ()
    """As they are typed; empty makes one of the field's name, `--no-...` beside a bool's."""
    metavar: str | None = None
    """What help calls the value; None names its type."""
    is_repeated: bool = False
    """Of a tuple: the option is given once for each value, instead of with commas between them."""
    check: Callable[[Any], object] | None = None
    """Raises a `HeadraceError` for a value that cannot be used, before anything is opened."""
    completions: Mapping[str, str] | None = None
    """Values that a shell completes, each with a description."""
    variable: str | None = None
    """Environment variable that is read where the option is not given."""


@dataclass(frozen=True)
class VideoArgument:
    """Stands in the annotation of paths that are arguments: files, folders and lists of them."""

    help: str = "Video files, or folders of them."
    is_needed: bool = True
    """Whether there must be one."""
    metavar: str | None = None
    """What help calls them; None: by the field's name."""


@dataclass(frozen=True)
class SourceArgument(VideoArgument):
    """Stands in the annotation of arguments that are kept as typed: paths, addresses, cameras."""


Videos: TypeAlias = Annotated[tuple[str, ...], VideoArgument()]
"""Paths of videos."""
FrameSize: TypeAlias = Annotated[
    tuple[int, int], Option("Height and width of the frames.", least=1, metavar="H W")
]


@dataclass(frozen=True, kw_only=True)
class OptionField:
    """One field of a configuration, as its annotation tells."""

    name: str
    kind: Any
    """The type without its annotation."""
    option: Option | VideoArgument
    default: Any
    """`dataclasses.MISSING` if it must be given."""

    @property
    def item(self) -> Any:
        """Type of each of any number of values, `int` of `tuple[int, ...]`; None if it is one."""
        inside = get_args(self.kind)
        return inside[0] if get_origin(self.kind) is tuple and inside[1:] == (...,) else None


def option_fields(configuration: type[Configuration]) -> list[OptionField]:
    """Return the annotated fields in their order; others are no options."""
    found = []
    hints = hints_of(configuration, include_extras=True)
    for field in fields(configuration):
        kind, *notes = get_args(hints[field.name]) or [None]
        for note in notes:
            if isinstance(note, Option | VideoArgument):
                found.append(
                    OptionField(name=field.name, kind=kind, option=note, default=field.default)
                )
    return found


def check_options(configuration: Configuration) -> None:
    """Hold every value against what its option allows; None passes where the type allows it.

    Raises:
        ConfigError: one is not allowed; names the field, the value and what is possible.
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
