"""One environment of the release check: created, installed into, measured, checked, removed."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from scripts.release import find_tool

PROBES = Path(__file__).with_name("release_probes.py")
INSTALL_EXTRA = "pip install 'headrace[{}]'"
"""End of the error for a missing extra."""
LIMIT_SECONDS = 900
"""Time limit of a step; downloading PyTorch takes one to three minutes."""


@dataclass(frozen=True)
class Environment:
    """Python, installer and extras of an installation, and its checks."""

    python: str
    """Version, such as "3.11"."""
    installer: str
    """`uv` or `pip`."""
    extras: tuple[str, ...] = ()
    steps: tuple[str, ...] = ("import", "help", "doctor", "example")
    """Checks after the installation: names of `STEPS`."""
    is_sdist: bool = False
    """Whether to install the sdist instead of the wheel."""
    has_torch: bool = False
    """Whether uv installs PyTorch first, from its cache of unpacked wheels, which pip lacks."""

    @property
    def name(self) -> str:
        """Python, installer and extras as text."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        kind = " sdist" if self.is_sdist else ""
        return f"{self.python} {self.installer:3} headrace{extras}{kind}"


@dataclass(frozen=True)
class Step:
    """Result of one step."""

    name: str
    problem: str
    """Empty on success."""
    seconds: float


@dataclass
class Outcome:
    """Results of an environment."""

    environment: Environment
    steps: list[Step] = field(default_factory=list)
    packages: dict[str, int] = field(default_factory=dict)
    """Installed package → bytes of its files."""
    skipped: str = ""
    """Reason for which no step ran; empty if steps ran."""

    @property
    def problems(self) -> list[str]:
        """Problems, each with the name of its step."""
        return [f"{step.name}: {step.problem}" for step in self.steps if step.problem]

    @property
    def seconds(self) -> float:
        """Total seconds of the steps."""
        return sum(step.seconds for step in self.steps)


@dataclass(frozen=True)
class Artifacts:
    """Files under test, shared by all environments."""

    folder: Path
    """Temporary folder of the check, also for the environments."""
    wheel: Path
    sdist: Path
    source: Path
    """The unpacked sdist."""
    version: str
    readme: str
    """Text of README.md."""


@dataclass(frozen=True)
class Check:
    """Check of one environment."""

    environment: Environment
    artifacts: Artifacts
    root: Path
    """Folder of the environment; later environments reuse its path, and so its cached bytecode."""
    interpreter: Path

    def run_steps(self) -> Outcome:
        """Install, run every step, also after a failed one, and remove the environment."""
        outcome = Outcome(self.environment)
        work = self.root.with_name(f"{self.root.name}-work")
        work.mkdir()
        try:
            outcome.steps.append(self._run_step("install", self._install))
            if not outcome.problems:
                outcome.steps.append(self._run_step("packages", _measure, self, outcome))
                for name in self.environment.steps:
                    outcome.steps.append(self._run_step(name, STEPS[name], self))
        finally:
            shutil.rmtree(self.root, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)
        return outcome

    def _run_step(self, name: str, call: Callable[..., None], *arguments: object) -> Step:
        start, problem = time.monotonic(), ""
        try:
            call(*arguments)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        return Step(name, problem, time.monotonic() - start)

    def _install(self) -> None:
        environment, artifacts = self.environment, self.artifacts
        is_uv = environment.installer == "uv"
        self.run(self.interpreter, "-m", "venv", *(["--without-pip"] if is_uv else []), self.root)
        if environment.has_torch:
            self._install_by_uv("torch", *(["torchvision"] if "run" in environment.extras else []))
        extras = f"[{','.join(environment.extras)}]" if environment.extras else ""
        file = artifacts.sdist if environment.is_sdist else artifacts.wheel
        requirement = f"headrace{extras} @ {file.as_uri()}"
        if is_uv:
            self._install_by_uv(requirement)
        else:
            self._python("-m", "pip", "install", "--quiet", "--no-cache-dir", requirement)

    def _install_by_uv(self, *requirements: str) -> None:
        uv = find_tool("uv")
        self.run(uv, "pip", "install", "--quiet", "--python", self.root, *requirements)

    def _python(self, *words: object) -> str:
        return self.run(self.root / "bin" / "python", *words)

    def command(self, *words: object, code: int = 0) -> str:
        """Run `headrace`; return its stdout and stderr."""
        return self.run(self.root / "bin" / "headrace", *words, code=code)

    def run(self, *words: object, code: int = 0, folder: Path | None = None) -> str:
        """Run a program; return its stdout and stderr.

        Raises:
            AssertionError: the exit code is not `code`; the message has the last lines of output.
        """
        work = self.root.with_name(f"{self.root.name}-work")
        done = subprocess.run(
            [str(word) for word in words],
            cwd=folder or work,
            env=self._variables(work),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        command = f"{Path(str(words[0])).name} {' '.join(map(str, words[1:]))}"
        last = "\n".join(done.stdout.strip().splitlines()[-15:])
        assert done.returncode == code, f"{command}: exit code {done.returncode}\n{last}"
        return done.stdout

    def _variables(self, work: Path) -> dict[str, str]:
        folder = self.artifacts.folder
        return {
            "UV_CACHE_DIR": str(folder / "uv"),
            **{name: text for name, text in os.environ.items() if not name.startswith("PYTHON")},
            "XDG_CACHE_HOME": str(work / "cache"),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "COLUMNS": "80",
        }

    def probe(self, name: str, *words: object) -> str:
        """Return the output of a function of `release_probes.py`."""
        return self._python(PROBES, name, *words)


def _measure(check: Check, outcome: Outcome) -> None:
    outcome.packages = json.loads(check.probe("packages"))


def _check_import(check: Check) -> None:
    """The version is that of pyproject.toml, and the extras are complete."""
    output = check.probe("versions", *check.environment.extras)
    assert output.strip() == check.artifacts.version, f"version {output}"


def _check_command(check: Check, argument: str, text: str) -> None:
    """With the extra `run` the command prints `text`; without it, the fix of the missing extra."""
    if "run" in check.environment.extras:
        assert text in check.command(argument)
    else:
        output = check.command(argument, code=1).strip()
        assert output.endswith(INSTALL_EXTRA.format("run")), output


def _check_example(check: Check) -> None:
    """The first example of README.md prints a line per batch of a synthetic clip."""
    code = check.artifacts.readme.partition("```python\n")[2].partition("```")[0]
    assert code, "README.md has no Python block"
    output = check.probe("example", code)
    assert "torch.Size" in output, output


def _check_missing_extras(check: Check) -> None:
    """A command that needs a missing extra names it."""
    for name, output in json.loads(check.probe("missing_extras")).items():
        assert INSTALL_EXTRA.format(name) in output, f"without the extra {name}: {output!r}"


def _check_demo(check: Check) -> None:
    output = check.command("demo", "--quiet")
    assert "Correct labels: 180 of 180 frames" in output, output[-500:]


def _check_tests(check: Check) -> None:
    """Tests of the sdist that generate their videos pass on the installed package."""
    paths = ("tests/planning", "tests/testing/test_demo.py")
    words = ("-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *paths)
    python = check.root / "bin" / "python"
    assert " passed" in check.run(python, *words, folder=check.artifacts.source)


STEPS: dict[str, Callable[[Check], None]] = {
    "import": _check_import,
    "help": partial(_check_command, argument="--help", text="Commands:"),
    "doctor": partial(_check_command, argument="doctor", text="Extras"),
    "example": _check_example,
    "missing extras": _check_missing_extras,
    "demo": _check_demo,
    "tests": _check_tests,
}
"""Name → check of an environment."""
