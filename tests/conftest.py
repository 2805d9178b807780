"""For every test: nothing left running or open, the same examples, a browser, and kept texts.

`pytest tests/ROOM --update-snapshots` writes the kept texts of a room anew.
"""

import ctypes
import gc
import multiprocessing
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

GRACE_SECONDS = 5
"""For what has been told to end and is ending."""
KEPT_BY_PYTHON = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Processes that multiprocessing starts once and keeps until the interpreter ends."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes the kept texts anew."""
    words = "Write the texts in the `snapshots` folders anew."
    parser.addoption("--update-snapshots", action="store_true", help=words)


def pytest_collection_finish() -> None:
    """Keep the collector away from what lives as long as the tests: modules and collected tests.

    A full collection looked at all of them, several times in a module: 5 s of 11 in tests/runtime.
    """
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Give the collector all back, so that the end of the process leaves nothing."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip what a PyAV that is too old is refused for, as it says."""
    with _skips_old_pyav():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip what a PyAV that is too old is refused for, as it says."""
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
    """Return a function: (name, text) -> None; fails where the text kept beside it differs."""

    def check(name: str, text: str) -> None:
        path = request.path.parent / "snapshots" / name
        if request.config.getoption("--update-snapshots"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        stored = path.read_text("utf-8") if path.is_file() else ""
        assert text.splitlines() == stored.splitlines(), (
            f"{name} is not what its snapshot says; if that is meant, write it anew by "
            "`pytest --update-snapshots`, and say so in the commit"
        )

    return check


@pytest.fixture(autouse=True)
def hears_ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt in every test, and in what it starts.

    A shell that runs the tests in the background ignores it, and a command that was interrupted
    leaves it to the system when it ends.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def counts_gpus_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch counts GPUs as it does without Lightning, whose import sets this for the process."""
    monkeypatch.delenv("PYTORCH_NVML_BASED_CUDA_CHECK", raising=False)


@pytest.fixture(scope="module", autouse=True)
def gives_memory_back() -> Iterator[None]:
    """Returns what the C library keeps of freed memory: some tests leave it gigabytes.

    What is alive then is of the session: the collector does not look at it again.
    """
    yield
    gc.collect()
    gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fails a test that leaves a thread, a child process or a regular file open.

    What fixtures of a wider scope hold was there before. Costs about 0.3 ms a test.
    """
    before = _snapshot()
    yield
    if all(now <= then for now, then in zip(_snapshot(), before, strict=True)):
        return
    threads, children, files = before
    gc.collect()  # a ring of references, such as pytest.raises makes, is no leak
    left = [
        *_running_threads(threads),
        *_running_processes(children),
        *(f"open file {path}" for _, path in _open_files() - files),
    ]
    if left:
        pytest.fail("left behind: " + "; ".join(left))


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | SynthClip], Path]:
    """Return a function: clip, or name of a kind or a recipe -> its file, written once.

    Tests only read it.
    """
    return written_in(tmp_path_factory.mktemp("written"))


@pytest.fixture(scope="session")
def scanned(written: Callable[[str | SynthClip], Path]) -> Callable[[str | SynthClip], StreamIndex]:
    """Return a function: clip, or name of a kind or a recipe -> its index, scanned anew."""
    return lambda what: StreamIndex.scan(written(what))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A real browser; without one the test is skipped, or fails where CI=true."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        missing("no Chromium found")
    with started_browser(program, tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of a real browser."""
    with browser.page() as page:
        yield page


def _snapshot() -> tuple[set[threading.Thread], set[int], set[tuple[int, str]]]:
    return set(threading.enumerate()), _children(), _open_files()


def _children() -> set[int]:
    # Linux; psutil would walk over all processes of the machine, which takes milliseconds.
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
    """Fork the ranks of `run_ranks`: one that is spawned imports PyTorch, for seconds of a core.

    PyTorch computes in one thread, as a forked process has none of the others.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    for module in ("rank_processes", "spawned_processes"):
        monkeypatch.setattr(f"headrace.runtime.{module}.CONTEXT", context)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On Linux, fork the children that run a function: a new interpreter imports PyTorch."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    if sys.platform == "linux":
        monkeypatch.setattr("headrace.runtime.child_process.subprocess", FORKING)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def brief_rehearsals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans rehearse each strategy for 1,000 requests: what they predict is less exact."""
    monkeypatch.setattr("headrace.planner.strategy_cost._LEAST_REQUESTS", 1000)
