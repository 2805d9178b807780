"""A launch as its file describes it: workers, each with the arguments of its run."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from headrace.errors import ConfigError
from headrace.profiling.provenance import Record, Text
from headrace.runs.launch.document import Entry, Value, read_document
from headrace.runs.launch.problems import Problems, closest

_TOP: Final = ("out", "defaults", "workers")
_NSYS: Final = "nsys"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


class Vocabulary(Protocol):
    """The options a worker may have: those of the command that runs it."""

    @property
    def keys(self) -> Mapping[str, str]:
        """Key → option it sets; several keys may set one, such as `video` and `no_video`."""

    @property
    def refused(self) -> Mapping[str, str]:
        """Key → why a worker cannot have it, and what to do instead."""

    @property
    def required(self) -> Mapping[str, str]:
        """Option → the key to give, for those that a worker must have."""

    def arguments(self, key: str, value: Value) -> tuple[str, ...]:
        """Return what stands on the command line for it.

        Raises:
            ConfigError: the value is not possible.
        """


class WorkerConfig(Record):
    """One worker."""

    name: str
    arguments: tuple[Text, ...]
    """Of `headrace run`, its folder left out."""
    nsys: bool = False
    """Whether it runs under NVIDIA Nsight Systems."""


class LaunchConfig(Record):
    """What to launch."""

    out: Text | None = None
    """Folder of the results, one folder in it for each worker."""
    workers: tuple[WorkerConfig, ...]


def read_config(path: Path, vocabulary: Vocabulary) -> LaunchConfig:
    """Return what a YAML file describes, every key and value of it checked.

    Raises:
        ConfigError: it cannot be read; or all that is wrong with it, a line each, with its place.
    """
    problems = Problems(path)
    document = read_document(path, problems)
    problems.raise_if_any()
    for entry in document.entries:
        if entry.key not in _TOP:
            advice = closest(entry.key, _TOP)
            problems.add(entry.line, f"{entry.key} is no part of a launch; {advice}")
    shared = _options(document.part("defaults", problems), "defaults", vocabulary, problems)
    workers = document.part("workers", problems)
    if not workers:
        problems.add(1, "it names no workers; see `headrace launch --example`")
    found = [
        _worker(entry, document.part(entry.key, problems, entry), shared, vocabulary, problems)
        for entry in workers
    ]
    out = document.text("out", problems)
    problems.raise_if_any()
    return LaunchConfig(out=out, workers=tuple(found))


_Options = dict[str, tuple[str, ...]]
"""Option → its arguments on the command line."""


def _worker(
    entry: Entry,
    entries: tuple[Entry, ...],
    shared: _Options,
    vocabulary: Vocabulary,
    problems: Problems,
) -> WorkerConfig:
    if not re.fullmatch(_NAME, entry.key):
        words = "letters, digits, '.', '_' and '-', since its folder is called so"
        problems.add(entry.line, f"the name of a worker is made of {words}, got {entry.key!r}")
    where = f"workers.{entry.key}"
    own = _options(entries, where, vocabulary, problems)
    options = shared | own
    for option, key in vocabulary.required.items():
        if option not in options:
            problems.add(entry.line, f"{where} needs {key}")
    nsys = options.pop(_NSYS, ())
    # What has no flag stands first: the sources.
    ordered = sorted(options.values(), key=lambda words: words[:1] > ("-",) and words[0][0] == "-")
    return WorkerConfig(
        name=entry.key,
        arguments=tuple(word for words in ordered for word in words),
        nsys=bool(nsys),
    )


def _options(
    entries: tuple[Entry, ...], where: str, vocabulary: Vocabulary, problems: Problems
) -> _Options:
    found: _Options = {}
    for entry in entries:
        key = entry.key.lstrip("-").replace("-", "_")
        place = f"{where}.{entry.key}"
        if key == _NSYS:
            found[_NSYS] = ("nsys",) if entry.is_true else ()
            if entry.is_true is None:
                problems.add(entry.line, f"{place} is true or false, got {entry.words}")
        elif key in vocabulary.refused:
            problems.add(entry.line, f"{place}: {vocabulary.refused[key]}")
        elif key not in vocabulary.keys:
            advice = closest(key, [*vocabulary.keys, _NSYS], listed_by="headrace run --help")
            problems.add(entry.line, f"{place}: `headrace run` has no such option; {advice}")
        else:
            value = entry.value(place, problems)
            if value is None:
                continue
            try:
                found[vocabulary.keys[key]] = vocabulary.arguments(key, value)
            except ConfigError as error:
                problems.add(entry.line, f"{place}: {error}")
    return found
