"""Cores, GPUs and Ctrl-C: what a process has of its machine, and what a fork may do with it."""

import os
import signal
from contextlib import contextmanager
from threading import Thread

import pytest
import torch

from forked import in_a_fork
from headrace.errors import BackendError, ConfigError
from headrace.runtime import forks
from headrace.runtime.affinity import available_cores, bind, bound, cores_text, parse_cores
from headrace.runtime.forks import check_cuda_after_fork
from headrace.runtime.gpus import why_no_gpu
from headrace.runtime.interrupts import held_interrupts
from runtime.in_time import printed


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0-3,6", {0, 1, 2, 3, 6}),
        (" 6 , 0-1 ", {0, 1, 6}),
        ("2-2,2", {2}),
    ],
)
def test_reads_a_list_of_cores(text, cores):
    assert parse_cores(text) == cores


def test_all_means_the_cores_this_process_has():
    assert parse_cores("all") == available_cores() == os.sched_getaffinity(0)


@pytest.mark.parametrize("text", ["", ",", "0,", "a", "-1", "0-", "0-1-2", "1.5", "²", "All"])
def test_refuses_what_names_no_cores(text):
    with pytest.raises(ConfigError, match='must read like "0-3,6" or "all"'):
        parse_cores(text)


def test_refuses_a_range_that_runs_backwards():
    with pytest.raises(ConfigError, match=r"runs upwards, got '3-1' in '0,3-1'"):
        parse_cores("0,3-1")


@pytest.mark.parametrize("cores", [frozenset(), frozenset({99_999})])
def test_refuses_cores_that_this_process_does_not_have(cores):
    before = available_cores()
    with pytest.raises(ConfigError, match=r"cores (none|99999) were asked for; this process may"):
        bind(cores)
    assert available_cores() == before


def test_binds_threads_that_run_already_and_those_to_come():
    script = """
import os, threading
from headrace.runtime.affinity import available_cores, bind
core = min(available_cores())
bound, seen = threading.Event(), []
def look():
    bound.wait(20)
    seen.append(os.sched_getaffinity(0))
early = threading.Thread(target=look)
early.start()
bind(frozenset({core}))
bound.set()
late = threading.Thread(target=look)
late.start()
early.join(), late.join()
print([available_cores(), *seen] == [{core}] * 3)
"""
    assert printed(script) == "True\n"


@pytest.fixture
def system_without_binding(monkeypatch):
    """As macOS is."""
    monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.delattr(os, "sched_getaffinity")


@pytest.mark.usefixtures("system_without_binding")
def test_without_binding_all_cores_are_available():
    assert available_cores() == parse_cores("all") == set(range(os.cpu_count()))


@pytest.mark.usefixtures("system_without_binding")
def test_without_binding_says_so_where_it_is_asked_for():
    with pytest.raises(BackendError, match=r"cores 0 were asked for, but this system cannot"):
        bind(frozenset({0}))


@pytest.mark.parametrize("text", ["0", "0-3", "0-1,4,6-8", "3,5"])
def test_cores_are_written_as_they_are_read(text):
    assert cores_text(parse_cores(text)) == text


def test_a_block_is_bound_and_what_comes_after_it_is_not():
    before = available_cores()
    one = frozenset({min(before)})
    with bound(one):
        assert available_cores() == one
    assert available_cores() == before
    with bound(None):
        assert available_cores() == before


def test_cores_are_given_back_after_an_error():
    before = available_cores()
    with pytest.raises(ZeroDivisionError), bound(frozenset({min(before)})):
        raise ZeroDivisionError
    assert available_cores() == before


class Driver:
    """A driver that says for which CUDA it is, as 1000 * major + 10 * minor."""

    def __init__(self, version):
        self._version = version

    def __getattr__(self, name):
        assert name == "cuDriverGetVersion"
        return self._version_into

    def _version_into(self, found):
        found._obj.value = self._version
        return 0


def absent(name):
    raise OSError(f"{name}: cannot open shared object file")


