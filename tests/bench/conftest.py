"""Benchmarks measured for real, on a small video and quickly."""

from dataclasses import fields, replace

import pytest

from bench.contests import FAST
from headrace.bench.benchmark import Context
from headrace.decode.index_store import IndexStore
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "index")


@pytest.fixture
def videos(tmp_path):
    """Return the paths of two videos of 24 frames in GOPs of 12."""
    clip = SynthClip(num_frames=24, gop=12)
    return tuple(str(write_clip(tmp_path / f"{k}", clip)) for k in range(2))


@pytest.fixture
def measure(tmp_path, store):
    """Return a function: a benchmark and options -> its record, the same when it is read again."""

    def run(benchmark, context=None, **options):
        names = {field.name for field in fields(benchmark.config)}
        quick = {name: value for name, value in FAST.items() if name in names}
        if "videos" not in options:
            options["videos"] = (str(write_clip(tmp_path / "a", SynthClip(num_frames=6))),)
        config = benchmark.config(**quick | options)
        record = benchmark.measure(config, replace(context or Context(), store=store))
        assert benchmark.record.model_validate_json(record.model_dump_json()) == record
        return record

    return run
