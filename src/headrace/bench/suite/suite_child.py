"""What the child process of a survey does: one experiment, from its options to its two files."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.bench.benchmark import Context
from headrace.bench.record import write_experiment
from headrace.bench.registry import EXPERIMENTS
from headrace.bench.suite.config import Registered, SurveyConfig, config_of
from headrace.errors import ConfigError, HeadraceError
from headrace.runtime.child import Json


def order_of(
    experiment: Registered, asked: SurveyConfig, folder: Path, command: Sequence[str]
) -> Json:
    """Return what `measure_registered` is to do, as its argument."""
    return {
        "experiment": experiment.name,
        "videos": list(asked.videos),
        "model": asked.model,
        "folder": str(folder),
        "command": list(command),
    }


def measure_registered(order: Json, send: Callable[[Json], None]) -> Json:
    """Measure an experiment of the registry; see `measure_one`."""
    return measure_one(EXPERIMENTS, order, send)


def measure_one(
    experiments: Sequence[Registered], order: Any, send: Callable[[Json], None]
) -> Json:
    """Measure one of the experiments into its files; return what went wrong, None if nothing.

    To be the function of a child process: SIGTERM ends it as Ctrl-C would. It sends what begins,
    how much is done, and of how much, before each turn.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    experiment = next(each for each in experiments if each.name == order["experiment"])
    folder = Path(order["folder"])
    context = Context(
        command=order["command"],
        on_progress=lambda what, done, of: send([what, done, of]),
        out=folder,
    )
    try:
        asked = SurveyConfig(videos=tuple(order["videos"]), **order["model"])
        config = config_of(experiment, asked)
        if isinstance(config, str):
            raise ConfigError(config)
        record = experiment.measure(config, context)
        write_experiment(record, experiment.page(record), folder, experiment.name)
    except HeadraceError as error:
        return str(error)
    return None
