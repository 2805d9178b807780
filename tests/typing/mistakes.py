"""A user's mistakes: what a type checker must refuse; an ignore that nothing needs is an error."""

import torch

import headrace
from headrace import (
    CameraLoader,
    ClipLoader,
    DecoderConfig,
    FrameLoader,
    ImageSequence,
    LeRobotLoader,
    RandomClips,
    ShuffledFrames,
    VideoDataset,
)

FrameLoader(["a.mp4"], batch_size="8")  # type: ignore[arg-type]
FrameLoader(["a.mp4"], batchsize=8)  # type: ignore[call-arg]
FrameLoader(["a.mp4"], size=256)  # type: ignore[arg-type]
FrameLoader(["a.mp4"], on_error="ignore")  # type: ignore[arg-type]
FrameLoader(["a.mp4"], hold="zip")  # type: ignore[arg-type]
FrameLoader(["a.mp4"], sampling="random")  # type: ignore[arg-type]
FrameLoader(["a.mp4"], transform=lambda frame, label: frame)  # type: ignore[arg-type, misc]
FrameLoader()  # type: ignore[call-arg]
FrameLoader(["a.mp4"]).batch_size  # type: ignore[attr-defined]  # noqa: B018
ClipLoader(["a.mp4"], clips=RandomClips(num_frames="8"))  # type: ignore[arg-type]
ClipLoader(["a.mp4"], clips=16)  # type: ignore[arg-type]
CameraLoader("index_frame.json", tail="stop")  # type: ignore[arg-type]
LeRobotLoader("folder", delta_timestamps=[0.1])  # type: ignore[arg-type]
DecoderConfig(backend="opencv")  # type: ignore[arg-type]
ImageSequence("frames", 10)  # type: ignore[call-arg, arg-type]
ShuffledFrames(seed="1")  # type: ignore[arg-type]
VideoDataset(["a.mp4"], start="first")  # type: ignore[arg-type]
headrace.open("a.mp4", fit="crop")  # type: ignore[arg-type]
headrace.open("a.mp4")["first"]  # type: ignore[index]
headrace.open("a.mp4", 5)  # type: ignore[call-arg]
headrace.live("a.mp4", 5)  # type: ignore[arg-type]
headrace.profile_loader(5)  # type: ignore[arg-type]

for batch in FrameLoader(["a.mp4"]):
    batch.show(samples="all")  # type: ignore[arg-type]
    text: str = batch.frames  # type: ignore[assignment]
    batch.to(0.5)  # type: ignore[arg-type]

for path in headrace.find_videos(["a.mp4"]):
    number: int = path  # type: ignore[assignment]

for result in headrace.live("a.mp4", torch.nn.Identity()):
    result.pts = 5  # type: ignore[misc]
