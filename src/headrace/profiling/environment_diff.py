"""Environment differences of two sessions, and the reasons to doubt their comparison."""

from collections.abc import Iterator, Mapping
from typing import Final

from headrace.profiling.findings.verdict import is_busy
from headrace.profiling.number_format import listing
from headrace.profiling.provenance import Provenance, Record, Text
from headrace.profiling.session import Session

_ABSENT: Final = "–"
_OUT: Final = "out"
"""Option for the output folder, which always differs."""
_ENOUGH_STEPS: Final = 100
"""Min steps for reliable intervals; with fewer steps they can be too narrow."""
_DIGITS: Final = 32
"""Digits of a digest to compare; older records have the first 32 of 64."""


class EnvironmentDifference(Record):
    """One value that differs between two sessions."""

    part: Text
    """`versions`, `machine`, `command`, `configuration`, `input` or `run`."""
    name: Text
    first: Text
    other: Text


def environment_differences(first: Session, other: Session) -> tuple[EnvironmentDifference, ...]:
    """Return everything that differs between two sessions, except their figures."""
    return _diff(_values(first), _values(other))


def machine_differences(first: Provenance, other: Provenance) -> tuple[EnvironmentDifference, ...]:
    """Return the differences of versions and machine."""
    return _diff(_machine_values(first), _machine_values(other))


def _diff(
    first: Mapping[str, Mapping[str, str]], other: Mapping[str, Mapping[str, str]]
) -> tuple[EnvironmentDifference, ...]:
    """Return the differences between two mappings: part → name → value."""
    return tuple(
        EnvironmentDifference(part=part, name=name, first=a, other=b)
        for part, values in first.items()
        for name in dict.fromkeys([*values, *other[part]])
        if (a := values.get(name, _ABSENT)) != (b := other[part].get(name, _ABSENT))
    )


def has_same_input(first: Session, other: Session) -> bool | None:
    """Return whether both sessions read the same bytes; None if a digest is missing."""
    a, b = _digests(first), _digests(other)
    if not a or not b or None in a or None in b:
        return None
    return a == b


def warnings(
    first: Session, other: Session, names: tuple[str, str], *, over_steps: bool = True
) -> Iterator[str]:
    """Yield the reasons to doubt a comparison, one sentence each; see `session_warnings`."""
    both = dict(zip(names, (first, other), strict=True))
    if first.kind != other.kind:
        yield f"One is a {first.kind} session, the other a {other.kind} session."
    same = has_same_input(first, other)
    if same is False:
        yield "The inputs differ: a difference may come from the input, not from the run."
    elif same is None and first.loader is None:
        lacking = [name for name in both if None in (_digests(both[name]) or [None])]
        yield (
            "It is not known whether both read the same input: no checksum is recorded in "
            f"{listing(lacking)}."
        )
    if first.pace != other.pace:
        yield (
            f"One was paced by {first.pace.replace('_', ' ')}, the other by "
            f"{other.pace.replace('_', ' ')}: throughput and latency are not comparable."
        )
    if (first.pace == "full_speed") != (other.pace == "full_speed"):
        yield (
            "A paced source decodes while it waits, outside the work of a step: decoding and "
            "service time are left out."
        )
    if first.warmup_steps != other.warmup_steps:
        yield (
            f"The warm-up differs: {first.warmup_steps} steps are left out of {names[0]}, "
            f"{other.warmup_steps} of {names[1]}."
        )
    yield from session_warnings(both, over_steps=over_steps)


def session_warnings(sessions: Mapping[str, Session], *, over_steps: bool) -> Iterator[str]:
    """Yield the reasons to doubt the figures of each session, one sentence each.

    `over_steps`: whether the intervals are over the steps of a session, not over repeats.
    """
    for name, session in sessions.items():
        if session.outcome != "complete":
            outcome = "failed" if session.outcome == "failed" else "was interrupted"
            yield f"{name} {outcome}: its figures are of the steps before."
        steps = len(session.steps) - session.warmup_steps
        if over_steps and steps < _ENOUGH_STEPS:
            yield (
                f"{name} has {steps} steps: below {_ENOUGH_STEPS}, intervals can be too narrow "
                "where neighboring steps are correlated."
            )


def disturbances(sessions: Mapping[str, Session]) -> Iterator[str]:
    """Yield one sentence per session that other programs disturbed."""
    for name, session in sessions.items():
        share = session.others_cpu_share
        if share is not None and is_busy(share):
            yield f"Other programs used {100 * share:.0f} % of the CPU time during {name}."


def command_without_outputs(provenance: Provenance) -> list[str]:
    """Return the command line without the paths of its results; arguments after `--` are kept."""
    words: list[str] = []
    # The --json of other commands has no value.
    names = ("--out", "--json") if provenance.command[1:2] == ("profile",) else ("--out",)
    is_path = False
    for word in provenance.command:
        is_option = word.partition("=")[0] in names
        if "--" in words or not (is_path or is_option):
            words.append(word)
        is_path = word in names
    return words


def _machine_values(provenance: Provenance) -> dict[str, dict[str, str]]:
    machine, commit = provenance.machine, provenance.commit or _ABSENT
    hardware = machine.model_dump(exclude={"gpus", "ffmpeg", "python", "available_bytes"})
    gpus = {f"GPU {k}": f"{gpu.name}, driver {gpu.driver}" for k, gpu in enumerate(machine.gpus)}
    return {
        "versions": {"headrace": provenance.headrace, "commit": commit, **provenance.versions},
        "machine": {name: _text(value) for name, value in hardware.items()} | gpus | machine.ffmpeg,
    }


def _values(session: Session) -> dict[str, dict[str, str]]:
    options = session.provenance.configuration.items()
    return {
        **_machine_values(session.provenance),
        "command": {"command": " ".join(command_without_outputs(session.provenance))},
        "configuration": {name: _text(value) for name, value in options if name != _OUT},
        "input": _inputs(session),
        "run": {
            "kind": session.kind,
            "pace": session.pace,
            "outcome": session.outcome,
            "warm-up steps": str(session.warmup_steps),
        },
    }


def _inputs(session: Session) -> dict[str, str]:
    values: dict[str, str] = {}
    for index, video in enumerate(session.inputs):
        fields = video.model_dump(exclude={"gop"}) | {"content": _shorten(video.content)}
        values |= {_label(index, name): _text(value) for name, value in fields.items()}
    for index, source in enumerate(session.sources):
        values[_label(index, "name")] = source.name
        values[_label(index, "content")] = _text(_shorten(source.content))
    return values


def _label(index: int, name: str) -> str:
    return name if not index else f"{name} of input {index + 1}"


def _digests(session: Session) -> list[str | None]:
    read = [*(item.content for item in session.inputs), *(item.content for item in session.sources)]
    return [_shorten(digest) for digest in read]


def _shorten(digest: str | None) -> str | None:
    """Return a digest, shortened to its length in older records."""
    if digest is None:
        return None
    kind, colon, digits = digest.partition(":")
    return f"{kind}{colon}{digits[:_DIGITS]}"


def _text(value: object) -> str:
    return _ABSENT if value is None else str(value)
