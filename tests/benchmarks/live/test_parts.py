"""Parts of bench_live: each is measured alone, keeps the others, and is judged by its figures."""

from functools import partial

import numpy as np
import pytest

from benchmark_fakes import overlap_case, overloaded
from benchmarks import bench_live
from benchmarks.bench_live import LiveResult, main
from benchmarks.command_line import call
from benchmarks.live import threads
from benchmarks.live.figures import Quantiles, Series
from benchmarks.live.overload import Overloaded, measure_overload
from benchmarks.live.source import STAGES, Answered, grey_thumbnails, number_of, numbered_clip
from benchmarks.live.threads import compare_ages, measure_overlap, measure_own_cost
from benchmarks.worker import WorkerError, answer_here, ask_worker
from media import read_frames, rgb


def test_each_frame_has_its_number_in_rgb_and_bgr(clip):
    pictures = [rgb(frame) for frame in read_frames(clip)]
    assert [number_of(picture) for picture in pictures] == list(range(120))
    assert number_of(pictures[7][..., ::-1]) == 7


def test_an_existing_clip_is_not_created_again(clip):
    before = clip.stat().st_mtime_ns
    assert numbered_clip(clip.parents[1], 4) == clip
    assert clip.stat().st_mtime_ns == before


def test_thumbnails_of_rgb_and_bgr_are_equal():
    pictures = np.random.default_rng(0).integers(0, 256, (2, 720, 1280, 3), np.uint8)
    thumbnails = grey_thumbnails(pictures)
    assert thumbnails.shape == (2, 32, 32, 1)
    assert np.allclose(thumbnails, grey_thumbnails(pictures[..., ::-1]), atol=0.1)


@pytest.mark.parametrize("waits", [True, False])
def test_pairs_have_the_times_of_each_stage(clip, waits):
    cases = {"a case": {"threads": 1, "waits": waits}}
    overlap = measure_overlap(clip, answer_here, cases=cases, frames=5, proved=3, repeats=2)
    [case] = overlap.cases
    assert (case.name, len(case.pairs)) == ("a case", 2)
    for pair in case.pairs:
        assert list(pair.stage_ms) == list(pair.threaded_stage_ms) == [*STAGES]
        assert min(pair.stage_ms.values()) > 0
        assert min(pair.threaded_stage_ms.values()) > 0


TIMED = {
    "time_pairs": {"threads": 1, "waits": True},
    "time_ages": {"rate": 60, "model": "none"},
}


@pytest.mark.parametrize("case", TIMED)
def test_different_results_are_refused(clip, monkeypatch, case):
    other = [Answered(0, "another", 1.0, {})]
    monkeypatch.setattr(threads, "VARIANTS", (threads.VARIANTS[0], lambda *_: other))
    with pytest.raises(ValueError, match="the results of the pipeline differ"):
        getattr(threads, case)(clip=str(clip), frames=1, proved=1, repeats=1, **TIMED[case])


def test_drops_are_counted_by_cause_and_memory_is_sampled(clip):
    result = measure_overload(clip, answer_here, seconds=3.0, max_staleness_ms=5000)
    assert result.is_conserved
    assert result.drops["decode: overflow"] > 0
    assert result.age_ms.count == result.delivered > 0
    assert len(result.rss_bytes.values) == len(result.rss_bytes.at_seconds) > 0


def test_a_run_without_shown_frames_fails(clip):
    with pytest.raises(WorkerError, match="no frame was shown"):
        measure_overload(clip, lambda request: {"ages_ms": []})


def test_the_added_latency_is_the_difference_of_ages_frame_by_frame():
    bare = [[(10.0, 9.0), (20.0, 19.5)]]
    pipeline = [[(10.5, 9.1), (20.7, 19.4)]]
    case = compare_ages("none", bare, pipeline, rate=50, proved=1)
    assert case.own_ms.worst == pytest.approx(0.7)
    assert case.own_ms.p50 == pytest.approx(0.5)
    assert case.stages_ms.worst == pytest.approx(0.1)
    assert case.hand_over_ms.worst == pytest.approx(0.8)
    assert case.repeats_p50_ms == (pytest.approx(0.6),)
    assert case.late_frames == 0
    assert compare_ages("none", bare, pipeline, rate=60, proved=1).late_frames == 1


def test_both_variants_are_compared_and_timed(clip):
    scale = {"models": ("none",), "rate": 60, "frames": 4, "proved": 3, "repeats": 2}
    result = measure_own_cost(clip, answer_here, **scale)
    [case] = result.cases
    assert case.own_ms.count == 8
    assert len(case.repeats_p50_ms) == 2
    assert case.proved_frames == 3
    assert result.provenance.configuration["rate"] == 60


