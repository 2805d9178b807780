"""Finding the folder of a run where somebody names it, or saying what lies there instead."""

from pathlib import Path
from typing import Final

from headrace.errors import ConfigError

_SHOWN: Final = 4
"""Runs that are named to somebody who gave the folder above them."""


def run_folder(given: Path) -> Path:
    """Return the folder of a run, given it or its `session.json`.

    Raises:
        ConfigError: there are several runs in it, or results of `headrace bench`. A folder that
            holds neither is returned as it is.
    """
    from headrace.bench.registry import BENCHMARKS
    from headrace.report.folder import SESSION

    if given.name == SESSION:
        return given.parent
    if (given / SESSION).is_file():
        return given
    runs = sorted(path.parent for path in given.glob(f"*/{SESSION}"))
    if runs:
        named = " ".join(map(str, runs[:_SHOWN])) + (" ..." if len(runs) > _SHOWN else "")
        raise ConfigError(f"{given} is no run, but holds {len(runs)}; give those: {named}")
    found = [each.name for each in BENCHMARKS if _is_of(each.name, given)]
    if found:
        raise ConfigError(
            f"{given} holds what headrace bench {found[0]} found, and no run; give folders of "
            "headrace run, of watch --out, or of the workers of a launch"
        )
    return given


def _is_of(benchmark: str, given: Path) -> bool:
    name = f"{benchmark}.json"
    return given.name == name or (given / name).is_file()
