"""What two sessions were recorded with: everything in which they differ besides their figures."""

from collections.abc import Iterator, Sequence
from typing import Final

from headrace.profiling.findings.verdict import is_busy
from headrace.profiling.provenance import Machine, Provenance, Record, Text
from headrace.profiling.session import Session

_ABSENT: Final = "–"
_OUT: Final = "out"
"""The folder of the results: always another one."""
_FEW_STEPS: Final = 100
_DIGITS: Final = 32
"""Of a digest of a video: records made before headrace kept all 64 have the first half."""


class EnvironmentDifference(Record):
    """One thing that differs."""

    part: Text
    """`versions`, `machine`, `configuration`, `input`, `run`."""
    name: Text
    first: Text
    other: Text


def circumstances(first: Session, other: Session) -> tuple[EnvironmentDifference, ...]:
    """Return everything that differs between two sessions, but for what was measured."""
    made, others = first.provenance, other.provenance
    return surroundings(made, others) + _differing(
        ("command", _command(made), _command(others)),
        ("configuration", _options(made), _options(others)),
        ("input", _inputs(first), _inputs(other)),
        ("run", _run(first), _run(other)),
    )


def surroundings(first: Provenance, other: Provenance) -> tuple[EnvironmentDifference, ...]:
    """Return in which versions and in what of the machine two records differ."""
    return _differing(
        ("versions", _versions(first), _versions(other)),
        ("machine", _machine(first.machine), _machine(other.machine)),
    )


def _differing(
    *parts: tuple[str, dict[str, str], dict[str, str]],
) -> tuple[EnvironmentDifference, ...]:
    return tuple(
        EnvironmentDifference(
            part=part, name=name, first=a.get(name, _ABSENT), other=b.get(name, _ABSENT)
        )
        for part, a, b in parts
        for name in dict.fromkeys([*a, *b])
        if a.get(name, _ABSENT) != b.get(name, _ABSENT)
    )


def has_same_input(first: Session, other: Session) -> bool | None:
    """Whether both read the same bytes; None where the records do not tell."""
    ids = [_contents(session) for session in (first, other)]
    if not all(ids) or any(None in each for each in ids):
        return None
    return ids[0] == ids[1]


def warnings(first: Session, other: Session, names: tuple[str, str]) -> Iterator[str]:
    """Yield what makes a comparison of them doubtful, a sentence each."""
    same = has_same_input(first, other)
    if same is False:
        yield "The inputs differ: what follows is as much about them as about the runs."
    elif same is None:
        yield "Whether both read the same input is not known: one record holds no digest of it."
    if first.kind != other.kind:
        yield f"One is a {first.kind} session, the other a {other.kind} session."
    if first.pace != other.pace:
        yield (
            f"One was paced by {first.pace.replace('_', ' ')}, the other by "
            f"{other.pace.replace('_', ' ')}: throughput and latency mean another thing."
        )
    if (first.pace == "full_speed") != (other.pace == "full_speed"):
        yield (
            "A paced source decodes while it waits, which is no work of a step: decoding and "
            "service time are left out."
        )
    if first.warmup_steps != other.warmup_steps:
        yield (
            f"The warm-up differs: {first.warmup_steps} steps are left out of {names[0]}, "
            f"{other.warmup_steps} of {names[1]}."
        )
    for name, session in zip(names, (first, other), strict=True):
        if session.outcome != "complete":
            yield f"{name} was {session.outcome}: its figures are those of the steps before."
        steps = len(session.steps) - session.warmup_steps
        if steps < _FEW_STEPS:
            yield (
                f"{name} has {steps} steps: below {_FEW_STEPS}, intervals can be too narrow where "
                "steps resemble their neighbours."
            )


def disturbances(first: Session, other: Session, names: tuple[str, str]) -> Iterator[str]:
    """Yield during which of them other programs took the processor: their figures tell nothing."""
    for name, session in zip(names, (first, other), strict=True):
        share = session.others_cpu_share
        if share is not None and is_busy(share):
            yield f"Other programs took {100 * share:.0f} % of the processor time during {name}."


def command_without_out(made: Provenance) -> list[str]:
    """Return the command line of a run, but for the folder of its results."""
    return _without_out(made.command)


def _versions(made: Provenance) -> dict[str, str]:
    return {"headrace": made.headrace, "commit": made.commit or _ABSENT, **made.versions}


def _machine(found: Machine) -> dict[str, str]:
    values = found.model_dump(exclude={"gpus", "ffmpeg", "python", "available_bytes"})
    gpus = {f"GPU {k}": f"{g.name}, driver {g.driver}" for k, g in enumerate(found.gpus)}
    return {name: _text(value) for name, value in values.items()} | gpus | found.ffmpeg


def _command(made: Provenance) -> dict[str, str]:
    return {"command": " ".join(command_without_out(made))}


def _without_out(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    is_folder = False
    for word in words:
        if not is_folder and word != f"--{_OUT}" and not word.startswith(f"--{_OUT}="):
            kept.append(word)
        is_folder = word == f"--{_OUT}"
    return kept


def _options(made: Provenance) -> dict[str, str]:
    return {name: _text(value) for name, value in made.configuration.items() if name != _OUT}


def _inputs(session: Session) -> dict[str, str]:
    found: dict[str, str] = {}
    for k, video in enumerate(session.inputs):
        values = video.model_dump(exclude={"gop"}) | {"content": _content(video.content)}
        found |= {_numbered(k, name): _text(value) for name, value in values.items()}
    for k, source in enumerate(session.sources):
        found |= {_numbered(k, "name"): source.name}
        found |= {_numbered(k, "content"): _text(_content(source.content))}
    return found


def _numbered(k: int, name: str) -> str:
    return name if not k else f"{name} of input {k + 1}"


def _run(session: Session) -> dict[str, str]:
    return {
        "kind": session.kind,
        "pace": session.pace,
        "outcome": session.outcome,
        "warm-up steps": str(session.warmup_steps),
    }


def _contents(session: Session) -> list[str | None]:
    contents = [video.content for video in session.inputs]
    return [_content(each) for each in (*contents, *(s.content for s in session.sources))]


def _content(content: str | None) -> str | None:
    """Return a digest in the length that records of before kept of it."""
    if content is None:
        return None
    kind, colon, digits = content.partition(":")
    return f"{kind}{colon}{digits[:_DIGITS]}"


def _text(value: object) -> str:
    return _ABSENT if value is None else str(value)
