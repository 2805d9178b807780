"""`headrace extract frames`, `headrace extract features` and `headrace proxy`."""

import json
import re
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet
import pytest
import typer
from PIL import Image

import headrace
from cache.redis_server import redis_server
from cli.kit import recorded, write_pictures
from decode.backends import needs_torchcodec
from decode.gpus import needs_no_gpu
from extraction.features import feature_workers
from headrace.cli.extract_run import OutputNouns, conclude
from headrace.cli.signals import Ending
from headrace.decode.read_clip import read_clip
from headrace.extraction.proxies.proxy_extraction import ProxyMaking
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.find_videos import find_videos

MODEL = """
import torch

class Mean(torch.nn.Module):
    size = (32, 48)
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
    def forward(self, frames):
        return frames.float().mean((-2, -1)) * self.scale

def build():
    return Mean()
"""


@dataclass(frozen=True)
class Command:
    """An extraction command, its arguments and expected messages."""

    words: tuple
    """Words of the command itself."""
    plain: tuple
    """Minimal arguments."""
    done: str
    """Existing output, as the second run prints it."""
    begins: tuple[str, ...]
    """Starts of the first lines of output."""
    dry: tuple[str, str, str]
    """Parts of a dry run: its start, size and time."""
    other: tuple
    """Arguments that the same folder refuses."""
    changed: str
    """Part of the error for `other`."""
    whole: tuple
    """Arguments that select every frame."""
    lost: str
    """End of the line that counts missing samples."""


FRAMES = Command(
    ("extract", "frames"),
    ("--fps", 2, "--prefix", "shot_", "--format", "jpg"),
    "2 images",
    ("Images: 2 in {0}", "Table: {0}/frames.parquet"),
    (
        "2 images of 1 video would be written to {0}",
        "Size: about ",
        " on 1 worker, estimated from the samples",
    ),
    ("--every", 6, "--prefix", "shot_", "--format", "jpg"),
    "frames was fps 2, now every 6; give another",
    ("--every", 1),
    "1 video could not be opened:",
)
FEATURES = Command(
    ("extract", "features"),
    ("--every", 6, "--model", "own_mean:build"),
    "4 features",
    ("Features: 4 in {0}", "Table: {0}/features-00000.parquet"),
    (
        "4 features of 1 video, 3 float32 each",
        "Size: ",
        " on 1 worker for the 1 chunk to compute, ",
    ),
    ("--every", 12, "--model", "own_mean:build"),
    "frames was every 6, now every 12",
    ("--every", 1, "--model", "own_mean:build"),
    "1 video without a feature:",
)
PROXIES = Command(
    ("proxy",),
    ("--size", 64, "--no-gain"),
    "24 frames",
    ("Frames: 24 in {0}", "Size: 0.0", "PSNR: ", "SSIM: 0.9"),
    (
        "proxies of 24 frames of 1 video would be written to {0}",
        "Size: about ",
        " on 1 worker, estimated from the samples",
    ),
    ("--size", 32, "--no-gain"),
    "size was 64, now 32",
    ("--size", 64),
    "2 videos without a proxy:",
)
COMMANDS = pytest.mark.parametrize(
    "command", [FRAMES, FEATURES, PROXIES], ids=["frames", "features", "proxy"]
)
pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip", SynthClip(num_frames=24, b_frames=2))


@pytest.fixture
def extract(call, tmp_path, monkeypatch):
    """Return a function: command, arguments -> (exit code, stdout, stderr), into a folder `out`.

    Without a cache: with a cache file, workers would not be forks.
    """
    monkeypatch.setenv("HEADRACE_CACHE", "none")
    (tmp_path / "own_mean.py").write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)

    def run(command, *arguments, out="out"):
        return call(*command.words, *arguments, "-o", tmp_path / out, "--workers", 1)

    return run


def names(folder):
    return {path.name for path in folder.iterdir() if path.suffix != ".csv"}


def results(out):
    """Return when each picture, table of features and proxy was written."""
    found = (path for kind in ("*.jpg", "features-*", "*.mp4") for path in out.rglob(kind))
    return {path: path.stat().st_mtime_ns for path in found}


def rows(out):
    return pyarrow.parquet.read_table(out / "features-00000.parquet").to_pylist()


@pytest.fixture
def cached(extract, tmp_path, monkeypatch):
    """Use a cache server for results."""
    settings = ("maxmemory 64mb", "maxmemory-policy allkeys-lru", "save ''")
    with redis_server(tmp_path, *settings) as server:
        monkeypatch.setenv("HEADRACE_CACHE", server.url)
        yield


