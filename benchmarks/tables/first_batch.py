"""How long a loader takes until its first batches."""

from statistics import median

from benchmarks.record import TimedResult
from benchmarks.tables.markdown import machine, spread, table


def first_batch(result: TimedResult) -> str:
    """One line per kind of media and way; others are held to the first of their kind."""
    naive: dict[str, float] = {}
    lines = []
    for row in result.rows:
        if row.failure:
            lines.append([row.kind, row.name, row.failure, "", ""])
            continue
        firsts = [each.first_seconds or 0.0 for each in row.repeats]
        wholes = [each.wall_seconds for each in row.repeats]
        times = median(firsts) / naive.setdefault(row.kind, median(firsts))
        lines.append(
            [
                row.kind,
                row.name,
                f"{spread(firsts, '.2f')} s",
                f"{times:.2f}",
                f"{spread(wholes, '.2f')} s",
            ]
        )
    heads = ["media", "look-ahead", "first batch", "÷ naive", "first six"]
    return f"{table(heads, lines)}\n\nMedian (lowest–highest). {machine(result)}"
