"""A test that needs a GPU is skipped without one, unless the environment requires one."""

import pytest

from decode.gpus import NO_GPU, needs_gpu, needs_no_gpu


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
