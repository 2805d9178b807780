"""Loaders work without extras; a name that needs an extra is an error with its command."""

import tomllib
from pathlib import Path

import pytest

import headrace
from cli.kit import python

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))[
    "project"
]
NEED_RUN = {
    *("LiveResult", "LoopProfile", "Session", "live", "profile_loader", "read_features"),
    *("FeatureExtraction", "FeatureOptions", "FrameExtraction", "FrameExtractionOptions"),
    *("ImageEncoder", "SampleSpec", "TorchvisionModelSpec"),
}
"""Public names that the extra `run` adds."""

CORE_ONLY = """
import sys
from importlib.machinery import PathFinder
from pathlib import Path

GONE = set(sys.argv[1].split())


class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in GONE:
            return None
        return super().find_spec(name, path, target)

    @staticmethod
    def find_distributions(*context):
        for each in PathFinder.find_distributions(*context):
            if each.metadata["Name"].lower() not in GONE:
                yield each


sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
"""
LOADERS = """
import headrace
from headrace.testing.synth import SynthClip, write_clip

folder = Path(sys.argv[2])
videos = [write_clip(folder / name, SynthClip(num_frames=12, size=(32, 48))) for name in "ab"]
asked = {"batch_size": 4, "size": (16, 16), "num_threads": 1}
with headrace.FrameLoader(videos, **asked) as loader:
    assert sum(len(batch.index) for batch in loader) == 24
with headrace.FrameLoader(videos, **asked, interpolation="bilinear") as loader:
    assert next(iter(loader)).frames.shape == (4, 3, 16, 16)
clips = headrace.RandomClips(num_frames=4)
rows = headrace.Manifest.of_rows([{"path": str(videos[0]), "label": "walk"}])
with headrace.ClipLoader(rows, clips=clips, **{**asked, "batch_size": 1}) as loader:
    assert next(iter(loader)).label.tolist() == [0]
assert headrace.VideoDataset(videos, clip_len=4, size=(16, 16))[0]
assert headrace.FrameDataset(videos, size=(16, 16))[0]
assert sum(len(batch.index) for batch in headrace.read_frames(videos, size=(16, 16))) == 24
with headrace.open(videos[0]) as video:
    assert video[5].shape == (32, 48, 3)

(folder / "day").mkdir()
write_clip(folder / "day" / "front", SynthClip(num_frames=12, size=(32, 48)))
layout = headrace.CameraLayout.of_folders([folder], lambda file: len(headrace.open_index(file)))
layout.write(folder / "cameras.json")
with headrace.CameraLoader(folder / "cameras.json", group_num=1, size=(16, 16)) as loader:
    assert next(iter(loader))
"""
NAMES = """
import headrace

for name in headrace.__all__:
    try:
        getattr(headrace, name)
    except headrace.BackendError as error:
        assert str(error).endswith("pip install 'headrace[run]'"), error
        print(name)
"""
COMMAND = """
from headrace.cli import main

main(["--help"])
"""


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """Return a function that runs code with only the requirements of the loaders installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    extras = PROJECT["optional-dependencies"].values()
    own = {_name(each) for each in PROJECT["dependencies"]}
    gone = {_name(each) for extra in extras for each in extra} - own
    # Those whose module has another name, and what brings itself along with them.
    gone |= {"yaml", "markupsafe", "click", "pydantic_core"}

    return lambda code: python(CORE_ONLY + code, " ".join(gone), tmp_path)


def test_loaders_need_no_extra(bare):
    done = bare(LOADERS)
    assert done.returncode == 0, done.stderr


def test_a_public_name_that_needs_an_extra_names_its_command(bare):
    done = bare(NAMES)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == NEED_RUN
    assert set(headrace.__all__) > NEED_RUN


def test_the_command_names_the_missing_extra_in_one_line(bare):
    done = bare(COMMAND)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "headrace: the command needs jinja2, plotly, pyarrow, pydantic, pyyaml, rich, torchvision, "
        "typer, not installed here; pip install 'headrace[run]'\n"
    )


def _name(requirement: str) -> str:
    return requirement.split("[")[0].split("<")[0].split(">")[0].lower()
