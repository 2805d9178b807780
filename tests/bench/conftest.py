"""Short real measurements on small videos."""

from dataclasses import fields, replace

import pytest

from bench.records import FAST, pages_text
from headrace.bench.benchmark import Context
from headrace.decode.index_store import IndexStore
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "index")


@pytest.fixture
def clip(tmp_path):
    """Return a function: number of frames, name, options of `SynthClip` -> path of the clip."""

    def write(frames, name="clip", **options):
        return str(write_clip(tmp_path / name, SynthClip(num_frames=frames, **options)))

    return write


@pytest.fixture
def videos(clip):
    """Return the paths of two videos of 24 frames in GOPs of 12."""
    return clip(24, "0", gop=12), clip(24, "1", gop=12)


@pytest.fixture
def measure(clip, store):
    """Return a function: benchmark, options -> record, which its JSON reproduces."""

    def run(benchmark, context=None, **options):
        names = {field.name for field in fields(benchmark.config)}
        quick = {name: value for name, value in FAST.items() if name in names}
        if "videos" not in options:
            options["videos"] = (clip(6, "a"),)
        config = benchmark.config(**quick | options)
        record = benchmark.measure(config, replace(context or Context(), store=store))
        assert benchmark.record.model_validate_json(record.model_dump_json()) == record
        return record

    return run


@pytest.fixture
def check_pages(holds):
    """Return a function: benchmark, case -> record; compares their pages with a snapshot."""
    return lambda benchmark, cases: holds(f"{benchmark.name}.txt", pages_text(benchmark, cases))