@COMMANDS
def test_output_paths_are_printed_and_a_second_run_has_nothing_to_do(
    extract, clip, tmp_path, monkeypatch, command
):
    monkeypatch.delenv("HEADRACE_CACHE")
    out = tmp_path / "out"
    code, said, err = extract(command, clip, *command.plain)
    assert (code, err) == (0, "")
    assert re.search("^.*clip.mp4 · (.* · )?complete", said, re.MULTILINE)
    assert command is not FEATURES or "packets" not in said, "packets are not counted"
    first = said.splitlines()[: len(command.begins)]
    for line, begins in zip(first, command.begins, strict=True):
        assert line.startswith(begins.format(out))
    assert said.endswith(f"\nReport: {out}/report.html\n")
    nothing = f"Nothing to do: {out} already has {command.done}\n"
    before = results(out)
    assert extract(command, clip, *command.plain) == (0, nothing, "")
    assert results(out) == before != {}
    code, _, err = extract(command, clip, *command.other)
    assert (code, f"holds another extraction: {command.changed}" in err) == (2, True), err
    if command is FEATURES:
        check_found_in_the_cache(extract, clip, tmp_path)


def check_found_in_the_cache(extract, clip, tmp_path):
    """Check that features in `out` are served from the cache for another folder."""
    asked = (FEATURES, clip, *FEATURES.plain)
    code, said, err = extract(*asked, out="again")
    assert (code, err) == (0, "")
    assert "\n1 of 1 chunks were found in the cache " in said
    [fresh], [found] = rows(tmp_path / "out"), rows(tmp_path / "again")
    assert (found["index"], found["features"]) == ([0, 6, 12, 18], fresh["features"])
    assert (fresh["cache_hit"], found["cache_hit"]) == (False, True)
    said = extract(*asked, "--dry-run", out="third")[1]
    assert "Chunks: 1; 0 are done, 1 are in the cache" in said
    assert said.endswith("Time: not estimated, nothing is left to compute\n")
    assert not (tmp_path / "third").exists()


@COMMANDS
def test_a_dry_run_estimates_number_size_and_time(extract, clip, tmp_path, command):
    code, said, _ = extract(command, clip, *command.plain, "--dry-run")
    begins, size, time = (part.format(tmp_path / "out") for part in command.dry)
    assert (code, said.partition(begins)[0]) == (0, "Dry run: ")
    assert all(part in said for part in (size, time)), said
    facts = json.loads(extract(command, clip, *command.plain, "--dry-run", "--json")[1])
    assert facts.get("frames", facts.get("samples")) == int(command.done.split()[0])
    assert facts["tried"] > 0
    assert not (tmp_path / "out").exists()


@COMMANDS
def test_missing_samples_are_listed_with_exit_code_3(extract, clip, tmp_path, command):
    bad = damage.damage_packets(clip, tmp_path / "bad.mp4", ordinals=[13])
    gone = tmp_path / "gone.mp4"
    code, _, err = extract(command, gone, bad, clip, *command.whole)
    first, *named = err.splitlines()
    assert (code, first.partition(" of 48 missing, and ")[2]) == (3, command.lost)
    assert any(f"cannot open {gone}: no such file" in line for line in named)
    assert any("bad.mp4 cannot be decoded" in line for line in named)


def test_names_of_output_files(extract, clip, tmp_path):
    assert extract(FRAMES, clip, *FRAMES.plain)[0] == 0
    shots = {f"shot_clip_{k:06d}_{k / 30:.3f}s.jpg" for k in (0, 15)}
    kept = {".extraction", "report.html", "session.json"}
    assert names(tmp_path / "out") == {*kept, *shots, "frames.parquet"}
    assert extract(PROXIES, clip, *PROXIES.plain, out="proxies")[0] == 0
    out = tmp_path / "proxies"
    assert names(out) == {*kept, "proxies.json", "proxies.jsonl", "videos"}
    assert names(out / "videos") == {"clip.mp4", "clip.npz"}
    record = recorded(out, "proxies.json")
    assert (record["totals"]["frames"], record["gain"]) == (24, None)