@pytest.fixture(autouse=True)
def with_cuda(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.2")


def test_a_pytorch_without_cuda_is_the_reason_before_any_other(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "built without CUDA; install a build with it" in why_no_gpu(absent)


def test_no_driver_is_said_with_the_cure_for_containers():
    said = why_no_gpu(absent)
    assert "no NVIDIA driver here (libcuda.so.1 is not found)" in said
    assert "--gpus all" in said


def test_a_driver_that_is_too_old_is_named_with_what_is_needed():
    said = why_no_gpu(lambda _: Driver(12_040))
    assert "the NVIDIA driver is for CUDA 12.4" in said
    assert f"PyTorch {torch.__version__} needs one for CUDA 13.2; install a newer driver" in said


@pytest.mark.parametrize("version", [13_000, 13_020, 14_000])
def test_a_driver_of_the_same_major_version_or_a_later_one_is_not_blamed(version):
    assert why_no_gpu(lambda _: Driver(version)).startswith("the NVIDIA driver is here and gives")


def test_a_driver_that_tells_no_version_is_not_blamed_for_it():
    assert why_no_gpu(lambda _: object()).startswith("the NVIDIA driver is here and gives")


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

CAUSE_AND_CURE = (
    r"GPU 0 was asked for in a process that was forked from one that uses CUDA, where CUDA cannot "
    r"start; start workers anew: DataLoader\(..., multiprocessing_context='spawn'\)"
)


@pytest.fixture(autouse=True)
def torch_has_not_tried(monkeypatch):
    """Where a test before has tried to start CUDA in this process, torch would say so."""
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


def test_a_process_that_was_not_forked_may_use_cuda(monkeypatch):
    check_cuda_after_fork("GPU 0 was asked for")
    with cuda_in_use(monkeypatch):
        in_a_fork(lambda: True)
        check_cuda_after_fork("GPU 0 was asked for")


def test_a_process_that_was_forked_before_cuda_was_used_may_use_it(monkeypatch):
    def child():
        with cuda_in_use(monkeypatch):
            return not is_refused()

    assert in_a_fork(child)


@pytest.mark.parametrize("by", ["_torch_has_cuda", "_driver_has_cuda"])
def test_a_process_that_was_forked_from_one_that_uses_cuda_is_told_why_and_what_to_do(
    monkeypatch, by
):
    def child():
        with pytest.raises(BackendError, match=CAUSE_AND_CURE):
            check_cuda_after_fork("GPU 0 was asked for")
        return True

    with cuda_in_use(monkeypatch, by):
        assert in_a_fork(child)


def test_a_fork_of_such_a_fork_is_refused_too_and_so_is_it_itself_still(monkeypatch):
    def child():
        monkeypatch.setattr(forks, "_torch_has_cuda", lambda: False)
        return in_a_fork(is_refused) and is_refused()

    with cuda_in_use(monkeypatch):
        assert in_a_fork(child)


def test_where_this_file_was_not_loaded_before_the_fork_torch_is_believed(monkeypatch):
    monkeypatch.setattr("torch.cuda._is_in_bad_fork", lambda: True)
    assert is_refused()


@pytest.mark.parametrize(("code", "is_used"), [(3, False), (0, True), (100, True)])
def test_the_driver_says_whether_somebody_started_it(monkeypatch, code, is_used):
    """3 is CUDA_ERROR_NOT_INITIALIZED: it is loaded, and nobody called cuInit."""

    class Driver:
        def __init__(self, name, mode):
            assert name == "libcuda.so.1"

        def cuDeviceGetCount(self, _):  # noqa: N802
            return code

    monkeypatch.setattr(forks.ctypes, "CDLL", Driver)
    assert forks._driver_has_cuda() == is_used


def test_a_driver_that_is_not_loaded_is_not_loaded_to_ask_it(monkeypatch):
    asked = []

    def load(name, mode):
        asked.append(mode)
        raise OSError(name)

    monkeypatch.setattr(forks.ctypes, "CDLL", load)
    assert not forks._driver_has_cuda()
    assert asked == [forks.os.RTLD_NOLOAD]


def held(done, depth=1, error=None):
    with held_interrupts():
        if depth > 1:
            held(done, depth - 1, error)
        else:
            signal.raise_signal(signal.SIGINT)
        if error is not None:
            raise error
        done.append("the rest")


@pytest.mark.parametrize("depth", [1, 2])
def test_ctrl_c_is_heard_when_the_outermost_block_is_left(depth):
    done = []
    with pytest.raises(KeyboardInterrupt):
        held(done, depth)
    assert done == ["the rest"] * depth
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_block_stands_behind_the_interrupt():
    error = ValueError("of the block")
    with pytest.raises(KeyboardInterrupt) as caught:
        held([], error=error)
    assert caught.value.__context__ is error


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_python_does_not_handle_stays_as_it_is(handler):
    signal.signal(signal.SIGINT, handler)
    with held_interrupts():
        assert signal.getsignal(signal.SIGINT) is handler


def test_another_thread_holds_nothing():
    seen = []

    def look():
        with held_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
