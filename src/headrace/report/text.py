"""A session as plain text: what the console shows before and after a run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from textwrap import wrap

from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.utilization import StageUtilization, stage_loads
from headrace.profiling.findings.verdict import busy_banner, find
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import gibibytes, percent
from headrace.profiling.provenance import Gpu, Machine, Scalar
from headrace.profiling.session import Session
from headrace.report.losses import lost_rows, lost_words
from headrace.report.time_charts import timeline
from headrace.report.totals import WORKER_HEADS, cost_ratio, totals, worker_rows

_LOST_SHOWN = 5
_HAPPENED_SHOWN = 20
_WIDTH = 100
_NARROWEST = 30
"""That words are wrapped to, however wide the columns before them."""


def render_setup(
    *, machine: Machine, versions: Mapping[str, str], configuration: Mapping[str, Scalar]
) -> str:
    """What a run is about to be made with: system information and every option in force."""
    sections = (
        ("System", machine_rows(machine)),
        ("Versions", list(versions.items())),
        ("Configuration", configuration_rows(configuration)),
    )
    lines = (line for title, rows in sections for line in (title, *aligned(rows), ""))
    return "\n".join(map(printable, lines))


def render_text(session: Session) -> str:
    """The verdict, the totals, the stages and the files of a run, ending in a newline.

    At most 100 columns wide, unless a name or an error is longer.
    """
    metrics, findings = Metrics.of(session), find(session)
    ratio = cost_ratio(metrics)
    rows = [*totals(session, metrics), *([ratio] if ratio else [])]
    lines = [
        *banner_lines(busy_banner(session.others_cpu_share)),
        *_verdict(session, findings[0]),
        *finding_lines(findings[1:]),
        "Totals",
        *listed([(row.label, row.value, row.reading) for row in rows]),
        "",
        *_notes(session),
        *_stages(session),
        *_workers(session),
        *_timeline(session),
        *_lost(session),
        *_outputs(session),
    ]
    return "\n".join(map(printable, lines)).rstrip() + "\n"


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """Label and value of what is known about the machine."""
    physical = f"{machine.physical_cores} physical, " if machine.physical_cores else ""
    logical = f"{machine.logical_cores} logical, " if machine.logical_cores else ""
    which = f" ({machine.cores})" if machine.cores else ""
    free = machine.available_bytes
    available = "" if free is None else f", {gibibytes(free)} available"
    return [
        ("CPU", machine.cpu),
        ("Cores", f"{physical}{logical}{machine.usable_cores} usable{which}"),
        *([("Governor", machine.governor)] if machine.governor else []),
        ("Memory", f"{gibibytes(machine.memory_bytes)}{available}"),
        ("GPU", ", ".join(map(gpu_words, machine.gpus)) or "none"),
        ("System", machine.system),
        ("Python", machine.python),
        ("FFmpeg", ", ".join(f"{name} {version}" for name, version in machine.ffmpeg.items())),
    ]


def gpu_words(gpu: Gpu) -> str:
    """`NVIDIA H100 (79.6 GiB, driver 550.54)`."""
    driver = f", driver {gpu.driver}" if gpu.driver else ""
    return f"{gpu.name} ({gibibytes(gpu.memory_bytes)}{driver})"


def configuration_rows(configuration: Mapping[str, Scalar]) -> list[tuple[str, str]]:
    """Option and value, as they are typed on the command line."""
    return [(name, scalar(value)) for name, value in configuration.items()]


def scalar(value: Scalar) -> str:
    """An option's value in words."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def printable(line: str) -> str:
    """`line` with control characters spelt out: a file name must not steer the terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Each finding with its evidence and an empty line after it, wrapped at 100 columns."""
    for finding in findings:
        yield from wrap(finding.headline, _WIDTH)
        yield from _below(finding)


def banner_lines(banner: str | None) -> Iterator[str]:
    """What stands above a verdict, with an empty line after it; nothing where there is none."""
    if banner:
        yield from wrap(banner, _WIDTH, initial_indent="! ", subsequent_indent="  ")
        yield ""


