"""Instant benchmarks, one for each outcome in a suite, and suites with planted gains."""

import os
import signal
from dataclasses import replace

from bench.checksums import CHECKSUMS, ChecksumsConfig
from bench.records import local_provenance, recorded
from headrace.bench.benchmark import Benchmark, StageWork, SuiteSpec, write_benchmark
from headrace.bench.suite.suite_runner import measure_one
from headrace.bench.suite.suite_selection import BenchmarkOutcome, SuiteRecord
from headrace.errors import StageError
from headrace.profiling.machine import provenance


def _config(videos):
    return ChecksumsConfig(videos=videos, checksums=("sha256", "crc32"), repeats=1)


def _failing(config, context):
    raise StageError("the third frame cannot be shown", stage="show")


def _dying(config, context):
    os._exit(9)


def _faulty(config, context):
    raise ZeroDivisionError("one by none")


def _hanging(config, context):
    context.on_progress("waiting", 0, 1)
    signal.pause()


def _named(name, measure=CHECKSUMS.measure, **terms) -> Benchmark:
    spec = SuiteSpec(**{"config": _config, **terms})
    return replace(CHECKSUMS, name=name, measure=measure, terms=spec)


WHOLE = _named("whole")
MODEL = _named("model", concerns="model")
LOADING = _named("loading", concerns="loading")
WORK = _named(
    "work",
    work=lambda record: {
        "decode": StageWork(ms=2.0, cpu_ms=2.0),
        "model": StageWork(ms=8.0, cpu_ms=8.0),
    },
)
BEFORE = _named("before")
HEAVY = _named("heavy", goes_last=True)
FAILING = _named("failing", _failing)
DYING = _named("dying", _dying)
FAULTY = _named("faulty", _faulty)
HANGING = _named("hanging", _hanging)
NEVER = _named("never", config=lambda videos: "it takes no videos")

ALL = (WHOLE, MODEL, LOADING, WORK, BEFORE, HEAVY, FAILING, DYING, FAULTY, HANGING, NEVER)


def measure(order, send):
    """Measure one of the benchmarks above in a child process."""
    return measure_one(ALL, order, send)


_COMMAND = ("headrace", "bench", "all", "a.mp4")


def contest(gain, *, others=0.0, cores=4, model="resnet18"):
    """Return the record of a variant that is `gain` times as fast as the reference."""
    here = local_provenance(*_COMMAND, cores=cores, device="cpu", model_name=model)
    seconds = {"plain": [1] * 3, "quick": [1 / gain] * 3}
    return recorded(seconds, others=others).model_copy(update={"provenance": here})


def result(benchmark, record=None, outcome="measured", **more):
    """Return the outcome of a benchmark."""
    created = record.provenance.created if record is not None else None
    return BenchmarkOutcome(
        experiment=benchmark.name, outcome=outcome, created=created, seconds=2.5, **more
    )


def write_suite(folder, measured, *results):
    """Write a suite of benchmark -> record into `folder`; return its record."""
    written = []
    for benchmark, record in measured.items():
        write_benchmark(benchmark, record, benchmark.page(record), folder)
        alone = ("headrace", "bench", benchmark.name, "a.mp4")
        written.append(result(benchmark, record, alone=alone))
    options = {"model_name": "resnet18", "device": "cpu"}
    suite = SuiteRecord(
        provenance=provenance(options, _COMMAND),
        videos=("videos/a.mp4",),
        contents=("sha256:0",),
        chapters=(*written, *results),
    )
    suite.save(folder)
    return suite
