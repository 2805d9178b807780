"""Which optional parts of headrace are installed, and what adds the others."""

import re
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version

from headrace.errors import BackendError

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
        return f"pip install '{_PACKAGE}[{self.name}]'"

    def lacking(self) -> list[str]:
        """Return what is missing or too old, each in words: `rich`, `pydantic>=2.10`."""
        return [
            f"{name}>={self.lowest[name]}" if found else name
            for name, found in self.packages.items()
            if not found or _numbers(found) < _numbers(self.lowest.get(name, ""))
        ]


def extras() -> list[Extra]:
    """Return every extra headrace has, in the order of its metadata."""
    found: dict[str, Extra] = {}
    for requirement in requires(_PACKAGE) or ():
        if said := _REQUIREMENT.match(requirement):
            package, lowest, name = said.groups()
            extra = found.setdefault(name, Extra(name, {}, {}))
            extra.packages[package] = _version(package)
            if lowest:
                extra.lowest[package] = lowest
    return list(found.values())


def check_run(what: str) -> None:
    """Do nothing if the extra `run` is there, which commands and reports need. Some 5 ms.

    Args:
        what: What needs it; it begins a sentence.

    Raises:
        BackendError: a package is missing or too old; says which, and what adds it.
    """
    for extra in extras():
        if extra.name == "run" and (lacking := extra.lacking()):
            raise BackendError(
                f"{what} needs {', '.join(lacking)}, not installed here; {extra.command}"
            )


def _numbers(text: str) -> tuple[int, ...]:
    """Return the release that a version begins with: "2.10.0rc1" is (2, 10, 0)."""
    said = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in said[0].split(".")) if said else ()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
