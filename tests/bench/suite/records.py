"""Suites as they could have been measured, in a folder: contests with planted gains."""

from bench.contests import recorded
from bench.shown import made
from headrace.bench.benchmark import write_benchmark
from headrace.bench.suite.suite_record import BenchmarkOutcome, SuiteRecord
from headrace.profiling.machine import provenance

_COMMAND = ("headrace", "bench", "all", "a.mp4")


def contest(gain, *, others=0.0, cores=4, model="resnet18"):
    """Return the record of a way that is `gain` times as fast as the first, which takes 1 s."""
    here = made(*_COMMAND, cores=cores, device="cpu", model_name=model)
    seconds = {"plain": [1] * 3, "quick": [1 / gain] * 3}
    return recorded(seconds, others=others).model_copy(update={"provenance": here})


def result(experiment, record=None, outcome="measured", **more):
    """Return what a suite says of an experiment."""
    created = record.provenance.created if record is not None else None
    return BenchmarkOutcome(
        experiment=experiment.name, outcome=outcome, created=created, seconds=2.5, **more
    )


def write_suite(folder, measured, *results):
    """Write a suite into `folder`: experiment -> record; return its record."""
    written = []
    for experiment, record in measured.items():
        write_benchmark(experiment, record, experiment.page(record), folder)
        alone = ("headrace", "bench", experiment.name, "a.mp4")
        written.append(result(experiment, record, alone=alone))
    options = {"model_name": "resnet18", "device": "cpu"}
    suite = SuiteRecord(
        provenance=provenance(options, _COMMAND),
        videos=("videos/a.mp4",),
        contents=("sha256:0",),
        chapters=(*written, *results),
    )
    suite.save(folder)
    return suite
