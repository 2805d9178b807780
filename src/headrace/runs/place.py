"""The cores and threads that a run computes with, as long as it does."""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.models.precision_support import operation_threads
from headrace.runs.options import ComputeOptions
from headrace.runtime.affinity import bound, parse_cores


@contextmanager
def computing_place(options: ComputeOptions) -> Iterator[None]:
    """Run inside on the cores, and with the threads of one operation, that were asked for.

    Cores that are bound get as many threads as they are, unless another number was asked for. Both
    are the process's: two of these must not overlap in different threads.

    Raises:
        ConfigError: there are no such cores; the message says which there are.
        BackendError: this system cannot bind a process to cores.
    """
    cores = options.execution.core_bind
    chosen = None if cores is None else parse_cores(cores)
    threads = options.threads or (None if chosen is None else len(chosen))
    with bound(chosen), operation_threads(threads):
        yield
