"""What decodes pictures that are extracted: the files are equal whatever it was."""

import pytest

from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu, needs_no_gpu
from extraction import extracting
from extraction.extracting import contents
from headrace.errors import BackendError, ConfigError
from headrace.extraction.extraction_options import backend_facts


def decode_of(extracted):
    return extracted.session.provenance.configuration["decode"]


def notes(extracted, beginning):
    return [note for note in extracted.session.notes if note.startswith(beginning)]


@needs_no_gpu
def test_by_auto_without_a_gpu_the_cpu_does_it_and_the_record_says_why(whole, run, out):
    """A folder that was begun with another decoder goes on so."""
    extracted = run(decode="auto")
    assert contents(out) == contents(whole)
    assert decode_of(extracted) == "pyav:auto"
    assert "decoded by cpu: 21 frames" in extracted.session.notes
    assert len(notes(extracted, "decoded by the CPU alone, as ")) == 1
    next(out.glob("*.png")).unlink()
    again = run()
    assert again.is_all
    assert again.were_there < again.came == 21
    assert contents(out) == contents(whole)


@pytest.mark.parametrize("fails", [False, True])
def test_by_auto_a_gpu_takes_a_part_or_fails_and_the_files_are_equal(whole, run, out, fails):
    function = extracting.has_a_gpu_that_fails if fails else extracting.shares_with_a_gpu
    extracted = run(function, decode="auto")
    assert contents(out) == contents(whole)
    named = notes(extracted, "decoded by the CPU: ")
    assert bool(named) == fails
    assert all("returned no frame" in note for note in named)
    assert any("cuda:0: " in note for note in notes(extracted, "decoded by ")) or fails
    assert fails or extracted.session.decode.frames_delivered == 21


@needs_torchcodec
def test_torchcodec_makes_its_own_folder_as_its_pictures_are_others(run):
    extracted = run(decode="torchcodec")
    assert (extracted.is_all, decode_of(extracted)) == (True, "torchcodec:cpu")
    with pytest.raises(ConfigError, match="decoded_by was torchcodec, now not set"):
        run()


@needs_no_gpu
def test_without_a_gpu_nothing_is_written(run, out):
    with pytest.raises(BackendError, match=r"decoding on GPU 0 .*leave --decode out"):
        run(decode="cuda")
    assert not out.exists()


def test_pyav_gives_the_same_bits_anywhere_and_is_no_part_of_a_request():
    assert [backend_facts(way) for way in ("cpu", "cuda", "cuda:1", "auto")] == [{}] * 4
    assert backend_facts("torchcodec:cuda:1") == {"decoded_by": "torchcodec"}


@needs_gpu
def test_a_gpu_gives_equal_files_and_the_record_counts_what_came_down(whole, run, out):
    extracted = run(decode="cuda")
    assert contents(out) == contents(whole)
    assert extracted.session.decode.brought_down_bytes > 0
