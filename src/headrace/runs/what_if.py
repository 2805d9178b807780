"""Alternative settings of a run: measured after it, or applied as advised by its findings."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from headrace.profiling.findings.advice import LIGHTER_LEVEL
from headrace.profiling.findings.finding import Change
from headrace.profiling.findings.verdict import find, is_busy
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import TRIED, Scalar
from headrace.profiling.run_records import Alternative
from headrace.profiling.session import Session
from headrace.runs.run_options import RunOptions
from headrace.runtime.clock import Clock

Probe = Callable[[Mapping[str, Scalar], int], float | None]
"""(changed options, steps) → milliseconds per frame after start-up; None if the probe was
interrupted, failed, or was too short."""

_MAX_BATCH: Final = 64
"""Max batch size to measure or advise."""
_MIN_SECONDS, _MAX_SECONDS = 3.0, 8.0
"""Bounds of the time budget of all probes, in seconds."""
_SHARE, _MAX_SHARE = 0.1, 0.3
"""Time budget as a share of the run's time; the larger share only if nothing fits the smaller."""
_FRAMES_SHARE: Final = 0.7
"""Share of the budget for frames; the rest is for the start and stop of stages."""
_MIN_STEPS: Final = 4
"""Min steps of a probe; the first steps fill the stages."""


def measure_alternatives(
    session: Session, probe: Probe, *, frames: int, is_fixed: bool, clock: Clock
) -> Session:
    """Return the session, with measured alternatives to the settings of its bottleneck.

    Each probe is a complete short run, because the stages share the cores. The probes take a tenth
    of the run's time (three tenths if nothing fits otherwise), at least three and at most eight
    seconds. Nothing is measured if a GPU runs the model.

    Args:
        session: Record of the run.
        probe: Runs some steps with other options.
        frames: Frames of its videos.
        is_fixed: Whether batch size and threads are fixed, as for a compiled model.
        clock: Clock of the measurement.
    """
    rate = Metrics.of(session).fps_mean
    if session.outcome != "complete" or session.setup.device != "cpu" or not rate:
        return session
    wall, one_setting = session.wall_seconds, 3 * _MIN_STEPS * session.setup.batch_size / rate
    enough = min(one_setting / _FRAMES_SHARE, _MAX_SHARE * wall)
    budget_seconds = min(_MAX_SECONDS, max(_MIN_SECONDS, _SHARE * wall, enough))
    fixed = {"batch_size", "threads"} if is_fixed else set()
    possible = [changed for changed in settings(session) if not fixed & changed.keys()]
    prober = _Prober(probe, session.setup.batch_size, 1e3 / rate, frames, clock)
    alternatives = tuple(_measure(possible, prober, budget_seconds))
    return session.model_copy(update={"alternatives": alternatives})


