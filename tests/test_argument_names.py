"""Arguments by the names of other libraries are answered with the names here, at every door."""

import inspect

import pytest
from torch.utils.data import DataLoader

import headrace
from headrace import (
    Around,
    CameraLoader,
    CameraStreamDataset,
    CameraWindowLoader,
    ClipLoader,
    EpochSampler,
    FrameDataset,
    FrameLoader,
    FrameReader,
    InOrder,
    Permutation,
    RandomClips,
    SpreadClips,
    Uniform,
    UniformClips,
    VideoDataset,
)
from headrace.errors import ConfigError
from headrace.sampling.bursts import Bursts
from headrace.testing.synth import KINDS, write_clip

CLIPS = "clips=RandomClips(num_frames=16"


@pytest.mark.parametrize(
    ("called", "name", "answer"),
    [
        (FrameLoader, "num_workers", "workers"),
        (FrameLoader, "shuffle", "sampling=Permutation(), or InOrder() for frames in order"),
        (FrameLoader, "clip_len", f"ClipLoader with {CLIPS})"),
        (FrameLoader, "fps", f"ClipLoader with {CLIPS}, fps=8)"),
        (FrameLoader, "resize", "size=(height, width)"),
        (FrameLoader, "transforms", "transform"),
        (FrameLoader, "prefetch_factor", "lookahead"),
        (FrameLoader, "batchsize", "batch_size"),
        (ClipLoader, "shuffle", f"{CLIPS}), or UniformClips for clips in order"),
        (ClipLoader, "clip_len", f"{CLIPS})"),
        (ClipLoader, "num_frames", f"{CLIPS})"),
        (ClipLoader, "frame_rate", f"{CLIPS}, fps=8)"),
        (ClipLoader, "delta_timestamps", "clips=Around(delta_seconds=(-0.2, 0.0), sampling="),
        (CameraLoader, "num_workers", "workers"),
        (CameraLoader, "frame_rate", "moments=Moments.rate(2.0)"),
        (CameraWindowLoader, "clip_len", "num_moments"),
        (CameraWindowLoader, "delta_timestamps", "delta_seconds"),
        (CameraStreamDataset, "resize", "size=(height, width)"),
        (FrameDataset, "resize", "size=(height, width)"),
        (VideoDataset, "frames_per_clip", "clip_len"),
        (VideoDataset, "num_frames", "clip_len"),
        (EpochSampler, "world_size", "num_replicas"),
        (FrameReader, "num_workers", "workers"),
        (headrace.read_frames, "num_workers", "workers"),
        (headrace.read_clip, "clip_len", "num_frames"),
        (headrace.load_clip, "frame_step", "stride"),
        (headrace.open, "resize", "size=(height, width)"),
        (RandomClips, "clip_len", "num_frames"),
        (RandomClips, "frame_rate", "fps"),
        (UniformClips, "clips_per_video", "num_clips"),
        (SpreadClips, "num_frames", "num_segments"),
        (Around, "delta_timestamps", "delta_seconds"),
        (Uniform, "generator", "seed"),
        (Permutation, "random_state", "seed"),
        (Bursts, "random_seed", "seed"),
        (InOrder, "step", "stride"),
    ],
)
@pytest.mark.parametrize("kind", [TypeError, ConfigError])
def test_a_name_of_another_library_is_answered_with_ours(called, name, answer, kind):
    with pytest.raises(kind) as raised:
        called(**{name: 3})
    said = f"{called.__name__} has no argument {name!r}; did you mean {answer}"
    assert str(raised.value).startswith(said)


def test_where_nothing_is_alike_all_arguments_are_listed():
    with pytest.raises(TypeError, match=r"InOrder has no argument 'chunks'; it takes stride$"):
        InOrder(chunks=3)


@pytest.mark.parametrize("called", [RandomClips, FrameLoader, headrace.open, VideoDataset])
def test_signatures_stay_as_they_are(called):
    parameters = inspect.signature(called).parameters
    assert "size" in parameters or "num_frames" in parameters
    assert not {"args", "kwargs"} & parameters.keys()


def test_a_sampler_is_still_a_value():
    assert RandomClips(num_frames=4) == RandomClips(num_frames=4)
    assert hash(Uniform()) == hash(Uniform())
    assert repr(InOrder(stride=2)) == "InOrder(stride=2)"


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_dataloader_over_a_loader_is_answered_with_what_to_do(tmp_path, num_workers):
    path = write_clip(tmp_path / "clip", KINDS["h264"])
    with FrameLoader([path], store=headrace.IndexStore(tmp_path / "index")) as loader:
        stock = DataLoader(loader, num_workers=num_workers)
        with pytest.raises(TypeError, match=r"FrameLoader gives batches .* iterate it itself"):
            next(iter(stock))