def _below(finding: Finding) -> Iterator[str]:
    for line in finding.evidence:
        yield from wrap(line, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    if finding.change:
        said = f"Try next: {finding.change}"
        # An option stays whole, so that it can be copied.
        yield from wrap(
            said, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
    yield ""


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned columns, two spaces apart and two in front."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def listed(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned columns, of which the last is wrapped at 100 columns."""
    before = sum(2 + max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1])
    room = max(_WIDTH - before - 2, _NARROWEST)
    wrapped: list[Sequence[str]] = []
    for *cells, words in rows:
        first, *more = wrap(words, room, break_long_words=False, break_on_hyphens=False) or [""]
        wrapped.append((*cells, first))
        wrapped += [(*("" for _ in cells), line) for line in more]
    yield from aligned(wrapped)


def title(session: Session) -> str:
    """What a session is about: its video, or how many they are; of a loop, its loader."""
    if session.loader is not None:
        of = f" of {session.loader.dataset}" if session.loader.dataset else ""
        where = session.provenance.configuration.get("loop")
        return f"{session.loader.name}{of}" + (f" at {where}" if where else "")
    sources = [video.path for video in session.inputs] or [each.name for each in session.sources]
    names = [_plain(source) for source in sources]
    given = session.provenance.configuration.get("source")
    first, *others = names or [str(given) if given else session.kind]
    return f"{first} and {len(others)} more" if others else first


def _plain(source: str) -> str:
    """The name of a file; an address or a camera as it is."""
    is_file = "://" not in source and not source.startswith("/dev/")
    return PurePath(source).name or source if is_file else source


def _verdict(session: Session, finding: Finding) -> Iterator[str]:
    """Yield the verdict, then what it is about; what did not come to its end says so first."""
    headline, about = wrap(finding.headline, _WIDTH), _title(session)
    yield from [*headline, about] if session.outcome == "complete" else [about, "", *headline]
    yield from _below(finding)


def _title(session: Session) -> str:
    settings = session.provenance.configuration
    what = " on ".join(scalar(settings[name]) for name in ("model", "device") if name in settings)
    words = [title(session), *([what] if what else []), session.outcome]
    return " · ".join(words) + (f": {session.error}" if session.error else "")


def _notes(session: Session) -> Iterator[str]:
    if not session.notes:
        return
    yield "Notes"
    for note in session.notes:
        yield from wrap(note, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    yield ""


def _stages(session: Session) -> Iterator[str]:
    loads = stage_loads(session)
    if not loads:
        return
    yield "Stages, share of the time frames flowed"
    heads = ("", *(head.rjust(8) for head in ("busy", "no input", "no room", "rest")))
    yield from aligned([heads, *(_stage_row(load) for load in loads)])
    yield ""


def _stage_row(load: StageUtilization) -> tuple[str, ...]:
    shares = (load.busy, load.starved, load.blocked, load.rest)
    return (load.name, *(percent(share).rjust(8) for share in shares))


def _workers(session: Session) -> Iterator[str]:
    rows = worker_rows(session)
    if rows:
        yield "Workers"
        yield from aligned([WORKER_HEADS, *rows])
        yield ""


def _timeline(session: Session) -> Iterator[str]:
    is_one = len(session.sources) == 1
    rows = [
        (row.at.rjust(8), row.what, *(() if is_one else (row.where,)), row.words)
        for row in timeline(session)
    ]
    if not rows:
        return
    yield "What happened"
    yield from listed(rows[:_HAPPENED_SHOWN])
    if len(rows) > _HAPPENED_SHOWN:
        yield f"  and {len(rows) - _HAPPENED_SHOWN} more, listed in the report"
    yield ""


def _lost(session: Session) -> Iterator[str]:
    if not session.lost:
        return
    yield f"Damaged: {lost_words(session)}"
    rows = lost_rows(session)
    yield from listed([(row.what, row.at, row.cause) for row in rows[:_LOST_SHOWN]])
    rest = session.lost[sum(row.frames for row in rows[:_LOST_SHOWN]) :]
    if rest:
        yield f"  and {lost_words(session, rest)} more, listed in the session"
    yield ""


def _outputs(session: Session) -> Iterator[str]:
    if session.outputs:
        yield "Files"
        yield from (f"  {name}" for name in session.outputs)
