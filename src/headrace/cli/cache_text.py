"""What `headrace cache` prints, as lines."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.cache.key import ChunkKey, KeyDifference
    from headrace.cache.maintenance import Pruning
    from headrace.cache.store import StoreState

_SHOWN: Final = 6
"""Values of a list."""
_WIDTH: Final = 60


def info_lines(state: "StoreState") -> Iterator[str]:
    """How a store is."""
    from headrace.profiling.number_format import count, gibibytes, megabytes, percent
    from headrace.report.text import aligned, printable

    bound = "no bound" if state.bound_bytes is None else f"of {gibibytes(state.bound_bytes)}"
    rows = [
        ("cache", state.where),
        ("results", count(state.entries)),
        ("size", f"{megabytes(state.size_bytes)} {bound}"),
    ]
    if state.hits is not None and state.misses is not None:
        asked = state.hits + state.misses
        share = f", {percent(state.hits / asked)}" if asked else ""
        rows.append(("hits", f"{count(state.hits)} of {count(asked)} asked for{share}"))
    rows += [("set-up", note) for note in state.notes]
    return map(printable, (line.removeprefix("  ") for line in aligned(rows)))


def pruning_line(done: "Pruning") -> str:
    """What was removed, or would be."""
    from headrace.profiling.number_format import count, counted, megabytes

    verb = "Would remove" if done.is_dry_run else "Removed"
    return (
        f"{verb} {counted(done.removed, 'result')}, {megabytes(done.removed_bytes)}; "
        f"{count(done.left)} left, {megabytes(done.left_bytes)}"
    )


def key_lines(key: "ChunkKey") -> Iterator[str]:
    """All that a key is made of."""
    from headrace.report.text import aligned, printable

    yield f"Key {key.digest}"
    rows = list(_rows("", json.loads(key.text)))
    yield from map(printable, aligned(rows))


def difference_lines(found: "Sequence[KeyDifference]", names: tuple[str, str]) -> Iterator[str]:
    """In what two keys differ."""
    from headrace.report.text import aligned, printable

    if not found:
        yield "Both are the same key"
        return
    rows = [("differs in", *names)]
    rows += [(each.name, _value(each.first), _value(each.second)) for each in found]
    yield from map(printable, aligned(rows))


def _rows(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for each, inner in value.items():
            yield from _rows(f"{name}.{each}" if name else each, inner)
    else:
        yield name, _value(value)


def _value(value: Any) -> str:
    if isinstance(value, list) and len(value) > _SHOWN:
        start = ", ".join(map(json.dumps, value[: _SHOWN - 1]))
        return f"{start}, … {json.dumps(value[-1])} ({len(value)} values)"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
