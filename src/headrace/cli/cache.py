"""`headrace cache`: state, verification, pruning and keys of the result cache."""

import json as json_format
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.config_flags import JsonFlag
from headrace.cli.progress import progress
from headrace.cli.sources import read_text
from headrace.errors import CacheError, ConfigError
from headrace.profiling.number_format import count, counted, gibibytes, megabytes, percent, seconds

if TYPE_CHECKING:
    from headrace.cache.key import ChunkKey, KeyDifference
    from headrace.cache.maintenance import Pruning, SpillSegments
    from headrace.cache.spill_store import SpillState
    from headrace.cache.store import Store, StoreState

cache = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Inspect and prune the cache of results and stores of packed frames.",
)

CACHE_OPTION: Final = typer.Option(
    "--cache",
    envvar="HEADRACE_CACHE",
    metavar="sqlite|PATH|redis://HOST",
    help="Cache to use; give a password in the environment only.",
)
_Where = Annotated[str, CACHE_OPTION]
_Spill = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Use this store of packed frames instead of the cache."),
]
_DEFAULT = "sqlite"


@cache.command()
def info(cache: _Where = _DEFAULT, spill: _Spill = None, json: JsonFlag = False) -> None:
    """Print the location, size and settings of the cache."""
    if spill is not None:
        from headrace.cache.spill_store import SpillStore

        with SpillStore.open(spill, budget=None) as frames:
            contents = frames.state()
        facts = {name: getattr(contents, name) for name in _SPILL_FACTS}
        print(json_format.dumps(facts, indent=1) if json else "\n".join(_spill_lines(contents)))
        return
    with _store(cache) as store:
        state = store.state()
    if json:
        print(json_format.dumps(asdict(state), indent=1))
    else:
        print("\n".join(_info_lines(state)))


@cache.command()
def verify(
    repair: Annotated[bool, typer.Option("--repair", help="Remove damaged results.")] = False,
    cache: _Where = _DEFAULT,
    spill: _Spill = None,
    json: JsonFlag = False,
) -> None:
    """Check every result; exit with code 1 if damage remains."""
    from headrace.cache.maintenance import verify as verified

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
        typer.Option(
            metavar="SIZE", help="Remove the longest unused until the rest fits, such as 1GiB."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Remove results unused for this long, such as 30d."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Remove everything.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing.")
    ] = False,
    cache: _Where = _DEFAULT,
    spill: _Spill = None,
    json: JsonFlag = False,
) -> None:
    """Remove results by size, by age, or all."""
    from headrace.cache.maintenance import prune as pruned
    from headrace.units import parse_bytes, parse_seconds

    if sum((to is not None, older_than is not None, all_)) != 1:
        raise ConfigError("give one of --to SIZE, --older-than TIME and --all")
    to_bytes = 0 if all_ else None if to is None else parse_bytes(to)
    seconds = None if older_than is None else parse_seconds(older_than)
    with nullcontext(_segments(spill)) if spill is not None else _store(cache) as store:
        done = pruned(store, to_bytes=to_bytes, older_than_seconds=seconds, dry_run=dry_run)
    noun = "result" if spill is None else "segment"
    print(json_format.dumps(asdict(done), indent=1) if json else _pruning_line(done, noun))


@cache.command()
def explain(
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...", help="First digits of a key, or a file with a key; two are compared."
        ),
    ],
    cache: _Where = _DEFAULT,
    json: JsonFlag = False,
) -> None:
    """Show the parts of a key, the difference of two keys, or the reason of a miss."""
    from headrace.cache.key import differences

    if len(keys) > 2:
        raise ConfigError(f"give one key, or two to compare; got {len(keys)}")
    with _store(cache) as store:
        if len(keys) == 1:
            _explain(store, _key(store, keys[0]), as_json=json)
            return
        first, second = (_key(store, text) for text in keys)
    changes = differences(first, second)
    if json:
        print(json_format.dumps([asdict(change) for change in changes], indent=1))
    else:
        print("\n".join(_difference_lines(changes, ("first", "second"))))


def _explain(store: "Store", key: "ChunkKey", *, as_json: bool) -> None:
    from headrace.cache.maintenance import find, nearest

    entry = find(store, key.digest)
    close = None
    if entry is None:
        with progress(is_quiet=as_json) as show:
            close = nearest(store, key, on_progress=partial(show, "looking for the nearest"))
    arrays = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in (entry.arrays.items() if entry else ())
    }
    if as_json:
        facts: dict[str, Any] = {
            "digest": key.digest,
            "key": json_format.loads(key.text),
            "is_kept": entry is not None,
            "arrays": arrays,
            "nearest": None if close is None else close.key.digest,
            "differences": [] if close is None else [asdict(d) for d in close.differences],
        }
        print(json_format.dumps(facts, indent=1))
        return
    print("\n".join(_key_lines(key)))
    if entry is not None:
        shapes = ", ".join(f"{name} {a['dtype']} {a['shape']}" for name, a in arrays.items())
        print(f"Stored in {store.where}: {shapes}")
    elif close is None:
        print(f"Not in {store.where}, which is empty")
    else:
        print(f"Not in {store.where}. The nearest stored key is {close.key.digest}")
        print("\n".join(_difference_lines(close.differences, ("this key", "nearest"))))