def test_a_slope_is_a_least_squares_fit_and_growth_covers_the_sampled_time():
    series = Series(at_seconds=(0, 1, 2, 3), values=(5, 7, 9, 11))
    assert series.slope == pytest.approx(2)
    assert series.growth == pytest.approx(6)
    noisy = Series(at_seconds=(0, 1, 2), values=(0, 3, 0))
    assert noisy.slope == pytest.approx(0)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_samples_have_no_slope(count):
    series = Series(at_seconds=(1.0,) * count, values=(4.0,) * count)
    assert (series.slope, series.growth) == (0, 0)


def test_after_leaves_out_earlier_samples():
    series = Series(at_seconds=(0, 5, 10), values=(1, 2, 3)).after(5)
    assert series == Series(at_seconds=(5, 10), values=(2, 3))


def test_percentiles_need_enough_samples():
    assert Quantiles.of([]) is None
    few = Quantiles.of([3.0, 1.0, 2.0])
    assert few == Quantiles(count=3, p50=2.0, p95=None, worst=3.0)
    many = Quantiles.of([float(n) for n in range(100)])
    assert many.p95 == 94.0


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"delivered": 299}, "is_conserved"),
        ({"max_staleness_ms": 189.0}, "is_fresh"),
        ({"rss_bytes": Series(at_seconds=(1, 2, 3), values=(1e8, 2e8, 3e8))}, "is_memory_flat"),
        ({"rss_bytes": Series(at_seconds=(), values=())}, "is_memory_flat"),
    ],
)
def test_overload_is_judged_by_its_figures(change, check):
    right: Overloaded = overloaded()
    assert right.is_conserved
    assert right.is_fresh
    assert right.is_memory_flat
    assert not getattr(right.model_copy(update=change), check)


def test_the_speedup_by_threads_has_bounds_by_stages_and_cores():
    case = overlap_case(sequential=3.0, threaded=1.6, cpu=3.0)
    assert case.gains == [pytest.approx(1.875)]
    assert case.by_stages == [pytest.approx(2.0)]
    assert case.by_cores == [pytest.approx(2.0)]
    assert case.is_of_stages
    assert case.share == pytest.approx(0.9375)
    assert not overlap_case(sequential=3.0, threaded=2.0, cpu=4.0).is_of_stages


OWN_COST = {"bare": [[(10.0, 9.0)]], "pipeline": [[(10.5, 9.5)]]}
PAIR = overlap_case(sequential=2.0, threaded=1.0, cpu=2.0).pairs[0]
OVERLAP = {"pairs": [PAIR.model_dump()]}


def run(words, ask):
    """Run the command."""
    call(partial(main, ask=ask), "", words)


@pytest.fixture
def words(tmp_path):
    """Return the command line of a quick run with an existing clip."""
    clip = tmp_path / "live" / "numbered-10s.mp4"
    clip.parent.mkdir()
    clip.touch()
    return ["--quick", "--media", str(tmp_path), "--out", str(tmp_path / "live.json")]


class HalfOthers:
    """Meter on a machine where other programs use as much CPU time as this one."""

    wall_seconds = 1.0

    def read(self):
        return {"wall_seconds": 1.0, "cpu_seconds": 1.0, "others_cpu_seconds": 1.0}


def test_a_part_is_measured_and_the_others_are_kept(words, tmp_path, monkeypatch):
    monkeypatch.setattr(bench_live, "Meter", HalfOthers)
    run([*words, "--only", "own_cost"], lambda request: OWN_COST)
    run([*words, "--only", "overlap"], lambda request: OVERLAP)
    result = LiveResult.load(tmp_path / "live.json")
    assert result.own_cost.others_share == result.overlap.others_share == 0.5
    assert result.overlap.cases[0].gains == [2.0]
    assert result.overload is result.rtsp is result.rivals is None
    assert result.provenance.configuration == {"quick": True, "only": "overlap"}


def test_a_failed_part_is_named_and_the_next_is_measured(words, tmp_path, capsys):
    def ask(request):
        if request["case"] == "live.threads:time_ages":
            raise WorkerError("no such model")
        return OVERLAP

    with pytest.raises(SystemExit, match="not measured: own_cost"):
        run([*words, "--only", "own_cost", "overlap"], ask)
    assert "own_cost: failed: no such model" in capsys.readouterr().out
    result = LiveResult.load(tmp_path / "live.json")
    assert result.own_cost is None
    assert result.overlap is not None


def test_a_result_of_another_layout_is_not_overwritten(words, tmp_path):
    (tmp_path / "live.json").write_text('{"speed": 1}', "utf-8")
    with pytest.raises(
        SystemExit, match="has another layout and cannot be continued; name another --out"
    ):
        run([*words, "--only", "own_cost"], lambda request: OWN_COST)
    assert (tmp_path / "live.json").read_text("utf-8") == '{"speed": 1}'


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        run(["--only", "speed"], ask_worker)
    assert "invalid choice: 'speed'" in capsys.readouterr().err
