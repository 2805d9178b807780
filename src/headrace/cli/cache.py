"""`headrace cache`: state, verification, pruning and keys of the cache of results."""

import json as json_format
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.progress import progress
from headrace.cli.sources import read_text

if TYPE_CHECKING:
    from headrace.cache.key import ChunkKey, KeyDifference
    from headrace.cache.maintenance import Pruning
    from headrace.cache.spill_maintenance import SpillSegments
    from headrace.cache.spill_store import SpillState
    from headrace.cache.store import Store, StoreState

cache = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look after the cache of results, and stores of packed frames.",
)

CACHE_OPTION: Final = typer.Option(
    "--cache",
    envvar="HEADRACE_CACHE",
    metavar="sqlite|PATH|redis://HOST",
    help="Which cache; a password is safest in the environment.",
)
_Where = Annotated[str, CACHE_OPTION]
_Spill = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A store of packed frames, instead of the cache."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, nothing else.")]
_DEFAULT = "sqlite"


@cache.command()
def info(cache: _Where = _DEFAULT, spill: _Spill = None, json: _Json = False) -> None:
    """Say where the cache is, how full, and how it is set up."""
    if spill is not None:
        from headrace.cache.spill_store import SpillStore

        with SpillStore.open(spill, budget=None) as frames:
            contents = frames.state()
        facts = {name: getattr(contents, name) for name in _SPILL_FACTS}
        print(json_format.dumps(facts, indent=1) if json else "\n".join(spill_lines(contents)))
        return
    with _store(cache) as store:
        state = store.state()
    if json:
        print(json_format.dumps(asdict(state), indent=1))
    else:
        print("\n".join(info_lines(state)))


@cache.command()
def verify(
    repair: Annotated[bool, typer.Option("--repair", help="Remove what is damaged.")] = False,
    cache: _Where = _DEFAULT,
    spill: _Spill = None,
    json: _Json = False,
) -> None:
    """Check every result; exit code 1 where damage is left."""
    from headrace.cache.maintenance import verify as verified
    from headrace.profiling.number_format import counted

    with progress(is_quiet=json) as show:
        if spill is not None:
            noun, command = "frame", f"verify --repair --spill {spill}"
            result = _segments(spill).verify(repair=repair, on_progress=partial(show, "segments"))
        else:
            noun, command = "result", "verify --repair"
            with _store(cache, repairs=repair) as store:
                result = verified(store, repair=repair, on_progress=partial(show, "results"))
    if json:
        print(json_format.dumps(asdict(result), indent=1))
    else:
        for entry in result.damaged:
            print(f"{entry.digest}  {entry.reason}")
        done = " and removed" if repair and result.damaged else ""
        print(f"{counted(result.entries, noun)} checked, {len(result.damaged)} damaged{done}")
        if result.damaged and not repair:
            print(f"Try next: headrace cache {command}, which removes them")
    if result.damaged and not repair:
        raise typer.Exit(1)


@cache.command()
def prune(
    to: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Until the rest fits, as 1GiB; longest unused first."),
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="What was not used for so long, as 30d.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    cache: _Where = _DEFAULT,
    spill: _Spill = None,
    json: _Json = False,
) -> None:
    """Remove results: until the rest fits, what is old, or everything."""
    from headrace.cache.maintenance import prune as pruned
    from headrace.errors import ConfigError
    from headrace.units import parse_bytes, parse_seconds

    if sum((to is not None, older_than is not None, all_)) != 1:
        raise ConfigError("give one of --to SIZE, --older-than TIME and --all")
    to_bytes = 0 if all_ else None if to is None else parse_bytes(to)
    seconds = None if older_than is None else parse_seconds(older_than)
    with nullcontext(_segments(spill)) if spill is not None else _store(cache) as store:
        done = pruned(store, to_bytes=to_bytes, older_than_seconds=seconds, dry_run=dry_run)
    noun = "result" if spill is None else "segment"
    print(json_format.dumps(asdict(done), indent=1) if json else pruning_line(done, noun))


@cache.command()
def explain(
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...", help="Digits of a key, or a file of one; two are compared."
        ),
    ],
    cache: _Where = _DEFAULT,
    json: _Json = False,
) -> None:
    """Show the parts of a key, how two keys differ, why one missed."""
    from headrace.cache.key import differences
    from headrace.errors import ConfigError

    if len(keys) > 2:
        raise ConfigError(f"give one key, or two to compare; got {len(keys)}")
    with _store(cache) as store:
        if len(keys) == 1:
            _explain(store, _key(store, keys[0]), as_json=json)
            return
        first, second = (_key(store, text) for text in keys)
    changes = differences(first, second)
    if json:
        print(json_format.dumps([asdict(text) for text in changes], indent=1))
    else:
        print("\n".join(difference_lines(changes, ("first", "second"))))


def _explain(store: "Store", key: "ChunkKey", *, as_json: bool) -> None:
    from headrace.cache.maintenance import find, nearest

    entry = find(store, key.digest)
    close = None
    if entry is None:
        with progress(is_quiet=as_json) as show:
            close = nearest(store, key, on_progress=partial(show, "looking for the nearest"))
    arrays = (
        {name: (str(a.dtype), list(a.shape)) for name, a in entry.arrays.items()} if entry else {}
    )
    if as_json:
        facts: dict[str, Any] = {
            "digest": key.digest,
            "key": json_format.loads(key.text),
            "is_kept": entry is not None,
            "arrays": {name: {"dtype": d, "shape": s} for name, (d, s) in arrays.items()},
            "nearest": None if close is None else close.key.digest,
            "differences": [] if close is None else [asdict(d) for d in close.differences],
        }
        print(json_format.dumps(facts, indent=1))
        return
    print("\n".join(key_lines(key)))
    if entry is not None:
        held = ", ".join(f"{name} {kind} {shape}" for name, (kind, shape) in arrays.items())
        print(f"Kept in {store.where}: {held}")
    elif close is None:
        print(f"Not in {store.where}, which is empty")
    else:
        print(f"Not in {store.where}. Nearest there is {close.key.digest}")
        print("\n".join(difference_lines(close.differences, ("this key", "nearest"))))


