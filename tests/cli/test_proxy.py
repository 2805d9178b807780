"""`headrace proxy` as a user meets it."""

import json

import pytest

from headrace.extraction.proxies.proxy_making import ProxyMaking
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.manifest import find_videos


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip", SynthClip(num_frames=24, b_frames=2))


@pytest.fixture
def proxy(call, tmp_path):
    def run(*arguments):
        return call("proxy", *arguments, "-o", tmp_path / "out", "--workers", 1)

    return run


def test_it_says_where_they_are_and_what_was_lost_and_a_second_time_nothing(proxy, clip, tmp_path):
    out = tmp_path / "out"
    code, said, err = proxy(clip, "--size", 64)
    assert (code, err) == (0, "")
    assert "clip.mp4 · complete" in said
    *_, frames, size, psnr, ssim, report = said.splitlines()
    assert (frames, report) == (f"Frames: 24 in {out}", f"Report: {out}/report.html")
    assert size.startswith("Size: 0.0")
    assert size.endswith("% of the originals")
    assert psnr.startswith("PSNR: ")
    assert psnr.endswith(" dB (clip.mp4)")
    assert ssim.startswith("SSIM: 0.9")
    names = {path.name for path in out.iterdir() if path.suffix != ".csv"}
    assert names == {
        *(".extraction", "proxies.json", "proxies.jsonl", "report.html", "session.json", "videos")
    }
    assert {path.name for path in (out / "videos").iterdir()} == {"clip.mp4", "clip.npz"}
    record = json.loads((out / "proxies.json").read_text())
    assert (record["totals"]["frames"], record["gain"]) == (24, None)
    again = proxy(clip, "--size", 64)
    assert again == (0, f"Nothing to do: 24 frames are in {out} already\n", "")


def test_it_says_what_is_won_where_there_are_enough_frames_for_a_batch(proxy, tmp_path):
    clip = write_clip(tmp_path / "long", SynthClip(num_frames=150, gop=150))
    code, said, _ = proxy(clip, "--size", 64)
    assert code == 0
    assert "Predicted frames/s, batches of 128 in 1GiB: originals, proxies\n  naive " in said
    gain = json.loads((tmp_path / "out" / "proxies.json").read_text())["gain"]
    assert [each["strategy"] for each in gain["gains"]] == [
        *("naive", "look-ahead", "look-ahead, shuffled", "bursts")
    ]
    assert all(each["before"] > 0 and each["after"] > 0 for each in gain["gains"])


def test_json_is_the_session(proxy, clip):
    code, said, _ = proxy(clip, "--size", 64, "--gop", 4, "--no-gain", "--json")
    session = json.loads(said)
    assert (code, session["kind"], session["outcome"]) == (0, "extract", "complete")
    assert session["provenance"]["configuration"]["gop"] == 4


def test_a_dry_run_tells_how_large_and_how_long_and_writes_nothing(proxy, clip, tmp_path):
    code, said, _ = proxy(clip, "--size", 64, "--dry-run")
    first, size, time = said.splitlines()
    assert code == 0
    assert first == f"Dry run: proxies of 24 frames of 1 video would go to {tmp_path / 'out'}"
    assert size.startswith("Size: about ")
    assert size.endswith("% of the originals, estimated from 12 frames")
    assert time.endswith(" on 1 worker, by what these took")
    code, said, _ = proxy(clip, "--size", 64, "--dry-run", "--json")
    assert json.loads(said)["frames"] == 24
    assert not (tmp_path / "out").exists()


