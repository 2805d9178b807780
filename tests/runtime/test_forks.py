"""CUDA is refused in processes that were forked from one that uses it, and in no others."""

from contextlib import contextmanager

import pytest

from forked import in_a_fork
from headrace.errors import BackendError
from headrace.runtime import forks
from headrace.runtime.forks import check_cuda_after_fork

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