def _key(store: "Store", text: str) -> "ChunkKey":
    """Return the key in the file `text`, or the stored key whose digest starts with `text`."""
    from headrace.cache.key import ChunkKey
    from headrace.cache.maintenance import find

    with suppress(OSError):  # a text too long for a file name
        if Path(text).is_file():
            return ChunkKey.of_text(read_text(Path(text)))
    entry = find(store, text)
    if entry is None:
        raise ConfigError(
            f"no key in {store.where} begins with {text}; to explain a miss, give a file with the "
            "key as JSON"
        )
    return entry.key


@contextmanager
def _store(text: str, *, repairs: bool = False) -> "Iterator[Store]":
    """Yield the opened store; with `repairs`, a damaged file is renamed and replaced."""
    from headrace.cache.cache_url import open_store

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
    from headrace.cache.maintenance import SpillSegments
    from headrace.cache.spill_folder import SpillFolder

    return SpillSegments(SpillFolder(spill.expanduser(), budget=None))


_MAX_VALUES: Final = 6
"""Max values of a list in the output."""
_WIDTH: Final = 60
"""Max characters of a value in the output."""


def _info_lines(state: "StoreState") -> Iterator[str]:
    from headrace.report.text import aligned, printable

    limit = "no limit" if state.bound_bytes is None else f"of {gibibytes(state.bound_bytes)}"
    rows = [
        ("cache", state.where),
        ("results", count(state.entries)),
        ("size", f"{megabytes(state.size_bytes)} {limit}"),
    ]
    if state.hits is not None and state.misses is not None:
        lookups = state.hits + state.misses
        share = f", {percent(state.hits / lookups)}" if lookups else ""
        rows.append(("hits", f"{count(state.hits)} of {counted(lookups, 'lookup')}{share}"))
    rows += [("set-up", note) for note in state.notes]
    return map(printable, (line.removeprefix("  ") for line in aligned(rows)))


_SPILL_FACTS: Final = (
    *("where", "frames", "streams", "segments", "size_bytes", "budget_bytes", "unused_seconds"),
    "damaged",
)
"""Fields of `SpillState` about the folder; the others count the work of this process."""


def _spill_lines(state: "SpillState") -> Iterator[str]:
    from headrace.report.text import aligned, printable

    budget = f"of {megabytes(state.budget_bytes)}" if state.budget_bytes else "of an unknown budget"
    rows = [
        ("spill", state.where),
        ("frames", f"{count(state.frames)} of {counted(state.streams, 'stream')}"),
        (
            "size",
            f"{megabytes(state.size_bytes)} {budget}, in {counted(state.segments, 'segment')}",
        ),
        ("oldest", f"last used {seconds(state.unused_seconds)} ago" if state.segments else "-"),
    ]
    if state.damaged:
        rows.append(("damaged", f"{count(state.damaged)} in the index; verify lists them"))
    return map(printable, (line.removeprefix("  ") for line in aligned(rows)))


def _pruning_line(done: "Pruning", noun: str) -> str:
    verb = "Would remove" if done.is_dry_run else "Removed"
    return (
        f"{verb} {counted(done.removed, noun)}, {megabytes(done.removed_bytes)}; "
        f"{count(done.left)} left, {megabytes(done.left_bytes)}"
    )


def _key_lines(key: "ChunkKey") -> Iterator[str]:
    from headrace.report.text import aligned, printable

    yield f"Key {key.digest}"
    rows = list(_rows("", json_format.loads(key.text)))
    yield from map(printable, aligned(rows))


def _difference_lines(changes: "Sequence[KeyDifference]", names: tuple[str, str]) -> Iterator[str]:
    from headrace.report.text import aligned, printable

    if not changes:
        yield "The keys are equal"
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
    if isinstance(value, list) and len(value) > _MAX_VALUES:
        start = ", ".join(map(json_format.dumps, value[: _MAX_VALUES - 1]))
        return f"{start}, … {json_format.dumps(value[-1])} ({len(value)} values)"
    text = value if isinstance(value, str) else json_format.dumps(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
