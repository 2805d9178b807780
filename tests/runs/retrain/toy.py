"""A toy set: videos of two classes that any eye tells apart, and the file of their labels."""

from collections.abc import Sequence
from pathlib import Path

from headrace.decode.index_store import IndexStore
from headrace.runs.retrain.retrain_options import RetrainOptions
from headrace.runs.retrain.retrain_session import RetrainRunner
from headrace.testing.synth import Look, SynthClip, write_clip
from runs.kit import SQUEEZENET, options

NAMES = tuple(f"{kind}{number}" for kind in ("bars", "waves") for number in range(3))
FRAMES = 6


def write_toys(folder: Path) -> Path:
    """Write three videos of colour bars and three of waves, of 6 frames or more, and their labels.

    Returns the folder.
    """
    for number, name in enumerate(NAMES):
        look = Look(bars=name.startswith("bars"))
        write_clip(folder / name, SynthClip(num_frames=FRAMES + number, gop=4, look=look))
    write_labels(folder / "labels.csv")
    return folder


def write_labels(path: Path, lines: Sequence[str] = (), heads: str = "path,label") -> Path:
    """Write a file of labels; without lines, those of the toys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = lines or [f"{name}.mp4,{name[:-1]}" for name in NAMES]
    path.write_text("\n".join([heads, *rows]) + "\n")
    return path


def toy_runner(folder: Path, out: Path, **given: object) -> RetrainRunner:
    """Return a runner on the toys, with a small model of random weights, from flat options."""
    plain = {"labels": folder / "labels.csv", "batch_size": 4, "threads": 1, **SQUEEZENET, **given}
    sources = plain.pop("sources", folder)
    chosen = options(sources, out, RetrainOptions, **plain)
    return RetrainRunner.prepare(chosen, store=IndexStore(folder / "store"))
