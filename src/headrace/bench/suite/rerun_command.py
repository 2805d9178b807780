"""The command that measures one experiment alone, with the options it has in a survey."""

from typing import Any

from headrace.bench.benchmark import Experiment
from headrace.measuring.config_fields import Configuration, Option, OptionField, option_fields


def command_alone(experiment: Experiment[Any, Any, Any], config: Configuration) -> tuple[str, ...]:
    """Return it as a list of arguments; options at their defaults are left out."""
    words = ["headrace", "bench", experiment.name]
    for field in option_fields(experiment.config):
        value = getattr(config, field.name)
        if not isinstance(field.option, Option):
            words += map(str, value)
        elif value != field.default:
            words += _typed(field, field.option, value)
    return tuple(words)


def _typed(field: OptionField, option: Option, value: Any) -> list[str]:
    flag, *_ = (*option.flags, f"--{field.name.replace('_', '-')}")
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    if field.item is not None:
        return [flag, ",".join(map(str, value))]
    if isinstance(value, tuple):
        return [flag, *map(str, value)]
    return [flag, str(value)]