def test_crop_applies_to_images_and_features(extract, clip, tmp_path):
    """The model returns twice the mean of each color channel."""
    crop = ("--every", 8, "--crop", "48x64+8+16")
    assert extract(FRAMES, clip, *crop)[0] == 0
    whole = read_clip(clip, 0, 3, 8)[:, 8:56, 16:80]
    pictures = [np.asarray(Image.open(p)) for p in sorted((tmp_path / "out").rglob("*.png"))]
    assert np.array_equal(pictures, whole)
    (tmp_path / "unsized.py").write_text(MODEL.replace("size = (32, 48)", ""))
    own = ("--model", "unsized:build")
    assert extract(FEATURES, clip, *crop, *own, out="features")[0] == 0
    [table] = (tmp_path / "features").glob("features-*.parquet")
    found = np.array(pyarrow.parquet.read_table(table)["features"].to_pylist())
    assert np.allclose(found, 2 * whole.mean((1, 2)), atol=1e-3)


@pytest.mark.parametrize("command", [FRAMES, FEATURES], ids=["frames", "features"])
@pytest.mark.parametrize(
    ("crop", "words"),
    [("48x64", "such as 256x456+10+20"), ("9000x8+0+0", "choose a crop inside it")],
)
def test_an_invalid_crop_is_refused_before_anything_is_written(
    extract, clip, tmp_path, command, crop, words
):
    code, _, err = extract(command, clip, *command.plain, "--crop", crop)
    assert (code, words in err) == (2, True), err
    assert not (tmp_path / "out").exists()


def test_json_is_the_session_with_its_options(extract, clip):
    for command, flags, expected in (
        (FRAMES, ("--keyframes",), {"frames": "keyframes"}),
        (PROXIES, ("--size", 64, "--gop", 4, "--no-gain"), {"gop": 4}),
    ):
        code, said, _ = extract(command, clip, *flags, "--json", out=command.words[0])
        session = json.loads(said)
        assert (code, session["kind"], session["outcome"]) == (0, "extract", "complete")
        configuration = session["provenance"]["configuration"]
        assert {name: configuration[name] for name in expected} == expected


def test_frames_spilled_by_one_command_are_read_by_the_other(extract, clip, tmp_path):
    disk = ("--spill", tmp_path / "disk")
    size = ("--size", "32x48")  # that of the model
    assert extract(FRAMES, clip, "--every", 6, *size, *disk, "--dry-run")[0] == 0
    assert not (tmp_path / "disk").exists()
    decoded = []
    for command, flags in ((FRAMES, size), (FEATURES, FEATURES.plain[2:])):
        code, said, _ = extract(
            command, clip, "--every", 6, *flags, *disk, "--json", out=command.words[-1]
        )
        assert code == 0
        decoded.append(json.loads(said)["decode"]["frames_decoded"])
    assert decoded[0] > 0
    assert decoded[1] == 0
    with headrace.open(clip, size=(32, 48), spill=tmp_path / "disk") as video:
        assert len(video[::6]) == 4
        assert video.counters.frames_decoded == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--spill", "."), "is not a spill store"),
        (("--spill-budget", "many"), "a size must read like"),
    ],
)
def test_an_invalid_spill_folder_or_budget_is_refused(
    extract, clip, tmp_path, monkeypatch, flags, words
):
    monkeypatch.chdir(tmp_path)
    code, _, err = extract(FRAMES, clip, "--every", 6, *flags)
    assert (code, words in " ".join(err.split())) == (2, True), err


def test_a_video_shorter_than_a_clip_is_listed(extract, clip, tmp_path):
    short = write_clip(tmp_path / "short", SynthClip(num_frames=5, size=(64, 96)))
    asked = ("--clip-len", 8, "--hop", 8, *FEATURES.plain[2:], "--json")
    code, said, err = extract(FEATURES, tmp_path / "gone.mp4", clip, short, *asked)
    assert (code, json.loads(said)["kind"]) == (3, "extract"), err
    assert "2 videos without a feature:" in err
    assert "has 5 frames, but a clip of 8" in err


@needs_torchcodec
@pytest.mark.usefixtures("cached")
def test_features_of_torchcodec_are_close_to_pyav_and_never_mixed_with_it(extract, clip, tmp_path):
    """They share neither a folder nor cache entries."""
    asked = (FEATURES, clip, *FEATURES.plain)
    other = (*asked, "--decode", "torchcodec")
    assert extract(*asked)[0] == 0
    code, _, err = extract(*other)
    assert (code, "decoded_by was not set, now torchcodec" in err) == (2, True)
    assert extract(*other, out="other")[::2] == (0, "")
    assert apart(tmp_path) < 2 * 2, "gray levels; the model doubles them"
    assert not any(row["cache_hit"] for row in rows(tmp_path / "other"))
    assert extract(*other, out="again")[0] == 0
    assert all(row["cache_hit"] for row in rows(tmp_path / "again"))
    configuration = recorded(tmp_path / "other")["provenance"]["configuration"]
    assert configuration["decode"] == "torchcodec:cpu"


