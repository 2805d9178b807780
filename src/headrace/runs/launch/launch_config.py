"""YAML file of a launch: every key is checked, and all problems are reported at once."""

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
"""Value of an option: a text, the state of a flag, or several texts."""

_MAX_BYTES: Final = 1 << 20
"""Max bytes of a launch file."""
_TRUE: Final = {"yes", "true", "on"}


@dataclass(frozen=True, kw_only=True)
class YamlEntry:
    """One key of a YAML mapping, with its value."""

    key: str
    line: int
    """1-based."""
    node: yaml.Node

    @property
    def is_true(self) -> bool | None:
        """Value as a flag; None for other values."""
        value = _scalar(self.node)
        return value if isinstance(value, bool) else None

    @property
    def description(self) -> str:
        """Value, for a message."""
        kinds = {yaml.MappingNode: "keys of its own", yaml.SequenceNode: "a list"}
        return kinds.get(type(self.node)) or repr(self.node.value)

    def value(self, location: str, problems: Problems) -> Value | None:
        """Return the value; None if it is empty, or invalid and added to `problems`."""
        if isinstance(self.node, yaml.ScalarNode):
            return _scalar(self.node)
        nodes = self.node.value if isinstance(self.node, yaml.SequenceNode) else [self.node]
        texts = [node.value for node in nodes if isinstance(node, yaml.ScalarNode)]
        if len(texts) < len(nodes) or not texts:
            problems.add(
                self.line, f"{location} takes a value or a list of values, got {self.description}"
            )
            return None
        return tuple(texts)


@dataclass(frozen=True, kw_only=True)
class Document:
    """Top-level entries of a YAML file, by key."""

    entries: Mapping[str, YamlEntry]
    problems: Problems
    """Receives what is wrong with the file."""

    def section(self, entry: YamlEntry | None) -> tuple[YamlEntry, ...]:
        """Return the entries below a key; empty without that key."""
        if entry is None:
            return ()
        if isinstance(entry.node, yaml.MappingNode):
            return tuple(_entries(entry.node, self.problems))
        if _scalar(entry.node) is not None:
            self.problems.add(
                entry.line, f"{entry.key} holds keys with values, got {entry.description}"
            )
        return ()

    def text(self, name: str) -> str | None:
        """Return the text of a top-level key; None without that key."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        if isinstance(entry.node, yaml.ScalarNode):
            return str(entry.node.value) or None
        self.problems.add(entry.line, f"{name} is one text, got {entry.description}")
        return None


def read_document(path: Path, problems: Problems) -> Document:
    """Return the entries of a YAML file; duplicate keys are added to `problems`.

    Texts stay as typed: `0-3`, `010` and `12:30` are not read as numbers, dates or times.

    Raises:
        ConfigError: the file cannot be read, or is not a YAML mapping.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} is larger than 1 MiB; check that it is a launch file")
        text = path.read_text(encoding="utf-8-sig")
        # Only the syntax tree: no objects are built, so no code can run.
        top = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {reason_of(error)}; `headrace launch --example` prints a first "
            "file"
        ) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: invalid YAML: {error.problem}") from error
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not a YAML text; write it as UTF-8, without deep nesting"
        ) from error
    if top is None or _scalar(top) is None:
        return Document(entries={}, problems=problems)
    if not isinstance(top, yaml.MappingNode):
        raise ConfigError(f"{path} has no keys; see `headrace launch --example`")
    entries = {entry.key: entry for entry in _entries(top, problems)}
    return Document(entries=entries, problems=problems)


def _entries(node: yaml.MappingNode, problems: Problems) -> Iterator[YamlEntry]:
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            problems.add(line, "a key is one word, got a list or keys")
        elif key.value in seen:
            problems.add(line, f"{key.value} is given twice; first in line {seen[key.value]}")
        else:
            seen[key.value] = line
            yield YamlEntry(key=key.value, line=line, node=value)


def _scalar(node: yaml.Node) -> str | bool | None:
    """Return the text as typed, a flag, or None for null."""
    if not isinstance(node, yaml.ScalarNode):
        return ""
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() in _TRUE
    return str(node.value)


_TOP_KEYS: Final = ("out", "defaults", "workers")
_NSYS: Final = "nsys"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


