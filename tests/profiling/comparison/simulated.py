"""Simulated sessions with known service times and correlated steps."""

import numpy as np

from headrace.profiling.session import Steps
from report.recorded import record, step_of


def series(mean, seed, *, steps=200, correlation=0.5, spread=0.15):
    """Return float64 [steps]: log-normal values; `correlation` is that of neighbors."""
    noise = np.random.default_rng(seed).normal(size=steps + 50)
    states = np.zeros(steps + 50)
    for k in range(1, steps + 50):
        states[k] = correlation * states[k - 1] + np.sqrt(1 - correlation**2) * noise[k]
    return mean * np.exp(spread * states[50:] - spread**2 / 2)


def session(
    seed,
    *,
    decode_ms=30.0,
    model_ms=100.0,
    steps=200,
    batch_size=16,
    correlation=0.5,
    spread=0.15,
    **changes,
):
    """Return a session that is bound by the model."""
    means = {"decode": decode_ms, "preprocess": 10.0, "model": model_ms, "sink": 5.0}
    work = {
        name: series(mean, [seed, place], steps=steps, correlation=correlation, spread=spread)
        for place, (name, mean) in enumerate(means.items())
    }
    ends = np.cumsum(work["model"]) + 200
    rows = Steps.of(
        step_of(
            k,
            frames=batch_size,
            started_ms=float(ends[k] - 150),
            work_ms={name: float(column[k]) for name, column in work.items()},
            total_ms=150.0,
        )
        for k in range(steps)
    )
    return record(steps=1, batch_size=batch_size).model_copy(
        update={"steps": rows, "warmup_steps": 0, **changes}
    )
