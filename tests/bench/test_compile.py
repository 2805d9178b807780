"""A model plain and compiled: equal first, then which is faster and after how many frames."""

import pytest
from torch import nn

from bench.contests import FAST, recorded
from headrace.bench.benchmark import Context
from headrace.bench.compile_model import CompileConfig, CompileRecord, measure_compile
from headrace.bench.compile_report import COMPILE, pays_after, rows_of
from headrace.decode.index_store import IndexStore
from headrace.errors import BackendError
from headrace.testing.synth import SynthClip, write_clip


class Scaled(nn.Module):
    """Scores a little otherwise."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch):
        return self.module(batch) * 1.01


@pytest.fixture
def measure(tmp_path):
    """Return a function that measures a small video, compiled by what it is given."""
    video = write_clip(tmp_path / "a", SynthClip(num_frames=6))

    def run(compiler):
        config = CompileConfig(videos=(str(video),), threads=1, **FAST)
        context = Context(store=IndexStore(tmp_path / "index"))
        return measure_compile(config, context, compiler=compiler)

    return run


def record(plain, compiled, *, is_cached=False):
    return recorded(
        {"plain": plain, "compiled": compiled},
        CompileRecord,
        model="tiny",
        device="cpu",
        frame_rate=25.0,
        compile_seconds=30.0,
        is_cached=is_cached,
        compared=64,
        difference=2e-7,
        allowed=1e-3,
    )


def test_both_are_timed_in_turns_once_they_score_the_same(measure):
    compiled = []

    def compiler(module):
        compiled.append(module)
        return module

    found = measure(compiler)
    assert len(compiled) == 1
    assert [turn.way for turn in found.turns] == ["plain", "compiled"]
    assert found.difference < 1e-6
    assert (found.compared, found.frame_rate, found.is_cached) == (6, 30, False)
    assert found.compile_seconds > 0
    assert CompileRecord.model_validate_json(found.model_dump_json()) == found


def test_a_compiled_model_that_scores_otherwise_is_not_timed(measure):
    with pytest.raises(BackendError, match=r"squeezenet1_1 scores otherwise .* by 0\.01 of the"):
        measure(Scaled)


def test_a_model_that_cannot_be_compiled_is_one_line(measure):
    def compiler(module):
        raise RuntimeError("No working C++ compiler found\nin a long story")

    with pytest.raises(BackendError, match=r"cannot be compiled on cpu .*: No working C") as caught:
        measure(compiler)
    assert "\n" not in str(caught.value)


def test_compiling_pays_where_what_it_saves_makes_up_for_what_it_took():
    """100 and 200 frames/s: 5 ms are saved on a frame, 30 s are 6,000 frames."""
    found = record([1, 1], [0.5, 0.5])
    assert pays_after(rows_of(found)) == pytest.approx(6000)
    [finding] = COMPILE.page(found).findings
    assert finding.headline == (
        "Compiled, tiny is 2.00 times as fast: 200 frames/s against 100 frames/s"
    )
    assert finding.evidence[0] == (
        "Compiling took 30.0 s before the first frame: made up for after 6,000 frames, 4 min 00 s "
        "of such a video (25.0 frames/s)."
    )
    assert finding.change.startswith(
        "--enable-compile of headrace run where it has more than 6,000 frames"
    )
    assert (finding.advice.gain, finding.advice.options) == (2, {"compile": True})


@pytest.mark.parametrize("compiled", [[0.98, 0.98], [2, 2]])
def test_where_it_gains_nothing_nothing_makes_up_for_it(compiled):
    [finding] = COMPILE.page(record([1, 1], compiled)).findings
    assert finding.headline.startswith("Compiling tiny gains nothing here: ")
    assert finding.evidence[0].endswith("before the first frame: nothing makes up for that.")
    assert finding.advice.gain == 1


def test_what_came_from_an_earlier_time_is_said():
    [finding] = COMPILE.page(record([1, 1], [0.5, 0.5], is_cached=True)).findings
    assert "from what PyTorch kept of an earlier time" in finding.evidence[0]


def test_turns_that_differ_too_much_give_no_verdict():
    [finding] = COMPILE.page(record([1, 1.5], [0.5, 0.5])).findings
    assert finding.headline.startswith("Too unsteady to say what compiling gains; by the medians")
    assert finding.evidence[0] == "Compiling took 30.0 s before the first frame."
    assert finding.advice.gain is None


def test_a_chart_shows_when_the_lines_cross():
    rates, elapsed = COMPILE.page(record([1, 1], [0.5, 0.5])).charts
    assert list(rates.figure.data[0].x) == [100, 200]
    plain, compiled = elapsed.figure.data
    assert (list(plain.x), list(plain.y)) == ([0, 12000], [0, 120])
    assert (list(compiled.x), list(compiled.y)) == ([0, 12000], [30, 90])
