"""A model plain and compiled: compared first, then timed, with the break-even point."""

from dataclasses import replace
from functools import partial

import pytest
from torch import nn

from bench.records import recorded
from headrace.bench.compile_model import COMPILE, COMPILE_VARIANTS, CompileRecord, prepared
from headrace.errors import BackendError


class Scaled(nn.Module):
    """Model with slightly different scores."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch):
        return self.module(batch) * 1.01


def compiled_by(compiler):
    """Return the benchmark with another compiler."""
    return replace(COMPILE_VARIANTS, prepare=partial(prepared, compiler=compiler)).benchmark()


def cannot(module):
    raise RuntimeError("No working C++ compiler measured\nin a long story")


def record(plain, compiled, *, is_cached=False):
    facts = {"model": "tiny", "device": "cpu", "frame_rate": 25.0, "compile_seconds": 30.0}
    facts |= {"compared": 64, "difference": 2e-7, "allowed": 1e-3, "is_cached": is_cached}
    return recorded({"plain": plain, "compiled": compiled}, CompileRecord, **facts)


def test_both_models_are_timed_if_their_scores_are_equal(measure):
    compiled = []
    measured = measure(compiled_by(lambda module: compiled.append(module) or module), threads=1)
    assert len(compiled) == 1
    assert [turn.way for turn in measured.turns] == ["plain", "compiled"]
    assert measured.difference < 1e-6
    assert (measured.compared, measured.frame_rate, measured.is_cached) == (6, 30, False)
    assert measured.compile_seconds > 0


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        (Scaled, r"scores of squeezenet1_1 change .* by 0\.01 of the"),
        (cannot, r"cannot be compiled on cpu .*: No working C"),
    ],
)
def test_a_failed_compilation_or_different_scores_are_refused_in_one_line(
    measure, compiler, message
):
    with pytest.raises(BackendError, match=message) as caught:
        measure(compiled_by(compiler), threads=1)
    assert "\n" not in str(caught.value)


def test_findings_on_compiling(check_pages):
    """At 100 and 200 frames/s, a frame saves 5 ms, so 30 s pay off after 6,000 frames."""
    cases = {
        "it pays": record([1, 1], [0.5, 0.5]),
        "it is as fast": record([1, 1], [0.98, 0.98]),
        "it is slower": record([1, 1], [2, 2]),
        "turns differ too much": record([1, 1.5], [0.5, 0.5]),
        "it was compiled before": record([1, 1], [0.5, 0.5], is_cached=True),
    }
    check_pages(COMPILE, cases)
    rates, elapsed = COMPILE.page(cases["it pays"]).charts
    assert list(rates.figure.data[0].x) == [100, 200]
    assert [(list(line.x), list(line.y)) for line in elapsed.figure.data] == [
        ([0, 12000], [0, 120]),
        ([0, 12000], [30, 90]),
    ]
