"""Argument names of other libraries are errors that suggest the name here."""

import inspect

import pytest
from torch.utils.data import DataLoader

import headrace
from forked import raised_by_a_worker
from headrace import (
    ConfigError,
    FrameLoader,
    RandomClips,
    SequentialFrames,
    UniformFrames,
    VideoDataset,
)
from headrace.testing.synth import KINDS, write_clip

OTHERS = {
    "FrameLoader": "num_workers shuffle clip_len fps resize transforms prefetch_factor batchsize "
    "workers persistent left_early store weights",
    "ClipLoader": "shuffle clip_len num_frames frame_rate delta_timestamps boundary weights",
    "CameraLoader": "num_workers frame_rate",
    "CameraWindowLoader": "clip_len delta_timestamps",
    "CameraStreamDataset": "resize",
    "FrameDataset": "resize",
    "VideoDataset": "frames_per_clip num_frames",
    "EpochSampler": "world_size",
    "FrameReader": "num_workers",
    "read_frames": "num_workers",
    "read_clip": "clip_len",
    "load_clip": "frame_step",
    "open": "resize",
    "RandomClips": "clip_len frame_rate",
    "UniformClips": "clips_per_video",
    "SegmentClips": "num_frames",
    "DeltaFrames": "delta_timestamps",
    "UniformFrames": "generator",
    "ShuffledFrames": "random_state",
    "Bursts": "random_seed",
    "SequentialFrames": "step chunks",
}
"""Called name → argument names of other libraries; `chunks` has no counterpart here."""


def test_a_name_of_another_library_is_an_error_that_suggests_ours(holds):
    answers = []
    for called, names in OTHERS.items():
        for name in names.split():
            with pytest.raises(TypeError) as raised:
                getattr(headrace, called)(**{name: 3})
            assert isinstance(raised.value, ConfigError)
            answers.append(f"{raised.value}\n")
    holds("argument_names.txt", "".join(answers))


@pytest.mark.parametrize("called", [RandomClips, FrameLoader, headrace.open, VideoDataset])
def test_signatures_are_not_hidden(called):
    parameters = inspect.signature(called).parameters
    assert "size" in parameters or "num_frames" in parameters
    assert not {"args", "kwargs"} & parameters.keys()


def test_samplers_are_compared_by_value():
    assert RandomClips(num_frames=4) == RandomClips(num_frames=4)
    assert hash(UniformFrames()) == hash(UniformFrames())
    assert repr(SequentialFrames(stride=2)) == "SequentialFrames(stride=2)"


@pytest.mark.parametrize("how", [{}, {"num_workers": 1, "multiprocessing_context": "fork"}])
def test_a_dataloader_over_a_loader_is_an_error_with_the_remedy(tmp_path, how):
    path = write_clip(tmp_path / "clip", KINDS["h264"])
    with FrameLoader([path], index_store=headrace.IndexStore(tmp_path / "index")) as loader:
        stock = DataLoader(loader, **how)
        with raised_by_a_worker(TypeError, "FrameLoader yields batches .* iterate it without"):
            next(iter(stock))
