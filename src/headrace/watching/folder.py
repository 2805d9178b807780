"""The folder of a watched loop: what every run leaves, and a trace of its processes."""

import os
from pathlib import Path

from headrace.profiling.session import Session
from headrace.profiling.trace import NAME, write_trace
from headrace.report.folder import write_run
from headrace.watching.loop import LoopWatch
from headrace.watching.trace import loop_events


def write_loop(session: Session, watch: LoopWatch, folder: Path, *, origin_ns: int) -> Session:
    """Write what was recorded of a loop into `folder`; return the session with the files' names.

    Args:
        session: What it came to.
        watch: What it did.
        folder: Is there.
        origin_ns: What its trace counts from.

    Raises:
        ConfigError: the folder cannot be written.
    """
    events = loop_events(watch.finished(), process_id=os.getpid(), origin_ns=origin_ns)
    write_trace(folder / NAME, events)
    outputs = (*session.outputs, NAME)
    return write_run(session.model_copy(update={"outputs": outputs}), folder)
