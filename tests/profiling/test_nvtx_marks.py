"""NVTX ranges of a pipeline, recorded by a fake domain."""

import threading
from collections import defaultdict

import nvtx
import pytest

from headrace.errors import StageError
from headrace.profiling.trace import NvtxMarks
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage
from runtime.in_time import in_time


class Domain:
    """Records the ranges of each thread, on one stack per thread as in NVTX."""

    def __init__(self):
        self.ended = []
        self.open = defaultdict(list)

    def push_range(self, *, message, category):
        self.open[threading.get_ident()].append((message, category))

    def pop_range(self):
        self.ended.append(self.open[threading.get_ident()].pop())


def run(domain, function):
    pipeline = Pipeline(source=range(2), stages=[Stage(name="model", function=function)])

    def values():
        with pipeline.run(tracer=NvtxMarks(domain)) as items:
            return [item.value for item in items]

    return in_time(values)


def test_ranges_are_named_by_stage_and_number_and_end_in_their_thread():
    domain = Domain()
    run(domain, lambda value: value)
    named = {("model 0", "model"), ("model 1", "model"), ("source 0", "source")}
    assert named <= set(domain.ended)
    assert not any(domain.open.values())


def test_a_range_ends_when_the_work_fails():
    domain = Domain()
    with pytest.raises(StageError):
        run(domain, lambda value: 1 // value)
    assert ("model 0", "model") in domain.ended
    assert not any(domain.open.values())


def test_ranges_inside_a_range_end_before_it():
    domain = Domain()
    marks = NvtxMarks(domain)
    with marks.range("decode", 3), marks.range("model", 4):
        pass
    assert [message for message, _ in domain.ended] == ["model 4", "decode 3"]


@pytest.mark.parametrize("make", [nvtx.get_domain, nvtx._lib.Domain])
def test_the_nvtx_package_accepts_the_ranges(make):
    """`get_domain` returns a dummy without an attached tool, and a `Domain` with one."""
    with NvtxMarks(make("headrace")).range("model", 17):
        pass
