"""A plan compares strategies on the user's own files, and says what it cannot."""

import pytest

from experiments.opening_clock import OpeningTakesTenSeconds
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.experiments.plan import plan
from headrace.experiments.plan_config import PlanConfig
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture
def clips(tmp_path):
    return [write_clip(tmp_path / f"{k}", SynthClip(gop=12)) for k in range(3)]


@pytest.fixture
def planned(tmp_path):
    """Return a function: videos, options -> Plan of small frames on two threads."""

    def run(videos, **options):
        config = PlanConfig(
            **{"batch_size": 8, "size": (32, 32), "memory_budget": "1MiB"} | options
        )
        return plan(videos, config, workers=2, store=IndexStore(tmp_path / "index"))

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
    made = planned(clips)
    rows = {row.name: row for row in made.strategies}
    assert rows["naive"].amplification == pytest.approx(6.5)
    assert rows["look-ahead, shuffled"].amplification < 1.1


@pytest.mark.parametrize(("memory", "seconds"), [("1MiB", 1 + 9 * 2 / 3), ("1GiB", 1)])
def test_files_stay_open_in_a_plan_as_in_a_loader_of_that_memory(tmp_path, memory, seconds):
    """1 MiB lets one file of three stay open, so two of three times another has to be opened."""
    clips = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12, gop=12)) for k in range(3)]
    config = PlanConfig(batch_size=8, size=(32, 32), memory_budget=memory)
    store, clock = IndexStore(tmp_path / "index"), OpeningTakesTenSeconds()
    made = plan(clips, config, workers=3, store=store, clock=clock)
    assert made.decoding.speed.seconds_per_seek == pytest.approx(seconds)


def test_progress_is_told(planned, clips, tmp_path):
    seen = []
    plan(
        clips,
        PlanConfig(batch_size=8, size=(32, 32)),
        workers=1,
        on_progress=lambda what, done, of: seen.append((what, done, of)),
        store=IndexStore(tmp_path / "index"),
    )
    assert seen[:3] == [("indexing", done, 3) for done in (1, 2, 3)]
    assert [what for what, _, _ in seen[3:]][:2] == ["timing", "planning Uniform"]


def test_what_can_be_run_is_run_beside_its_prediction(planned, clips):
    made = planned(clips, trial_seconds=0.1)
    assert list(made.trials) == [
        row.name for row in made.strategies if row.name != "keyframes only"
    ]
    assert all(trial.frames > 0 for trial in made.trials.values())


def test_videos_that_cannot_be_read_are_left_out_and_listed(planned, clips, tmp_path):
    bad = tmp_path / "list.mp4"
    damage.hls_text(bad)
    made = planned([*clips, bad, tmp_path / "gone.mp4"])
    assert made.contents.videos == 3
    assert [error.source for error in made.contents.left_out] == [
        str(bad),
        str(tmp_path / "gone.mp4"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_budget": "64KiB"}, "does not hold three batches of 8 frames"),
        ({"memory_budget": "plenty"}, "a size must read like"),
        (
            {"batch_size": 145, "memory_budget": "1GiB"},
            "larger than the set: the videos have 144 frames",
        ),
        ({"batch_size": 0}, "batch_size must be >= 1, got 0"),
        ({"size": (0, 32)}, "size must be numbers from 1 up, got 0, 32"),
        ({"rho": 2}, r"rho must be in \[0, 1\], got 2"),
        ({"trial_seconds": 0}, "trial_seconds must be > 0"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_what_is_possible(planned, clips, options, message):
    with pytest.raises(ConfigError, match=message):
        planned(clips, **options)


def test_nothing_to_read_is_refused(planned, tmp_path):
    with pytest.raises(ConfigError, match="got 1 that cannot be read"):
        planned([tmp_path / "gone.mp4"])
