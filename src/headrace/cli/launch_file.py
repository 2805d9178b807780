"""YAML file of a launch: every key and value is checked, and all problems are reported at once.

The options of a worker are those of `headrace run`, by the names of their flags.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import typer
import yaml

from headrace.cli.app import build_command, reword_usage_error
from headrace.errors import ConfigError, closest, reason_of
from headrace.runs.launch.launching import LaunchConfig, WorkerConfig

Value = str | bool | tuple[str, ...]
"""Value of an option: a text, the state of a flag, or several texts."""
_Options = dict[str, tuple[str, ...]]
"""Option → its command-line arguments."""
_MAX_BYTES: Final = 1 << 20
"""Max bytes of a launch file."""
_TRUE: Final = {"yes", "true", "on"}
_TOP_KEYS: Final = ("out", "defaults", "workers")
_NSYS: Final = "nsys"
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def read_config(path: Path, vocabulary: "RunVocabulary") -> LaunchConfig:
    """Return the launch of a YAML file.

    Texts stay as typed: `0-3`, `010` and `12:30` are not read as numbers, dates or times.

    Raises:
        ConfigError: the file cannot be read, or has problems; the message has a line for each,
            with its location.
    """
    return _LaunchFile(path, vocabulary).read(_compose(path))


def _compose(path: Path) -> yaml.Node | None:
    """Return the syntax tree of a file; no objects are built, so no code can run."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} is larger than 1 MiB; check that it is a launch file")
        top = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {reason_of(error)}; `headrace launch --example` prints an example"
        ) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: invalid YAML: {error.problem}") from error
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not YAML text in UTF-8, or is nested too deeply; see "
            "`headrace launch --example`"
        ) from error
    if top is None or _scalar(top) is None:
        return None
    if not isinstance(top, yaml.MappingNode):
        raise ConfigError(f"{path} is not a mapping of keys; see `headrace launch --example`")
    return top


