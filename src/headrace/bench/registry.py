"""The experiments that `headrace bench` asks, in the order in which help lists them."""

from typing import Any, Final

from headrace.bench.affinity import AFFINITY
from headrace.bench.amp_report import AMP
from headrace.bench.benchmark import Experiment
from headrace.bench.cameras_report import CAMERAS
from headrace.bench.compile_report import COMPILE
from headrace.bench.decode_report import DECODE
from headrace.bench.live_capacity_report import LIVE
from headrace.bench.memory_report import MEMORY
from headrace.bench.overlap_report import OVERLAP
from headrace.bench.prefetch import PREFETCH
from headrace.bench.preprocess_report import PREPROCESS
from headrace.bench.sampling_report import SAMPLING
from headrace.bench.scenarios import MODES
from headrace.bench.split_report import SPLIT
from headrace.bench.stability_report import STABILITY
from headrace.bench.stages_report import STAGES
from headrace.bench.transfer_report import TRANSFER
from headrace.bench.workers import WORKERS

EXPERIMENTS: Final[tuple[Experiment[Any, Any, Any], ...]] = (
    STAGES,
    WORKERS,
    PREFETCH,
    SAMPLING,
    CAMERAS,
    DECODE,
    PREPROCESS,
    TRANSFER,
    OVERLAP,
    STABILITY,
    MODES,
    LIVE,
    COMPILE,
    AMP,
    SPLIT,
    AFFINITY,
    MEMORY,
)
