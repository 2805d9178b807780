"""The recipes; each asserts its own result."""

import ast
import csv
from fractions import Fraction

import pytest

import headrace
from examples.running import EXAMPLES, TWO_PROCESSES, ended
from headrace.testing.synth import SynthClip, write_clip
from scripts.lines import count

RECIPES = EXAMPLES / "recipes"
MAX_LINES = 30
RATES = (15, 24, 25, Fraction(30000, 1001), 50, 60)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Folder with two class folders of four videos with 40 frames each."""
    folder = tmp_path_factory.mktemp("dataset")
    for label in ("run", "walk"):
        for number in range(4):
            (folder / label).mkdir(exist_ok=True)
            write_clip(folder / label / f"{number}", SynthClip(num_frames=40, size=(64, 96)))
    return folder


@pytest.fixture
def run(tmp_path_factory):
    """Return a function that runs a recipe, which must succeed, and returns its stdout."""
    cache = str(tmp_path_factory.getbasetemp() / "recipes-cache")

    def run_recipe(name, *words, launcher=()):
        done = ended(*launcher, str(RECIPES / name), *map(str, words), XDG_CACHE_HOME=cache)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_recipe


def write_table(path, head, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head.split(","), *rows])
    return path


PATHS = sorted(RECIPES.glob("*.py"))


@pytest.mark.parametrize("recipe", PATHS, ids=lambda path: path.name)
def test_a_recipe_is_short_asserts_its_result_and_uses_public_names(recipe):
    text = recipe.read_text()
    assert count(text).code <= MAX_LINES
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    used = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "headrace"
        for alias in node.names
    }
    assert used <= set(headrace.__all__)
    assert "headrace." not in text


@pytest.mark.parametrize("recipe", PATHS, ids=lambda path: path.name)
def test_a_recipe_is_linked_from_its_guide(recipe):
    guides = EXAMPLES.parent / "docs" / "guides"
    pages = [(guides / page).read_text() for page in ("train.md", "clips.md")]
    assert any(f"examples/recipes/{recipe.name})" in page for page in pages)


@pytest.mark.slow
def test_one_folder_per_class(run, dataset):
    output = run("folder_per_class.py", dataset)
    assert len(output.splitlines()) == 4  # two clips of each of two videos
    assert " in run: " in output or " in walk: " in output


@pytest.mark.slow
def test_labels_in_a_table(run, dataset, tmp_path):
    rows = [
        (video.relative_to(dataset), video.parent.name) for video in sorted(dataset.glob("*/*.mp4"))
    ]
    table = write_table(dataset / "labels.csv", "path,label", rows)
    output = run("csv_labels.py", table)
    assert output == "8 rows, classes run, walk\ntrained on 320 frames\n"


@pytest.mark.slow
def test_overlapping_segments_of_one_file(run, tmp_path):
    write_clip(tmp_path / "street", SynthClip(num_frames=240, size=(64, 96)))
    write_clip(tmp_path / "park", SynthClip(num_frames=60, size=(64, 96)))
    rows = [
        *(("street.mp4", start, start + 3, "walk") for start in (0, 0.5, 1, 4)),
        *(
            ("street.mp4", 2, 8, "ride"),
            ("street.mp4", 2.5, 2.9, "jump"),
            ("park.mp4", "", "", "walk"),
        ),
    ]
    table = write_table(tmp_path / "actions.csv", "path,start_seconds,end_seconds,label", rows)
    output = run("overlapping_segments.py", table)
    assert output.startswith("7 segments of 2 videos, each once\n")


@pytest.mark.slow
def test_clips_at_one_rate_from_files_of_any_rate(run, tmp_path):
    videos = [
        write_clip(
            tmp_path / f"{float(rate):.0f}",
            SynthClip(num_frames=int(4 * rate), frame_rate=Fraction(rate), size=(64, 96)),
        )
        for rate in RATES
    ]
    output = run("clips_at_8_fps.py", *videos)
    strides = [float(line.split()[-2]) for line in output.splitlines()]
    assert sorted(strides) == pytest.approx([float(rate) / 8 for rate in RATES], abs=0.1)


@pytest.mark.slow
def test_ten_clips_of_33_videos_count_once_each_on_two_ranks(run, tmp_path):
    clip = write_clip(tmp_path / "0", SynthClip(num_frames=60, size=(64, 64)))
    videos = [clip]
    for number in range(1, 33):
        videos.append(tmp_path / f"{number}.mp4")
        videos[-1].write_bytes(clip.read_bytes())
    output = run("ten_clip_evaluation.py", *videos, launcher=TWO_PROCESSES)
    assert output.splitlines()[0] == "330 clips of 33 videos on 2 ranks, each once"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "package"),
    [
        ("lightning_resume.py", "lightning"),
        ("trainer_resume.py", "transformers"),
        ("accelerate_resume.py", "accelerate"),
    ],
)
def test_a_trainer_resumes_in_the_middle_of_an_epoch(recipe, package, run, dataset, tmp_path):
    pytest.importorskip(package, reason="headrace[trainers] is not installed")
    output = run(recipe, dataset, tmp_path / "checkpoints")
    assert output.splitlines()[-1] == "320 frames, each once in each of 2 epochs"