def settings(session: Session) -> Iterator[dict[str, Scalar]]:
    """Yield settings that may remove the bottleneck of a session, the most promising first.

    A setting is the changed options by field name.
    """
    setup = session.setup
    bound = {stage for finding in find(session) for stage in finding.bound_by}
    if "model" in bound:
        for factor in (8, 2):
            if setup.batch_size * factor <= _MAX_BATCH:
                yield {"batch_size": setup.batch_size * factor}
        if (setup.threads or 1) > 1:
            yield {"threads": 1}
        if setup.batch_size >= _MAX_BATCH // 2:
            yield {"batch_size": setup.batch_size // 4}
    cheaper = LIGHTER_LEVEL.get(setup.prep_level or "")
    if "preprocess" in bound and cheaper:
        yield {"prep_level": cheaper}
    if "sink" in bound and setup.draws_video:
        yield {"video": False}


def option_text(changed: Mapping[str, Scalar]) -> str:
    """Return the command-line flag and value of a setting: `--batch-size 32`, `--no-video`."""
    [(name, value)] = changed.items()
    flag = name.replace("_", "-")
    return f"--no-{flag}" if value is False else f"--{flag} {value}"


@dataclass(frozen=True)
class _Prober:
    """Probe of a run, with the expected times of probes."""

    probe: Probe
    batch_size: int
    ms_per_frame: float
    frames: int
    clock: Clock

    def steps(self, options: Mapping[str, Scalar], seconds: float) -> int:
        """Return the steps of a probe; 0: the videos have too few frames."""
        size = int(options.get("batch_size") or self.batch_size)
        target = max(_MIN_STEPS, math.ceil(1e3 * seconds / self.ms_per_frame / size))
        steps = min(target, self.frames // size)
        return steps if steps >= _MIN_STEPS else 0

    def seconds(self, options: Mapping[str, Scalar], steps: int) -> float:
        """Return the expected time of a probe, at the speed of the run."""
        size = int(options.get("batch_size") or self.batch_size)
        return steps * size * self.ms_per_frame / 1e3


def _measure(
    settings: Sequence[Mapping[str, Scalar]], prober: _Prober, budget_seconds: float
) -> Iterator[Alternative]:
    """Yield the settings that fit the budget, each measured between two baseline probes."""
    stop_ns = prober.clock.now_ns() + round(budget_seconds * 1e9)
    probe_seconds = _FRAMES_SHARE * budget_seconds / (2 * len(settings) + 1)
    baseline_steps = prober.steps({}, probe_seconds)
    before = prober.probe({}, baseline_steps) if settings and baseline_steps else None
    for changed in settings:
        steps = prober.steps(changed, probe_seconds)
        needed = prober.seconds(changed, steps) + prober.seconds({}, baseline_steps)
        if before is None or prober.clock.now_ns() + needed * 1e9 > stop_ns:
            continue
        ms_per_frame = prober.probe(changed, steps) if steps else None
        after = prober.probe({}, baseline_steps) if ms_per_frame else None
        if ms_per_frame and after:
            yield Alternative(
                option=option_text(changed),
                options=dict(changed),
                ms_per_frame=ms_per_frame,
                baseline_ms_per_frame=(before + after) / 2,
            )
        before = after or before


def first_advised_change(options: RunOptions, session: Session) -> tuple[Change, RunOptions] | None:
    """Return the first advised change of options, and the options with it; None: there is none.

    The output folder of the changed options is `TRIED` in the folder of the first run. With a
    checkpoint, advice for another model is skipped: the weights would not fit.
    """
    has_checkpoint = options.compute.weights not in ("DEFAULT", "none")
    for finding in find(session):
        change = finding.advice
        if change is None or not change.options:
            continue
        if not ("model_name" in change.options and has_checkpoint):
            out = options.output.out / TRIED
            changed = change_options(options, change.options, out)
            return change, replace(changed, tried=change.words.partition(":")[0])
    return None


def describe_gain(change: Change, before: Session, after: Session) -> str:
    """Return `--no-video: 1.90 times as fast; 2.1 times were predicted.`

    The speedup is the ratio of frames per second after start-up, for two complete runs.
    """
    slow, fast = (Metrics.of(session).fps_mean for session in (before, after))
    measured = "the runs are too short to compare"
    if before.outcome == after.outcome == "complete" and slow is not None and fast is not None:
        measured = f"{fast / slow:.2f} times as fast"
        if any(is_busy(session.others_cpu_share) for session in (before, after)):
            measured = f"uncertain, since other programs used the processor; measured: {measured}"
    return f"{change.words.partition(':')[0]}: {measured}; {change.prediction}."


def change_options(options: RunOptions, changed: Mapping[str, Scalar], out: Path) -> RunOptions:
    """Return the options of a run with changes by field name, and with results in `out`.

    Custom sinks are removed: they would receive every result twice.
    """
    parts: dict[str, Any] = {
        part: _change_part(getattr(options, part), changed)
        for part in ("input", "compute", "output")
    }
    parts["output"] = replace(parts["output"], out=out, sinks=())
    return replace(options, **parts)


def _change_part(part: Any, changed: Mapping[str, Scalar]) -> Any:
    names = {field.name for field in fields(part)}
    if "batch_size" in names & changed.keys():
        # Use the given size, without another measurement.
        part = replace(part, execution=replace(part.execution, fit_batch=False))
    return replace(part, **{name: value for name, value in changed.items() if name in names})