def _key(store: "Store", text: str) -> "ChunkKey":
    """Return the key named by a text: a file that holds it, or digits of a stored one."""
    from headrace.cache.key import ChunkKey
    from headrace.cache.maintenance import find
    from headrace.errors import ConfigError

    with suppress(OSError):  # a text too long for a file name
        if Path(text).is_file():
            return ChunkKey.of_text(read_text(Path(text)))
    entry = find(store, text)
    if entry is None:
        raise ConfigError(
            f"no key in {store.where} begins with {text}; to learn why something missed, give a "
            "file that holds its key as JSON"
        )
    return entry.key


@contextmanager
def _store(text: str, *, repairs: bool = False) -> "Iterator[Store]":
    """Yield the opened store; a damaged file keeps its name, unless `repairs`."""
    from headrace.cache.cache_url import open_store
    from headrace.errors import CacheError

    store = open_store(text, must_exist=True, sets_aside=repairs)
    try:
        try:
            store.open()
        except CacheError as error:
            if not repairs:
                raise
            print(f"headrace: {error}", file=sys.stderr)
            store.open()
        yield store
    finally:
        store.close()


def _segments(spill: Path) -> "SpillSegments":
    from headrace.cache.spill_folder import SpillFolder
    from headrace.cache.spill_maintenance import SpillSegments

    return SpillSegments(SpillFolder(spill.expanduser(), budget=None))


_SHOWN: Final = 6
"""Values of a list that are printed."""
_WIDTH: Final = 60


def info_lines(state: "StoreState") -> Iterator[str]:
    """Return the lines of a store's state."""
    from headrace.profiling.number_format import count, gibibytes, megabytes, percent
    from headrace.report.text import aligned, printable

    bound = "no bound" if state.bound_bytes is None else f"of {gibibytes(state.bound_bytes)}"
    rows = [
        ("cache", state.where),
        ("results", count(state.entries)),
        ("size", f"{megabytes(state.size_bytes)} {bound}"),
    ]
    if state.hits is not None and state.misses is not None:
        lookups = state.hits + state.misses
        share = f", {percent(state.hits / lookups)}" if lookups else ""
        rows.append(("hits", f"{count(state.hits)} of {count(lookups)} asked for{share}"))
    rows += [("set-up", note) for note in state.notes]
    return map(printable, (line.removeprefix("  ") for line in aligned(rows)))


_SPILL_FACTS: Final = (
    *("where", "frames", "streams", "segments", "size_bytes", "budget_bytes", "unused_seconds"),
    "damaged",
)
"""Parts of a `SpillState` that are no counters of this process."""


def spill_lines(state: "SpillState") -> Iterator[str]:
    """Return the lines of a spill store's state."""
    from headrace.profiling.number_format import count, counted, megabytes, seconds
    from headrace.report.text import aligned, printable

    of = f"of {megabytes(state.budget_bytes)}" if state.budget_bytes else "of an unknown budget"
    rows = [
        ("spill", state.where),
        ("frames", f"{count(state.frames)} of {counted(state.streams, 'stream')}"),
        ("size", f"{megabytes(state.size_bytes)} {of}, in {counted(state.segments, 'segment')}"),
        ("oldest", f"last used {seconds(state.unused_seconds)} ago" if state.segments else "-"),
    ]
    if state.damaged:
        rows.append(("damaged", f"{count(state.damaged)} in the index; verify names them"))
    return map(printable, (line.removeprefix("  ") for line in aligned(rows)))


def pruning_line(done: "Pruning", noun: str = "result") -> str:
    """Return the line of a pruning."""
    from headrace.profiling.number_format import count, counted, megabytes

    verb = "Would remove" if done.is_dry_run else "Removed"
    return (
        f"{verb} {counted(done.removed, noun)}, {megabytes(done.removed_bytes)}; "
        f"{count(done.left)} left, {megabytes(done.left_bytes)}"
    )


def key_lines(key: "ChunkKey") -> Iterator[str]:
    """Yield the lines of a key."""
    from headrace.report.text import aligned, printable

    yield f"Key {key.digest}"
    rows = list(_rows("", json_format.loads(key.text)))
    yield from map(printable, aligned(rows))


def difference_lines(changes: "Sequence[KeyDifference]", names: tuple[str, str]) -> Iterator[str]:
    """Yield the lines of differences between two keys."""
    from headrace.report.text import aligned, printable

    if not changes:
        yield "Both are the same key"
        return
    rows = [("differs in", *names)]
    rows += [(change.name, _value(change.first), _value(change.second)) for change in changes]
    yield from map(printable, aligned(rows))


def _rows(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _rows(f"{name}.{key}" if name else key, inner)
    else:
        yield name, _value(value)


def _value(value: Any) -> str:
    if isinstance(value, list) and len(value) > _SHOWN:
        start = ", ".join(map(json_format.dumps, value[: _SHOWN - 1]))
        return f"{start}, … {json_format.dumps(value[-1])} ({len(value)} values)"
    text = value if isinstance(value, str) else json_format.dumps(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
