"""Jobs go to the device that finishes them first; frames equal the CPU's; totals are counted."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
import torch

import headrace
from decode.doubles_of_gpu import GPU, Fails, PassesOver, stands_in
from decode.gpus import needs_no_gpu, want_backend_of_gpu
from decode.kit import frames_of, reported_damage
from headrace import DecodeJob, DeviceCounters, DeviceTotals, FrameFormat, StreamIndex
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import StackedOutput
from headrace.decode.gpu import device_scheduler
from headrace.decode.gpu.device_scheduler import CPU, GPU_DECODERS, DeviceScheduler, cpu_only_reason
from headrace.decode.open_decoder import open_decoder, open_device_decoder
from headrace.errors import BackendError, DecodeError
from headrace.planning.earliest_completion import TRY_AGAIN
from headrace.runtime import fork_safety as forks
from headrace.runtime.cuda_diagnostics import explain_missing_gpu
from headrace.testing.synth import SynthClip

BOTH = (CPU, GPU)


@pytest.fixture
def choosing(monkeypatch):
    """A scheduler of two cores and a GPU."""
    monkeypatch.setattr(device_scheduler, "cpu_only_reason", lambda _: None)
    found = DeviceScheduler(cores=2)
    assert (found.gpu, found.num_devices, found.threads > 2) == (GPU, 2, True)
    return found


def do(choosing, seconds, codec="h264", devices=BOTH, frames=3):
    """Run a job of ten million pixels that takes `seconds[device]`; return its device."""
    sent = choosing.schedule(codec, 10.0, devices)
    end(choosing, sent, seconds[sent.device], frames)
    return sent.device


def end(choosing, sent, seconds, frames=3):
    spent = round(seconds * 1e9)
    choosing.record(sent, frames=frames, megapixels=10.0, spent_ns=spent, is_complete=True)
    choosing.finish(sent)


@pytest.mark.parametrize(("seconds", "better"), [({CPU: 1, GPU: 3}, CPU), ({CPU: 3, GPU: 1}, GPU)])
def test_jobs_go_to_the_faster_device_once_measured(choosing, seconds, better):
    went = [do(choosing, seconds) for _ in range(30)]
    assert set(went) == {CPU, GPU}, "both devices are tried"
    assert went[6:] == [better] * 24


def test_a_changed_rate_is_detected(choosing):
    for _ in range(10):
        do(choosing, {CPU: 1, GPU: 3})
    went = [do(choosing, {CPU: 1, GPU: 0.1}) for _ in range(3 * TRY_AGAIN)]
    assert went[-TRY_AGAIN:].count(CPU) <= 1, "the CPU is tried again from time to time"


def test_the_start_of_cuda_does_not_count_as_its_rate(choosing):
    seconds = iter([5.0, *[0.1] * 40])
    went = []
    for _ in range(30):
        sent = choosing.schedule("h264", 10.0, BOTH)
        went.append(sent.device)
        end(choosing, sent, 1.0 if sent.device == CPU else next(seconds))
    assert went[6:] == [GPU] * 24


def test_a_job_goes_to_the_device_that_finishes_it_sooner(choosing):
    for _ in range(10):
        do(choosing, {CPU: 2.5, GPU: 1})
    sent = [choosing.schedule("h264", 10.0, BOTH) for _ in range(2 * GPU_DECODERS + 6)]
    assert [each.device for each in sent[:GPU_DECODERS]] == [GPU] * GPU_DECODERS
    devices = [each.device for each in sent]
    # In the 2.5 s of a core, each decoder of the GPU runs two jobs; then both devices alternate.
    assert devices[: 2 * GPU_DECODERS + 2] == [GPU] * 2 * GPU_DECODERS + [CPU] * 2
    for each in sent:
        end(choosing, each, 1.0)


def test_the_remaining_time_of_running_jobs_counts(choosing):
    for _ in range(10):
        do(choosing, {CPU: 2.5, GPU: 1})
    on_cpu = [choosing.schedule("h264", 10.0, (CPU,)) for _ in range(2)]
    for _ in range(2 * GPU_DECODERS):
        choosing.schedule("h264", 10.0, (GPU,))
    assert choosing.schedule("h264", 10.0, BOTH).device == GPU
    for each in on_cpu:
        choosing.record(each, frames=3, megapixels=9.0, spent_ns=2_400_000_000, is_complete=False)
    assert choosing.schedule("h264", 10.0, BOTH).device == CPU


def test_a_device_is_tried_by_one_job_at_a_time(choosing):
    sent = [choosing.schedule("hevc", 10.0, BOTH) for _ in range(2)]
    assert {each.device for each in sent} == {CPU, GPU}
    for each in sent:
        end(choosing, each, 1.0)


def test_a_single_reader_does_not_explore(monkeypatch):
    monkeypatch.setattr(device_scheduler, "cpu_only_reason", lambda _: None)
    found = DeviceScheduler(cores=1, explores=False)
    assert found.gpu == GPU
    assert [found.schedule("h264", 10.0, BOTH).device for _ in range(3)] == [CPU] * 3
    assert found.schedule("h264", 10_000.0, BOTH).device == GPU


def test_only_the_given_devices_are_used(choosing):
    assert {do(choosing, {CPU: 9, GPU: 0.1}, devices=(CPU,)) for _ in range(200)} == {CPU}


def test_totals_are_per_device(choosing):
    for _ in range(20):
        do(choosing, {CPU: 2, GPU: 1})
    summary = choosing.decoded_by
    assert sum(each.jobs for each in summary.devices.values()) == 20
    for way, seconds in ((CPU, 2), (GPU, 1)):
        jobs = summary.devices[way].jobs
        assert jobs
        assert summary.devices[way] == DeviceTotals(
            jobs=jobs, frames=3 * jobs, seconds=seconds * jobs
        )
    assert (summary.no_gpu, summary.on_cpu) == (None, {})


def test_totals_are_thread_safe(choosing):
    def some(_):
        for _ in range(200):
            sent = choosing.schedule("h264", 1.0, BOTH)
            with choosing.slot(sent):
                end(choosing, sent, 0.001, frames=1)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(some, range(8)))
    summary = choosing.decoded_by.devices.values()
    assert sum(each.jobs for each in summary) == sum(each.frames for each in summary) == 1600


def test_jobs_at_a_time_are_limited_by_cores():
    found, most, now = DeviceScheduler(cores=2), [0], []
    lock = threading.Lock()

    def one(_):
        sent = found.schedule("h264", 1.0, (CPU,))
        with found.slot(sent):
            with lock:
                now.append(sent)
                most[0] = max(most[0], len(now))
            with lock:
                now.remove(sent)
        found.finish(sent)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(one, range(300)))
    assert 1 <= most[0] <= 2


def test_a_gpu_that_fails_on_the_first_files_is_not_used(choosing):
    for name in ("a", "a", "b"):
        choosing.mark_failed(name, BackendError("no libnvcuvid; leave gpu out"))
        assert choosing.gpu == GPU
    choosing.mark_failed("c", BackendError("no libnvcuvid; leave gpu out"))
    assert choosing.gpu is None
    reason = "cuda:0 failed on the first 3 files, the last with: no libnvcuvid"
    assert choosing.decoded_by.no_gpu == reason


def test_a_working_gpu_stays_in_use_after_failures(choosing):
    end(choosing, choosing.schedule("h264", 1.0, (GPU,)), 1.0)
    for name in "abcdef":
        choosing.mark_failed(name, "out of memory")
    assert choosing.gpu == GPU
    assert len(choosing.decoded_by.on_cpu) == 6


@needs_no_gpu
def test_without_a_gpu_all_jobs_use_the_cpu_with_one_reason():
    found = DeviceScheduler(cores=3)
    assert (found.gpu, found.threads, found.num_devices) == (None, 3, 1)
    assert not found.may_use_gpu("a.mp4")
    assert found.decoded_by == DeviceCounters(
        devices={CPU: DeviceTotals()}, no_gpu=f"PyTorch finds no GPU 0: {explain_missing_gpu()}"
    )
    assert "the CPU alone, as PyTorch" in str(found.decoded_by)


@pytest.mark.parametrize(
    ("place", "name", "value", "why"),
    [
        (forks, "_torch_is_in_bad_fork", lambda: True, "forked from one that uses CUDA"),
        (device_scheduler, "hwdevices_available", lambda: ["drm"], "FFmpeg is built without CUDA"),
    ],
    ids=["fork", "ffmpeg"],
)
def test_missing_cuda_is_explained_without_starting_it(monkeypatch, place, name, value, why):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(place, name, value)
    assert why in (cpu_only_reason(0) or "")


AUTO = DecoderConfig(device="auto")


SHAPE = FrameFormat(size=(32, 48))


FEW = DecodeJob((0, 1, 2, 3, 7), goes_on=False)


class Sends(DeviceScheduler):
    """Sends each job to the GPU, if it is usable."""

    def schedule(self, codec, megapixels, devices):
        return super().schedule(codec, megapixels, devices[-1:])


def is_right(index, job, found):
    """Return whether each frame of the job was delivered once, in order, equal to the CPU's."""
    frames = frames_of(index, SHAPE, wanted=job.wanted)
    assert [number for number, _ in found] == [*job.wanted]
    return all(np.array_equal(a, b) for (_, a), b in zip(found, frames, strict=True))