class Vocabulary(Protocol):
    """Options of a worker, from the command that runs it."""

    @property
    def keys(self) -> Mapping[str, str]:
        """Key → option; several keys may set one option, such as `video` and `no_video`."""

    @property
    def refused(self) -> Mapping[str, str]:
        """Key → reason it is refused for a worker, with the alternative."""

    @property
    def required(self) -> Mapping[str, str]:
        """Required option → its key."""

    def arguments(self, key: str, value: Value) -> tuple[str, ...]:
        """Return the command-line arguments of a key.

        Raises:
            ConfigError: the value is invalid.
        """


class WorkerConfig(Record):
    """Configuration of one worker."""

    name: str
    arguments: tuple[Text, ...]
    """Arguments of `headrace run`, without the output folder."""
    nsys: bool = False
    """Whether NVIDIA Nsight Systems profiles it."""


class LaunchConfig(Record):
    """Configuration of a launch."""

    out: Text | None = None
    """Output folder, with a subfolder per worker."""
    workers: tuple[WorkerConfig, ...]


def read_config(path: Path, vocabulary: Vocabulary) -> LaunchConfig:
    """Return the launch of a YAML file, every key and value checked.

    Raises:
        ConfigError: the file cannot be read, or has problems; the message has a line for each,
            with its location.
    """
    problems = Problems(path)
    document = read_document(path, problems)
    problems.raise_if_any()
    for key, entry in document.entries.items():
        if key not in _TOP_KEYS:
            problems.add(entry.line, f"{key} is not a key of a launch; {closest(key, _TOP_KEYS)}")
    defaults = document.section(document.entries.get("defaults"))
    shared = _options(defaults, "defaults", vocabulary, problems)
    workers = document.section(document.entries.get("workers"))
    if not workers:
        problems.add(1, "no workers are given; see `headrace launch --example`")
    configs = [_worker_config(entry, document, shared, vocabulary) for entry in workers]
    out = document.text("out")
    problems.raise_if_any()
    return LaunchConfig(out=out, workers=tuple(configs))


_Options = dict[str, tuple[str, ...]]
"""Option → its command-line arguments."""


def _worker_config(
    entry: YamlEntry, document: Document, shared: _Options, vocabulary: Vocabulary
) -> WorkerConfig:
    problems = document.problems
    if not re.fullmatch(_NAME, entry.key):
        allowed = "letters, digits, '.', '_' and '-', since it names a folder"
        problems.add(entry.line, f"the name of a worker has {allowed}, got {entry.key!r}")
    location = f"workers.{entry.key}"
    options = shared | _options(document.section(entry), location, vocabulary, problems)
    for option, key in vocabulary.required.items():
        if option not in options:
            problems.add(entry.line, f"{location} needs {key}")
    nsys = options.pop(_NSYS, ())
    # Arguments without a flag, the sources, come first.
    ordered = sorted(options.values(), key=lambda texts: texts[:1] > ("-",) and texts[0][0] == "-")
    return WorkerConfig(
        name=entry.key,
        arguments=tuple(text for texts in ordered for text in texts),
        nsys=bool(nsys),
    )


def _options(
    entries: tuple[YamlEntry, ...], parent: str, vocabulary: Vocabulary, problems: Problems
) -> _Options:
    options: _Options = {}
    for entry in entries:
        key = entry.key.lstrip("-").replace("-", "_")
        location = f"{parent}.{entry.key}"
        if key == _NSYS:
            options[_NSYS] = ("nsys",) if entry.is_true else ()
            if entry.is_true is None:
                problems.add(entry.line, f"{location} is true or false, got {entry.description}")
        elif key in vocabulary.refused:
            problems.add(entry.line, f"{location}: {vocabulary.refused[key]}")
        elif key not in vocabulary.keys:
            advice = closest(key, [*vocabulary.keys, _NSYS], listed_by="headrace run --help")
            problems.add(entry.line, f"{location}: `headrace run` has no such option; {advice}")
        else:
            value = entry.value(location, problems)
            if value is None:
                continue
            try:
                options[vocabulary.keys[key]] = vocabulary.arguments(key, value)
            except ConfigError as error:
                problems.add(entry.line, f"{location}: {error}")
    return options
