"""Table of a plan, expected figures beside measured ones, and the text below it."""

from dataclasses import asdict, replace

import pytest

from headrace.decode.index_store import IndexStore
from headrace.planner.plan_config import PlanConfig
from headrace.planner.plan_output import columns_of, plan_facts, render_plan
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
    return {
        " ".join(column.header.split()): column.cell(row) for column in columns_of(plan_of_clip)
    }


def test_measured_speed_memory_and_noise_are_in_the_row(plan_of_clip):
    tried = replace(plan_of_clip, trials={"naive": TRIAL})
    assert cells(tried, "naive").items() >= {
        ("frames/s measured", "123*"),
        ("decoded measured", "4.50*"),
        ("max measured", "7.00"),
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


def test_costs_that_could_not_be_separated_are_a_warning(plan_of_clip):
    speed = replace(plan_of_clip.decoding.speed, seconds_per_seek=0.0)
    unclear = replace(plan_of_clip, decoding=replace(plan_of_clip.decoding, speed=speed))
    warning = "Warning: the costs of seeking and decoding could not be separated"
    assert warning in render_plan(unclear, ["a.mp4"]).partition("Recommended")[2]
    assert not plan_facts(unclear, ["a.mp4"])["decoding"]["is_told_apart"]


def test_memory_below_a_mebibyte_is_not_rounded_to_0(plan_of_clip):
    [row, *_] = plan_of_clip.strategies
    assert row.memory_bytes < 2**19
    assert cells(plan_of_clip, "naive")["memory MiB"] == f"{row.memory_bytes / 2**20:.3f}"
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
    pays = replace(plan_of_clip, reencode=replace(plan_of_clip.reencode, why_not="", epochs=0.5))
    text = render_plan(pays, videos)
    assert f"\n  {command}\n" in text
    assert ("VIDEOS stands for the 21 given paths" in text) is (len(videos) == 21)
    offer = text.partition("would pay off")[2].partition("Recommended")[0]
    assert max(map(len, offer.splitlines())) <= 80
    assert " on disk and " in offer
    assert "they pay off after 0.5 epochs" in " ".join(offer.split())
