"""The options of `headrace run`, one type each."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Sources = Annotated[
    list[str], typer.Argument(metavar="SOURCE...", help="Video files; several make batches.")
]
ModelName = Annotated[str, typer.Option(help="A classification or video model of torchvision.")]
Weights = Annotated[
    str, typer.Option(help="DEFAULT (torchvision's own), none (random), or a checkpoint file.")
]
BatchSize = Annotated[
    int, typer.Option(min=1, help="Frames in a step; in real time at most: those that are there.")
]
Level = Annotated[
    Literal["simple", "medium", "complex"],
    typer.Option(help="How much preprocessing is done; medium is the model's own."),
]
Device = Annotated[Literal["cpu", "cuda"], typer.Option(help="Where the model runs.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of one operation on the CPU.")]
MaxSteps = Annotated[int | None, typer.Option(min=1, help="Stop after so many steps.")]
Stride = Annotated[int, typer.Option(min=1, help="Every n-th frame; 1 means all.")]
OnError = Annotated[
    Literal["raise", "skip", "conceal"],
    typer.Option(
        help="Damaged frames end the run, are left out, or come as FFmpeg shows them; listed."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder of the results.")]
Video = Annotated[bool, typer.Option("--video/--no-video", help="Write an annotated video or not.")]
Try = Annotated[
    bool,
    typer.Option("--try", help="Then run again with the change advised, and say what it brought."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, run nothing.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print the recorded session as JSON, nothing else.")
]
Pace = Annotated[
    Literal["auto", "offline", "realtime"],
    typer.Option(help="Files as fast as they can (auto, offline), or as they would be played."),
]
OverloadMode = Annotated[
    Literal["auto", "every-frame", "freshest"],
    typer.Option(help="Too many frames: keep all, or let newer ones replace older ones (auto)."),
]
MaxStaleness = Annotated[
    str | None, typer.Option(metavar="SPAN", help='Drop frames that are older, such as "200ms".')
]
Queue = Annotated[
    int | None, typer.Option(min=1, help="Frames of each source that may wait for their turn.")
]
WaitForSource = Annotated[
    bool, typer.Option("--wait-for-source", help="Wait for a source that is not there yet.")
]
View = Annotated[
    Literal["none", "web", "window"],
    typer.Option(help="Watch it: as a page for browsers on this machine, or in a window."),
]
WebAddress = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where --view web listens; others need a token.")
]
WebPort = Annotated[int, typer.Option(min=0, max=65535, help="Its port; 0 for any.")]
MaxSeconds = Annotated[
    float | None, typer.Option(help="Stop reading after so many seconds.", metavar="SECONDS")
]
ClipLen = Annotated[
    int | None,
    typer.Option(min=1, help="Frames of a clip, for a video model; its own if left out."),
]
ClipStride = Annotated[
    int, typer.Option(min=1, help="Of the frames of a clip; 1 means consecutive ones.")
]
ClipHop = Annotated[
    int | None, typer.Option(min=1, help="Frames from one clip to the next; its span if left out.")
]