def apart(folder):
    """Return the largest difference between the features in `out` and in `other`."""
    ours, theirs = (
        np.concatenate([row["features"] for row in rows(folder / out)]) for out in ("out", "other")
    )
    return np.abs(ours - theirs).max()


@needs_no_gpu
@pytest.mark.usefixtures("cached")
def test_features_of_auto_equal_those_of_the_cpu_and_the_record_names_the_device(
    extract, clip, tmp_path
):
    """They may share a folder; their cache keys differ, as for a GPU."""
    asked = (FEATURES, clip, *FEATURES.plain)
    assert extract(*asked)[0] == extract(*asked, "--decode", "auto")[0] == 0
    assert extract(*asked, "--decode", "auto", out="other")[::2] == (0, "")
    session = recorded(tmp_path / "other")
    assert session["provenance"]["configuration"]["decode"] == "pyav:auto"
    assert "decoded by cpu: 4 frames" in session["notes"]
    assert any(note.startswith("decoded by the CPU alone, as ") for note in session["notes"])
    assert apart(tmp_path) == 0


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures") / "frames", 12)


def test_frames_of_image_sequences_are_extracted(extract, pictures, tmp_path):
    """Indices and times are those of the sequence; another rate is another extraction."""
    asked = (FRAMES, pictures, "--every", 4, "--size", "32x48", "--framerate")
    code, said, _ = extract(*asked, 10, "--dry-run")
    assert (code, "3 images of 1 video" in said) == (0, True)
    assert extract(*asked, 10)[0] == 0
    shots = [f"frames_{k:06d}_{k / 10:.3f}s.png" for k in (0, 4, 8)]
    assert sorted(path.name for path in (tmp_path / "out").glob("*.png")) == shots
    code, said, _ = extract(*asked, "10.0")
    assert (code, said.startswith("Nothing to do")) == (0, True)
    said = extract(*asked, 10, "--dry-run")[1]
    assert said.endswith("Done before: 3 of 3 images, which stay as they are\n")
    code, _, err = extract(*asked, 20)
    assert (code, f"rate of {pictures} was 10, now 20" in err) == (2, True)
    table = pyarrow.parquet.read_table(tmp_path / "out" / "frames.parquet").to_pylist()
    assert [row["pts_seconds"] for row in table] == [0.0, 0.4, 0.8]
    pattern = (FRAMES, pictures / "%05d.jpg", *asked[2:], 4)
    assert extract(*pattern, out="pattern")[0] == 0
    assert (tmp_path / "pattern" / "frames_000004_1.000s.png").exists(), (
        "images are named after the folder"
    )


def test_features_of_image_sequences_are_extracted(extract, pictures, tmp_path):
    assert (
        extract(FEATURES, pictures, "--every", 5, *FEATURES.plain[2:], "--framerate", "5/2")[0] == 0
    )
    [row] = rows(tmp_path / "out")
    assert row["index"] == [0, 5, 10]


def test_proxy_prints_the_gain_if_there_are_enough_frames_for_a_batch(extract, tmp_path):
    clip = write_clip(tmp_path / "long", SynthClip(num_frames=150, gop=150))
    code, said, _ = extract(PROXIES, clip, "--size", 64)
    assert code == 0
    assert "Predicted frames/s, batches of 128 in 1GiB: originals, proxies\n  naive " in said
    gains = recorded(tmp_path / "out", "proxies.json")["gain"]["gains"]
    assert [gain["strategy"] for gain in gains] == [
        *("naive", "look-ahead", "look-ahead, shuffled", "bursts")
    ]
    assert all(gain["before"] > 0 < gain["after"] for gain in gains)


def test_the_run_after_a_kill_writes_the_missing_records(extract, clip, tmp_path):
    asked = (PROXIES, clip, *PROXIES.plain)
    assert extract(*asked)[0] == 0
    ends = [tmp_path / "out" / f for f in ("report.html", "session.json", "proxies.json")]
    for path in ends:
        path.unlink()
    code, said, err = extract(*asked)
    assert (code, err) == (0, "")
    assert "already in the folder, from earlier runs: 24 frames" in said
    assert "PSNR: " in said
    assert all(path.exists() for path in ends)
    assert extract(*asked)[1].startswith("Nothing to do")


@pytest.mark.parametrize("below", ["proxies", "deep/proxies"])
def test_proxies_inside_a_video_folder_do_not_count_as_its_videos(call, tmp_path, below):
    folder = tmp_path / "videos"
    folder.mkdir()
    clip = write_clip(folder / "clip", SynthClip(num_frames=24))
    out = folder / below
    asked = ("proxy", folder, "-o", out, *PROXIES.plain, "--workers", 1)
    assert call(*asked)[0] == 0
    assert call(*asked) == (0, f"Nothing to do: {out} already has 24 frames\n", "")
    assert find_videos([folder]) == [clip]


