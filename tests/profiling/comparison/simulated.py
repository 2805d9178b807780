"""Sessions whose steps resemble their neighbours, with service times that are known."""

import numpy as np

from headrace.profiling.steps import Steps
from report.recorded import record, step_of


def series(mean, seed, *, steps=200, likeness=0.5, spread=0.15):
    """Return float64 [steps]: values around a mean, each like the one before it by so much."""
    noise = np.random.default_rng(seed).normal(size=steps + 50)
    states = np.zeros(steps + 50)
    for k in range(1, steps + 50):
        states[k] = likeness * states[k - 1] + np.sqrt(1 - likeness**2) * noise[k]
    return mean * np.exp(spread * states[50:] - spread**2 / 2)


def session(seed, *, model_ms=100.0, steps=200, batch_size=16, likeness=0.5, **changes):
    """A session that its model bounds."""
    work = {
        "decode": series(30.0, [seed, 0], steps=steps, likeness=likeness),
        "preprocess": series(10.0, [seed, 1], steps=steps, likeness=likeness),
        "model": series(model_ms, [seed, 2], steps=steps, likeness=likeness),
        "sink": series(5.0, [seed, 3], steps=steps, likeness=likeness),
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
