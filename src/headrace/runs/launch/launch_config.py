"""A launch as its YAML file describes it, every key checked, all problems in one go."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import yaml

from headrace.errors import ConfigError, reason_of
from headrace.profiling.provenance import Record, Text
from headrace.runs.launch.problems import Problems, closest

Value = str | bool | tuple[str, ...]
"""Of an option: its text, whether a flag is set, or several texts."""

_LARGEST_BYTES: Final = 1 << 20
_TRUE: Final = {"yes", "true", "on"}


@dataclass(frozen=True, kw_only=True)
class YamlEntry:
    """A key and what it holds."""

    key: str
    line: int
    """1-based."""
    node: yaml.Node

    @property
    def is_true(self) -> bool | None:
        """What it says as a flag; None where it is none."""
        value = _scalar(self.node)
        return value if isinstance(value, bool) else None

    @property
    def words(self) -> str:
        """What it holds, for a message."""
        kind = {yaml.MappingNode: "keys of its own", yaml.SequenceNode: "a list"}
        return kind.get(type(self.node)) or repr(self.node.value)

    def value(self, place: str, problems: Problems) -> Value | None:
        """Return what it holds; None where that is nothing, or is wrong and noted."""
        if isinstance(self.node, yaml.ScalarNode):
            return _scalar(self.node)
        parts = self.node.value if isinstance(self.node, yaml.SequenceNode) else [self.node]
        texts = [part.value for part in parts if isinstance(part, yaml.ScalarNode)]
        if len(texts) < len(parts) or not texts:
            problems.add(self.line, f"{place} takes a value or a list of values, got {self.words}")
            return None
        return tuple(texts)


@dataclass(frozen=True, kw_only=True)
class Document:
    """What a file holds, on its top."""

    entries: tuple[YamlEntry, ...]

    def part(
        self, name: str, problems: Problems, at: YamlEntry | None = None
    ) -> tuple[YamlEntry, ...]:
        """Return the entries below a key, or below `at`; none where there is no such key."""
        for entry in self.entries if at is None else (at,):
            if entry.key == name:
                if isinstance(entry.node, yaml.MappingNode):
                    return tuple(_entries(entry.node, problems))
                if _scalar(entry.node) is not None:
                    problems.add(entry.line, f"{name} holds keys with values, got {entry.words}")
        return ()

    def text(self, name: str, problems: Problems) -> str | None:
        """Return what a key of the top says; None where it is not there."""
        for entry in self.entries:
            if entry.key == name:
                if isinstance(entry.node, yaml.ScalarNode):
                    return str(entry.node.value) or None
                problems.add(entry.line, f"{name} is one text, got {entry.words}")
        return None


def read_document(path: Path, problems: Problems) -> Document:
    """Return what a YAML file holds; keys that are given twice are noted as problems.

    Texts stay as they were typed: `0-3`, `010` and `12:30` are no numbers, dates or times.

    Raises:
        ConfigError: it cannot be read, or is no YAML with keys.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than 1 MiB; is it the description of a launch?")
        text = path.read_text(encoding="utf-8-sig")
        # Only the tree of what stands there: nothing is built from it, so nothing can be run.
        top = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        why = reason_of(error)
        raise ConfigError(
            f"cannot read {path}: {why}; `headrace launch --example` prints a file to begin with"
        ) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: it is no YAML: {error.problem}") from error
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path} is no YAML text; write it as UTF-8, without nesting") from error
    if top is None or (_scalar(top) is None and isinstance(top, yaml.ScalarNode)):
        return Document(entries=())
    if not isinstance(top, yaml.MappingNode):
        raise ConfigError(f"{path} holds no keys; see `headrace launch --example`")
    return Document(entries=tuple(_entries(top, problems)))


def _entries(node: yaml.MappingNode, problems: Problems) -> Iterator[YamlEntry]:
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            problems.add(line, "a key is one word, got a list or keys")
        elif key.value in seen:
            problems.add(line, f"{key.value} is given again; it stands in line {seen[key.value]}")
        else:
            seen[key.value] = line
            yield YamlEntry(key=key.value, line=line, node=value)


def _scalar(node: yaml.Node) -> str | bool | None:
    """The text as it stands there; a flag; None where it is nothing."""
    if not isinstance(node, yaml.ScalarNode):
        return ""
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() in _TRUE
    return str(node.value)


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
    entry: YamlEntry,
    entries: tuple[YamlEntry, ...],
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
    entries: tuple[YamlEntry, ...], where: str, vocabulary: Vocabulary, problems: Problems
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
