"""What more files cost, as Markdown for the README."""

from benchmarks.record import ScalingResult, ScalingRow

_HEADER = (
    *("files", "open, new", "open, known", "first batch", "frames/s"),
    *("decoded ÷ delivered", "memory", "open files"),
)
_DISTURBED = 0.05
"""Share of the CPU time taken by other work from which a row counts as disturbed."""


def scaling(result: ScalingResult) -> str:
    """One line per number of files."""
    lines = [_HEADER, ("---:",) * len(_HEADER), *map(_line, result.rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{table}\n\n{_notes(result)}"


def _line(row: ScalingRow) -> tuple[str, ...]:
    files = f"{row.files:,}"
    if row.failure:
        return (files, f"failed: {row.failure.replace('|', '/')}", *[""] * (len(_HEADER) - 2))
    filling = "" if row.is_filled else "*"
    return (
        files,
        "" if row.scan_seconds is None else _seconds(row.scan_seconds),
        _seconds(row.open_seconds),
        _seconds(row.first_batch_seconds),
        f"{row.frames_per_second:,.0f}{filling}",
        f"{row.decoded / row.frames:.2f}{filling}",
        f"{row.memory_bytes / 2**20:,.0f} MiB",
        f"{row.open_files:,}",
    )


def _seconds(number: float) -> str:
    return f"{number:.2f} s" if number < 10 else f"{number:.0f} s"


def _notes(result: ScalingResult) -> str:
    about, said = result.conditions, result.conditions.parameters
    height, width = said["size"]
    timed = [row for row in result.rows if not row.failure]
    shares = [row.others_share for row in timed]
    notes = [
        f"`FrameLoader`, batches of {said['batch_size']} uniformly random frames, "
        f"{height}×{width}, {said['memory_budget']}, {said['workers']} workers; one run each, of "
        f"at least {said['seconds']:g} s after at most {said['warm_up_seconds']:g} s of warm-up, "
        "in a process of its own.",
        "*New*: every file is scanned, once ever; not timed above "
        f"{said['scan_at_most']:,} files. *Known*: every index comes from disk. Memory is the peak "
        "above what the process had before, indexes included; open files are the most that were "
        "seen after any batch, beside those of the process.",
        f"The files are links to {said['videos']} videos, so they read from the page cache; sets "
        "of so many different files that do not fit it were not measured.",
        f"Other work took more than {_DISTURBED:.0%} of the CPU time in "
        f"{sum(share > _DISTURBED for share in shares)} of {len(shares)} runs. {about.cpu}, "
        f"{about.cores} cores, {about.memory_bytes / 2**30:.0f} GiB; {about.system}; "
        f"{about.python}; headrace at {about.commit}, {about.date}.",
    ]
    if not all(row.is_filled for row in timed):
        notes.insert(
            1,
            "\\*: still filling its window, in which every GOP is met for the first time, so "
            "nearly as slow as without looking ahead; steady later. `headrace plan` predicts how "
            "fast.",
        )
    return "\n".join(notes)
