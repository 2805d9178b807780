"""One environment of the release check: made empty, installed into, measured, tried and removed."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROBES = Path(__file__).with_name("release_probes.py")
ADDS = "pip install 'headrace[{}]'"
"""End of a message about a missing extra."""
LIMIT_SECONDS = 900
"""After this long a step has failed; a download of PyTorch takes one to three minutes."""


@dataclass(frozen=True)
class Environment:
    """What is installed with which Python and installer."""

    python: str
    """Version: "3.11"."""
    installer: str
    """`uv` or `pip`."""
    extras: tuple[str, ...] = ()
    steps: tuple[str, ...] = ("import", "help", "doctor", "example")
    """What is run after the installation: names of `STEPS`."""
    is_sdist: bool = False
    """Whether the sdist is installed rather than the wheel."""
    has_torch: bool = False
    """Whether PyTorch is there before, by uv and its cache: pip keeps no unpacked wheels."""

    @property
    def name(self) -> str:
        """Python, installer and what is installed."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        kind = " sdist" if self.is_sdist else ""
        return f"{self.python} {self.installer:3} headrace{extras}{kind}"


@dataclass(frozen=True)
class Step:
    """Something that was run."""

    name: str
    problem: str
    """Empty: it went well."""
    seconds: float


@dataclass
class Outcome:
    """What came of an environment."""

    environment: Environment
    steps: list[Step] = field(default_factory=list)
    packages: dict[str, int] = field(default_factory=dict)
    """Installed package → bytes of its files."""
    skipped: str = ""
    """Why nothing was run."""

    @property
    def problems(self) -> list[str]:
        """Problems, each with the name of its step."""
        return [f"{step.name}: {step.problem}" for step in self.steps if step.problem]

    @property
    def seconds(self) -> float:
        """Seconds of all steps."""
        return sum(step.seconds for step in self.steps)


@dataclass(frozen=True)
class Place:
    """Where environments are made, and what they share."""

    folder: Path
    """Of this check alone; removed with it."""
    wheel: Path
    sdist: Path
    source: Path
    """The unpacked sdist."""
    version: str
    readme: str
    """Text of README.md."""


@dataclass(frozen=True)
class Trial:
    """An environment that is being tried."""

    environment: Environment
    place: Place
    root: Path
    """Folder of the environment; reused by a later one, so that its bytecode is found again."""
    interpreter: Path

    def try_it(self) -> Outcome:
        """Install, run every step, also after one that fails, and remove the environment."""
        outcome = Outcome(self.environment)
        work = self.root.with_name(f"{self.root.name}-work")
        work.mkdir()
        try:
            outcome.steps.append(self._timed("install", self._install))
            if not outcome.problems:
                outcome.steps.append(self._timed("packages", _measure, self, outcome))
                for name in self.environment.steps:
                    outcome.steps.append(self._timed(name, STEPS[name], self))
        finally:
            shutil.rmtree(self.root, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)
        return outcome

    def _timed(self, name: str, call: Callable[..., None], *given: object) -> Step:
        start, problem = time.monotonic(), ""
        try:
            call(*given)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        return Step(name, problem, time.monotonic() - start)

    def _install(self) -> None:
        environment, place = self.environment, self.place
        self.run(self.interpreter, "-m", "venv", *self._without_pip(), self.root)
        if environment.has_torch:
            self._uv("torch", *(["torchvision"] if "run" in environment.extras else []))
        extras = f"[{','.join(environment.extras)}]" if environment.extras else ""
        wanted = f"headrace{extras} @ {self._built(place).as_uri()}"
        if environment.installer == "uv":
            self._uv(wanted)
        else:
            self._python("-m", "pip", "install", "--quiet", "--no-cache-dir", wanted)

    def _without_pip(self) -> tuple[str, ...]:
        return ("--without-pip",) if self.environment.installer == "uv" else ()

    def _built(self, place: Place) -> Path:
        return place.sdist if self.environment.is_sdist else place.wheel

    def _uv(self, *wanted: str) -> None:
        uv = Path(sys.executable).with_name("uv")
        self.run(uv, "pip", "install", "--quiet", "--python", self.root, *wanted)

    def _python(self, *words: object) -> str:
        return self.run(self.root / "bin" / "python", *words)

    def command(self, *words: object, code: int = 0) -> str:
        """Return what `headrace` prints on both streams."""
        return self.run(self.root / "bin" / "headrace", *words, code=code)

    def run(self, *words: object, code: int = 0, folder: Path | None = None) -> str:
        """Return what a program prints on both streams.

        Raises:
            AssertionError: another exit code than `code`; with the last lines.
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
        kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        cache = (
            {"UV_CACHE_DIR": str(self.place.folder / "uv")} if "UV_CACHE_DIR" not in kept else {}
        )
        return {
            **kept,
            **cache,
            "XDG_CACHE_HOME": str(work / "cache"),
            "PYTHONPYCACHEPREFIX": str(self.place.folder / "bytecode"),
            "COLUMNS": "80",
        }

    def probe(self, name: str, *words: object) -> str:
        """Return what a function of `release_probes.py` prints."""
        return self._python(PROBES, name, *words)


def _measure(trial: Trial, outcome: Outcome) -> None:
    outcome.packages = json.loads(trial.probe("packages"))


def _import(trial: Trial) -> None:
    """The version is that of pyproject.toml; each extra that was asked for is complete."""
    printed = trial.probe("versions", *trial.environment.extras)
    assert printed.strip() == trial.place.version, f"version {printed}"


def _help(trial: Trial) -> None:
    _expect(trial, "--help", "Commands:")


def _doctor(trial: Trial) -> None:
    _expect(trial, "doctor", "Extras")


def _expect(trial: Trial, word: str, words: str) -> None:
    """With the extra `run` the command prints `words`; without it, what adds it."""
    if "run" in trial.environment.extras:
        assert words in trial.command(word)
    else:
        printed = trial.command(word, code=1).strip()
        assert printed.endswith(ADDS.format("run")), printed


def _example(trial: Trial) -> None:
    """The first example of README.md prints a line for each batch of a drawn clip."""
    code = trial.place.readme.partition("```python\n")[2].partition("```")[0]
    assert code, "README.md holds no Python"
    printed = trial.probe("example", code)
    assert "torch.Size" in printed, printed


def _doors(trial: Trial) -> None:
    """What needs an extra says which one."""
    for name, said in json.loads(trial.probe("doors")).items():
        assert ADDS.format(name) in said, f"without the extra {name}: {said!r}"


def _demo(trial: Trial) -> None:
    printed = trial.command("demo", "--quiet")
    assert "Correct labels: 180 of 180 frames" in printed, printed[-500:]


def _tests(trial: Trial) -> None:
    """Tests of the sdist that draw their videos pass against what is installed."""
    paths = ("tests/planning", "tests/testing/test_demo.py")
    words = ("-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *paths)
    python = trial.root / "bin" / "python"
    assert " passed" in trial.run(python, *words, folder=trial.place.source)


STEPS: dict[str, Callable[[Trial], None]] = {
    "import": _import,
    "help": _help,
    "doctor": _doctor,
    "example": _example,
    "doors": _doors,
    "demo": _demo,
    "tests": _tests,
}