@pytest.mark.parametrize("where", ["doubled", "on the gpu"])
def test_frames_are_equal_on_both_devices(index, monkeypatch, where):
    stands_in(monkeypatch) if where == "doubled" else want_backend_of_gpu("pyav")
    scheduler, chance = DeviceScheduler(cores=1), random.Random(5)
    with closing(open_decoder(index, SHAPE, AUTO, scheduler=scheduler)) as decoder:
        delivered = 0
        for _ in range(12):
            wanted = sorted(chance.sample(range(len(index)), 4))
            job = DecodeJob(tuple(wanted), goes_on=False)
            assert is_right(index, job, list(decoder.run(job)))
            delivered += 4
            decoder.rest()
        assert decoder.counters.frames_delivered == delivered
    summary = scheduler.decoded_by
    assert all(each.jobs for each in summary.devices.values()), str(summary)
    assert sum(each.jobs for each in summary.devices.values()) == 12
    assert sum(each.frames for each in summary.devices.values()) == delivered
    assert (summary.no_gpu, summary.on_cpu) == (None, {})


def test_continuing_jobs_stay_on_their_device(index, monkeypatch):
    stands_in(monkeypatch)
    scheduler = DeviceScheduler(cores=1)
    with closing(open_decoder(index, SHAPE, AUTO, scheduler=scheduler)) as decoder:
        for number in range(10):
            list(decoder.run(DecodeJob((number,))))
        assert decoder.counters.seeks == 0
    assert sorted(each.jobs for each in scheduler.decoded_by.devices.values()) == [0, 10]


