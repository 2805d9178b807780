"""Extras of headrace: their installed packages, and the error for a missing extra."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version

from headrace.errors import BackendError, first_line

_PACKAGE = "headrace"
_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*?(?:>=\s*([\d.]+))?[^;]*;.*extra == ['\"](.+?)['\"]")
"""Groups: package, lowest version or None, extra. Example: `av<19,>=15.1; extra == 'run'`."""


@dataclass(frozen=True)
class Extra:
    """An extra and its packages."""

    name: str
    """The extra, as in `headrace[name]`."""
    packages: dict[str, str | None]
    """Package → installed version; None: missing."""
    lowest: dict[str, str] = field(default_factory=dict)
    """Package → lowest supported version; packages without one are left out."""

    @property
    def is_installed(self) -> bool:
        """Whether all packages are installed."""
        return all(self.packages.values())

    @property
    def command(self) -> str:
        """The command that installs the extra."""
        return command_for(self.name)

    def lacking(self) -> list[str]:
        """Return the missing and outdated packages as requirements: `rich`, `pydantic>=2.10`."""
        return [
            f"{name}>={self.lowest[name]}" if installed else name
            for name, installed in self.packages.items()
            if not installed or _release(installed) < _release(self.lowest.get(name, ""))
        ]


def extras() -> list[Extra]:
    """Return every extra, in the order of the package metadata."""
    by_name: dict[str, Extra] = {}
    for requirement in requires(_PACKAGE) or ():
        if match := _REQUIREMENT.match(requirement):
            package, lowest, name = match.groups()
            extra = by_name.setdefault(name, Extra(name, {}, {}))
            extra.packages[package] = _version(package)
            if lowest:
                extra.lowest[package] = lowest
    return list(by_name.values())


def command_for(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{_PACKAGE}[{extra}]'"


def check_extra(name: str, what: str, instead: str = "") -> None:
    """Check that an extra is installed, without importing it; about 5 ms.

    Args:
        name: The extra.
        what: The feature that needs it, in the singular; starts the message.
        instead: An alternative without the extra; ends the message.

    Raises:
        BackendError: a package is missing or too old; names it and the command that installs it.
    """
    for extra in extras():
        if extra.name == name and (lacking := extra.lacking()):
            raise _missing(name, what, f"{', '.join(lacking)}, not installed here", instead)


@contextmanager
def require(name: str, what: str, instead: str = "") -> Iterator[None]:
    """Import the packages of an extra: `with require("redis", "a cache server"): ...`.

    The arguments are those of `check_extra`.

    Raises:
        BackendError: the import fails; names the reason and the command that installs the extra.
    """
    try:
        yield
    except ImportError as error:
        problem = f"{(error.name or name).partition('.')[0]}, not installed here"
        if not isinstance(error, ModuleNotFoundError):
            problem = f"{name}, which cannot be imported ({first_line(error)[:200]})"
        raise _missing(name, what, problem, instead) from error


def _missing(name: str, what: str, problem: str, instead: str) -> BackendError:
    end = f", or {instead}" if instead else ""
    return BackendError(f"{what} needs {problem}; {command_for(name)}{end}")


def _release(text: str) -> tuple[int, ...]:
    """Return the release numbers of a version: "2.10.0rc1" is (2, 10, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
