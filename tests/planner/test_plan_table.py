"""The table of a plan: what was measured stands beside what was predicted, and words below it."""

from dataclasses import replace

import pytest

from headrace.decode.index_store import IndexStore
from headrace.planner.plan_config import PlanConfig
from headrace.planner.plan_probe import PlanProbe
from headrace.planner.plan_table import columns_of
from headrace.planner.plan_text import render_plan
from headrace.planner.planner import plan
from headrace.testing.synth import SynthClip

TRIAL = PlanProbe(
    **{"frames_per_second": 123.0, "frames": 8, "seconds": 1.0, "is_filled": False},
    **{"amplification": 4.5, "seeks": 0.5, "most_held_bytes": 0, "memory_bytes": 7 * 2**20},
    **{"design_effect": 2.0, "inflation": None},
)


@pytest.fixture(scope="module")
def made(written, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    config = PlanConfig(batch_size=8, size=(32, 32), memory_budget="1MiB")
    with pytest.MonkeyPatch.context() as brief:
        brief.setattr("headrace.planner.plan_simulation._LEAST_REQUESTS", 1000)
        clips = [written(SynthClip(gop=12))]
        return plan(clips, config, workers=1, store=IndexStore(folder / "index"))


def cells(made, name):
    """Return the cells of one strategy by their heads, on one line."""
    row = next(row for row in made.strategies if row.name == name)
    return {" ".join(column.header.split()): column.cell(row) for column in columns_of(made)}


def test_measured_speed_memory_and_noise_are_in_the_row(made):
    tried = replace(made, trials={"naive": TRIAL})
    assert cells(tried, "naive").items() >= {
        ("frames/s measured", "123*"),
        ("decoded measured", "4.50*"),
        ("max measured", "7"),
        ("batch measured", "4"),
        ("long-run measured", "-"),
    }
    others = cells(tried, "look-ahead")
    assert {cell for head, cell in others.items() if head.endswith("measured")} == {"-"}
    assert not [head for head in cells(made, "naive") if "measured" in head]


def test_a_way_that_is_not_possible_has_a_name_only(made):
    rows = [replace(row, why_not="too large") for row in made.strategies]
    found = cells(replace(made, strategies=tuple(rows)), "naive")
    assert set(found.values()) - {"-"} == {found["strategy"]}


def test_other_programs_that_took_the_processor_are_told_below_the_advice(made):
    said = "Other programs kept up to 1.50 of 2 usable cores busy meanwhile"
    for others, is_told in ((1.5, True), (0.1, False)):
        decoding = replace(made.decoding, others=others)
        text = render_plan(replace(made, decoding=decoding, cores=2), ["a.mp4"])
        assert (said in text) is is_told


@pytest.mark.parametrize(
    ("videos", "said"),
    [
        (
            ["my videos", "-a.mp4"],
            "headrace proxy 'my videos' ./-a.mp4 -o proxies --size 32x32 --gop 8",
        ),
        (["a.mp4"] * 21, "headrace proxy VIDEOS -o proxies --size 32x32 --gop 8"),
    ],
)
def test_proxies_that_pay_are_offered_with_the_command_for_these_videos(made, videos, said):
    pays = replace(made, reencode=replace(made.reencode, why_not="", epochs=0.5))
    text = render_plan(pays, videos)
    assert f"\n  {said}\n" in text
    assert ("where VIDEOS are the 21 paths that were given here" in text) is (len(videos) == 21)
    offer = text.partition("would pay")[2].partition("Recommended")[0]
    assert max(map(len, offer.splitlines())) <= 80
    assert " on disk and " in offer
    assert "earned back after 0.5 epochs" in " ".join(offer.split())