@pytest.mark.parametrize("into", ["memory of each", "an array", "a list", "a stack"])
@pytest.mark.parametrize("double", [Fails, PassesOver])
def test_the_cpu_finishes_a_failed_gpu_job_without_repeats(index, monkeypatch, double, into):
    stands_in(monkeypatch, double)
    scheduler = Sends()
    memory = np.empty((len(FEW.wanted), 32, 48, 3), np.uint8)
    out = {"an array": memory, "a list": [*memory], "a stack": StackedOutput(len(memory))}.get(into)
    with closing(open_decoder(index, SHAPE, AUTO, scheduler=scheduler)) as decoder:
        assert is_right(index, FEW, list(decoder.run(FEW, out)))
        if out is not None:
            found = out.frames if isinstance(out, StackedOutput) else memory
            assert np.array_equal(found, frames_of(index, SHAPE, wanted=FEW.wanted))
        assert decoder.concealed == frozenset()
        decoder.rest()
        assert is_right(index, FEW, list(decoder.run(FEW)))
    summary = scheduler.decoded_by
    came = 2 if double is Fails else 3
    found = {way: (each.jobs, each.frames) for way, each in summary.devices.items()}
    assert found == {CPU: (2, 10 - came), GPU: (0, came)}
    assert f"returned no frame {came}" in summary.on_cpu[str(index.source)]
    assert "leave gpu out" not in str(summary)


def test_a_file_that_failed_on_the_gpu_stays_on_the_cpu(index, monkeypatch):
    made = stands_in(monkeypatch, Fails)
    scheduler = Sends()
    for _ in range(3):
        with closing(open_decoder(index, SHAPE, AUTO, scheduler=scheduler)) as decoder:
            list(decoder.run(FEW))
    assert [each.gpu for each in made].count(0) == 1


