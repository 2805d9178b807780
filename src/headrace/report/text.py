"""Text report of a session, for the console."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.utilization import stage_loads
from headrace.profiling.findings.verdict import advised, busy_banner, find
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import counted, gibibytes, percent, seconds
from headrace.profiling.provenance import Gpu, Machine, Scalar
from headrace.profiling.session import Session
from headrace.report.session_tables import (
    WORKER_HEADERS,
    lost_rows,
    lost_words,
    timeline,
    worker_rows,
)
from headrace.report.totals import cost_ratio, totals

_MAX_LOST = 5
"""Max rows of damaged frames."""
_MAX_EVENTS = 20
"""Max rows of events."""
WIDTH: Final = 80
"""Max columns of a line."""
_MIN_WIDTH = 30
"""Min columns of the wrapped last column of a table."""
_HARD_SPACE: Final = "\N{NO-BREAK SPACE}"


def render_setup(
    *, machine: Machine, versions: Mapping[str, str], configuration: Mapping[str, Scalar]
) -> str:
    """Return the setup of a run as text: machine, versions and all options."""
    sections = (
        ("System", machine_rows(machine)),
        ("Versions", list(versions.items())),
        ("Configuration", configuration_rows(configuration)),
    )
    lines = (line for title, rows in sections for line in _section(title, aligned(rows)))
    return "\n".join(map(printable, lines))


def render_text(session: Session) -> str:
    """Return verdict, totals, stages and files of a run as text, ending in a newline.

    Lines have at most 80 columns, except for longer names.
    """
    metrics, findings = Metrics.of(session), find(session)
    ratio = cost_ratio(session, metrics)
    rows = [*totals(session, metrics), *([ratio] if ratio else [])]
    workers = worker_rows(session)
    lines = [
        *banner_lines(busy_banner(session.others_cpu_share)),
        *_verdict(session, findings[0]),
        *finding_lines(findings[1:]),
        *_section("Totals", listed([(row.label, row.value, row.reading) for row in rows])),
        *_section("Notes", _notes(session)),
        *_section("Stages: share of the time in which frames flowed", _stages(session)),
        *_section("Workers", aligned([WORKER_HEADERS, *workers] if workers else [])),
        *_section("Events", _timeline(session)),
        *_section(f"Damaged: {lost_words(session)}", _lost(session)),
        *_section("Files", (f"  {name}" for name in session.outputs)),
    ]
    return join_lines(lines)


def join_lines(lines: Iterable[str]) -> str:
    """Return printable text, ending in a newline."""
    return "\n".join(map(printable, lines)).rstrip() + "\n"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield the title, the lines and an empty line; nothing if there are no lines."""
    section = list(lines)
    if section:
        yield from (title, *section, "")


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """Return (label, value) rows of a machine."""
    physical = f"{machine.physical_cores} physical, " if machine.physical_cores else ""
    logical = f"{machine.logical_cores} logical, " if machine.logical_cores else ""
    cores = f" ({machine.cores})" if machine.cores else ""
    available_bytes = machine.available_bytes
    available = "" if available_bytes is None else f", {gibibytes(available_bytes)} available"
    return [
        ("CPU", machine.cpu),
        ("Cores", f"{physical}{logical}{machine.usable_cores} usable{cores}"),
        *([("Governor", machine.governor)] if machine.governor else []),
        ("Memory", f"{gibibytes(machine.memory_bytes)}{available}"),
        ("GPU", ", ".join(map(gpu_text, machine.gpus)) or "none"),
        ("System", machine.system),
        ("Python", machine.python),
        ("FFmpeg", ", ".join(f"{name} {version}" for name, version in machine.ffmpeg.items())),
    ]


def gpu_text(gpu: Gpu) -> str:
    """`NVIDIA H100 (79.6 GiB, driver 550.54)`."""
    driver = f", driver {gpu.driver}" if gpu.driver else ""
    return f"{gpu.name} ({gibibytes(gpu.memory_bytes)}{driver})"


def configuration_rows(configuration: Mapping[str, Scalar]) -> list[tuple[str, str]]:
    """Return (option, value) rows."""
    return [(name, scalar(value)) for name, value in configuration.items()]


def scalar(value: Scalar) -> str:
    """Return the value of an option as text."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def printable(line: str) -> str:
    """Return `line` with escaped control characters: a file name must not control the terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def wrap(text: str, width: int, **options: Any) -> list[str]:
    """Return the lines of `textwrap.wrap`, without a break between a number and its `%`."""
    lines = textwrap.wrap(text.replace(" %", f"{_HARD_SPACE}%"), width, **options)
    return [line.replace(_HARD_SPACE, " ") for line in lines]


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield each finding with evidence, change and an empty line, wrapped."""
    for finding in findings:
        yield from wrap(finding.headline, WIDTH)
        yield from _below(finding)


def banner_lines(banner: str | None) -> Iterator[str]:
    """Yield the warning above a verdict and an empty line; nothing if there is no warning."""
    if banner:
        yield from wrap(banner, WIDTH, initial_indent="! ", subsequent_indent="  ")
        yield ""


def _evidence(finding: Finding, width: int) -> Iterator[str]:
    for sentence in finding.evidence:
        yield from wrap(sentence, width, initial_indent="  - ", subsequent_indent="    ")


def _below(finding: Finding) -> Iterator[str]:
    yield from _evidence(finding, WIDTH)
    if finding.change:
        # No breaks at hyphens, nor in commands on lines of their own: they can be copied.
        text, *commands = finding.change.split("\n")
        yield from wrap(
            f"Try next: {text}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
        yield from (f"    {command}" for command in commands)
    yield ""


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as aligned columns, with two spaces before each column."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (value.ljust(width) for value, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def listed(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as aligned columns; the last one is wrapped so that lines have 80 columns."""
    before = sum(2 + max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1])
    width = max(WIDTH - before - 2, _MIN_WIDTH)
    wrapped: list[Sequence[str]] = []
    for *values, text in rows:
        first, *more = wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
        wrapped.append((*values, first))
        wrapped += [(*("" for _ in values), line) for line in more]
    yield from aligned(wrapped)


