"""The summary of a check, at 80 columns."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from benchmarks.gpu_check.step import GpuCheckResult, StepRow

_WIDTH: Final = 80
_HEADS: Final = ("step", "outcome", "seconds")


def render(result: GpuCheckResult) -> str:
    """Return the whole summary, ending in a newline."""
    lines = [*_head(result), ""]
    names = max(len(row.name) for row in result.rows) if result.rows else 4
    lines.append(f"{_HEADS[0]:<{names}}  {_HEADS[1]:<11}  {_HEADS[2]:>7}")
    for row in result.rows:
        lines += _line(row, names)
    lines += ["", *_counted(result)]
    return "\n".join(lines) + "\n"


def line(row: StepRow) -> str:
    """Return what became of a step, for whoever waits for the next one."""
    took = "" if row.seconds is None else f", {row.seconds:.1f} s"
    return "\n".join(_wrapped(f"{row.name}: {row.outcome}{took}{_because(row)}", ""))


def _head(result: GpuCheckResult) -> Iterator[str]:
    made = result.provenance
    gpus = ", ".join(f"{gpu.name}, driver {gpu.driver or '?'}" for gpu in made.machine.gpus)
    yield from _wrapped(
        f"headrace {made.headrace} at {made.commit or '?'}, {made.created:%Y-%m-%d %H:%M} UTC", ""
    )
    yield from _wrapped(f"GPU {gpus or 'none'}; {made.machine.cpu}", "")
    if result.is_rehearsal:
        yield "A rehearsal on the CPU with small settings: it says nothing of a GPU."


def _line(row: StepRow, names: int) -> Iterator[str]:
    seconds = "-" if row.seconds is None else f"{row.seconds:.1f}"
    yield f"{row.name:<{names}}  {row.outcome:<11}  {seconds:>7}"
    said = row.said if row.outcome == "passed" else row.why or ""
    yield from _wrapped(said, "    ")
    yield from _table(row)
    for last in row.last_lines[-3:]:
        yield from _wrapped(f"| {last}", "    ")


def _table(row: StepRow) -> Iterator[str]:
    """Yield the step's table, its last columns left out where it is too wide."""
    if not row.rows:
        return
    columns = list(zip(row.heads, *row.rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    room, shown = _WIDTH - 6, 0
    for width in widths:
        if (room := room - width - 2) < -2 and shown:
            break
        shown += 1
    for cells in (row.heads, *row.rows):
        pairs = list(zip(cells, widths, strict=True))[:shown]
        first, *others = pairs
        text = "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in others)])
        yield f"      {text}"[:_WIDTH].rstrip()
    if shown < len(widths):
        yield f"      ({len(widths) - shown} more columns in the JSON)"


def _because(row: StepRow) -> str:
    said = row.said if row.outcome == "passed" else row.why
    return f": {said}" if said else ""


def _counted(result: GpuCheckResult) -> Iterator[str]:
    outcomes = [row.outcome for row in result.rows]
    counts = {each: outcomes.count(each) for each in dict.fromkeys(outcomes)}
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    yield f"{len(outcomes)} steps: {said or 'none'}"
    for outcome in ("failed", "too long", "interrupted", "not run"):
        names = [row.name for row in result.rows if row.outcome == outcome]
        if names:
            yield from _wrapped(f"{outcome}: {', '.join(names)}", "")


def _wrapped(text: str, indent: str) -> list[str]:
    further = indent + ("" if indent else "  ")
    return wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=further) if text else []
