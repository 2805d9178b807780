"""A plan compares strategies on the user's files and refuses impossible requests."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.clocks import OpeningTakesTenSeconds, TickingClock
from headrace.planner.plan_config import PlanConfig
from headrace.planner.plan_facts import loader_call
from headrace.planner.planner import plan
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip
from tests.kit.pages import calls_of, check_message


@pytest.fixture
def clips(copies):
    return copies(3)


@pytest.fixture
def planned(store, request):
    """Return a function: videos, threads, arguments of `plan`, options -> Plan."""

    def run(videos, workers=2, arguments=None, is_brief=True, **options):
        if is_brief:
            request.getfixturevalue("brief_rehearsals")
        config = PlanConfig(
            **{"batch_size": 8, "size": (32, 32), "memory_budget": "1MiB"} | options
        )
        return plan(videos, config, workers=workers, store=store, **arguments or {})

    return run


def test_a_plan_reports_progress_and_has_contents_speed_and_strategies(planned, clips):
    seen = []
    result = planned(clips, arguments={"on_progress": lambda *step: seen.append(step)})
    assert seen[:3] == [("indexing", done, 3) for done in (1, 2, 3)]
    assert [what for what, _, _ in seen[3:]][:2] == ["timing", "planning UniformFrames"]
    contents = result.contents
    assert (contents.videos, contents.frames, contents.gops) == (3, 144, 12)
    assert (contents.gop_of_a_frame, contents.longest_gop) == (12, 12)
    assert result.decoding.speed.workers == 2
    assert result.recommendation.strategy in result.strategies
    assert result.trials == {}
    assert result.reencode.why_not == "GOPs are short already: 12 frames"


def test_predictions_use_the_window_of_the_loader(planned, clips):
    """All 144 frames fit into 1 MiB, so a shuffle decodes each about once per epoch."""
    result = planned(clips, is_brief=False)
    rows = {row.name: row for row in result.strategies}
    assert rows["naive"].amplification == pytest.approx(6.5)
    assert rows["look-ahead, shuffled"].amplification < 1.1


@pytest.mark.parametrize(("memory", "seconds"), [("1MiB", 1 + 9 * 2 / 3), ("1GiB", 1)])
def test_a_plan_keeps_as_many_files_open_as_a_loader(copies, planned, memory, seconds):
    """1 MiB keeps one file of three open, so two of three seeks open a file."""
    clips, clock = copies(3, num_frames=12), OpeningTakesTenSeconds()
    result = planned(clips, workers=3, arguments={"clock": clock}, memory_budget=memory)
    assert result.decoding.speed.seconds_per_seek == pytest.approx(seconds)


def test_feasible_strategies_are_run_and_predicted(planned, clips):
    result = planned(clips, trial_seconds=0.1)
    assert list(result.trials) == [
        row.name for row in result.strategies if row.name != "keyframes only"
    ]
    assert all(trial.frames > 0 for trial in result.trials.values())


def test_unreadable_videos_are_skipped_and_listed(planned, clips, tmp_path):
    bad, gone = tmp_path / "list.mp4", tmp_path / "gone.mp4"
    damage.hls_text(bad)
    contents = planned([*clips, bad, gone]).contents
    assert contents.videos == 3
    assert [error.source for error in contents.left_out] == [str(bad), str(gone)]


def test_an_impossible_plan_is_refused(planned, clips, tmp_path):
    """Videos have 48 frames; the short one has 6."""
    short = write_clip(tmp_path / "short", SynthClip(num_frames=6))
    names = {"planned": planned, "clips": clips, "short": short, "tmp_path": tmp_path}
    for call, message in calls_of(Path(__file__).with_name("refused.txt")):
        check_message(call, message, {"PlanConfig": PlanConfig, **names})


def test_the_prediction_for_clips_equals_the_decodes_of_a_loader(planned, clips):
    """Clips have 8 frames with stride 2, in GOPs of 12."""
    options = {"num_frames": 8, "stride": 2, "batch_size": 2, "memory_budget": "4MiB"}
    arguments = {"clock": TickingClock(0.002)}  # equal numbers of batches on any machine
    result = planned(clips, **options, trial_seconds=1.2, arguments=arguments, is_brief=False)
    assert [row.name for row in result.strategies] == [
        *("naive", "look-ahead", "look-ahead, every start", "packed", "packed, every start")
    ]
    each_once = [row.sampler.each_once for row in result.strategies]
    assert each_once == ["videos", "videos", "starts", "videos", "starts"]
    assert result.strategies[0].lookahead == 8
    assert result.strategies[0].amplification > 2 > 2 * result.strategies[1].amplification
    for row in result.strategies:
        assert result.trials[row.name].amplification == pytest.approx(row.amplification, rel=0.25)
    assert loader_call(result.strategies[2], result) == (
        "ClipLoader(videos, batch_size=2, size=(32, 32), clips=RandomClips(num_frames=8, stride=2, "
        "each_once='starts'), memory_budget='4MiB')"
    )


@pytest.mark.parametrize(("fps", "printed"), [("7.5", "'15/2'"), ("5", "5")])
def test_clips_by_time_are_planned_without_too_short_videos(planned, clips, tmp_path, fps, printed):
    short = write_clip(tmp_path / "short", SynthClip(num_frames=6))
    result = planned([*clips, short], num_frames=2, fps=fps, boundary="skip")
    assert f"fps={printed}, boundary='skip'" in loader_call(result.strategies[1], result)


@pytest.mark.parametrize(
    ("rate", "free", "options", "spills"),
    [
        (1e9, 10**12, {}, True),
        (1, 10**12, {}, False),
        (1e9, 1, {}, False),
        (1e9, 10**12, {"target": 1}, False),
        (1e9, 10**12, {"target": 1e8}, True),
    ],
    ids=["faster", "slower", "no room", "target reached without", "target not reached"],
)
def test_the_loader_spills_only_if_that_is_faster_and_needed(
    planned, clips, tmp_path, rate, free, options, spills
):
    result = planned(clips, spill=str(tmp_path), **options)
    spill = replace(result.spill, later_epochs=rate, free_bytes=free)
    result = replace(result, spill=spill)
    call = loader_call(result.recommendation.strategy, result)
    assert (result.spills, f"spill={str(tmp_path)!r}" in call) == (spills, spills)


@pytest.mark.parametrize(("num_frames", "batches"), [(None, (128, 128)), (16, (8, 128))])
def test_the_default_batch_size_equals_the_loader_s(num_frames, batches):
    config = PlanConfig(num_frames=num_frames)
    assert (config.samples_per_batch, config.frames_per_batch) == batches
