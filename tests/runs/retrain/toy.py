"""Toy videos of two distinct classes, with a label file."""

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
    """Write three videos of colour bars, three of waves, and their labels; return the folder."""
    for number, name in enumerate(NAMES):
        look = Look(bars=name.startswith("bars"))
        write_clip(folder / name, SynthClip(num_frames=FRAMES + number, gop=4, look=look))
    write_labels(folder / "labels.csv")
    return folder


def write_labels(path: Path, lines: Sequence[str] = (), header: str = "path,label") -> Path:
    """Write a label file; by default with the labels of the toy videos."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = lines or [f"{name}.mp4,{name[:-1]}" for name in NAMES]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def toy_runner(folder: Path, out: Path, **values: object) -> RetrainRunner:
    """Return a training on the toy videos, of a small random model, from flat options."""
    defaults = {"labels": folder / "labels.csv", "batch_size": 4, "threads": 1, **SQUEEZENET}
    flat = {"sources": folder, **defaults, **values}
    retrain_options = options(flat.pop("sources"), out, RetrainOptions, **flat)
    return RetrainRunner.prepare(retrain_options, store=IndexStore(folder / "store"))
