"""Jobs of a decoder: one for each stretch, and taken by a number of frames."""

import pytest

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.decode.protocol import DecodeJob
from headrace.extraction.jobs import JobLine, jobs
from headrace.planning.stretches import Stretch
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    clip = write_clip(folder / "a", SynthClip(num_frames=40, gop=10))
    return open_index(clip, IndexStore(folder / "index"))


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_job_reads_on_only_where_something_follows_it(index, goes_on):
    wanted = [(0, 5), (12,), (31,)]
    planned = [Stretch(video=0, index=index, wanted=frames) for frames in wanted]
    found = list(jobs(planned, conceals=True, goes_on=goes_on))
    assert [job.wanted for job in found] == wanted
    assert [job.goes_on for job in found] == [True, False, goes_on]
    assert all(job.conceals for job in found)


def test_jobs_are_cut_to_the_frames_that_are_taken():
    line = JobLine(
        iter([DecodeJob((0, 1, 2, 3, 4), goes_on=False, conceals=True), DecodeJob((9,))])
    )
    assert line.take(2) == [DecodeJob((0, 1), conceals=True)]
    assert line.take(1) == [DecodeJob((2,), conceals=True)]
    assert line.take(3) == [DecodeJob((3, 4), goes_on=False, conceals=True), DecodeJob((9,))]
    assert line.take(3) == []
