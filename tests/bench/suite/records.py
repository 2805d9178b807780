"""Suites as they could have been measured, in a folder: contests with planted gains."""

from bench.shown import made, spent
from headrace.bench.benchmark import write_benchmark
from headrace.bench.suite.suite_record import BenchmarkOutcome, SuiteRecord
from headrace.bench.variant_benchmark import VariantRecord, VariantRepetition
from headrace.profiling.machine import provenance

_COMMAND = ("headrace", "bench", "all", "a.mp4")


def contest(gain, *, others=0.0, cores=4, model="resnet18"):
    """Return the record of a way that is `gain` times as fast as the first, by turns of 1 s."""
    here = made(*_COMMAND, cores=cores, device="cpu", model_name=model)
    turns = [
        VariantRepetition(way=way, amount=amount, **spent(1, others=others))
        for way, amount in (("plain", 100), ("quick", 100 * gain))
        for _ in range(3)
    ]
    return VariantRecord(provenance=here, turns=tuple(turns))


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
