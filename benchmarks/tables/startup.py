"""How long it takes until headrace is there."""

from benchmarks.record import TimedResult
from benchmarks.tables.markdown import machine, spread, table


def startup(result: TimedResult) -> str:
    """One line per thing that was timed, in the order it was timed."""
    lines = []
    for row in result.rows:
        times = [1e3 * each.wall_seconds for each in row.repeats]
        lines.append([f"`{row.name}`", row.failure or f"{spread(times, '.1f')} ms"])
    notes = f"Median (lowest–highest). {machine(result)}"
    return f"{table(['what', 'time'], lines)}\n\n{notes}"
