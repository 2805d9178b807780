"""The folder of a run is its own: what a run that was killed left half written goes."""

from contextlib import ExitStack, closing
from pathlib import Path

from headrace.models.class_names import ClassNames
from headrace.runs.outputs import claim
from headrace.sinks.box_table import BoxTable
from headrace.sinks.coco import CocoFile
from headrace.sinks.prediction_table import PredictionTable
from headrace.text_file import partial_of


def test_what_a_killed_run_had_begun_is_removed(tmp_path: Path) -> None:
    """A killed run leaves what its sinks have begun: here they are open still."""
    pictures = tmp_path / "annotated" / "street"
    pictures.mkdir(parents=True)
    files = ("head.pt", "trace.json.gz", "annotated.mp4", "annotated-3.mp4")
    others = [pictures / "1.png", *(tmp_path / name for name in files)]
    for path in others:
        partial_of(path).write_bytes(b"half")
    with ExitStack() as sinks:
        sinks.enter_context(closing(BoxTable(tmp_path, [])))
        sinks.enter_context(closing(PredictionTable(tmp_path, [])))
        sinks.enter_context(closing(CocoFile(tmp_path, [], ClassNames(names=None))))
        assert len(list(tmp_path.rglob(".*.partial"))) == 9
        claim(tmp_path)
        assert list(tmp_path.rglob(".*.partial")) == []


def test_what_others_are_writing_there_stays(tmp_path: Path) -> None:
    theirs = [partial_of(tmp_path / name) for name in ("movie.mp4", "session.json.12-0")]
    for path in theirs:
        path.write_bytes(b"half")
    claim(tmp_path)
    assert all(path.exists() for path in theirs)
