"""A session as plain text: what the console shows before and after a run."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.loads import StageLoad, stage_loads
from headrace.profiling.findings.verdict import find
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Machine, Scalar
from headrace.profiling.session import Session
from headrace.report.numbers import gibibytes, percent
from headrace.report.timeline import timeline
from headrace.report.totals import cost_ratio, totals

_LOST_SHOWN = 5
_HAPPENED_SHOWN = 20
_WIDTH = 100


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
    metrics = Metrics.of(session)
    ratio = cost_ratio(metrics)
    rows = [*totals(session, metrics), *([ratio] if ratio else [])]
    lines = [
        _title(session),
        "",
        *finding_lines(find(session)),
        "Totals",
        *aligned([(row.label, row.value, row.reading) for row in rows]),
        "",
        *_stages(session),
        *_timeline(session),
        *_lost(session),
        *_outputs(session),
    ]
    return "\n".join(map(printable, lines)).rstrip() + "\n"


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """Label and value of what is known about the machine."""
    physical = f"{machine.physical_cores} physical, " if machine.physical_cores else ""
    logical = f"{machine.logical_cores} logical, " if machine.logical_cores else ""
    gpus = ", ".join(f"{gpu.name} ({gibibytes(gpu.memory_bytes)})" for gpu in machine.gpus)
    return [
        ("CPU", machine.cpu),
        ("Cores", f"{physical}{logical}{machine.usable_cores} usable"),
        ("Memory", gibibytes(machine.memory_bytes)),
        ("GPU", gpus or "none"),
        ("System", machine.system),
        ("Python", machine.python),
        ("FFmpeg", ", ".join(f"{name} {version}" for name, version in machine.ffmpeg.items())),
    ]


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
        for line in finding.evidence:
            yield from wrap(line, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
        if finding.change:
            said = f"Try next: {finding.change}"
            yield from wrap(said, _WIDTH, initial_indent="  ", subsequent_indent="    ")
        yield ""


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned columns, two spaces apart and two in front."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def title(session: Session) -> str:
    """What a session is about: its video, or how many they are; of a loop, its loader."""
    if session.loader is not None:
        of = f" of {session.loader.dataset}" if session.loader.dataset else ""
        where = session.provenance.configuration.get("loop")
        return f"{session.loader.name}{of}" + (f" at {where}" if where else "")
    names = [video.path for video in session.inputs] or [each.name for each in session.sources]
    first, *others = names or [session.kind]
    return f"{first} and {len(others)} more" if others else first


def _title(session: Session) -> str:
    settings = session.provenance.configuration
    what = " on ".join(scalar(settings[name]) for name in ("model", "device") if name in settings)
    words = [title(session), *([what] if what else []), session.outcome]
    return " · ".join(words) + (f": {session.error}" if session.error else "")


def _stages(session: Session) -> Iterator[str]:
    loads = stage_loads(session)
    if not loads:
        return
    yield "Stages, share of the time frames flowed"
    heads = ("", *(head.rjust(8) for head in ("busy", "no input", "no room")))
    yield from aligned([heads, *(_stage_row(load) for load in loads)])
    yield ""


def _stage_row(load: StageLoad) -> tuple[str, ...]:
    shares = (load.busy, load.starved, load.blocked)
    return (load.name, *(percent(share).rjust(8) for share in shares))


def _timeline(session: Session) -> Iterator[str]:
    rows = [(row.at.rjust(8), row.what, row.where, row.words) for row in timeline(session)]
    if not rows:
        return
    yield "What happened"
    yield from aligned(rows[:_HAPPENED_SHOWN])
    if len(rows) > _HAPPENED_SHOWN:
        yield f"  and {len(rows) - _HAPPENED_SHOWN} more, listed in the report"
    yield ""


def _lost(session: Session) -> Iterator[str]:
    if not session.lost:
        return
    yield "Damaged frames"
    shown = session.lost[:_LOST_SHOWN]
    yield from aligned(
        [
            (
                "the whole video" if frame.index is None else f"frame {frame.index}",
                "" if frame.pts_seconds is None else f"{frame.pts_seconds:.3f} s",
                frame.cause,
            )
            for frame in shown
        ]
    )
    if len(session.lost) > len(shown):
        yield f"  and {len(session.lost) - len(shown)} more, listed in the session"
    yield ""


def _outputs(session: Session) -> Iterator[str]:
    if session.outputs:
        yield "Files"
        yield from (f"  {name}" for name in session.outputs)