def title(session: Session) -> str:
    """Return the subject of a session: its first input and the number of others, or its loader."""
    if session.loader is not None:
        dataset = f" of {session.loader.dataset}" if session.loader.dataset else ""
        location = session.provenance.configuration.get("loop")
        return f"{session.loader.name}{dataset}" + (f" at {location}" if location else "")
    inputs = [video.path for video in session.inputs] or [item.name for item in session.sources]
    names = [_file_name(path) for path in inputs]
    option = session.provenance.configuration.get("source")
    first, *others = names or [str(option) if option else session.kind]
    return f"{first} and {len(others)} more" if others else first


def _file_name(source: str) -> str:
    """Return the name of a file without its folder; addresses and cameras are unchanged."""
    is_file = "://" not in source and not source.startswith("/dev/")
    return PurePath(source).name or source if is_file else source


def _verdict(session: Session, finding: Finding) -> Iterator[str]:
    """Yield the verdict and the title; the title comes first if the run did not complete."""
    headline = wrap(finding.headline, WIDTH)
    # Escaped first, because wrapping replaces line breaks by spaces.
    full_title = printable(_title(session))
    title_lines = wrap(full_title, WIDTH, break_long_words=False, break_on_hyphens=False)
    if session.outcome == "complete":
        yield from [*headline, *title_lines]
    else:
        yield from [*title_lines, "", *headline]
    yield from _below(finding)


def _title(session: Session) -> str:
    settings = session.provenance.configuration
    model = " on ".join(scalar(settings[name]) for name in ("model", "device") if name in settings)
    has_losses = session.lost and session.outcome == "complete"
    damaged = f", {lost_words(session)} damaged" if has_losses else ""
    parts = [title(session), *([model] if model else []), f"{session.outcome}{damaged}"]
    return " · ".join(parts) + (f": {session.error}" if session.error else "")


def _notes(session: Session) -> Iterator[str]:
    for note in session.notes:
        yield from wrap(note, WIDTH, initial_indent="  ", subsequent_indent="    ")


def _stages(session: Session) -> Iterator[str]:
    # The parts of an extraction run one after another in each worker: none waits for another.
    names = ("busy",) if session.kind == "extract" else ("busy", "starved", "blocked", "idle")
    rows = [
        (load.name, *(percent(getattr(load, name)).rjust(8) for name in names))
        for load in stage_loads(session)
    ]
    if rows:
        yield from aligned([("", *(name.rjust(8) for name in names)), *rows])


def _timeline(session: Session) -> Iterator[str]:
    has_one_source = len(session.sources) == 1
    rows = [
        (row.at.rjust(8), row.what, *(() if has_one_source else (row.where,)), row.words)
        for row in timeline(session)
    ]
    yield from listed(rows[:_MAX_EVENTS])
    if len(rows) > _MAX_EVENTS:
        yield f"  and {len(rows) - _MAX_EVENTS} more, listed in the report"


def _lost(session: Session) -> Iterator[str]:
    rows = lost_rows(session)
    yield from listed([(row.what, row.at, row.cause) for row in rows[:_MAX_LOST]])
    rest = session.lost[sum(row.frames for row in rows[:_MAX_LOST]) :]
    if rest:
        yield f"  and {lost_words(session, rest)} more, listed in the session"


_VERDICT_WIDTH: Final = 80
"""Max columns of the verdict on a loop."""


def render_verdict(session: Session) -> str:
    """Return the findings on a training loop and the changes to try, as text without final newline.

    The verdict comes first, except for a warning about a busy machine. At most 80 columns.
    """
    findings = find(session)
    first = findings[0]
    steps = counted(len(session.steps), "step")
    outcome = "" if session.outcome == "complete" else f", {session.outcome}"
    banner = busy_banner(session.others_cpu_share)
    lines = _wrap(f"headrace: {banner}") if banner else []
    next_change = advised(findings)[:1]
    for finding in findings:
        lines += _wrap(f"{'headrace:' if finding is first else ' '} {finding.headline}")
        if finding is first:
            length = f"{steps} in {seconds(session.wall_seconds)}{outcome}"
            lines += _wrap(f"  {title(session)}: {length}")
        lines += _evidence(finding, _VERDICT_WIDTH)
        if finding.change:
            label = "Try next" if finding in next_change else "Then"
            lines += _wrap(f"  {label}: {finding.change}")
    return "\n".join(map(printable, lines))


def _wrap(text: str) -> list[str]:
    """Return the wrapped lines; all but the first are indented."""
    indent = "  " if text.startswith("headrace") else "    "
    return wrap(text, _VERDICT_WIDTH, subsequent_indent=indent)
