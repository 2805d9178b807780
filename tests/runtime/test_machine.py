"""Cores and GPUs of a process, and CUDA after a fork."""

import os
import signal
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
import torch

from forked import in_a_fork
from headrace.errors import BackendError, ConfigError
from headrace.runtime import fork_safety as forks
from headrace.runtime import processor_affinity as affinity
from headrace.runtime.cuda_diagnostics import explain_missing_gpu
from headrace.runtime.fork_safety import check_cuda_after_fork
from headrace.runtime.posix import deferred_sigint
from runtime.in_time import in_time, printed

CORES = {"0": {0}, "0-3": {0, 1, 2, 3}, "0-3,6": {0, 1, 2, 3, 6}, "0-1,6": {0, 1, 6}, "3,5": {3, 5}}


@pytest.mark.parametrize(("text", "cores"), CORES.items())
def test_cores_are_parsed_and_formatted(text, cores):
    assert affinity.parse_cores(text) == cores
    assert affinity.cores_text(cores) == text


def test_cores_may_be_unordered_and_repeated():
    assert [affinity.parse_cores(text) for text in (" 6 , 0-1 ", "2-2,2")] == [{0, 1, 6}, {2}]


def test_all_means_the_cores_this_process_has():
    assert affinity.parse_cores("all") == affinity.available_cores() == os.sched_getaffinity(0)


@pytest.mark.parametrize("cores", [frozenset(), frozenset({99_999})])
def test_unavailable_cores_are_refused(cores):
    before = affinity.available_cores()
    with pytest.raises(
        ConfigError, match=r"cores must be among .*, which this process may use, got (none|99999)"
    ):
        affinity.bind_cores(cores)
    assert affinity.available_cores() == before


def test_running_and_later_threads_are_bound():
    script = """
import os, threading
from headrace.runtime.processor_affinity import available_cores, bind_cores
core = min(available_cores())
bound, seen = threading.Event(), []
def look():
    bound.wait(20)
    seen.append(os.sched_getaffinity(0))
early = threading.Thread(target=look)
early.start()
bind_cores(frozenset({core}))
bound.set()
late = threading.Thread(target=look)
late.start()
early.join(), late.join()
print([available_cores(), *seen] == [{core}] * 3)
"""
    assert printed(script) == "True\n"


def test_without_core_binding_all_cores_are_available(monkeypatch):
    """As on macOS."""
    monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert affinity.available_cores() == affinity.parse_cores("all") == set(range(os.cpu_count()))
    with pytest.raises(
        BackendError, match=r"cannot bind to cores 0: this system has no core binding"
    ):
        affinity.bind_cores(frozenset({0}))


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_binding_ends_with_the_block(error):
    before = affinity.available_cores()
    one = frozenset({min(before)})
    with suppress(ZeroDivisionError), affinity.bound_to_cores(one):
        assert affinity.available_cores() == one
        if error:
            raise error
    assert affinity.available_cores() == before
    with affinity.bound_to_cores(None):
        assert affinity.available_cores() == before


def driver(version):
    """A driver for a CUDA version, given as 1000 * major + 10 * minor."""
    return SimpleNamespace(
        cuDriverGetVersion=lambda found: setattr(found._obj, "value", version) or 0
    )


def absent(name):
    raise OSError(f"{name}: cannot open shared object file")


NO_CUDA = ["built without CUDA; install a build with it"]
NO_DRIVER = ["the NVIDIA driver is not installed (libcuda.so.1 is not found)", "--gpus all"]
TOO_OLD = [
    "the NVIDIA driver is for CUDA 12.4",
    f"PyTorch {torch.__version__} needs CUDA 13.2; install a newer driver",
]
NO_GPU = ["the NVIDIA driver is installed but finds no GPU"]


@pytest.mark.parametrize(
    ("cuda", "load", "parts"),
    [
        pytest.param(None, absent, NO_CUDA, id="no CUDA"),
        pytest.param("13.2", absent, NO_DRIVER, id="no driver"),
        pytest.param("13.2", lambda _: driver(12_040), TOO_OLD, id="too old"),
        pytest.param("13.2", lambda _: driver(13_000), NO_GPU, id="same major version"),
        pytest.param("13.2", lambda _: driver(13_020), NO_GPU, id="same version"),
        pytest.param("13.2", lambda _: driver(14_000), NO_GPU, id="later version"),
        pytest.param("13.2", lambda _: object(), NO_GPU, id="unknown version"),
    ],
)
def test_a_missing_gpu_is_explained_with_advice(monkeypatch, cuda, load, parts):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    found = explain_missing_gpu(load)
    assert [part for part in parts if part not in found] == []


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

