"""Indented Python of the docs and the API reference runs, after the setup that it omits."""

import ast
import re
from textwrap import dedent

import pytest
import torch

from headrace.testing.synth import SynthClip, write_clip
from test_docs import PAGES, ROOT, prose, write_cameras

COMMON = """
import os, shutil
from pathlib import Path
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader

import headrace
from headrace import *

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, frames, video=None, **_):
        loss = self.layer(frames.float().mean((-1, -2))).sum()
        return SimpleNamespace(loss=loss) if video is None else {"loss": loss}

model, train = Model(), lambda *_: None
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
videos = files = ["a.mp4", "b.mp4"]
loader = FrameLoader(videos, batch_size=6)
frames = FrameDataset(videos, size=(32, 32))
"""
"""Setup of every fragment."""
BEFORE = {
    "picture_rate=12": """
from PIL import Image
shutil.rmtree("videos")
Path("videos/three/front").mkdir(parents=True)
for number in range(2):
    Image.new("RGB", (64, 48)).save(f"videos/three/front/{number:05}.jpg")
""",
    "@ intrinsics": """
intrinsics = torch.eye(3, dtype=torch.float64)
batch = next(iter(CameraLoader("index_frame.json", size=(32, 64))))
""",
    "CameraTimes": """
Path("times.csv").write_text("clip,camera,seconds\\none,left,0\\none,right,0\\n")
""",
    "labels.csv": """
poses, steer_at = {"one": [0] * 4, "two": [0] * 4}, lambda clip, seconds: 0.0
Path("labels.csv").write_text("clip,frame,speed\\none,0,4.5\\n")
""",
    "all_reduce": """
model, total, labels = lambda frames: torch.zeros(len(frames), 2), torch.zeros(2), torch.zeros(2)
torch.distributed.init_process_group(
    "gloo", init_method=f"file://{os.getcwd()}/store", rank=0, world_size=1
)
""",
    "LightningModule": "import lightning; loss_of = lambda found, video: found.loss",
    "TrainerCallback": "import tqdm, transformers; tqdm.tqdm.monitor_interval = 0",
    "Accelerator": "import accelerate",
    "Manifest.read": """
from torch.nn.functional import cross_entropy
model = lambda frames: frames.float().mean((1, 3, 4))[:, :2]
Path("labels.csv").write_text("path,label\\n" + "".join(f"{k}.mp4,{k % 2}\\n" for k in range(6)))
for number in range(6):
    shutil.copy("a.mp4", f"{number}.mp4")
""",
    "frames/%05d.jpg": """
from PIL import Image
Path("frames").mkdir()
Image.new("RGB", (64, 48)).save("frames/00000.jpg")
shutil.copy("a.mp4", "other.mp4")
""",
    "SlotMemory": """
loader = CameraLoader("index_frame.json", size=(32, 64))
model = lambda frames, before: (0, before + frames.float().mean())
""",
}
"""Text in a fragment → additional setup of this fragment."""
NEEDS_DATASET = ("NuScenes.read", "LeRobotFrames", "LeRobotLoader", "Proxies(", "read_features")
"""Texts of fragments that need a dataset; the guides run the same calls on generated datasets."""


def fragments():
    """Yield page and code of each indented block that is Python."""
    for page in PAGES:
        for block in re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", prose(ROOT / page), re.MULTILINE):
            code = dedent(block).strip("\n")
            try:
                body = ast.parse(code).body
            except SyntaxError:
                continue
            is_code = any(not isinstance(statement, ast.Expr) for statement in body)
            if is_code and not any(name in code for name in NEEDS_DATASET):
                yield pytest.param(code, id=f"{page}-{code.splitlines()[0][:40]}")


def test_every_setup_is_used():
    texts = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    assert [name for name in (*BEFORE, *NEEDS_DATASET) if name not in texts] == []


@pytest.mark.parametrize("code", [*fragments()])
@pytest.mark.filterwarnings("ignore")
def test_a_fragment_runs(code, tmp_path, monkeypatch):
    if "__main__" in code:
        pytest.skip("spawned workers import the file, and this one is none")
    if "cuda" in code and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    for package in ("lightning", "transformers", "accelerate"):
        if f"{package}." in code:
            pytest.importorskip(package, reason="headrace[trainers] is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_cameras(tmp_path)
    for name in ("a", "b"):
        write_clip(tmp_path / name, SynthClip(num_frames=150, size=(48, 64)))
    before = [text for name, text in BEFORE.items() if name in code]
    try:
        exec(compile("\n".join([COMMON, *before, code]), "fragment", "exec"), {"__name__": "page"})
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
