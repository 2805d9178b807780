"""Registry of benchmarks, in help order, and the loader of custom benchmarks."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from headrace.bench.affinity import AFFINITY
from headrace.bench.amp import AMP
from headrace.bench.benchmark import Benchmark
from headrace.bench.cameras import CAMERAS
from headrace.bench.compile_model import COMPILE
from headrace.bench.decode import DECODE
from headrace.bench.live_capacity import LIVE
from headrace.bench.memory import MEMORY
from headrace.bench.overlap import OVERLAP
from headrace.bench.prefetch import PREFETCH
from headrace.bench.preprocess import PREPROCESS
from headrace.bench.sampling_report import SAMPLING
from headrace.bench.scenarios import SCENARIOS
from headrace.bench.split import SPLIT
from headrace.bench.stability import STABILITY
from headrace.bench.stages import STAGES
from headrace.bench.transfer import TRANSFER
from headrace.bench.workers import WORKERS
from headrace.errors import ConfigError, in_words
from headrace.runs.launch.problems import closest

BENCHMARKS: Final[tuple[Benchmark[Any, Any, Any], ...]] = (
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
    SCENARIOS,
    LIVE,
    COMPILE,
    AMP,
    SPLIT,
    AFFINITY,
    MEMORY,
)

Registered = Benchmark[Any, Any, Any]


def load_benchmark(path: Path) -> Registered:
    """Return the benchmark defined in a Python file; runs its code.

    Raises:
        ConfigError: the file is missing, cannot be run, or does not define exactly one benchmark;
            or its name is the name of a headrace benchmark.
    """
    if not path.is_file():
        near = [str(other) for other in path.parent.glob("*.py")]
        hint = f"; {closest(str(path), near)}" if near else ""
        raise ConfigError(f"cannot open {path}: there is no such file{hint}")
    spec = spec_from_file_location(f"headrace_own_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} cannot be run: {in_words(error)}") from error
    known = set(map(id, BENCHMARKS))
    defined = {id(value): value for value in vars(module).values() if isinstance(value, Benchmark)}
    own = [value for number, value in defined.items() if number not in known]
    if len(own) != 1:
        raise ConfigError(
            f"{path} must define one Benchmark, and defines {len(own) or 'none'}; a "
            "VariantBenchmark becomes one by its benchmark()"
        )
    taken = ["all", *(benchmark.name for benchmark in BENCHMARKS)]
    if own[0].name in taken:
        raise ConfigError(
            f"the benchmark of {path} is called {own[0].name}, as one of headrace's: give it "
            "another name"
        )
    return own[0]
