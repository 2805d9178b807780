"""Two drawn videos and a classifier that separates them, for a run without downloads.

The backbone has random weights, equal on every machine. The head is fitted to some of the drawn
frames, and classifies all of them correctly.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from headrace.decode.read_clip import load_clip
from headrace.errors import file_errors
from headrace.models.checkpoint import TrainedHead, backbone_checksum
from headrace.models.feature_extractor import HeadTap, replace_head
from headrace.models.load import with_weights
from headrace.preprocess.levels import build_preprocess
from headrace.testing.synth import write_clip
from headrace.testing.synth_clip import Look, SynthClip

CLASSES: Final = ("bars", "waves")
"""Patterns in the lower part of the frames; also the names of the videos."""
FITTED_FRAMES: Final = 9
"""Number of frames per video that the head is fitted to."""
_MODEL: Final = "regnet_x_400mf"
"""A small model whose random weights keep the scale of the input; MobileNetV2's shrink it by
1e9."""
_MARGIN: Final = 4.0
"""Fitted score of the right class; the other class gets its negative."""
_RIDGE: Final = 1e-3


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Videos, and the head of the classifier."""

    videos: tuple[Path, ...]
    """One per class in `CLASSES`; the stem is the class of all frames."""
    model_name: str
    head: Path
    """For `--weights` of `headrace run`."""


def draw_demo(folder: Path, *, num_frames: int = 90) -> Demo:
    """Draw the videos, and fit the classifier; takes some 5 s with 90 frames.

    Args:
        folder: Output folder, created if missing; files of the same names are replaced.
        num_frames: Frames of each video, at least `FITTED_FRAMES`.

    Raises:
        ConfigError: the folder cannot be written.
    """
    with file_errors(f"cannot write to the folder {folder}", "give another one"):
        folder.mkdir(parents=True, exist_ok=True)
        videos = [write_clip(folder / name, _clip(name, num_frames)) for name in CLASSES]
    head = folder / "classifier.pt"
    _fitted(videos, num_frames // FITTED_FRAMES).save(head)
    return Demo(videos=tuple(videos), model_name=_MODEL, head=head)


def _clip(name: str, num_frames: int) -> SynthClip:
    look = Look(bars=name == "bars")
    return SynthClip(num_frames=num_frames, size=(240, 320), gop=30, b_frames=2, look=look)


def _fitted(videos: list[Path], stride: int) -> TrainedHead:
    """Return a head by ridge regression on the features of every `stride`-th frame."""
    built = with_weights(_MODEL, "none")
    preprocess = build_preprocess("medium", built.input)
    name = replace_head(built.module, len(CLASSES))
    tap = HeadTap(built.module)
    with torch.inference_mode():
        features = torch.cat(
            [tap(preprocess(load_clip(video, 0, FITTED_FRAMES, stride).frames)) for video in videos]
        )
    targets = torch.tensor([_MARGIN, -_MARGIN]).repeat_interleave(FITTED_FRAMES)
    mean = features.mean(dim=0)
    centred = features - mean
    gram = centred @ centred.T + _RIDGE * torch.eye(len(centred))
    weight = centred.T @ torch.linalg.solve(gram, targets)
    bias = -(mean @ weight)
    state = {
        f"{name}.weight": torch.stack([weight, -weight]),
        f"{name}.bias": torch.stack([bias, -bias]),
    }
    return TrainedHead(
        model=_MODEL,
        backbone="none",
        checksum=backbone_checksum(built.module, state),
        classes=CLASSES,
        state=state,
    )
