"""Experiments that are over at once, one for each thing that can become of one in a suite."""

import os
import signal
from dataclasses import replace

from bench.checksums import CHECKSUMS, ChecksumsConfig
from headrace.bench.benchmark import Benchmark, StageWork, SuiteSpec
from headrace.bench.suite.suite_runner import measure_one
from headrace.errors import StageError


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
    """What a child does; it finds the experiments above."""
    return measure_one(ALL, order, send)
