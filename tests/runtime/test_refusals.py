"""What cannot be is refused at once, in a sentence."""

import sys
from contextlib import nullcontext

import pytest

from headrace.errors import ConfigError
from headrace.runtime.child_spec import CommandSpec, FunctionSpec
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.runtime.grouping import SlidingWindows
from headrace.runtime.imap import imap
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.process_pipeline import ProcessPipeline, ProcessStage
from headrace.runtime.queue import BoundedQueue
from headrace.runtime.stage import Aggregate, Stage
from headrace.runtime.supervisor import run_children
from headrace.runtime.synchronization import CapacityLimiter, ResourcePool
from headrace.runtime.waitable_source import MergedSource
from runtime.child_functions import counting, squared

SOURCE = ProcessStage(name="decode", make=counting)
PROGRAM = CommandSpec(name="a", arguments=(sys.executable, "-c", ""))
PAIRS = Aggregate(name="pairs", grouping=lambda: SlidingWindows(length=2), function=sum)


def queue(capacity=1, **options):
    return BoundedQueue(capacity, "numbers", **options)


def taken_twice(queue):
    queue.put("a", place=0)
    queue.put("b", place=0)


def streams(**wrong):
    return imap(lambda: nullcontext(iter), [], **{"workers": 2, "capacity": 4, **wrong})


def line(**options):
    return Pipeline(source=(), stages=[Stage(name="same", function=abs)], **options)


REFUSED = {
    "a queue without a place": lambda: queue(0),
    "a queue of less than no place": lambda: queue(-1),
    "a queue that nobody fills": lambda: queue(producers=0),
    "places that lanes cannot share equally": lambda: queue(3, lanes=2),
    "a policy that a queue does not know": lambda: queue(overflow="x"),
    "a place that is taken": lambda: taken_twice(queue(4)),
    "fewer than no permits of a limiter": lambda: CapacityLimiter(10).acquire(-1),
    "more permits than a limiter has": lambda: CapacityLimiter(10).acquire(11),
    "a limiter without a permit": lambda: CapacityLimiter(0),
    "a pool without a place": lambda: ResourcePool(0),
    "groups of nothing": lambda: SlidingWindows(length=0),
    "groups at no distance": lambda: SlidingWindows(length=1, hop=0),
    "a rest that is lost": lambda: SlidingWindows(length=1, rest="lose"),
    "no source to merge": lambda: MergedSource(feeds=[]),
    "an end that merged sources do not know": lambda: MergedSource(feeds=["a"], on_error="skip"),
    "two sinks of one name": lambda: FanOut([SinkSpec(name="page", function=print)] * 2),
    "queues of a pipeline without a place": lambda: line(capacity=0),
    "a queue of its source without a place": lambda: line(source_capacity=0),
    "a source that is called like a stage": lambda: line(source_name="same"),
    "two stages of one name": lambda: Pipeline(source=(), stages=[PAIRS, PAIRS]),
    "a stage that nobody works at": lambda: Stage(name="same", function=abs, workers=0),
    "a map in order without workers": lambda: streams(workers=0),
    "a map in order without a place": lambda: streams(capacity=0),
    "a map in order that look at nothing": lambda: streams(lookahead=0),
    "a map as ready without workers": lambda: streams(is_ordered=False, workers=0),
    "a map as ready without a place": lambda: streams(is_ordered=False, capacity=0),
    "a line of no process": lambda: ProcessPipeline([], slot_bytes=1, slots=1),
    "a line without a place": lambda: ProcessPipeline([SOURCE], slot_bytes=16, slots=0),
    "a child without time": lambda: FunctionSpec(name="a", function=squared, timeout_seconds=0),
    "a child without a program": lambda: CommandSpec(name="a", arguments=()),
    "two children of one name": lambda: run_children([PROGRAM, PROGRAM]),
    "no child at a time": lambda: run_children([PROGRAM], max_running=0),
    "a child that is a lambda": lambda: FunctionSpec(name="a", function=lambda value, send: None),
}


def test_what_cannot_be_is_refused_in_a_sentence(holds):
    lines = []
    for name, ask in REFUSED.items():
        with pytest.raises(ConfigError) as caught:
            ask()
        lines.append(f"{name}: {caught.value}\n")
    holds("refused.txt", "".join(lines))


def test_an_argument_that_is_not_json_is_refused():
    with pytest.raises(TypeError, match="not JSON serializable"):
        run_children([FunctionSpec(name="a", function=squared, argument={1})])


def test_a_gather_with_more_workers_cannot_be_asked_for():
    with pytest.raises(TypeError, match="workers"):
        Aggregate(name="gather", grouping=SlidingWindows, function=tuple, workers=2)
