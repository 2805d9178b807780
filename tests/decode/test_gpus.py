"""A test that needs a GPU is skipped without one, unless the environment requires one."""

import sys

import pytest
import torch

from decode.gpus import NO_GPU, needs_gpu, needs_no_gpu, want_backend_of_gpu


@needs_no_gpu
@pytest.mark.parametrize(("asked", "outcome"), [("1", "failed"), ("", "skipped")])
def test_a_gpu_that_is_required_is_not_skipped(monkeypatch, asked, outcome):
    monkeypatch.setenv("REQUIRE_GPU", asked)

    @needs_gpu
    def test(number):
        raise AssertionError("it ran without a GPU")

    if outcome == "failed":
        with pytest.raises(pytest.fail.Exception, match=f"{NO_GPU}, and REQUIRE_GPU=1"):
            test(number=1)
    else:
        [mark] = test.pytestmark
        assert (mark.name, mark.kwargs) == ("skip", {"reason": NO_GPU})


@needs_no_gpu
@pytest.mark.parametrize(
    ("asked", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_nor_is_one_for_a_backend_that_needs_it(monkeypatch, asked, outcome):
    monkeypatch.setenv("REQUIRE_GPU", asked)
    with pytest.raises(outcome, match=NO_GPU):
        want_backend_of_gpu("pynvvideocodec")


def test_a_backend_that_is_not_installed_is_skipped_and_named(monkeypatch):
    monkeypatch.setenv("REQUIRE_GPU", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "PyNvVideoCodec", None)
    with pytest.raises(pytest.skip.Exception, match=r"pip install 'headrace\[pynvvideocodec\]'"):
        want_backend_of_gpu("pynvvideocodec")
