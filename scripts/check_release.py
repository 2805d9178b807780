"""Installs the wheel and the sdist into empty environments, and tests them there.

python -m scripts.check_release                  # this Python: all extras, by uv and pip; other
                                                 # Pythons: headrace and headrace[run], by uv
python -m scripts.check_release --full           # every Python: all extras; pip installs PyTorch
python -m scripts.check_release --only redis     # environments with this text in their name

Needs the tools of requirements-release.txt. Downloads PyTorch into a cache in build/, and removes
cache and environments at the end; they take up to 12 GB. UV_CACHE_DIR sets a persistent cache.
Exit codes: 0 success, 1 a check failed, 2 usage error, 3 nothing was checked.
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

from scripts.release import ROOT, ReleaseError, build, find_tool, project_version
from scripts.release_environment import Artifacts, Check, Environment, Outcome
from scripts.release_sizes import with_sizes

NEEDED_BYTES = 12 * 10**9
"""Free disk space that a check needs."""
RUNNING_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
FAILED, NOT_CHECKED = 1, 3
_CLASSIFIER = "Programming Language :: Python :: "


def main(words: list[str] | None = None) -> None:
    """Check the release, print a table, and exit with the code of the result."""
    options = _parser().parse_args(words)
    planned = plan(full=options.full)
    environments = [environment for environment in planned if options.only in environment.name]
    if not environments:
        names = "\n".join(f"  {environment.name}" for environment in planned)
        _parser().error(f"--only {options.only!r} matches none of these:\n{names}")
    build_folder = ROOT / "build"
    build_folder.mkdir(exist_ok=True)
    try:
        find_tool("uv")
        free = shutil.disk_usage(build_folder).free
        if free < NEEDED_BYTES:
            raise ReleaseError(
                f"{build_folder} has {free / 1e9:.1f} GB of free disk space, and the check needs "
                f"{NEEDED_BYTES / 1e9:.0f} GB"
            )
        with TemporaryDirectory(prefix="release-check-", dir=build_folder) as folder:
            artifacts = _build_artifacts(Path(folder))
            sizes = {
                "wheel": artifacts.wheel.stat().st_size,
                "sdist": artifacts.sdist.stat().st_size,
            }
            outcomes = check_all(environments, artifacts, options.jobs)
    except ReleaseError as error:
        print(f"check_release: {error}", file=sys.stderr)
        sys.exit(NOT_CHECKED)
    if options.json:
        print(json.dumps({"sizes": sizes, "environments": list(map(facts, outcomes))}))
    else:
        print(table(outcomes))
    if options.page:
        page = options.page.read_text("utf-8")
        options.page.write_text(with_sizes(page, sizes, outcomes), "utf-8")
    sys.exit(exit_code(outcomes))


def plan(*, full: bool) -> list[Environment]:
    """Return the environments to check, those of the running Python first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pythons = [
        classifier.removeprefix(_CLASSIFIER)
        for classifier in project["classifiers"]
        if classifier.startswith(f"{_CLASSIFIER}3.")
    ]
    other_extras = [(name,) for name in project["optional-dependencies"] if name != "run"]
    environments = list[Environment]()
    for python in sorted(pythons, key=lambda python: python != RUNNING_PYTHON):
        steps = Environment.steps
        environments += [
            Environment(python, "uv"),
            Environment(python, "uv", ("run",), (*steps, "missing extras")),
        ]
        if full or python == RUNNING_PYTHON:
            environments.append(
                Environment(python, "uv", ("run", "dev"), (*steps, "tests"), is_sdist=True)
            )
            extra_steps = steps if full else ("import",)
            environments += [
                Environment(python, "uv", extras, extra_steps) for extras in other_extras
            ]
            environments += [
                Environment(python, "pip", has_torch=not full),
                Environment(python, "pip", ("run",), (*steps, "demo"), has_torch=not full),
            ]
    return environments


def find_interpreter(python: str) -> Path | None:
    """Return a working interpreter of a version, from PATH or pyenv."""
    on_path = shutil.which(f"python{python}")
    in_pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{python}.*/bin/python"))
    running = [Path(sys.executable)] if python == RUNNING_PYTHON else []
    for path in [*running, *([Path(on_path)] if on_path else []), *reversed(in_pyenv)]:
        command = [path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout.strip() == python:
            return path
    return None


def check_all(environments: list[Environment], artifacts: Artifacts, jobs: int) -> list[Outcome]:
    """Return the outcome of each environment, in order; `jobs` of them are checked in parallel."""
    pythons = {environment.python for environment in environments}
    interpreters = {python: find_interpreter(python) for python in pythons}
    slots = SimpleQueue[int]()
    for slot in range(jobs):
        slots.put(slot)

    def check(environment: Environment) -> Outcome:
        interpreter = interpreters[environment.python]
        if interpreter is None:
            return Outcome(environment, skipped=f"no Python {environment.python} on this machine")
        slot = slots.get()
        try:
            root = artifacts.folder / f"environment-{slot}"
            outcome = Check(environment, artifacts, root, interpreter).run_steps()
        finally:
            slots.put(slot)
        print(*row(outcome), sep="  ", file=sys.stderr, flush=True)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(check, environments))


def row(outcome: Outcome) -> tuple[str, str, str, str]:
    """Return environment, steps, result and seconds."""
    name = outcome.environment.name
    if outcome.skipped:
        return name, "-", f"SKIPPED: {outcome.skipped}", "-"
    steps = ", ".join(step.name for step in outcome.steps)
    result = "FAILED" if outcome.problems else "ok"
    return name, steps, result, f"{outcome.seconds:.0f}"


def table(outcomes: list[Outcome]) -> str:
    """Return a line per environment, the count of results, and all problems."""
    rows = [("environment", "steps", "result", "seconds"), *map(row, outcomes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, values, widths)).rstrip() for values in rows]
    skipped = sum(bool(outcome.skipped) for outcome in outcomes)
    failed = [outcome for outcome in outcomes if outcome.problems]
    passed = len(outcomes) - skipped - len(failed)
    lines.append(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    for outcome in failed:
        lines += [f"\n{outcome.environment.name}\n{problem}" for problem in outcome.problems]
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
    """Return the exit code; a missing Python is not a failure, unless nothing was checked."""
    if any(outcome.problems for outcome in outcomes):
        return FAILED
    return NOT_CHECKED if all(outcome.skipped for outcome in outcomes) else 0


def _build_artifacts(folder: Path) -> Artifacts:
    wheel, sdist = build(folder / "dist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    version = project_version()
    return Artifacts(
        folder=folder,
        wheel=wheel,
        sdist=sdist,
        source=folder / f"headrace-{version}",
        version=version,
        readme=(ROOT / "README.md").read_text("utf-8"),
    )


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m scripts.check_release",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--full", action="store_true", help="check all extras and pip on every Python"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="check environments with this text in their name"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="number of parallel environments; 2 by default"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="page to write the sizes to")
    return parser


if __name__ == "__main__":
    main()
