"""Invalid arguments raise the errors of a page."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from headrace.runtime import (
    child_process,
    fan_out,
    imap,
    pipeline,
    process_pipeline,
    processor_affinity,
    queue,
    stage,
    supervisor,
    synchronization,
    waitable_source,
)
from headrace.runtime.child_process import CommandSpec, FunctionSpec
from headrace.runtime.stage import Aggregate
from runtime import child_functions
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message

MODULES = (
    *(child_functions, child_process, fan_out, imap, pipeline, process_pipeline, queue),
    *(processor_affinity, stage, supervisor, synchronization, waitable_source),
)
NAMES = names_in(
    *MODULES,
    SOURCE=process_pipeline.ProcessStage(name="decode", make=child_functions.counting),
    PROGRAM=CommandSpec(name="a", arguments=(sys.executable, "-c", "")),
    PAIRS=Aggregate(name="pairs", grouping=lambda: stage.SlidingWindows(length=2), function=sum),
    SAME=stage.Stage(name="same", function=abs),
    WORK=lambda: nullcontext(iter),
)


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_invalid_arguments_are_refused(call, message):
    check_message(call, message, NAMES)


def test_an_argument_that_is_not_json_is_refused():
    given = FunctionSpec(name="a", function=child_functions.squared, argument={1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        supervisor.run_children([given])


def test_an_aggregate_has_one_worker():
    with pytest.raises(TypeError, match="workers"):
        Aggregate(name="gather", grouping=stage.SlidingWindows, function=tuple, workers=2)
