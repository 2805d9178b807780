"""`headrace bench decode`, `transfer`, `preprocess`, `compile`, `amp`, `split` and `affinity`."""

import json

import pytest

from decode.gpus import needs_no_gpu
from headrace.testing.synth import SynthClip, write_clip

FAST = ("--model-name", "squeezenet1_1", "--batch-size", 1, "--seconds", 0.01, "--repeats", 1)
SINGLE = ("--threads", 1)


@pytest.fixture
def video(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=4))


@pytest.mark.parametrize(
    ("name", "options", "title", "first"),
    [
        ("amp", SINGLE, "Frames per second by precision: squeezenet1_1 on cpu", "precision"),
        (
            "split",
            (*SINGLE, "--split-point", "features.5"),
            "Frames per second, whole and split: squeezenet1_1, first part on cpu, second on cpu",
            "way",
        ),
        ("affinity", (), "Frames per second by cores and threads: squeezenet1_1", "setting"),
        ("preprocess", (), "Decode, transform and infer: frames of 96x128", "step"),
    ],
)
def test_it_prints_rows_and_answer_and_leaves_numbers_and_page(
    call, video, tmp_path, name, options, title, first
):
    out = tmp_path / "out"
    code, said, err = call("bench", name, video, *FAST, *options, "--out", out)
    assert (code, err) == (0, "")
    machine, heading, _, heads, *_ = said.splitlines()
    assert machine.startswith("Machine: CPU")
    assert heading.startswith(title)
    assert heads.split()[0] == first
    assert said.endswith(f"Numbers: {out / name}.json\nChart: {out / name}.html\n")
    assert json.loads((out / f"{name}.json").read_text())["turns"]
    assert "chart-" in (out / f"{name}.html").read_text()
    assert max(map(len, said.splitlines()[:-2])) <= 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("amp", "--model-name", "resnet19"), "did you mean resnet18"),
        (("amp", "--seconds", 0), "seconds must be > 0"),
        (("compile", "--device", "tpu"), "'tpu' is not one of"),
        (("split", "--split-point", "layer9"), "did you mean"),
        (("affinity", "--threads", 1), "No such option"),
        (("preprocess", "--batch-size", 0), "batch"),
        (("split", "--split-point", ""), "names no layer"),
        (("decode", "--access", "sideways"), "'sideways' is not one of"),
        (("decode", "--gpu", -1), "'--gpu': must be >= 0"),
        (("decode", "--repeats", 0), "'--repeats': must be >= 1"),
        (("transfer", "--batch-size", 0), "batch"),
        (("transfer", "--seconds", 0), "seconds must be > 0"),
        (("transfer", "--size", 0, 64), "size"),
        (("transfer", "--device", "cuda"), "No such option"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_timed(
    call, video, tmp_path, arguments, said
):
    name, *options = arguments
    found, out, err = call("bench", name, video, *options, "--out", tmp_path / "out")
    assert (found, said in err) == (2, True), err
    assert "Fastest" not in out
    assert not (tmp_path / "out" / f"{name}.json").exists()


@pytest.mark.parametrize("name", ["preprocess", "transfer", "compile", "amp", "split", "affinity"])
def test_two_videos_are_refused(call, video, name):
    code, _, err = call("bench", name, video, video.with_name("other.mp4"))
    assert code == 2
    assert f"bench {name} takes one video, got 2" in err


def test_decode_prints_a_row_for_each_method_and_why_others_have_no_time(call, video, tmp_path):
    options = ("--seconds", 0.01, "--repeats", 1, "--access", "random", "--out", tmp_path / "out")
    code, said, err = call("bench", "decode", video, *options)
    assert (code, err) == (0, "")
    heads = next(line for line in said.splitlines() if "mean decode ms" in line)
    rows = said.partition(heads)[2].splitlines()[1:7]
    assert [row.strip().partition("  ")[0] for row in rows] == [
        *("PyAV", "torchcodec CPU", "torchcodec CUDA", "NVDEC", "PyNvVideoCodec", "decord")
    ]
    assert max(map(len, said.splitlines()[:-2])) <= 100
    code, said, err = call("bench", "decode", video, *options, "--json")
    assert (code, err, json.loads(said)["access"]) == (0, "", "random")


@needs_no_gpu
def test_transfer_counts_bytes_without_a_gpu_and_says_that_nothing_was_timed(call, video, tmp_path):
    out = tmp_path / "out"
    quick = ("--size", 48, 64, "--batch-size", 2, "--seconds", 0.01, "--repeats", 1, "--out", out)
    code, said, err = call("bench", "transfer", video, *quick)
    assert (code, err) == (0, "")
    _, title, _, heads, *rows = said.splitlines()
    assert title == "From the video to a normalised tensor of 48x64 on a GPU"
    assert heads.split() == ["way", "bytes", "up", "bytes", "down", "frames/s", "ms", "after"]
    assert [" ".join(row.split()[-4:]) for row in rows[:5]] == [
        *("36,864 0 - -", "36,864 0 - -", "9,216 0 - -", "- - - -", "- - - -")
    ]
    assert "Nothing was timed: no NVIDIA GPU here" in said
    assert "chart-" in (out / "transfer.html").read_text()
    code, said, _ = call("bench", "transfer", video, *quick, "--json")
    assert (code, json.loads(said)["ways"][0]["way"]) == (0, "CPU, float32")
