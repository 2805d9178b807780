"""What more files cost."""

from benchmarks.record import Row, TimedResult
from benchmarks.tables.markdown import failed, machine, others, repeats, size, table

_HEADER = (
    *("", "open, new", "open, known", "first batch", "frames/s"),
    *("amplification", "memory", "open files"),
)


def scaling(result: TimedResult) -> str:
    """One line per number of files."""
    lines = table(_HEADER, map(_line, result.rows))
    return f"{lines}\n\n{_notes(result)}"


def _line(row: Row) -> tuple[str, ...]:
    if row.failure:
        return (row.kind, failed(row), *[""] * (len(_HEADER) - 2))
    [found] = row.repeats
    filling = "" if found.is_filled else "*"
    return (
        row.kind,
        _seconds(found.scan_seconds),
        _seconds(found.open_seconds),
        _seconds(found.first_seconds),
        f"{found.frames_per_second:,.0f}{filling}",
        f"{row.amplification:.2f}{filling}",
        f"{(found.memory_bytes or 0) / 2**20:,.0f} MiB",
        f"{found.open_files:,}",
    )


def _seconds(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:.2f} s" if number < 10 else f"{number:.0f} s"


def _notes(result: TimedResult) -> str:
    said = result.provenance.configuration
    notes = [
        f"`FrameLoader`, batches of {said['batch_size']} uniformly random frames, "
        f"{size(result)}, {said['memory_budget']}, {said['workers']} workers; one run each, of "
        f"at least {said['seconds']:g} s after at most {said['warm_up_seconds']:g} s of warm-up, "
        "in a process of its own.",
        "*New*: every file is scanned, once ever; not timed above "
        f"{said['scan_at_most']:,} files. *Known*: every index comes from disk. Memory is the peak "
        "above what the process had before, indexes included; open files are the most that were "
        "seen after any batch, beside those of the process.",
        f"The files are links to {said['videos']} videos, so they read from the page cache; sets "
        "of so many different files that do not fit it were not measured.",
        f"{others(result.rows)} {machine(result)}",
    ]
    if not all(each.is_filled for each in repeats(result.rows)):
        notes.insert(
            1,
            "\\*: still filling its window, in which every GOP is met for the first time, so "
            "nearly as slow as without looking ahead; steady later. `headrace plan` predicts how "
            "fast.",
        )
    return "\n".join(notes)
