"""A model plain and compiled: equal first, then which is faster and after how many frames."""

from dataclasses import replace
from functools import partial

import pytest
from torch import nn

from bench.shown import check_shown, recorded
from headrace.bench.compile_model import COMPILE, COMPILE_VARIANTS, CompileRecord, prepared
from headrace.errors import BackendError


class Scaled(nn.Module):
    """Scores a little otherwise."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch):
        return self.module(batch) * 1.01


def compiled_by(compiler):
    """The benchmark, with another compiler."""
    return replace(COMPILE_VARIANTS, prepare=partial(prepared, compiler=compiler)).benchmark()


def cannot(module):
    raise RuntimeError("No working C++ compiler found\nin a long story")


def record(plain, compiled, *, is_cached=False):
    facts = {"model": "tiny", "device": "cpu", "frame_rate": 25.0, "compile_seconds": 30.0}
    facts |= {"compared": 64, "difference": 2e-7, "allowed": 1e-3, "is_cached": is_cached}
    return recorded({"plain": plain, "compiled": compiled}, CompileRecord, **facts)


def test_both_are_timed_in_turns_once_they_score_the_same(measure):
    compiled = []
    found = measure(compiled_by(lambda module: compiled.append(module) or module), threads=1)
    assert len(compiled) == 1
    assert [turn.way for turn in found.turns] == ["plain", "compiled"]
    assert found.difference < 1e-6
    assert (found.compared, found.frame_rate, found.is_cached) == (6, 30, False)
    assert found.compile_seconds > 0


@pytest.mark.parametrize(
    ("compiler", "said"),
    [
        (Scaled, r"squeezenet1_1 scores otherwise .* by 0\.01 of the"),
        (cannot, r"cannot be compiled on cpu .*: No working C"),
    ],
)
def test_what_is_not_the_same_or_cannot_be_compiled_is_one_line_and_not_timed(
    measure, compiler, said
):
    with pytest.raises(BackendError, match=said) as caught:
        measure(compiled_by(compiler), threads=1)
    assert "\n" not in str(caught.value)


def test_whether_compiling_pays_is_told_like_this():
    """100 and 200 frames/s: 5 ms are saved on a frame, 30 s are 6,000 frames."""
    cases = {
        "it pays": record([1, 1], [0.5, 0.5]),
        "it is as fast": record([1, 1], [0.98, 0.98]),
        "it is slower": record([1, 1], [2, 2]),
        "turns differ too much": record([1, 1.5], [0.5, 0.5]),
        "it was compiled before": record([1, 1], [0.5, 0.5], is_cached=True),
    }
    check_shown(COMPILE, cases)
    rates, elapsed = COMPILE.page(cases["it pays"]).charts
    assert list(rates.figure.data[0].x) == [100, 200]
    assert [(list(line.x), list(line.y)) for line in elapsed.figure.data] == [
        ([0, 12000], [0, 120]),
        ([0, 12000], [30, 90]),
    ]
