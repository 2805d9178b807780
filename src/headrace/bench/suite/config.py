"""What a survey is asked for: videos, and the model that all of its experiments run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from headrace.bench.benchmark import Experiment
from headrace.bench.model_choice import ModelName, OnDevice, Prepared, Weights
from headrace.errors import ConfigError
from headrace.measuring.config_fields import Configuration, Videos, check_options

Registered = Experiment[Any, Any, Any]

MODEL: Final = "resnet18"
"""Of the size that people run, and quick enough that many experiments take minutes on two cores."""


@dataclass(frozen=True, kw_only=True)
class SurveyConfig:
    """What is measured. One model, so that the shares of one experiment hold for all gains."""

    videos: Videos
    model_name: ModelName = MODEL
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"

    def __post_init__(self) -> None:
        check_options(self)

    def check(self) -> None:
        """Refuse a model or device that there is not, before anything is measured.

        Imports PyTorch.

        Raises:
            ConfigError: torchvision has no such model.
            BackendError: the device is missing.
        """
        from headrace.models.available import check_available
        from headrace.models.catalogue import check_name
        from headrace.models.compute import Compute

        check_name(self.model_name, "classification")
        check_available(Compute(device=self.device))

    @property
    def model(self) -> dict[str, Any]:
        """The options that experiments have in common, by their names."""
        return {name: value for name, value in asdict(self).items() if name != "videos"}


def config_of(experiment: Registered, asked: SurveyConfig) -> Configuration | str:
    """Return how an experiment is measured in a survey, or why it cannot be."""
    config = _among_all(experiment, asked.videos)
    if isinstance(config, str):
        return config
    names = {field.name for field in fields(config)}
    in_common = {name: value for name, value in asked.model.items() if name in names}
    chosen: Configuration = replace(config, **in_common)
    return chosen


def _among_all(experiment: Registered, videos: Sequence[str]) -> Configuration | str:
    try:
        if experiment.terms.config is not None:
            found: Configuration | str = experiment.terms.config(tuple(videos))
            return found
        chosen: Configuration = experiment.config(videos=tuple(videos))
        return chosen
    except ConfigError as error:
        if len(videos) > 1:  # it may take one alone
            return _among_all(experiment, videos[:1])
        return str(error)
