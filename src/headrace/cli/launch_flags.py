"""Options of a launch's workers: those of `headrace run`, by the names of their flags."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import typer

from headrace.cli.usage_errors import reword_usage_error
from headrace.errors import ConfigError
from headrace.runs.launch.launch_config import Value

_REFUSED: Final = {
    "out": "each worker has a subfolder of the launch; give `out` at the top, or --out",
    "dry_run": "give --dry-run to `headrace launch`",
    "json": "give --json to `headrace launch`",
    "help": "see `headrace run --help`",
}
_SOURCE_OPTIONS: Final = ("input_path",)
"""Options that are aliases of the sources."""


class RunVocabulary:
    """Options of a command as YAML keys: `batch_size` for `--batch-size`.

    Names and checks come from the command itself.
    """

    def __init__(self, run: Callable[..., None]) -> None:
        """Read the options of a typer command function."""
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
            ConfigError: the value is not possible.
        """
        parameter, flag = self._flags[key]
        if getattr(parameter, "is_flag", False):
            return _switch_arguments(parameter, flag, value)
        texts = (
            value
            if isinstance(value, tuple)
            else (str(value).lower() if isinstance(value, bool) else value,)
        )
        if _is_argument(parameter):
            # A source that starts like a flag is a file name.
            return tuple(f"./{text}" if text.startswith("-") else text for text in texts)
        if len(texts) > 1 and not parameter.multiple:
            raise ConfigError(f"it takes one value, got {len(texts)}")
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
        raise ConfigError(f"it is true or false, got {value!r}")
    if value:
        return (flag,)
    is_off = flag in parameter.secondary_opts
    others = parameter.opts if is_off else parameter.secondary_opts
    return (others[0],) if others else ()
