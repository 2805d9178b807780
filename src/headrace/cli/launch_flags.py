"""What a worker of a launch may be given: the options of `headrace run`, by their flags' names."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import typer

from headrace.cli.usage_errors import reword_usage_error
from headrace.errors import ConfigError
from headrace.runs.launch.launch_config import Value

_REFUSED: Final = {
    "out": "each worker has its folder in that of the launch; give `out` on top, or --out",
    "dry_run": "give --dry-run to `headrace launch`",
    "json": "give --json to `headrace launch`",
    "help": "see `headrace run --help`",
}
_SOURCE_OPTIONS: Final = ("input_path",)
"""Options that stand for the sources."""


class RunVocabulary:
    """The options of a command, as keys: `batch_size` for `--batch-size`.

    They are taken from the command itself, so that there is one list of them; a value is possible
    where the command takes it.
    """

    def __init__(self, run: Callable[..., None]) -> None:
        """Take them from a function that typer makes a command of."""
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command("run")(run)
        self._command: Any = typer.main.get_command(app)
        self._flags: dict[str, tuple[Any, str]] = {}
        for parameter in self._command.params:
            for flag in (*parameter.opts, *parameter.secondary_opts):
                self._flags[_key(flag)] = (parameter, flag)
            if _is_argument(parameter):
                self._flags[_singular(parameter.name)] = (parameter, parameter.name)
        self.refused: Mapping[str, str] = _REFUSED
        known = {key: found for key, found in self._flags.items() if key not in _REFUSED}
        arguments = [each.name for each in self._command.params if _is_argument(each)]
        self.keys: Mapping[str, str] = {
            key: arguments[0] if key in _SOURCE_OPTIONS else each.name
            for key, (each, _) in known.items()
        }
        self.required: Mapping[str, str] = {name: _singular(name) for name in arguments}

    def arguments(self, key: str, value: Value) -> tuple[str, ...]:
        """Return what stands on the command line for it.

        Raises:
            ConfigError: the value is not possible.
        """
        parameter, flag = self._flags[key]
        if getattr(parameter, "is_flag", False):
            return _switch(parameter, flag, value)
        texts = value if isinstance(value, tuple) else (_text(value),)
        if _is_argument(parameter):
            # What begins like a flag is none: it is a file of that name.
            return tuple(f"./{text}" if text.startswith("-") else text for text in texts)
        if len(texts) > 1 and not parameter.multiple:
            raise ConfigError(f"it takes one value, got {len(texts)}")
        words = tuple(word for text in texts for word in (flag, text))
        self._check([f"{flag}={text}" for text in texts])
        return words

    def _check(self, arguments: list[str]) -> None:
        """Parse them as the command does, with whatever else it needs."""
        others = ["x" for _ in self.required]
        try:
            self._command.make_context("run", [*others, *arguments])
        except typer.BadParameter as error:
            said = str(getattr(reword_usage_error(error, arguments), "message", error)).rstrip(".")
            raise ConfigError(said[:1].lower() + said[1:]) from error


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _key(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _text(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def _switch(parameter: Any, flag: str, value: Value) -> tuple[str, ...]:
    if not isinstance(value, bool):
        raise ConfigError(f"it is true or false, got {value!r}")
    if value:
        return (flag,)
    is_off = flag in parameter.secondary_opts
    others = parameter.opts if is_off else parameter.secondary_opts
    return (others[0],) if others else ()
