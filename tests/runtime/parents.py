"""Programs with children of each kind, which tests stop: `python -m runtime.parents KIND`."""

import sys
import threading

from headrace.runtime.child_process import CommandSpec, FunctionSpec
from headrace.runtime.process_pipeline import ProcessPipeline, ProcessStage
from headrace.runtime.spawned_processes import run_ranks
from headrace.runtime.supervisor import PersistentChild, run_children
from runtime import child_functions


def say(name, message):
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


def call(function=child_functions.holding_the_interpreter):
    """Run a function and a program at the same time."""
    children = [
        FunctionSpec(name="one", function=function),
        CommandSpec(name="two", arguments=("sleep", "60")),
    ]
    run_children(children, on_message=say)


def feed():
    PersistentChild(FunctionSpec(name="one", function=child_functions.fed_and_holding), say).run(1)


def run_line():
    makers = {"decode": child_functions.counting, "work": child_functions.telling_pid}
    stages = [ProcessStage(name=name, make=make) for name, make in makers.items()]
    with ProcessPipeline(stages, slot_bytes=16, slots=3) as processes:
        next(processes.run(9))
        say("", "at work")
        input()


PARENTS = {
    "a function": call,
    "a function with a child of its own": lambda: call(child_functions.with_a_child),
    "children of a thread": lambda: threading.Thread(target=call).start(),
    "a child that is fed": feed,
    "ranks": lambda: run_ranks(child_functions.rank_holding, [0], timeout_seconds=60),
    "a line": run_line,
}

if __name__ == "__main__":
    PARENTS[sys.argv[1]]()
