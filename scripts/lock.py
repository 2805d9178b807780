"""Writes constraints.txt: the installed versions of all dependencies of headrace and its extras."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEADER = """\
# The versions `make` installs, for every extra; written by `make lock`.
# To change a version: pip install it into .venv, run `make lock`, then `make test`.
"""


def main() -> None:
    """Write the file; exit with an error if a dependency is not installed."""
    build = tomllib.loads(Path("pyproject.toml").read_text())["build-system"]["requires"]
    requirements = [
        *build,
        "editables",
        "headrace[run,dev,bench,parquet,safetensors,web,redis,ray,nvtx,tensorboard,trainers]",
    ]
    try:
        pins = _pin_all([Requirement(text) for text in requirements])
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed; run make setup bench-setup")
    del pins["headrace"]
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    Path("constraints.txt").write_text(HEADER + "".join(lines))


def _pin_all(pending: list[Requirement]) -> dict[str, str]:
    """Return name → installed version of the requirements and all their dependencies."""
    pins: dict[str, str] = {}
    seen: set[str] = set()
    while pending:
        requirement = pending.pop()
        if str(requirement) in seen or not _applies(requirement, {""}):
            continue
        seen.add(str(requirement))
        installed = distribution(requirement.name)
        pins[canonicalize_name(requirement.name)] = installed.version
        for text in installed.requires or ():
            dependency = Requirement(text)
            if _applies(dependency, requirement.extras | {""}):
                dependency.marker = None
                pending.append(dependency)
    return pins


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


if __name__ == "__main__":
    main()
