"""Suggestions for arguments that other libraries name differently."""

import inspect
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from headrace.errors import CallError

Called = TypeVar("Called", bound=Callable[..., Any])

_NAMES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "clip_duration clip_len clip_length clip_length_in_frames frames_per_clip num_frames "
        "sequence_length",
        {
            "num_frames": "num_frames",
            "clip_len": "clip_len",
            "num_moments": "num_moments",
            "num_segments": "num_segments",
            "clips": "clips=RandomClips(num_frames=16)",
            "sampling": "ClipLoader with clips=RandomClips(num_frames=16)",
        },
    ),
    (
        "frame_interval frame_step sampling_rate step step_between_clips stride",
        {
            "stride": "stride",
            "clips": "clips=RandomClips(num_frames=16, stride=2)",
            "sampling": "sampling=SequentialFrames(stride=2)",
        },
    ),
    (
        "fps frame_rate target_fps",
        {
            "fps": "fps",
            "moments": "moments=Moments.rate(2.0)",
            "clips": "clips=RandomClips(num_frames=16, fps=8)",
            "sampling": "ClipLoader with clips=RandomClips(num_frames=16, fps=8)",
        },
    ),
    (
        "delta_frames delta_seconds delta_timestamps",
        {
            "delta_seconds": "delta_seconds",
            "clips": "clips=DeltaFrames(delta_seconds=(-0.2, 0.0), sampling=ShuffledFrames())",
            "sampling": "ClipLoader with "
            "clips=DeltaFrames(delta_seconds=(-0.2, 0.0), sampling=ShuffledFrames())",
        },
    ),
    (
        "shuffle",
        {
            "sampling": "sampling=ShuffledFrames(), or SequentialFrames() for frames in order",
            "clips": "clips=RandomClips(num_frames=16), or UniformClips for clips in order",
        },
    ),
    ("boundary", {"clips": "clips=RandomClips(num_frames=16, boundary='pad')"}),
    (
        "weights",
        {
            "clips": "clips=RandomClips(num_frames=16, weights=weights)",
            "sampling": "sampling=UniformFrames(over=weights)",
        },
    ),
    ("batch_sampler sampler", {"sampling": "sampling", "clips": "clips"}),
    ("clips_per_video num_clips_per_video", {"num_clips": "num_clips"}),
    (
        "height image_size img_size output_size resize target_size width",
        {"size": "size=(height, width)"},
    ),
    (
        "num_ffmpeg_threads num_threads num_workers workers",
        {"num_threads": "num_threads", "workers": "workers"},
    ),
    ("frame_transform image_transforms transforms video_transform", {"transform": "transform"}),
    ("collate_fn", {"batch_transform": "batch_transform"}),
    ("prefetch_factor", {"lookahead": "lookahead"}),
    ("persistent persistent_workers", {"prefetch_next_epoch": "prefetch_next_epoch"}),
    ("left_early", {"on_early_exit": "on_early_exit='continue' or 'restart'"}),
    ("store", {"index_store": "index_store"}),
    ("timeout", {"stall_seconds": "stall_seconds"}),
    ("world_size", {"num_replicas": "num_replicas"}),
    ("generator random_seed random_state", {"seed": "seed"}),
    (
        "dataset files paths root video_paths",
        {"videos": "videos", "files": "files", "layout": "layout"},
    ),
    ("device_id num_gpus", {"gpu": "gpu", "decoding": "decoding=DecoderConfig.on_gpu(0)"}),
)
"""(names in PyTorch, torchvision, PyTorchVideo, decord, DALI or LeRobot, or of arguments of a
sampler; argument → suggestion).
The suggestion for the first argument that the called function has is shown."""

_SUGGESTIONS = {name: texts for names, texts in _NAMES for name in names.split()}


def answers_names(called: Called) -> Called:
    """Decorate a function or a class: an unknown argument raises an error with a suggestion.

        @answers_names
        def read_frames(videos, *, workers=None): ...

    `read_frames(videos, num_workers=2)` raises CallError: "did you mean workers?". The signature
    stays unchanged for `help`, editors and type checkers.
    """
    if isinstance(called, type):
        called.__init__ = _with_suggestions(called.__init__, called.__name__)  # type: ignore[misc]
        return called
    return _with_suggestions(called, called.__name__)


def check_names(called: str, given: Iterable[str], known: Collection[str]) -> None:
    """Check that a function or class has the given arguments.

    Args:
        called: Name of the function or class.
        given: Names of the arguments of the call.
        known: Names of the parameters.

    Raises:
        CallError: an argument is unknown; names the most similar parameter, or all parameters.
    """
    for name in given:
        if name not in known:
            texts = [t for argument, t in _SUGGESTIONS.get(name, {}).items() if argument in known]
            near = texts or get_close_matches(name, known, n=1)
            fix = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
            raise CallError(f"{called} has no argument {name!r}; {fix}")


def _with_suggestions(function: Called, called: str) -> Called:
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_names(called, kwargs, known)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]
