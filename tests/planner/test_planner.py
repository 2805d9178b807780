"""A plan compares strategies on the user's own files, and says what it cannot."""

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
    """Return a function: videos, threads, what else `plan` is given, options -> Plan."""

    def run(videos, workers=2, given=None, is_brief=True, **options):
        if is_brief:
            request.getfixturevalue("brief_rehearsals")
        asked = {"batch_size": 8, "size": (32, 32), "memory_budget": "1MiB", **options}
        return plan(videos, PlanConfig(**asked), workers=workers, store=store, **given or {})

    return run


def test_a_plan_holds_the_videos_the_machine_and_the_strategies(planned, clips):
    made = planned(clips)
    contents = made.contents
    assert (contents.videos, contents.frames, contents.gops) == (3, 144, 12)
    assert (contents.gop_of_a_frame, contents.longest_gop) == (12, 12)
    assert made.decoding.speed.workers == 2
    assert made.recommendation.strategy in made.strategies
    assert made.trials == {}
    assert made.reencode.why_not == "GOPs are short already: 12 frames"


def test_predictions_are_of_the_loader_s_own_window(planned, clips):
    """All 144 frames fit into 1 MiB: a shuffle decodes each once, or again where epochs meet."""
    made = planned(clips, is_brief=False)
    rows = {row.name: row for row in made.strategies}
    assert rows["naive"].amplification == pytest.approx(6.5)
    assert rows["look-ahead, shuffled"].amplification < 1.1


@pytest.mark.parametrize(("memory", "seconds"), [("1MiB", 1 + 9 * 2 / 3), ("1GiB", 1)])
def test_files_stay_open_in_a_plan_as_in_a_loader_of_that_memory(copies, planned, memory, seconds):
    """1 MiB lets one file of three stay open, so two of three times another has to be opened."""
    clips, clock = copies(3, num_frames=12), OpeningTakesTenSeconds()
    made = planned(clips, workers=3, given={"clock": clock}, memory_budget=memory)
    assert made.decoding.speed.seconds_per_seek == pytest.approx(seconds)


def test_progress_is_told(clips, planned):
    seen = []
    planned(clips, workers=1, given={"on_progress": lambda *each: seen.append(each)})
    assert seen[:3] == [("indexing", done, 3) for done in (1, 2, 3)]
    assert [what for what, _, _ in seen[3:]][:2] == ["timing", "planning UniformFrames"]


def test_what_can_be_run_is_run_beside_its_prediction(planned, clips):
    made = planned(clips, trial_seconds=0.1)
    assert list(made.trials) == [
        row.name for row in made.strategies if row.name != "keyframes only"
    ]
    assert all(trial.frames > 0 for trial in made.trials.values())


def test_videos_that_cannot_be_read_are_left_out_and_listed(planned, clips, tmp_path):
    bad, gone = tmp_path / "list.mp4", tmp_path / "gone.mp4"
    damage.hls_text(bad)
    contents = planned([*clips, bad, gone]).contents
    assert contents.videos == 3
    assert [error.source for error in contents.left_out] == [str(bad), str(gone)]


def test_what_cannot_be_planned_is_refused_with_what_is_possible(planned, clips, tmp_path):
    """Of clips of 48 frames, and a short one of 6."""
    short = write_clip(tmp_path / "short", SynthClip(num_frames=6))
    names = {"planned": planned, "clips": clips, "short": short, "tmp_path": tmp_path}
    for call, said in calls_of(Path(__file__).with_name("refused.txt")):
        check_message(call, said, {"PlanConfig": PlanConfig, **names})


def test_clips_are_planned_as_a_clip_loader_reads_them(planned, clips):
    """Clips of 8 frames, 2 apart, of GOPs of 12: the prediction is what a loader then decodes."""
    options = {"num_frames": 8, "stride": 2, "batch_size": 2, "memory_budget": "4MiB"}
    clock = TickingClock(0.002)  # as many batches in each trial, however slow the machine is
    made = planned(clips, **options, trial_seconds=0.3, given={"clock": clock}, is_brief=False)
    names = [row.name for row in made.strategies]
    ahead = ["look-ahead", "look-ahead, every start"]
    assert names == ["naive", *ahead, "packed", "packed, every start"]
    each_once = [row.sampler.each_once for row in made.strategies]
    assert each_once == ["videos", "videos", "starts", "videos", "starts"]
    assert made.strategies[0].lookahead == 8
    assert made.strategies[0].amplification > 2 > 2 * made.strategies[1].amplification
    for row in made.strategies:
        assert made.trials[row.name].amplification == pytest.approx(row.amplification, rel=0.25)
    assert loader_call(made.strategies[2], made) == (
        "ClipLoader(videos, batch_size=2, size=(32, 32), clips=RandomClips(num_frames=8, stride=2, "
        "each_once='starts'), memory_budget='4MiB')"
    )


def test_clips_by_time_are_planned_and_videos_too_short_left_out(planned, clips, tmp_path):
    short = write_clip(tmp_path / "short", SynthClip(num_frames=6))
    made = planned([*clips, short], num_frames=4, fps="7.5", boundary="skip")
    assert "fps='15/2', boundary='skip'" in loader_call(made.strategies[1], made)


@pytest.mark.parametrize(("num_frames", "batches"), [(None, (128, 128)), (16, (8, 128))])
def test_a_batch_is_that_of_the_loader(num_frames, batches):
    config = PlanConfig(num_frames=num_frames)
    assert (config.samples_per_batch, config.frames_per_batch) == batches