CAUSE_AND_FIX = (
    r"GPU 0 was asked for in a process that was forked from one that uses CUDA, where CUDA cannot "
    r"start; spawn workers: DataLoader\(..., multiprocessing_context='spawn'\)"
)


@pytest.fixture(autouse=True)
def torch_has_not_tried(monkeypatch):
    """torch would report an earlier test's attempt to start CUDA in this process."""
    monkeypatch.setattr("torch.cuda._is_in_bad_fork", lambda: False)


def is_refused():
    try:
        check_cuda_after_fork("GPU 0 was asked for")
    except BackendError:
        return True
    return False


@contextmanager
def cuda_in_use(monkeypatch, by="_torch_has_cuda"):
    with monkeypatch.context() as patched:
        patched.setattr(forks, by, lambda: True)
        yield


def test_an_unforked_process_may_use_cuda(monkeypatch):
    check_cuda_after_fork("GPU 0 was asked for")
    with cuda_in_use(monkeypatch):
        in_a_fork(lambda: True)
        check_cuda_after_fork("GPU 0 was asked for")


def test_a_process_forked_before_cuda_may_use_it(monkeypatch):
    def child():
        with cuda_in_use(monkeypatch):
            return not is_refused()

    assert in_a_fork(child)


@pytest.mark.parametrize("by", ["_torch_has_cuda", "_driver_has_cuda"])
def test_a_process_forked_after_cuda_is_refused_with_advice(monkeypatch, by):
    def child():
        with pytest.raises(BackendError, match=CAUSE_AND_FIX):
            check_cuda_after_fork("GPU 0 was asked for")
        return True

    with cuda_in_use(monkeypatch, by):
        assert in_a_fork(child)


def test_forks_of_such_a_process_are_refused_too(monkeypatch):
    def child():
        monkeypatch.setattr(forks, "_torch_has_cuda", lambda: False)
        return in_a_fork(is_refused) and is_refused()

    with cuda_in_use(monkeypatch):
        assert in_a_fork(child)


def test_torchs_state_counts_if_the_module_was_loaded_after_the_fork(monkeypatch):
    monkeypatch.setattr("torch.cuda._is_in_bad_fork", lambda: True)
    assert is_refused()


@pytest.mark.parametrize(("code", "is_used"), [(None, False), (3, False), (0, True), (100, True)])
def test_the_driver_knows_whether_it_was_started(monkeypatch, code, is_used):
    """None: the driver is not loaded. 3: CUDA_ERROR_NOT_INITIALIZED, before `cuInit`."""
    asked = []

    def load(name, mode):
        asked.append((name, mode))
        if code is None:
            raise OSError
        return SimpleNamespace(cuDeviceGetCount=lambda _: code)

    monkeypatch.setattr(forks.ctypes, "CDLL", load)
    assert forks._driver_has_cuda() == is_used
    assert asked == [("libcuda.so.1", forks.os.RTLD_NOLOAD)]


def held(done, depth=1, error=None):
    with deferred_sigint():
        if depth > 1:
            held(done, depth - 1, error)
        else:
            signal.raise_signal(signal.SIGINT)
        if error is not None:
            raise error
        done.append("the rest")


@pytest.mark.parametrize("depth", [1, 2])
def test_ctrl_c_is_raised_at_the_end_of_the_outermost_block(depth):
    done = []
    with pytest.raises(KeyboardInterrupt):
        held(done, depth)
    assert done == ["the rest"] * depth
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_block_is_the_context_of_the_interrupt():
    error = ValueError("of the block")
    with pytest.raises(KeyboardInterrupt) as caught:
        held([], error=error)
    assert caught.value.__context__ is error


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_an_unhandled_sigint_is_unchanged(handler):
    signal.signal(signal.SIGINT, handler)
    with deferred_sigint():
        assert signal.getsignal(signal.SIGINT) is handler


def test_other_threads_defer_nothing():
    def look():
        with deferred_sigint():
            return signal.getsignal(signal.SIGINT)

    assert in_time(look) is signal.default_int_handler
