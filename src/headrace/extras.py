"""Optional parts of headrace: which are installed, and the error that says what adds one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version

from headrace.errors import BackendError, first_line

_PACKAGE = "headrace"
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*?(?:>=\s*([\d.]+))?[^;]*;.*extra == ['\"](.+?)['\"]")
"""Name, the lowest version if one is said, and the extra: `av<19,>=18.1; extra == 'run'`."""


@dataclass(frozen=True)
class Extra:
    """One optional part and the packages it is made of."""

    name: str
    """The extra, as in `headrace[name]`."""
    packages: dict[str, str | None]
    """Package to its installed version; None where it is missing."""
    lowest: dict[str, str] = field(default_factory=dict)
    """Package to the lowest version that will do, of those that have one."""

    @property
    def is_installed(self) -> bool:
        """Whether all of it is there."""
        return all(self.packages.values())

    @property
    def command(self) -> str:
        """What adds it."""
        return command_for(self.name)

    def lacking(self) -> list[str]:
        """Return what is missing or too old, each in words: `rich`, `pydantic>=2.10`."""
        return [
            f"{name}>={self.lowest[name]}" if found else name
            for name, found in self.packages.items()
            if not found or _numbers(found) < _numbers(self.lowest.get(name, ""))
        ]


def extras() -> list[Extra]:
    """Return every extra of headrace, in the order of its metadata."""
    found: dict[str, Extra] = {}
    for requirement in requires(_PACKAGE) or ():
        if said := _REQUIREMENT.match(requirement):
            package, lowest, name = said.groups()
            extra = found.setdefault(name, Extra(name, {}, {}))
            extra.packages[package] = _version(package)
            if lowest:
                extra.lowest[package] = lowest
    return list(found.values())


def command_for(extra: str) -> str:
    """Return the command that adds an extra."""
    return f"pip install '{_PACKAGE}[{extra}]'"


def check_extra(name: str, what: str, instead: str = "") -> None:
    """Do nothing if an extra is there. Imports nothing of it. Some 5 ms.

    Args:
        name: The extra.
        what: What needs it; it begins a sentence, and is singular.
        instead: What works without it; it ends the sentence.

    Raises:
        BackendError: a package is missing or too old; says which, and what adds it.
    """
    for extra in extras():
        if extra.name == name and (lacking := extra.lacking()):
            raise _missing(name, what, f"{', '.join(lacking)}, not installed here", instead)


@contextmanager
def require(name: str, what: str, instead: str = "") -> Iterator[None]:
    """Around an import of what an extra adds: `with require("redis", "a cache server"): ...`.

    The arguments are those of `check_extra`.

    Raises:
        BackendError: the import fails; says what is missing, or why it fails, and what adds it.
    """
    try:
        yield
    except ImportError as error:
        found = f"{(error.name or name).partition('.')[0]}, not installed here"
        if not isinstance(error, ModuleNotFoundError):
            found = f"{name}, which cannot be imported ({first_line(error)[:200]})"
        raise _missing(name, what, found, instead) from error


def _missing(name: str, what: str, found: str, instead: str) -> BackendError:
    end = f", or {instead}" if instead else ""
    return BackendError(f"{what} needs {found}; {command_for(name)}{end}")


def _numbers(text: str) -> tuple[int, ...]:
    """Return the release that a version begins with: "2.10.0rc1" is (2, 10, 0)."""
    said = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in said[0].split(".")) if said else ()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
