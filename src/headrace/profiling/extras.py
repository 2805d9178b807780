"""Which optional parts of headrace are installed, and what adds the others."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

_PACKAGE = "headrace"


@dataclass(frozen=True)
class Extra:
    """One optional part and the packages it is made of."""

    name: str
    """The extra, as in `headrace[name]`."""
    packages: dict[str, str | None]
    """Package to its installed version; None where it is missing."""

    @property
    def is_installed(self) -> bool:
        """Whether all of it is there."""
        return all(self.packages.values())

    @property
    def command(self) -> str:
        """What adds it."""
        return f"pip install '{_PACKAGE}[{self.name}]'"


def extras() -> list[Extra]:
    """Return every extra headrace has, in the order of its metadata."""
    found: dict[str, dict[str, str | None]] = {}
    for requirement in requires(_PACKAGE) or ():
        package, _, condition = requirement.partition(";")
        if "extra ==" in condition:
            name = condition.split("extra ==")[1].strip(" '\"")
            plain = package.strip().split("[")[0].split("<")[0].split(">")[0].split("=")[0].strip()
            found.setdefault(name, {})[plain] = _version(plain)
    return [Extra(name, packages) for name, packages in found.items()]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
