"""Decoders of extracted frames: the files do not depend on them."""

import pytest

from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu, needs_no_gpu
from extraction import extracting
from extraction.extracting import contents
from headrace.errors import BackendError, ConfigError
from headrace.extraction.extraction_options import backend_facts

pytestmark = pytest.mark.usefixtures("forked_children")


def decode_of(extracted):
    return extracted.session.provenance.configuration["decode"]


def notes(extracted, beginning):
    return [note for note in extracted.session.notes if note.startswith(beginning)]


@needs_no_gpu
def test_auto_without_a_gpu_uses_the_cpu_and_records_the_reason(uninterrupted, run, out):
    """Another decoder resumes the folder."""
    extracted = run(decode="auto")
    assert contents(out) == contents(uninterrupted)
    assert decode_of(extracted) == "pyav:auto"
    assert "decoded by cpu: 21 frames" in extracted.session.notes
    assert len(notes(extracted, "decoded by the CPU alone, as ")) == 1
    next(out.glob("*.png")).unlink()
    again = run()
    assert again.is_all
    assert again.were_there < again.came == 21
    assert contents(out) == contents(uninterrupted)


@pytest.mark.parametrize("fails", [False, True])
def test_auto_with_a_working_or_failing_gpu_gives_equal_files(uninterrupted, run, out, fails):
    function = extracting.has_a_gpu_that_fails if fails else extracting.shares_with_a_gpu
    extracted = run(function, decode="auto")
    assert contents(out) == contents(uninterrupted)
    on_cpu = notes(extracted, "decoded by the CPU: ")
    assert bool(on_cpu) == fails
    assert all("returned no frame" in note for note in on_cpu)
    assert any("cuda:0: " in note for note in notes(extracted, "decoded by ")) or fails
    assert fails or extracted.session.decode.frames_delivered == 21


@needs_torchcodec
def test_torchcodec_needs_its_own_folder_because_its_images_differ(run):
    extracted = run(decode="torchcodec")
    assert (extracted.is_all, decode_of(extracted)) == (True, "torchcodec:cpu")
    with pytest.raises(ConfigError, match="decoded_by was torchcodec, now not set"):
        run()


@needs_no_gpu
def test_without_a_gpu_nothing_is_written(run, out):
    with pytest.raises(BackendError, match=r"decoding on GPU 0 .*leave --decode out"):
        run(decode="cuda")
    assert not out.exists()


def test_pyav_is_not_part_of_a_request_because_its_output_is_equal_everywhere():
    assert [backend_facts(name) for name in ("cpu", "cuda", "cuda:1", "auto")] == [{}] * 4
    assert backend_facts("torchcodec:cuda:1") == {"decoded_by": "torchcodec"}


@needs_gpu
def test_a_gpu_gives_equal_files_and_the_record_counts_copied_bytes(uninterrupted, run, out):
    extracted = run(decode="cuda")
    assert contents(out) == contents(uninterrupted)
    assert extracted.session.decode.brought_down_bytes > 0
