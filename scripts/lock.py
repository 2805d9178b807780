"""Writes constraints.txt: the installed version of everything headrace and its extras need."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEADER = """\
# The versions `make` installs, for every extra; written by `make lock`.
# To move one: pip install it into .venv, run `make lock`, then `make test`.
"""


def main() -> None:
    """Writes the file, or says what is not installed."""
    build = tomllib.loads(Path("pyproject.toml").read_text())["build-system"]["requires"]
    wanted = [
        *build,
        "editables",
        "headrace[run,dev,bench,parquet,safetensors,web,redis,ray,nvtx,tensorboard,trainers]",
    ]
    try:
        pins = _closure([Requirement(text) for text in wanted])
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is needed and not installed; run make setup bench-setup")
    del pins["headrace"]
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    Path("constraints.txt").write_text(HEADER + "".join(lines))


def _closure(wanted: list[Requirement]) -> dict[str, str]:
    """Name → version of what `wanted` needs here, directly or not."""
    pins: dict[str, str] = {}
    seen: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        if str(requirement) in seen or not _applies(requirement, {""}):
            continue
        seen.add(str(requirement))
        found = distribution(requirement.name)
        pins[canonicalize_name(requirement.name)] = found.version
        for text in found.requires or ():
            inner = Requirement(text)
            if _applies(inner, requirement.extras | {""}):
                inner.marker = None
                wanted.append(inner)
    return pins


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


if __name__ == "__main__":
    main()
