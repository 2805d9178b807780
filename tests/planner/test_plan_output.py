"""Table of a plan, expected figures beside measured ones, and the text below it."""

from dataclasses import asdict, replace

import pytest

from headrace.decode.index_store import IndexStore
from headrace.planner.plan_config import PlanConfig
from headrace.planner.plan_facts import plan_facts
from headrace.planner.plan_output import noise_columns, render_plan, speed_columns
from headrace.planner.planner import plan
from headrace.planner.strategy_cost import PlanProbe
from headrace.testing.synth import SynthClip

TRIAL = PlanProbe(
    **{"frames_per_second": 123.0, "frames": 8, "seconds": 1.0, "is_filled": False},
    **{"amplification": 4.5, "seeks": 0.5, "most_held_bytes": 0, "memory_bytes": 7 * 2**20},
    **{"design_effect": 2.0, "inflation": None},
)


@pytest.fixture(scope="module")
def plan_of_clip(written, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    config = PlanConfig(batch_size=8, size=(32, 32), memory_budget="1MiB")
    with pytest.MonkeyPatch.context() as brief:
        brief.setattr("headrace.planner.strategy_cost._LEAST_REQUESTS", 1000)
        clips = [written(SynthClip(gop=12))]
        return plan(clips, config, workers=1, store=IndexStore(folder / "index"))


def cells(plan_of_clip, name):
    """Return the cells of one strategy by header, each header on one line."""
    row = next(row for row in plan_of_clip.strategies if row.name == name)
    columns = (*speed_columns(plan_of_clip), *noise_columns(plan_of_clip))
    return {" ".join(column.header.split()): column.cell(row) for column in columns}


def advice(plan):
    """Return the text above the tables, in one line."""
    text = render_plan(plan, ["a.mp4"]).partition("   strategy")[0]
    return " ".join(text.partition("Recommended")[2].split())


def test_measured_speed_memory_and_noise_are_in_the_row(plan_of_clip):
    tried = replace(plan_of_clip, trials={"naive": TRIAL})
    assert cells(tried, "naive").items() >= {
        ("frames/s measured", "123*"),
        ("decoded measured", "4.50*"),
        ("memory measured", "7.00"),
        ("batch measured", "4"),
        ("long-run measured", "-"),
    }
    others = cells(tried, "look-ahead")
    assert {cell for head, cell in others.items() if head.endswith("measured")} == {"-"}
    assert not [head for head in cells(plan_of_clip, "naive") if "measured" in head]
    rows = plan_facts(tried, ["a.mp4"])["strategies"]
    assert {row["name"]: row["measured"] for row in rows if row["measured"]} == {
        "naive": asdict(TRIAL)
    }


@pytest.mark.parametrize(
    ("cost", "what"), [("seek", "seek"), ("delivered", "frame converted to 32x32")]
)
def test_costs_that_could_not_be_separated_are_a_warning(plan_of_clip, cost, what):
    speed = replace(plan_of_clip.decoding.speed, **{f"seconds_per_{cost}": 0.0})
    unclear = replace(plan_of_clip, decoding=replace(plan_of_clip.decoding, speed=speed))
    warning = "Warning: the costs of seeking, decoding and converting could not be separated"
    assert warning in advice(unclear)
    text = " ".join(render_plan(unclear, ["a.mp4"]).split())
    assert f"not separated from the others per {what}" in text
    assert not plan_facts(unclear, ["a.mp4"])["decoding"]["is_told_apart"]


def test_advice_comes_first_and_names_the_rates_of_the_start(plan_of_clip):
    row = plan_of_clip.recommendation.strategy
    epoch = f"from about batch 24 (epoch 5), when the lookahead of {row.lookahead} frames is full"
    assert row.lookahead == 4 * 48
    assert epoch in advice(plan_of_clip)
    assert " on average in the first epoch" in advice(plan_of_clip)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"later_epochs": 1.0}, "spill='.' is left out; it would be slower: 1.00 instead of "),
        ({"later_epochs": 1e9}, "spill='.' is faster: 1,000,000,000 instead of "),
        ({"later_epochs": 1e9, "free_bytes": 1}, "the disk has too little room for all frames"),
        (None, "no codec packs these frames"),
    ],
)
def test_a_spill_that_was_asked_for_is_judged(plan_of_clip, changed, said):
    spill = None if changed is None else replace(plan_of_clip.spill, **changed)
    config = replace(plan_of_clip.config, spill=".")
    assert said in advice(replace(plan_of_clip, config=config, spill=spill))


