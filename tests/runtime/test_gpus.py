"""Why there is no GPU, for each way in which there may be none."""

import pytest
import torch

from headrace.runtime.gpus import why_no_gpu


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
