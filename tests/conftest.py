"""Fixtures of all tests: leak checks, fixed Hypothesis examples, a browser, and snapshots.

`pytest tests/FOLDER --update-snapshots` rewrites the snapshots of a folder.
"""

import ctypes
import faulthandler
import gc
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import torch
from hypothesis import settings

from forked_children import FORKING
from headrace.errors import BackendError
from headrace.testing.synth import SynthClip
from headrace.video.stream_index import StreamIndex
from missing import missing
from report.chromium import Browser, Page, started_browser
from tests.kit.old_pyav import skip_if_lacking
from tests.kit.synth_recipes import written_in

# The same examples everywhere, and no time asserted.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")

HANG_SECONDS = 900
"""Far longer than any test takes, also on a busy machine."""
GRACE_SECONDS = 5
"""Max wait for threads and processes that are ending."""
KEPT_BY_PYTHON = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Processes that multiprocessing starts once and keeps until the interpreter ends."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites snapshots."""
    words = "Rewrite the texts in the `snapshots` folders."
    parser.addoption("--update-snapshots", action="store_true", help=words)


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests from garbage collection.

    Full collections of these objects took 5 s of 11 s in tests/runtime.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Include all objects in garbage collection again; end the process if it hangs at its end."""
    gc.unfreeze()
    faulthandler.dump_traceback_later(HANG_SECONDS, file=session.config.stash[_STACKS], exit=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip a test that fails because PyAV is too old."""
    with _skips_old_pyav():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip a test that fails because PyAV is too old."""
    with _skips_old_pyav():
        return (yield)


@contextmanager
def _skips_old_pyav() -> Iterator[None]:
    try:
        yield
    except (BackendError, AttributeError) as error:
        skip_if_lacking(error)
        raise


@pytest.fixture
def holds(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function `(name, text)` that fails if the text differs from its snapshot."""

    def check(name: str, text: str) -> None:
        path = request.path.parent / "snapshots" / name
        if request.config.getoption("--update-snapshots"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        stored = path.read_text("utf-8") if path.is_file() else ""
        assert text.splitlines() == stored.splitlines(), (
            f"{name} differs from its snapshot; if this is intended, run "
            "`pytest --update-snapshots` and name the change in the commit"
        )

    return check


_STACKS = pytest.StashKey[int]()
"""File descriptor of standard error, for the stacks of threads that hang."""


def pytest_configure(config: pytest.Config) -> None:
    """Write the stacks of all threads to standard error when a test hangs, then call `_fail`."""
    config.stash[_STACKS] = os.dup(2)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, _fail)
        faulthandler.register(
            signal.SIGALRM, file=config.stash[_STACKS], all_threads=True, chain=True
        )


def _fail(number: int, frame: object) -> None:
    pytest.fail(f"did not end within {HANG_SECONDS} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Fail a test that hangs, and again each minute if it hangs while it ends."""
    if not hasattr(signal, "SIGALRM"):
        return (yield)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS, 60)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture(autouse=True)
def hears_ctrl_c() -> Iterator[None]:
    """Make Ctrl-C raise KeyboardInterrupt in every test and in its child processes.

    Processes in the background of a shell ignore SIGINT, and an interrupted command restores the
    default action of the system.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def counts_gpus_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make PyTorch count GPUs as without Lightning, whose import sets this variable."""
    monkeypatch.delenv("PYTORCH_NVML_BASED_CUDA_CHECK", raising=False)


@pytest.fixture(scope="module", autouse=True)
def gives_memory_back() -> Iterator[None]:
    """Return freed memory to the system after each module; malloc may keep gigabytes.

    Objects that are still alive belong to the session and are excluded from garbage collection.
    """
    yield
    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that leaves a thread, a child process or an open file behind.

    Threads, processes and files of fixtures with a wider scope exist before. Takes about 0.3 ms.
    """
    before = _snapshot()
    yield
    if all(now <= then for now, then in zip(_snapshot(), before, strict=True)):
        return
    threads, children, files = before
    gc.collect()  # a reference cycle, such as pytest.raises creates, is no leak
    left = [
        *_running_threads(threads),
        *_running_processes(children),
        *(f"open file {path}" for _, path in _open_files() - files),
    ]
    if left:
        pytest.fail("left behind: " + "; ".join(left))


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | SynthClip], Path]:
    """Return a function: clip, or name of a kind or recipe → its file, written once.

    Tests must not change the file.
    """
    return written_in(tmp_path_factory.mktemp("written"))


@pytest.fixture(scope="session")
def scanned(written: Callable[[str | SynthClip], Path]) -> Callable[[str | SynthClip], StreamIndex]:
    """Return a function: clip, or name of a kind or recipe → its index from a new scan."""
    return lambda what: StreamIndex.scan(written(what))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium; if it is missing, the test is skipped, or fails with CI=true."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        missing("no Chromium found")
    with started_browser(program, tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new page of the browser."""
    with browser.page() as page:
        yield page


def _snapshot() -> tuple[set[threading.Thread], set[int], set[tuple[int, str]]]:
    return set(threading.enumerate()), _children(), _open_files()


def _children() -> set[int]:
    # psutil would read all processes of the machine, which takes milliseconds.
    pids: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            pids.update(map(int, path.read_text().split()))
    return pids


def _open_files() -> set[tuple[int, str]]:
    return {(file.fd, file.path) for file in psutil.Process().open_files()}


def _running_threads(before: set[threading.Thread]) -> Iterator[str]:
    for thread in set(threading.enumerate()) - before:
        thread.join(GRACE_SECONDS)
        if thread.is_alive():
            yield f"thread {thread.name}"


def _running_processes(before: set[int]) -> Iterator[str]:
    for pid in _children() - before:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            command = " ".join(process.cmdline())
            is_kept = any(name in command for name in KEPT_BY_PYTHON)
            if not is_kept and psutil.wait_procs([process], timeout=GRACE_SECONDS)[1]:
                yield f"process {pid} {command}"


@pytest.fixture
def forked_ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fork the ranks of `run_ranks`; importing PyTorch in a spawned rank takes seconds of CPU time.

    PyTorch uses one thread, because a forked process has no other threads.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    monkeypatch.setattr("headrace.runtime.spawned_processes.CONTEXT", context)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On Linux, fork child processes that run a function; a new interpreter imports PyTorch."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    if sys.platform == "linux":
        monkeypatch.setattr("headrace.runtime.child_process.subprocess", FORKING)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def brief_rehearsals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate each strategy of a plan for 1,000 requests only; predictions are less exact."""
    monkeypatch.setattr("headrace.planner.strategy_cost._LEAST_REQUESTS", 1000)
