"""Installs the wheel and the sdist into empty environments, and runs them there.

python -m scripts.check_release                  # with this Python all extras, by uv and pip; on
                                                 # the others headrace and headrace[run], by uv
python -m scripts.check_release --full           # all of it on every Python, pip from nothing
python -m scripts.check_release --only redis     # environments with this in their names

Needs the tools of requirements-release.txt. Downloads PyTorch into a cache under build/, which has
up to 12 GB with the environments, and removes both; UV_CACHE_DIR names a cache that stays.
Exit codes: 0 all went well, 1 something failed, 2 usage, 3 nothing was checked.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from scripts.release import ROOT, ReleaseError, build, project_version
from scripts.release_environment import Environment, Outcome, Place, Trial
from scripts.release_sizes import with_sizes

NEEDED_BYTES = 12 * 10**9
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
FAILED, NOT_CHECKED = 1, 3
_CLASSIFIER = "Programming Language :: Python :: "


def main(words: list[str] | None = None) -> None:
    """Check, and print a table; exit with 0 only where all went well."""
    typed = _parser().parse_args(words)
    chosen = [each for each in plan(full=typed.full) if typed.only in each.name]
    if not chosen:
        names = "\n".join(f"  {each.name}" for each in plan(full=typed.full))
        _parser().error(f"--only {typed.only!r} is in none of these:\n{names}")
    build_folder = ROOT / "build"
    build_folder.mkdir(exist_ok=True)
    free = shutil.disk_usage(build_folder).free
    if free < NEEDED_BYTES:
        print(f"{free / 1e9:.1f} GB free in {build_folder}, 12 GB are needed", file=sys.stderr)
        sys.exit(NOT_CHECKED)
    with TemporaryDirectory(prefix="release-check-", dir=build_folder) as folder:
        try:
            place = _place(Path(folder))
        except ReleaseError as error:
            print(f"check_release: {error}", file=sys.stderr)
            sys.exit(NOT_CHECKED)
        sizes = {"wheel": place.wheel.stat().st_size, "sdist": place.sdist.stat().st_size}
        outcomes = try_all(chosen, place, typed.jobs)
    if typed.json:
        print(json.dumps({"sizes": sizes, "environments": [facts(each) for each in outcomes]}))
    else:
        print(table(outcomes))
    if typed.page:
        typed.page.write_text(with_sizes(typed.page.read_text("utf-8"), sizes, outcomes), "utf-8")
    sys.exit(exit_code(outcomes))


def plan(*, full: bool) -> list[Environment]:
    """Return the environments, those of this Python first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pythons = [
        each.removeprefix(_CLASSIFIER)
        for each in project["classifiers"]
        if each.startswith(f"{_CLASSIFIER}3.")
    ]
    others = [(name,) for name in project["optional-dependencies"] if name != "run"]
    found = list[Environment]()
    for python in sorted(pythons, key=lambda python: python != OWN):
        steps = Environment.steps
        found += [
            Environment(python, "uv"),
            Environment(python, "uv", ("run",), (*steps, "doors")),
        ]
        if full or python == OWN:
            found.append(
                Environment(python, "uv", ("run", "dev"), (*steps, "tests"), is_sdist=True)
            )
            alone = steps if full else ("import",)
            found += [Environment(python, "uv", extras, alone) for extras in others]
            found += [
                Environment(python, "pip", has_torch=not full),
                Environment(python, "pip", ("run",), (*steps, "demo"), has_torch=not full),
            ]
    return found


def find_interpreter(python: str) -> Path | None:
    """Return an interpreter of this version that runs: of the path, or of pyenv."""
    of_path = shutil.which(f"python{python}")
    of_pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{python}.*/bin/python"))
    candidates = [Path(sys.executable)] if python == OWN else []
    for path in [*candidates, *([Path(of_path)] if of_path else []), *reversed(of_pyenv)]:
        command = [path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout.strip() == python:
            return path
    return None


def try_all(chosen: list[Environment], place: Place, jobs: int) -> list[Outcome]:
    """Return the outcome of each environment, in order; `jobs` of them are tried at once."""
    interpreters = {each.python: find_interpreter(each.python) for each in chosen}
    slots = SimpleQueue[int]()
    for slot in range(jobs):
        slots.put(slot)

    def outcome(environment: Environment) -> Outcome:
        interpreter = interpreters[environment.python]
        if interpreter is None:
            return Outcome(environment, skipped=f"no Python {environment.python} on this machine")
        slot = slots.get()
        try:
            root = place.folder / f"environment-{slot}"
            found = Trial(environment, place, root, interpreter).try_it()
        finally:
            slots.put(slot)
        print(*row(found), sep="  ", file=sys.stderr, flush=True)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(outcome, chosen))


def row(outcome: Outcome) -> tuple[str, str, str, str]:
    """Return environment, what was run, result and seconds."""
    name = outcome.environment.name
    if outcome.skipped:
        return name, "nothing", f"SKIPPED: {outcome.skipped}", "-"
    ran = ", ".join(step.name for step in outcome.steps)
    result = "FAILED" if outcome.problems else "ok"
    return name, ran, result, f"{outcome.seconds:.0f}"


def table(outcomes: list[Outcome]) -> str:
    """Return a line for each environment, the count of results, and all problems."""
    rows = [("environment", "was run", "result", "seconds"), *map(row, outcomes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]
    skipped = sum(bool(each.skipped) for each in outcomes)
    failed = [each for each in outcomes if each.problems]
    passed = len(outcomes) - skipped - len(failed)
    lines.append(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    lines += [f"\n{each.environment.name}\n{text}" for each in failed for text in each.problems]
    return "\n".join(lines)


def facts(outcome: Outcome) -> dict[str, object]:
    """Return an outcome for JSON."""
    result = "skipped" if outcome.skipped else "failed" if outcome.problems else "ok"
    return {
        **{"name": outcome.environment.name, "result": result, "skipped": outcome.skipped},
        "steps": [asdict(step) for step in outcome.steps],
        "packages": outcome.packages,
    }


def exit_code(outcomes: list[Outcome]) -> int:
    """Return the exit code; a missing Python is no failure, unless nothing was run at all."""
    if any(each.problems for each in outcomes):
        return FAILED
    return NOT_CHECKED if all(each.skipped for each in outcomes) else 0


def _place(folder: Path) -> Place:
    wheel, sdist = build(folder / "dist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    version = project_version()
    return Place(
        folder=folder,
        wheel=wheel,
        sdist=sdist,
        source=folder / f"headrace-{version}",
        version=version,
        readme=(ROOT / "README.md").read_text("utf-8"),
    )


def _parser() -> argparse.ArgumentParser:
    first, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m scripts.check_release",
        description=first,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help="all extras and pip on every Python")
    parser.add_argument("--only", default="", metavar="TEXT", help="environments so named")
    parser.add_argument("--jobs", type=int, default=2, help="environments at once; 2")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="page whose sizes are rewritten")
    return parser


if __name__ == "__main__":
    main()