@dataclass(frozen=True)
class _Entry:
    """One key of a YAML mapping, with its value."""

    key: str
    line: int
    """1-based."""
    node: yaml.Node

    @property
    def description(self) -> str:
        """Value, for a message."""
        kinds = {yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list"}
        return kinds.get(type(self.node)) or repr(self.node.value)


@dataclass(frozen=True)
class _LaunchFile:
    """Reader of one file."""

    path: Path
    vocabulary: "RunVocabulary"
    problems: set[tuple[int, str]] = field(default_factory=set)
    """(1-based line, problem)"""

    def _add(self, line: int, problem: str) -> None:
        self.problems.add((line, problem))

    def _raise_if_any(self) -> None:
        """Raise all problems in one error, by line."""
        lines = [f"{self.path}:{line}: {problem}" for line, problem in sorted(self.problems)]
        if len(lines) == 1:
            raise ConfigError(lines[0])
        if lines:
            raise ConfigError("\n  ".join([f"{len(lines)} problems in {self.path}", *lines]))

    def read(self, top: yaml.Node | None) -> LaunchConfig:
        entries = {entry.key: entry for entry in self._entries(top)}
        self._raise_if_any()
        for key, entry in entries.items():
            if key not in _TOP_KEYS:
                advice = closest(key, _TOP_KEYS)
                self._add(entry.line, f"{key} is not a key of a launch; {advice}")
        shared = self._options(self._section(entries.get("defaults")), "defaults")
        workers = self._section(entries.get("workers"))
        if not workers:
            self._add(1, "the launch has no workers; see `headrace launch --example`")
        configs = tuple(self._worker(entry, shared) for entry in workers)
        out = entries.get("out")
        if out is not None and not isinstance(out.node, yaml.ScalarNode):
            self._add(out.line, f"out must be one text, got {out.description}")
        self._raise_if_any()
        return LaunchConfig(out=(out and out.node.value) or None, workers=configs)

    def _entries(self, node: yaml.Node | None) -> Iterator[_Entry]:
        """Yield the entries of a mapping; duplicate keys are problems."""
        seen: dict[str, int] = {}
        for key, value in node.value if node else ():
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._add(line, "a key must be text, got a list or a mapping")
            elif key.value in seen:
                first = f"first in line {seen[key.value]}"
                self._add(line, f"{key.value} is given twice; {first}")
            else:
                seen[key.value] = line
                yield _Entry(key.value, line, value)

    def _section(self, entry: _Entry | None) -> tuple[_Entry, ...]:
        """Return the entries below a key; empty without that key."""
        if entry is not None and isinstance(entry.node, yaml.MappingNode):
            return tuple(self._entries(entry.node))
        if entry is not None and _scalar(entry.node) is not None:
            problem = f"{entry.key} must be a mapping, got {entry.description}"
            self._add(entry.line, problem)
        return ()

    def _worker(self, entry: _Entry, shared: _Options) -> WorkerConfig:
        if not re.fullmatch(_NAME, entry.key):
            allowed = "of letters, digits, '.', '_' and '-', as it names a folder"
            self._add(entry.line, f"worker name must be {allowed}, got {entry.key!r}")
        location = f"workers.{entry.key}"
        options = shared | self._options(self._section(entry), location)
        for option, key in self.vocabulary.required.items():
            if option not in options:
                self._add(entry.line, f"{location} needs {key}")
        nsys = options.pop(_NSYS, ())
        # Arguments without a flag, the sources, come first.
        ordered = sorted(
            options.values(), key=lambda texts: texts[:1] > ("-",) and texts[0][0] == "-"
        )
        arguments = tuple(text for texts in ordered for text in texts)
        return WorkerConfig(name=entry.key, arguments=arguments, nsys=bool(nsys))

    def _options(self, entries: tuple[_Entry, ...], parent: str) -> _Options:
        options: _Options = {}
        vocabulary = self.vocabulary
        for entry in entries:
            key = _key(entry.key)
            location = f"{parent}.{entry.key}"
            if key == _NSYS:
                is_on = _scalar(entry.node)
                options[_NSYS] = ("nsys",) if is_on is True else ()
                if not isinstance(is_on, bool):
                    problem = f"{location} must be true or false, got {entry.description}"
                    self._add(entry.line, problem)
            elif key in _REFUSED:
                self._add(entry.line, f"{location}: {_REFUSED[key]}")
            elif key not in vocabulary.keys:
                advice = closest(key, [*vocabulary.keys, _NSYS], listed_by="headrace run --help")
                self._add(entry.line, f"{location}: `headrace run` has no such option; {advice}")
            else:
                value = self._value(entry, location)
                if value is None:
                    continue
                try:
                    options[vocabulary.keys[key]] = vocabulary.arguments(key, value)
                except ConfigError as error:
                    self._add(entry.line, f"{location}: {error}")
        return options

    def _value(self, entry: _Entry, location: str) -> Value | None:
        """Return the value of an option; None if it is empty, or invalid and a problem."""
        if isinstance(entry.node, yaml.ScalarNode):
            return _scalar(entry.node)
        nodes = entry.node.value if isinstance(entry.node, yaml.SequenceNode) else [entry.node]
        texts = tuple(node.value for node in nodes if isinstance(node, yaml.ScalarNode))
        if len(texts) == len(nodes) and texts:
            return texts
        problem = f"{location} must be a value or a list of values, got {entry.description}"
        self._add(entry.line, problem)
        return None


def _scalar(node: yaml.Node) -> str | bool | None:
    """Return the text as typed, a flag, or None for null."""
    if not isinstance(node, yaml.ScalarNode):
        return ""
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    return node.value.lower() in _TRUE if kind == "bool" else str(node.value)


_REFUSED: Final = {
    "out": "each worker writes to a subfolder of the launch; set `out` at the top, or give --out",
    "dry_run": "give --dry-run to `headrace launch`",
    "json": "give --json to `headrace launch`",
    "help": "see `headrace run --help`",
}
_SOURCE_OPTIONS: Final = ("input_path",)
"""Options that are aliases of the argument SOURCE."""


class RunVocabulary:
    """Options of `headrace run` as YAML keys, such as `batch_size` for `--batch-size`.

    Names and checks are those of the command itself.
    """

    def __init__(self, run: Callable[..., None]) -> None:
        """Read the options of a typer command function."""
        self._command: Any = build_command("run", run)
        self._flags: dict[str, tuple[Any, str]] = {}
        for parameter in self._command.params:
            for flag in (*parameter.opts, *parameter.secondary_opts):
                self._flags[_key(flag)] = (parameter, flag)
            if _is_argument(parameter):
                self._flags[_singular(parameter.name)] = (parameter, parameter.name)
        known = {key: flag for key, flag in self._flags.items() if key not in _REFUSED}
        arguments = [option.name for option in self._command.params if _is_argument(option)]
        self.keys: Mapping[str, str] = {
            key: arguments[0] if key in _SOURCE_OPTIONS else option.name
            for key, (option, _) in known.items()
        }
        self.required: Mapping[str, str] = {name: _singular(name) for name in arguments}

    def arguments(self, key: str, value: Value) -> tuple[str, ...]:
        """Return the command-line arguments of a key.

        Raises:
            ConfigError: the value is invalid.
        """
        parameter, flag = self._flags[key]
        if getattr(parameter, "is_flag", False):
            return _switch_arguments(parameter, flag, value)
        if isinstance(value, bool):
            value = str(value).lower()
        texts = value if isinstance(value, tuple) else (value,)
        if _is_argument(parameter):
            # A source that starts like a flag is a file name.
            return tuple(f"./{text}" if text.startswith("-") else text for text in texts)
        if len(texts) > 1 and not parameter.multiple:
            raise ConfigError(f"must be one value, got {len(texts)}")
        self._check([f"{flag}={text}" for text in texts])
        return tuple(word for text in texts for word in (flag, text))

    def _check(self, arguments: list[str]) -> None:
        """Parse arguments as the command does, with placeholders for the required ones."""
        others = ["x" for _ in self.required]
        try:
            self._command.make_context("run", [*others, *arguments])
        except typer.BadParameter as error:
            message = str(getattr(reword_usage_error(error, arguments), "message", error)).rstrip(
                "."
            )
            raise ConfigError(message[:1].lower() + message[1:]) from error


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _key(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _switch_arguments(parameter: Any, flag: str, value: Value) -> tuple[str, ...]:
    if not isinstance(value, bool):
        raise ConfigError(f"must be true or false, got {value!r}")
    if value:
        return (flag,)
    is_off = flag in parameter.secondary_opts
    others = parameter.opts if is_off else parameter.secondary_opts
    return (others[0],) if others else ()
