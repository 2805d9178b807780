"""Registry of benchmarks, in help order, and the loader of custom benchmarks."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from headrace.bench.benchmark import Benchmark, Registered
from headrace.errors import ConfigError, closest, in_words

_PATHS: Final = (
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
    resolve_name(f"headrace.bench.{path}") for path in _PATHS
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
    values = {id(value): value for value in vars(module).values() if isinstance(value, Benchmark)}
    defined = [value for identity, value in values.items() if identity not in known]
    if len(defined) != 1:
        raise ConfigError(
            f"{path} must define exactly one Benchmark, got {len(defined) or 'none'}; benchmark() "
            "of a VariantBenchmark returns one"
        )
    if defined[0].name in ("all", *(benchmark.name for benchmark in BENCHMARKS)):
        raise ConfigError(
            f"{path} must not reuse the name of a headrace benchmark, got {defined[0].name!r}; "
            "give it another name"
        )
    return defined[0]
