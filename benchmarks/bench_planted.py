"""Does `headrace profile` name the planted bottleneck of a loop, also on a busy machine?

python -m benchmarks.bench_planted --only "slow decoding" "GIL"    # a first look
python -m benchmarks.bench_planted                                 # the full run, half an hour

Each loop of `planted_work.py` is profiled by the command that a user types, on a quiet machine and
beside two programs that compute. If the advised change can be made, its speedup is measured on the
quiet machine, interleaved.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from benchmarks import planted_work
from benchmarks.kit import Benchmark
from benchmarks.markdown import machine, rendered
from benchmarks.media import DEFAULT_ROOT, paths
from benchmarks.planted_work import OWN, PLANTED, Loop, Planted, change_of
from benchmarks.record import Rows, Tried, origin
from benchmarks.worker import headrace_command
from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.loop_simulation import loop_seconds
from headrace.profiling.findings.verdict import find
from headrace.profiling.provenance import Record
from headrace.profiling.session import Session
from headrace.report.benchmark_page import render_benchmark_text
from headrace.report.ranks_page import RanksRecord, ranks_page
from headrace.report.text import render_verdict

BUSY_PROGRAMS: Final = 2
_TOLERANCE: Final = 0.25
"""Relative error of a good prediction."""
_MAX_SECONDS: Final = 300.0
_TORCHRUN: Final = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
_SPIN: Final = "while True: pass"


@dataclass(frozen=True)
class Profiled:
    """Profile of the longest loop of a script, or of all its ranks."""

    session: Session
    """Session of the longest loop, or of the late rank."""
    findings: tuple[Finding, ...]
    text: str

    @property
    def seconds(self) -> float:
        """Duration of the loop."""
        return loop_seconds(self.session)


class Judged(Record):
    """Verdict on one run."""

    headline: str
    bound_by: tuple[str, ...]
    cause: str
    is_right: bool
    is_qualified: bool
    """Whether the verdict states that the machine was busy."""
    others_cpu_share: float | None = None
    step_ms: float
    """Mean time of a step, waits included."""

    @property
    def named(self) -> str:
        """Bottleneck and cause."""
        return ": ".join(filter(None, [", ".join(self.bound_by), self.cause]))


class PlantedRow(Tried):
    """One planted loop."""

    name: str
    quiet: Judged | None = None
    busy: Judged | None = None
    change: str = ""
    """Advised change of the quiet run with the largest predicted speedup or upper bound; empty: no
    advice."""
    predicted: float | None = None
    bound: Literal["", "≥ ", "≤ "] = ""
    """Whether the prediction is a lower or an upper bound of the speedup."""
    came: tuple[float, ...] = ()
    """Measured speedups; empty: the change was not made."""

    @property
    def is_near(self) -> bool | None:
        """Whether the measured speedup is within the bound, or near the prediction; None without a
        prediction or a measurement."""
        if not self.predicted or not self.came:
            return None
        ratio = self.predicted / median(self.came)
        bounds = {"≥ ": ratio <= 1, "≤ ": ratio >= 1, "": abs(ratio - 1) <= _TOLERANCE}
        return bounds[self.bound]

    @property
    def progress(self) -> str:
        """The verdicts, as printed."""
        verdicts = [f"{run.headline} ({_mark(run)})" for run in (self.quiet, self.busy) if run]
        gains = f"; {self.change}: {self.predicted} predicted, {self.came} measured"
        return " | ".join(verdicts) + (gains if self.came else "")


def measure(
    *,
    media: Path = DEFAULT_ROOT,
    only: tuple[str, ...] = tuple(PLANTED),
    repeats: int = 2,
    quiet: bool = False,
) -> Iterator[Rows[PlantedRow]]:
    """Profile each loop on a quiet and a busy machine, and try the advised change.

    Args:
        media: folder of the videos
        only: loops to profile
        repeats: pairs of runs without and with the change
        quiet: skip the runs beside programs that compute
    """
    video = str(paths(media, "web", 1)[0])
    result = Rows[PlantedRow](provenance=origin(repeats=repeats, busy=BUSY_PROGRAMS))
    for name in only:
        row = _try_loop(PlantedRow(name=name), video, repeats, is_busy=not quiet)
        print(f"{name}: {row.failure or row.progress}", flush=True)
        result = result.plus(row)
        yield result


def _try_loop(row: PlantedRow, video: str, repeats: int, *, is_busy: bool) -> PlantedRow:
    planted = PLANTED[row.name]
    fields = {"video": video} if planted.loop.video else {}
    try:
        before = _profile(row.name, fields)
        row = row.model_copy(update={"quiet": _judge(planted, before)})
        row = _try_change(row, planted.loop, fields, before, repeats)
        if is_busy:
            with busy_machine():
                disturbed = _profile(row.name, fields)
            row = row.model_copy(update={"busy": _judge(planted, disturbed)})
    except (subprocess.SubprocessError, RuntimeError) as error:
        return row.failed(str(error))
    return row


def _try_change(
    row: PlantedRow, loop: Loop, fields: Mapping[str, Any], before: Profiled, repeats: int
) -> PlantedRow:
    advised = [finding.advice for finding in before.findings if finding.advice is not None]
    changes = [change for change in advised if change.gain or change.options]
    if not changes:
        return row
    change = max(changes, key=lambda change: change.gain or change.most or 0.0)
    bound = "≤ " if not change.gain else "≥ " if change.is_least else ""
    predicted = change.gain or change.most
    row = row.model_copy(update={"change": change.words, "predicted": predicted, "bound": bound})
    changed = change_of(loop, change.words, dict(change.options))
    if changed is None:
        return row
    came = []
    for number in range(repeats):
        first = _profile(row.name, fields) if number else before
        after = _profile(row.name, {**fields, **changed})
        came.append(first.seconds / after.seconds)
    return row.model_copy(update={"came": tuple(came)})


def _profile(name: str, fields: Mapping[str, Any]) -> Profiled:
    """Return the profile of a planted script."""
    script, is_launch = Path(planted_work.__file__), PLANTED[name].loop.framework == "torchrun"
    with TemporaryDirectory() as folder:
        out = Path(folder) / "loops.json"
        words = [*(_TORCHRUN if is_launch else ()), str(script), name]
        words = [sys.executable, *words, "--fields", json.dumps(dict(fields))]
        command = headrace_command("profile", "--json", out, "--", *words)
        environment = {**os.environ, "TMPDIR": folder, "PYTHONUNBUFFERED": "1"}
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=_MAX_SECONDS, env=environment
        )
        if run.returncode:
            raise RuntimeError(f"{name}: {run.stderr[-500:]}")
        if is_launch:
            record = RanksRecord.model_validate_json(out.read_bytes())
            page = ranks_page(record)
            return Profiled(record.ranks[1], page.findings, render_benchmark_text(page))
        loops = json.loads(out.read_text()) if out.exists() else []
        saved = [*(Path(folder) / OWN).glob("session.json")]
        sessions = [*map(Session.model_validate, loops), *map(Session.load, saved)]
    longest = max(sessions, key=lambda session: session.wall_seconds)
    return Profiled(longest, tuple(find(longest)), render_verdict(longest))


def _judge(planted: Planted, profiled: Profiled) -> Judged:
    """Return the verdict: right if it has the planted bottleneck, cause and words."""
    first, session = profiled.findings[0], profiled.session
    has_cause = first.bound_by != ("step",) or first.cause == planted.cause
    return Judged(
        headline=first.headline,
        bound_by=first.bound_by,
        cause=first.cause,
        is_right=bool({*first.bound_by} & {*planted.bound_by})
        and has_cause
        and planted.words in " ".join(profiled.text.split()),
        is_qualified="machine lets" in first.headline or "without waits" in first.headline,
        others_cpu_share=session.others_cpu_share,
        step_ms=1e3 * profiled.seconds / max(1, len(session.steps)),
    )


_START: Final = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]])"
"""Program that starts another program and ends."""
_UNTIL_CLOSED: Final = """
import sys, threading
threading.Thread(target=exec, args=(sys.argv[1], {}), daemon=True).start()
sys.stdin.read()
"""
"""Program that runs a script until its stdin is closed."""


@contextmanager
def busy_machine(script: str = _SPIN) -> Iterator[None]:
    """Run `script` in other processes during the block; the default computes all the time.

    The processes are not children of this one, so its CPU time does not include theirs.
    """
    with ExitStack() as programs:
        for _ in range(BUSY_PROGRAMS):
            words = [sys.executable, "-c", _START, _UNTIL_CLOSED, script]
            starter = subprocess.Popen(words, stdin=subprocess.PIPE)
            assert starter.stdin is not None
            programs.callback(starter.stdin.close)
            starter.wait()
        yield


def _mark(run: Judged | None) -> str:
    if run is None:
        return "–"
    return "right" if run.is_right else "wrong, qualified" if run.is_qualified else "wrong"


def text(result: Rows[PlantedRow]) -> str:
    """Return a line per loop, and counts of right verdicts and predictions."""
    rows = [row for row in result.rows if row.is_sound]
    counts = [
        f"{sum(bool(run and run.is_right) for run in runs)} of {len(runs)} {name}"
        for name, runs in (
            ("on the quiet machine", [row.quiet for row in rows if row.quiet]),
            (f"beside {BUSY_PROGRAMS} busy programs", [row.busy for row in rows if row.busy]),
        )
    ]
    good, bounds = (
        [row.is_near for row in rows if row.is_near is not None and bool(row.bound) == is_bound]
        for is_bound in (False, True)
    )
    unqualified = sum(not (row.busy.is_right or row.busy.is_qualified) for row in rows if row.busy)
    return rendered(
        result.rows,
        {
            "planted": lambda row: row.name,
            "reported": lambda row: row.quiet.named if row.quiet else "–",
            "quiet": lambda row: _mark(row.quiet),
            "busy": lambda row: _mark(row.busy),
            "advised change": lambda row: f"`{row.change}`" if row.change else "–",
            "predicted speedup": lambda row: (
                f"{row.bound}{row.predicted:.2f}" if row.predicted else "–"
            ),
            "measured": lambda row: f"{median(row.came):.2f}" if row.came else "–",
        },
        f"Right verdicts: {', '.join(counts)}; {unqualified} wrong without a qualification on the "
        f"busy machine. Predictions within {_TOLERANCE:.0%} of the measured speedup: {sum(good)} "
        f"of {len(good)}; bounds that hold: {sum(bounds)} of {len(bounds)}. {machine(result)}",
    )


BENCHMARK = Benchmark("planted", __doc__ or "", measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
