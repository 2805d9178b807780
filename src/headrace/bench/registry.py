"""Registry of benchmarks, in help order, and the loader of custom benchmarks."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from headrace.bench.benchmark import Benchmark, Registered
from headrace.errors import ConfigError, in_words
from headrace.runs.launch.problems import closest

_PLACES: Final = (
    "stages:STAGES",
    "workers:WORKERS",
    "prefetch:PREFETCH",
    "sampling_report:SAMPLING",
    "cameras:CAMERAS",
    "decode:DECODE",
    "preprocess:PREPROCESS",
    "transfer:TRANSFER",
    "overlap:OVERLAP",
    "stability:STABILITY",
    "scenarios:SCENARIOS",
    "live_capacity:LIVE",
    "compile_model:COMPILE",
    "amp:AMP",
    "split:SPLIT",
    "affinity:AFFINITY",
    "memory:MEMORY",
)
"""Module and name of each benchmark, in help order."""
BENCHMARKS: Final[tuple[Registered, ...]] = tuple(
    resolve_name(f"headrace.bench.{place}") for place in _PLACES
)


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
