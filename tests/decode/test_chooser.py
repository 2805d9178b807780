"""Each job goes where it is done soonest; what was done where, and why, is told."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from decode.doubles_of_gpu import GPU
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.decode import chooser
from headrace.decode.chooser import AT_ONCE, CPU, Chooser, why_cpu_alone
from headrace.decode.decoded_by import DecodedBy, WayDone
from headrace.errors import BackendError
from headrace.planning.soonest import TRY_AGAIN
from headrace.runtime import forks
from headrace.runtime.gpus import why_no_gpu

BOTH = (CPU, GPU)


@pytest.fixture
def choosing(monkeypatch):
    """A chooser of two cores and a GPU."""
    monkeypatch.setattr(chooser, "why_cpu_alone", lambda _: None)
    found = Chooser(cores=2)
    assert found.gpu == GPU
    return found


def do(choosing, seconds, codec="h264", ways=BOTH, frames=3):
    """Do a job of ten million pixels that takes `seconds[way]`; return its way."""
    sent = choosing.send(codec, 10.0, ways)
    end(choosing, sent, seconds[sent.way], frames)
    return sent.way


def end(choosing, sent, seconds, frames=3):
    choosing.done(
        sent, frames=frames, megapixels=10.0, spent_ns=round(seconds * 1e9), is_whole=True
    )
    choosing.forget(sent)


@pytest.mark.parametrize(("seconds", "better"), [({CPU: 1, GPU: 3}, CPU), ({CPU: 3, GPU: 1}, GPU)])
def test_where_jobs_are_faster_they_go_whatever_was_estimated_before(choosing, seconds, better):
    went = [do(choosing, seconds) for _ in range(30)]
    assert set(went) == {CPU, GPU}, "both are tried"
    assert went[6:] == [better] * 24


def test_a_rate_that_changes_is_found_out(choosing):
    for _ in range(10):
        do(choosing, {CPU: 1, GPU: 3})
    went = [do(choosing, {CPU: 1, GPU: 0.1}) for _ in range(3 * TRY_AGAIN)]
    assert went[-TRY_AGAIN:].count(CPU) <= 1, "which is tried now and then"


def test_what_starting_cuda_takes_is_not_taken_for_its_rate(choosing):
    seconds = iter([5.0, *[0.1] * 40])
    went = []
    for _ in range(30):
        sent = choosing.send("h264", 10.0, BOTH)
        went.append(sent.way)
        end(choosing, sent, 1.0 if sent.way == CPU else next(seconds))
    assert went[6:] == [GPU] * 24


def test_while_a_way_is_busy_the_next_job_goes_where_it_is_done_sooner(choosing):
    for _ in range(10):
        do(choosing, {CPU: 2.5, GPU: 1})
    sent = [choosing.send("h264", 10.0, BOTH) for _ in range(2 * AT_ONCE + 6)]
    assert [each.way for each in sent[:AT_ONCE]] == [GPU] * AT_ONCE
    ways = [each.way for each in sent]
    # In the 2.5 s of a core the GPU does two jobs in each of its places, and then both take turns.
    assert ways[: 2 * AT_ONCE + 2] == [GPU] * 2 * AT_ONCE + [CPU] * 2
    for each in sent:
        end(choosing, each, 1.0)


def test_of_jobs_that_read_on_what_is_left_of_them_counts(choosing):
    for _ in range(10):
        do(choosing, {CPU: 2.5, GPU: 1})
    on_cpu = [choosing.send("h264", 10.0, (CPU,)) for _ in range(2)]
    for _ in range(2 * AT_ONCE):
        choosing.send("h264", 10.0, (GPU,))
    assert choosing.send("h264", 10.0, BOTH).way == GPU
    for each in on_cpu:
        choosing.done(each, frames=3, megapixels=9.0, spent_ns=2_400_000_000, is_whole=False)
    assert choosing.send("h264", 10.0, BOTH).way == CPU


def test_a_way_is_tried_by_one_job_at_a_time(choosing):
    sent = [choosing.send("hevc", 10.0, BOTH) for _ in range(2)]
    assert {each.way for each in sent} == {CPU, GPU}
    for each in sent:
        end(choosing, each, 1.0)


def test_who_reads_one_file_tries_nothing(monkeypatch):
    monkeypatch.setattr(chooser, "why_cpu_alone", lambda _: None)
    found = Chooser(cores=1, tries=False)
    assert found.gpu == GPU
    assert [found.send("h264", 10.0, BOTH).way for _ in range(3)] == [CPU] * 3
    assert found.send("h264", 10_000.0, BOTH).way == GPU


def test_a_way_that_is_not_named_is_never_taken(choosing):
    assert {do(choosing, {CPU: 9, GPU: 0.1}, ways=(CPU,)) for _ in range(200)} == {CPU}


def test_jobs_frames_and_seconds_are_told_by_way(choosing):
    for _ in range(20):
        do(choosing, {CPU: 2, GPU: 1})
    told = choosing.decoded_by
    assert sum(each.jobs for each in told.ways.values()) == 20
    for way, seconds in ((CPU, 2), (GPU, 1)):
        jobs = told.ways[way].jobs
        assert jobs
        assert told.ways[way] == WayDone(jobs=jobs, frames=3 * jobs, seconds=seconds * jobs)
    assert (told.no_gpu, told.on_cpu) == (None, {})


def test_threads_lose_no_count(choosing):
    def some(_):
        for _ in range(200):
            sent = choosing.send("h264", 1.0, BOTH)
            with choosing.place(sent):
                end(choosing, sent, 0.001, frames=1)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(some, range(8)))
    told = choosing.decoded_by.ways.values()
    assert sum(each.jobs for each in told) == sum(each.frames for each in told) == 1600


def test_no_more_jobs_are_done_at_once_than_there_are_cores():
    found, most, now = Chooser(cores=2), [0], []
    lock = threading.Lock()

    def one(_):
        sent = found.send("h264", 1.0, (CPU,))
        with found.place(sent):
            with lock:
                now.append(sent)
                most[0] = max(most[0], len(now))
            with lock:
                now.remove(sent)
        found.forget(sent)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(one, range(300)))
    assert 1 <= most[0] <= 2


def test_a_file_that_the_gpu_cannot_do_is_not_asked_of_it_again_and_says_why(choosing):
    assert choosing.may_use_gpu("a.mp4")
    choosing.refuse("a.mp4", BackendError("GPU 0 was asked for ffv1; leave gpu out, or encode it"))
    assert not choosing.may_use_gpu("a.mp4")
    assert choosing.may_use_gpu("b.mp4")
    told = choosing.decoded_by
    assert told.on_cpu == {"a.mp4": "GPU 0 was asked for ffv1"}
    assert "1 of the files by the CPU alone, as a.mp4: GPU 0 was asked for ffv1" in str(told)


def test_a_gpu_that_fails_on_the_first_files_is_given_up(choosing):
    for name in ("a", "a", "b"):
        choosing.fail(name, BackendError("no libnvcuvid; leave gpu out"))
        assert choosing.gpu == GPU
    choosing.fail("c", BackendError("no libnvcuvid; leave gpu out"))
    assert choosing.gpu is None
    assert choosing.decoded_by.no_gpu == (
        "cuda:0 failed on the first 3 files that it was tried on, as on the last: no libnvcuvid"
    )


def test_a_gpu_that_decodes_is_not_given_up_for_files_that_it_fails_on(choosing):
    end(choosing, choosing.send("h264", 1.0, (GPU,)), 1.0)
    for name in "abcdef":
        choosing.fail(name, "out of memory")
    assert choosing.gpu == GPU
    assert len(choosing.decoded_by.on_cpu) == 6


@needs_no_gpu
def test_without_a_gpu_all_goes_to_the_cpu_and_it_is_said_once_why():
    found = Chooser(cores=3)
    assert (found.gpu, found.threads, found.num_ways) == (None, 3, 1)
    assert not found.may_use_gpu("a.mp4")
    assert found.decoded_by == DecodedBy(
        ways={CPU: WayDone()}, no_gpu=f"PyTorch finds no GPU 0: {why_no_gpu()}"
    )
    assert "the CPU alone, as PyTorch" in str(found.decoded_by)


def test_a_process_that_cannot_start_cuda_any_more_does_not_try(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(forks, "_torch_knows_of_a_bad_fork", lambda: True)
    assert "forked from one that uses CUDA" in (why_cpu_alone(0) or "")


def test_an_ffmpeg_without_cuda_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(chooser, "hwdevices_available", lambda: ["drm"])
    assert why_cpu_alone(0) == "PyAV's FFmpeg is built without CUDA"


def test_threads_wait_for_a_gpu_besides_those_of_the_cpu(choosing):
    assert choosing.threads > 2
    assert choosing.num_ways == 2


@needs_gpu
def test_a_gpu_that_is_here_is_found():
    assert Chooser().gpu == GPU