def test_an_unsupported_file_goes_to_the_cpu_with_the_reason(scanned, monkeypatch):
    index = scanned("odd_size_444")
    made = stands_in(monkeypatch)
    scheduler = Sends()
    with closing(open_decoder(index, SHAPE, AUTO, scheduler=scheduler)) as decoder:
        assert is_right(index, FEW, list(decoder.run(FEW)))
    assert 0 not in [each.gpu for each in made]
    summary = scheduler.decoded_by
    name = str(index.source)
    assert "h264 in yuv444p" in summary.on_cpu[name]
    assert f"1 of the files by the CPU alone, as {name}: GPU 0" in str(summary)
    assert "leave gpu out" not in str(summary)
    assert [scheduler.may_use_gpu(each) for each in (name, "b.mp4")] == [False, True]
    assert summary.devices[GPU] == DeviceTotals()


def test_damage_does_not_count_as_a_gpu_failure(written, tmp_path, monkeypatch):
    bad = reported_damage(written(SynthClip(b_frames=2)), tmp_path)
    stands_in(monkeypatch)
    everything = DecodeJob(tuple(range(48)))
    outcomes = []
    for decoding in (DecoderConfig(), AUTO):
        index, scheduler = StreamIndex.scan(bad), Sends()
        with closing(open_decoder(index, SHAPE, decoding, scheduler=scheduler)) as decoder:
            came = []
            with pytest.raises(DecodeError) as caught:
                came.extend(decoder.run(everything))
            shown = dict(decoder.run(DecodeJob(everything.wanted, conceals=True)))
            outcomes.append(([*caught.value.missing], sorted(decoder.concealed), [*shown]))
        assert len(came) + len(outcomes[-1][0]) == 48
    assert outcomes[0] == outcomes[1]
    assert scheduler.decoded_by.on_cpu == {}


def test_leaving_early_finishes_the_scheduled_job(index, monkeypatch):
    stands_in(monkeypatch)
    scheduler = Sends()
    with closing(open_decoder(index, SHAPE, AUTO, scheduler=scheduler)) as decoder:
        with closing(decoder.run(FEW)) as frames:
            next(frames)
        decoder.rest()
        assert is_right(index, FEW, list(decoder.run(FEW)))
    assert scheduler.decoded_by.devices[GPU].jobs == 1
    assert scheduler.decoded_by.devices[GPU].frames == 6


@needs_no_gpu
def test_without_a_gpu_everything_decodes_on_the_cpu(index):
    path = index.source.path
    expected = headrace.read_clip(path, num_frames=4, stride=1)
    assert np.array_equal(headrace.read_clip(path, num_frames=4, stride=1, decoding=AUTO), expected)
    with headrace.open(path, decoding=AUTO) as video:
        assert np.array_equal(video[:4], expected)
    [batch] = headrace.read_frames([path], decoding=AUTO, stride=100)
    assert np.array_equal(batch.frames, expected[:1])
    kept = DecoderConfig(device="auto", keeps_on_device=True)
    assert {str(frame.device) for frame in frames_of(index, SHAPE, kept)} == {"cpu"}


def test_a_job_counts_from_its_keyframe_to_its_end(index):
    class Notes(DeviceScheduler):
        asked = ()

        def schedule(self, codec, megapixels, devices):
            self.asked += ((codec, round(megapixels * 1e6)),)
            return super().schedule(codec, megapixels, devices)

    scheduler, pixels = Notes(), index.info.height * index.info.width
    first, stop = index.gop_range(1)
    with closing(open_decoder(index, SHAPE, AUTO, scheduler=scheduler)) as decoder:
        for goes_on in (False, True):
            list(decoder.run(DecodeJob((stop - 2,), goes_on=goes_on)))
            decoder.rest()
    frames = stop - 1 - first, len(index) - first
    assert scheduler.asked == tuple(("h264", each * pixels) for each in frames)


def test_all_tensors_are_on_one_device(index, monkeypatch):
    stands_in(monkeypatch)
    kept, auto = (DecoderConfig(device=each, keeps_on_device=True) for each in ("cpu", "auto"))
    scheduler = DeviceScheduler(cores=1)
    assert scheduler.gpu == GPU
    monkeypatch.setattr(device_scheduler, "cpu_only_reason", lambda _: "none is here")
    there = open_device_decoder(index, SHAPE, kept)
    here = open_device_decoder(index, SHAPE, auto, scheduler=scheduler)
    with closing(there), closing(here):
        for first in range(0, 40, 4):
            job = DecodeJob((first, first + 2), goes_on=False)
            for (_, expected), (_, found) in zip(there.run(job), here.run(job), strict=True):
                assert bool((expected == found).all())
            here.rest()
    assert all(each.jobs for each in scheduler.decoded_by.devices.values())