def test_a_video_without_a_proxy_is_named_and_the_exit_code_tells(proxy, clip, tmp_path):
    bad = damage.damage_packets(clip, tmp_path / "bad.mp4", ordinals=[13])
    code, _, err = proxy(tmp_path / "gone.mp4", bad, clip, "--size", 64)
    assert code == 3
    first, gone, other = err.splitlines()
    assert first == "headrace: 24 frames of 48 did not come, and 2 videos without a proxy:"
    assert f"the whole video: cannot open {tmp_path / 'gone.mp4'}: no such file" in gone
    assert "bad.mp4 cannot be decoded" in other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--size", "256p"), "such as 256, or height and width, such as 256x456; got '256p'"),
        (("--size", "255"), "sides of proxies are even, from 2 to 8192 pixels"),
        (("--size", "0x4"), "sides of proxies are even, from 2 to 8192 pixels"),
        (("--gop", "601"), "gop must be at most 600, got 601"),
        (
            ("--gop", "8", "--codec", "mjpeg"),
            "every frame of mjpeg is a keyframe, so gop must be 1 or not given, got 8",
        ),
        (("--codec", "vp9"), "'vp9' is not one of 'h264', 'hevc', 'av1', 'mjpeg'"),
    ],
)
def test_what_is_not_possible_is_said(proxy, clip, arguments, words, tmp_path):
    code, said, err = proxy(clip, *arguments)
    assert (code, said) == (2, "")
    assert words in err
    assert not (tmp_path / "out").exists()


def test_another_request_in_the_same_folder_is_refused(proxy, clip):
    assert proxy(clip, "--size", 64, "--no-gain")[0] == 0
    code, _, err = proxy(clip, "--size", 32, "--no-gain")
    assert code == 2
    assert "holds another extraction: size was 64, now 32" in err


def test_a_folder_of_videos_may_hold_its_proxies(call, clip, tmp_path):
    out = clip.parent / "proxies"
    asked = ("proxy", clip.parent, "-o", out, "--size", 64, "--no-gain", "--workers", 1)
    assert call(*asked)[0] == 0
    assert call(*asked) == (0, f"Nothing to do: 24 frames are in {out} already\n", "")


def test_what_a_run_did_not_tell_as_it_was_killed_the_next_one_tells(proxy, clip, tmp_path):
    out = tmp_path / "out"
    assert proxy(clip, "--size", 64, "--no-gain")[0] == 0
    ends = [out / name for name in ("report.html", "session.json", "proxies.json")]
    for path in ends:
        path.unlink()
    code, said, err = proxy(clip, "--size", 64, "--no-gain")
    assert (code, err) == (0, "")
    assert "24 frames were there already, from earlier runs" in said
    assert "PSNR: " in said
    assert all(path.exists() for path in ends)
    assert proxy(clip, "--size", 64)[1].startswith("Nothing to do")


def test_a_folder_of_videos_that_holds_its_proxies_has_no_more_videos_than_before(
    call, clip, tmp_path
):
    out = clip.parent / "deep" / "proxies"
    assert call("proxy", clip, "-o", out, "--size", 64, "--no-gain", "--workers", 1)[0] == 0
    assert find_videos([clip.parent]) == [clip]


def test_videos_that_lie_where_the_proxies_would_go_are_refused(call, clip):
    code, said, err = call("proxy", clip, "-o", clip.parent, "--size", 64)
    assert (code, said) == (2, "")
    assert err.startswith(f"headrace: all videos that were given lie in {clip.parent}, where")


def test_a_second_ctrl_c_leaves_what_is_done_and_says_so(proxy, clip, monkeypatch):
    def interrupted(making, *_):
        (making.options.out / ".extraction").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(ProxyMaking, "run", interrupted)
    code, said, err = proxy(clip, "--size", 64)
    assert (code, said) == (130, "")
    assert "proxies that are done stay; run the same command again to go on" in err


def test_proxies_too_small_for_a_window_have_no_ssim_and_json_that_all_can_read(
    proxy, clip, tmp_path
):
    code, said, _ = proxy(clip, "--size", 4, "--no-gain")
    assert code == 0
    assert "PSNR: " in said
    assert "SSIM" not in said

    def refuse(name):
        raise ValueError(name)

    for name in ("proxies.json", "proxies.jsonl"):
        json.loads((tmp_path / "out" / name).read_text(), parse_constant=refuse)
