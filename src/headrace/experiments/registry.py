"""The experiments that `headrace bench` asks, in the order in which help lists them."""

from typing import Any, Final

from headrace.experiments.cameras_report import CAMERAS
from headrace.experiments.experiment import Experiment
from headrace.experiments.live_limit_report import LIVE
from headrace.experiments.memory_report import MEMORY
from headrace.experiments.modes_report import MODES
from headrace.experiments.overlap_report import OVERLAP
from headrace.experiments.prefetch_report import PREFETCH
from headrace.experiments.sampling_report import SAMPLING
from headrace.experiments.stability_report import STABILITY
from headrace.experiments.stages_report import STAGES
from headrace.experiments.workers import WORKERS

EXPERIMENTS: Final[tuple[Experiment[Any, Any, Any], ...]] = (
    WORKERS,
    SAMPLING,
    CAMERAS,
    OVERLAP,
    MODES,
    LIVE,
    STAGES,
    PREFETCH,
    STABILITY,
    MEMORY,
)
