"""What decodes pictures that are extracted: the files are equal whatever it was."""

import pytest

from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu, needs_no_gpu
from extraction import extracting
from extraction.extracting import extract
from headrace.errors import BackendError, ConfigError
from headrace.extraction.decoders import backend_facts, check_way
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [
        write_clip(folder / f"clip{number}", SynthClip(num_frames=30, gop=10, b_frames=2))
        for number in range(2)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def by_cpu(clips, store, tmp_path_factory):
    out = tmp_path_factory.mktemp("cpu") / "out"
    assert extract(clips, out, store, workers=1).is_all
    return contents(out)


def contents(out):
    return {
        path.name: path.read_bytes()
        for path in out.iterdir()
        if path.suffix in (".png", ".parquet")
    }


def decode_of(extracted):
    return extracted.session.provenance.configuration["decode"]


@needs_no_gpu
def test_by_auto_without_a_gpu_the_cpu_does_it_and_the_record_says_why(
    by_cpu, clips, store, tmp_path
):
    extracted = extract(clips, tmp_path / "out", store, workers=1, decode="auto")
    assert contents(tmp_path / "out") == by_cpu
    assert decode_of(extracted) == "pyav:auto"
    assert "decoded by cpu: 12 frames" in extracted.session.notes
    [why] = [note for note in extracted.session.notes if "CPU alone" in note]
    assert why.startswith("decoded by the CPU alone, as ")


def test_by_auto_a_gpu_takes_a_part_and_the_files_are_equal(by_cpu, clips, store, tmp_path):
    function = extracting.shares_with_a_gpu
    extracted = extract(clips, tmp_path / "out", store, workers=1, decode="auto", function=function)
    assert contents(tmp_path / "out") == by_cpu
    [ways] = [note for note in extracted.session.notes if note.startswith("decoded by ")]
    assert "cuda:0: " in ways
    assert extracted.session.decode.frames_delivered == 12


def test_by_auto_what_the_gpu_does_not_decode_the_cpu_does_and_the_record_names_it(
    by_cpu, clips, store, tmp_path
):
    function = extracting.has_a_gpu_that_fails
    extracted = extract(clips, tmp_path / "out", store, workers=1, decode="auto", function=function)
    assert contents(tmp_path / "out") == by_cpu
    named = [note for note in extracted.session.notes if note.startswith("decoded by the CPU: ")]
    assert named
    assert all("gave no frame" in note for note in named)


def test_a_folder_begun_with_one_decoder_goes_on_with_another(by_cpu, clips, store, tmp_path):
    out = tmp_path / "out"
    extract(clips, out, store, workers=1)
    next(out.glob("*.png")).unlink()
    extracted = extract(clips, out, store, workers=1, decode="auto")
    assert extracted.is_all
    assert extracted.were_there < extracted.came == 12
    assert contents(out) == by_cpu


@needs_torchcodec
def test_torchcodec_makes_its_own_folder_as_its_pictures_are_others(clips, store, tmp_path):
    out = tmp_path / "out"
    extracted = extract(clips, out, store, workers=1, decode="torchcodec")
    assert extracted.is_all
    assert decode_of(extracted) == "torchcodec:cpu"
    with pytest.raises(ConfigError, match="decoded_by was torchcodec, now not set"):
        extract(clips, out, store, workers=1)


@needs_no_gpu
def test_without_a_gpu_nothing_is_written(clips, store, tmp_path):
    with pytest.raises(BackendError, match=r"decoding on GPU 0 .*leave --decode out"):
        extract(clips, tmp_path / "out", store, decode="cuda")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("way", "given", "words"),
    [
        ("cuda", {"rate": "10"}, "--decode cuda is for videos, and sources are pictures"),
        ("torchcodec", {"on_error": "conceal"}, "--on-error conceal needs to be told"),
        ("gpu", {}, "no way to decode 'gpu'"),
    ],
)
def test_what_does_not_go_together_is_refused(way, given, words):
    with pytest.raises((ConfigError, BackendError), match=words):
        check_way(way, **{"rate": None, "on_error": "skip", **given})


@pytest.mark.parametrize("way", ["cpu", "cuda", "cuda:1", "auto"])
def test_pyav_gives_the_same_bits_anywhere_and_is_no_part_of_a_request(way):
    assert backend_facts(way) == {}
    assert backend_facts("torchcodec:cuda:1") == {"decoded_by": "torchcodec"}


@needs_gpu
def test_a_gpu_gives_equal_files_and_the_record_counts_what_came_down(
    by_cpu, clips, store, tmp_path
):
    extracted = extract(clips, tmp_path / "out", store, workers=1, decode="cuda")
    assert contents(tmp_path / "out") == by_cpu
    assert extracted.session.decode.brought_down_bytes > 0
