"""A YAML file as entries with their lines: texts as they stand there, nothing made of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from headrace.errors import ConfigError, reason_of
from headrace.runs.launch.problems import Problems

Value = str | bool | tuple[str, ...]
"""Of an option: its text, whether a flag is set, or several texts."""

_LARGEST_BYTES: Final = 1 << 20
_TRUE: Final = {"yes", "true", "on"}


@dataclass(frozen=True, kw_only=True)
class Entry:
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

    entries: tuple[Entry, ...]

    def part(self, name: str, problems: Problems, at: Entry | None = None) -> tuple[Entry, ...]:
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


def _entries(node: yaml.MappingNode, problems: Problems) -> Iterator[Entry]:
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            problems.add(line, "a key is one word, got a list or keys")
        elif key.value in seen:
            problems.add(line, f"{key.value} is given again; it stands in line {seen[key.value]}")
        else:
            seen[key.value] = line
            yield Entry(key=key.value, line=line, node=value)


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