def test_ctrl_c_prints_the_number_of_kept_frames(extract, clip, tmp_path, monkeypatch):
    def interrupted(making, *_):
        (making.options.out / ".extraction").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(ProxyMaking, "run", interrupted)
    code, said, err = extract(PROXIES, clip, *PROXIES.plain)
    assert (code, said) == (130, "")
    out = tmp_path / "out"
    assert (
        f"interrupted; 0 of 24 frames are in {out}; run the same command again to continue" in err
    )


@COMMANDS
def test_ctrl_c_while_the_report_is_written_prints_what_is_there(
    extract, clip, tmp_path, monkeypatch, command
):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("headrace.cli.extract_run.keep", interrupted)
        code, said, err = extract(command, clip, *command.plain)
    number, noun = command.done.split()
    state = f"{number} of {number} {noun} are in {tmp_path / 'out'}"
    again = "run the same command again to write the report"
    assert (code, said) == (130, "")
    assert err.endswith(f"headrace: interrupted; {state}; {again}\n")
    assert extract(command, clip, *command.plain)[0] == 0
    assert (tmp_path / "out" / "report.html").exists()


def test_on_a_terminal_losses_are_listed_once(extract, clip, tmp_path, monkeypatch):
    bad = damage.damage_packets(clip, tmp_path / "bad.mp4", ordinals=[13])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    code, said, err = extract(FRAMES, bad, *FRAMES.whole)
    words = " ".join(said.split())
    assert (code, "frame 13 of " in words, "frame 13" in err) == (3, True, False)
    assert err.endswith(" of 24 missing, listed above\n")


def test_concealed_frames_are_counted_with_exit_code_0(extract, clip, tmp_path):
    bad = damage.damage_packets(clip, tmp_path / "bad.mp4", ordinals=[13])
    code, said, err = extract(FRAMES, bad, *FRAMES.whole, "--on-error", "conceal")
    assert (code, "Damaged  " in said, "Concealed  " in said) == (0, False, True)
    assert re.search("headrace: [0-9]+ damaged frames kept as FFmpeg repairs them", err)


def test_proxies_too_small_for_ssim_have_none_and_strict_json(extract, clip, tmp_path):
    code, said, _ = extract(PROXIES, clip, "--size", 4, "--no-gain")
    assert (code, "PSNR: " in said, "SSIM" in said) == (0, True, False)

    def refuse(name):
        raise ValueError(name)

    for name in ("proxies.json", "proxies.jsonl"):
        json.loads((tmp_path / "out" / name).read_text(), parse_constant=refuse)


@pytest.fixture
def concluded(tmp_path, monkeypatch, capsys):
    """Return a function: worker function -> exit code and lines of stderr."""
    monkeypatch.setattr("headrace.extraction.features.feature_options._CHUNK_PIXELS", 1.0)
    short = SynthClip(num_frames=30, gop=10, size=(64, 96))
    clips = [write_clip(tmp_path / f"clip{number}", short) for number in range(2)]

    def run(function, before_end=lambda: None):
        out = tmp_path / "out"
        (out / ".extraction").mkdir(parents=True)
        done = feature_workers.planned(clips, out, tmp_path / "store", function).run()
        before_end()
        words = OutputNouns(noun="feature", sample="frame", none="without a feature")
        with pytest.raises(typer.Exit) as end:
            conclude(done, out, words, Ending(), as_json=True)
        return end.value.exit_code, capsys.readouterr().err.splitlines()

    return run


def test_lost_samples_are_listed_with_their_video(concluded):
    code, lines = concluded(feature_workers.crashes)
    assert (code, lines[:3]) == (
        3,
        [
            "headrace: 4 frames of 12 missing:",
            "  frame 25 of clip0.mp4: damaged",
            "  frames 10, 15 of clip1.mp4: working on it crashed: the process ended by signal 11",
        ],
    )


def test_the_completed_work_is_printed_even_if_the_report_cannot_be_written(concluded, tmp_path):
    report = tmp_path / "out" / "report.html"
    code, (written, failure) = concluded(feature_workers.runs_out_of_room, report.mkdir)
    assert (code, "report.html" in written, "no space left on device" in failure) == (1, True, True)
    kept = f"features are in {tmp_path}/out; run the same command again to continue"
    assert failure.endswith(kept)