def test_an_epoch_of_clips_does_not_fill_the_disk(plan_of_clip):
    config = replace(plan_of_clip.config, num_frames=2, spill=".")
    spill = replace(plan_of_clip.spill, later_epochs=1e9)
    text = render_plan(replace(plan_of_clip, config=config, spill=spill), ["a.mp4"])
    text = " ".join(text.split())
    assert text.count("1,000,000,000 frames/s expected once all frames are stored") == 2
    assert "second epoch" not in text


def test_options_that_are_not_faster_are_not_advised(plan_of_clip):
    """Proxies may pay against look-ahead, and lose against the recommended loader."""
    slow = replace(plan_of_clip.reencode, why_not="", epochs=0.5, after=1.0)
    spill = replace(plan_of_clip.spill, later_epochs=1.0)
    head = "If training still waits"
    assert head not in advice(replace(plan_of_clip, reencode=slow, spill=spill))
    faster = replace(plan_of_clip, reencode=slow, spill=replace(spill, later_epochs=1e9))
    assert "add spill='DIR'" in advice(faster).partition(head)[2]


def test_measured_tables_are_readable_in_a_terminal(plan_of_clip):
    tried = replace(plan_of_clip, trials={row.name: TRIAL for row in plan_of_clip.strategies})
    table = [line for line in render_plan(tried, ["a.mp4"]).splitlines() if "look-ahead" in line]
    assert max(len(line) for line in table if "Loader(" not in line) <= 100


def test_memory_below_a_mebibyte_is_not_rounded_to_0(plan_of_clip):
    [row, *_] = plan_of_clip.strategies
    assert row.memory_bytes < 2**19
    assert cells(plan_of_clip, "naive")["memory expected"] == f"{row.memory_bytes / 2**20:.3f}"
    small = replace(plan_of_clip, config=replace(plan_of_clip.config, memory_budget="256KiB"))
    assert "within 0.250 MiB" in render_plan(small, ["a.mp4"])


def test_an_infeasible_strategy_has_a_name_only(plan_of_clip):
    rows = [replace(row, why_not="too large") for row in plan_of_clip.strategies]
    row = cells(replace(plan_of_clip, strategies=tuple(rows)), "naive")
    assert set(row.values()) - {"-"} == {row["strategy"]}


def test_cpu_time_of_other_programs_is_reported_below_the_advice(plan_of_clip):
    sentence = "Other programs kept up to 1.50 of 2 usable cores busy"
    for others, is_reported in ((1.5, True), (0.1, False)):
        decoding = replace(plan_of_clip.decoding, others=others)
        text = render_plan(replace(plan_of_clip, decoding=decoding, cores=2), ["a.mp4"])
        assert (sentence in text) is is_reported


@pytest.mark.parametrize(
    ("videos", "command"),
    [
        (
            ["my videos", "-a.mp4"],
            "headrace proxy 'my videos' ./-a.mp4 -o proxies --size 32x32 --gop 8",
        ),
        (["a.mp4"] * 21, "headrace proxy VIDEOS -o proxies --size 32x32 --gop 8"),
    ],
)
def test_proxies_that_pay_off_are_offered_with_their_command(plan_of_clip, videos, command):
    reencode = replace(plan_of_clip.reencode, why_not="", epochs=0.5, after=1e9)
    pays = replace(plan_of_clip, reencode=reencode)
    text = render_plan(pays, videos)
    assert f"\n  {command}\n" in text
    assert ("VIDEOS stands for the 21 given paths" in text) is (len(videos) == 21)
    offer = text.partition("If training still waits for data")[2].partition("   strategy")[0]
    assert max(map(len, offer.splitlines())) <= 80
    assert "they pay off after 0.5 epochs" in " ".join(offer.split())
    assert " on disk and " in text.partition("would pay off")[2]
