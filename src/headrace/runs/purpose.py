"""What a run is for: which kind of model it loads, and where the results of that kind go."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import ConfigError
from headrace.models.catalogue import check_name
from headrace.models.load import load_classifier, load_detector
from headrace.models.model import Model
from headrace.models.outputs import ToBoxes
from headrace.runs.options import DetectionOptions, RunOptions
from headrace.sinks.annotated import AnnotatedVideo
from headrace.sinks.annotated_pictures import AnnotatedPictures
from headrace.sinks.box_table import BoxTable, check_table
from headrace.sinks.coco import CocoFile
from headrace.sinks.painting import BoxPainter, LabelPainter
from headrace.sinks.prediction_table import check_table as check_prediction_table
from headrace.sinks.prediction_table import open_predictions
from headrace.sinks.seen import SinkOf
from headrace.video.stream_index import StreamIndex


class Purpose(Protocol):
    """What a run is for."""

    def check(self) -> None:
        """Raise what can be raised before a source is opened.

        Raises:
            ConfigError: there is no such model.
            BackendError: an extra is missing.
        """
        ...

    def load(self) -> Model[Any]:
        """Return the model.

        Raises:
            ConfigError: the weights cannot be had or do not fit.
        """
        ...

    def sinks(self, model: Model[Any], indexes: Sequence[StreamIndex]) -> tuple[SinkOf[Any], ...]:
        """Open what takes the results.

        Args:
            model: As `load` gave it.
            indexes: Of the videos, in order; none where pictures are read.

        Raises:
            ConfigError: a file cannot be written; nothing is open then.
        """
        ...


def purpose_of(options: RunOptions) -> Purpose:
    """Return what a run with these options is for."""
    if options.detection is None:
        return Classifying(options)
    return Detecting(options, options.detection)


@dataclass(frozen=True)
class Classifying:
    """Says what is in each frame."""

    options: RunOptions

    def check(self) -> None:
        """Check model and extras: see `Purpose.check`."""
        check_name(self.options.compute.model_name, "classification")
        if self.options.output.predictions == "parquet":
            check_prediction_table()

    def load(self) -> Model[Any]:
        """Return a classifier: see `Purpose.load`."""
        compute = self.options.compute
        return load_classifier(compute.model_name, compute.weights, top_k=self.options.output.top_k)

    def sinks(self, model: Model[Any], indexes: Sequence[StreamIndex]) -> tuple[SinkOf[Any], ...]:
        """Open a file of predictions and, if wanted, a video: see `Purpose.sinks`."""
        output = self.options.output
        names = [str(index.source) for index in indexes]
        rows = open_predictions(output.predictions, output.out, names, top_k=output.top_k)
        if not output.video:
            return (rows,)
        return (_video(output.out, indexes, [rows], LabelPainter), rows)


@dataclass(frozen=True)
class Detecting:
    """Says what is where in each frame or picture."""

    options: RunOptions
    detection: DetectionOptions

    def check(self) -> None:
        """Check model and extras: see `Purpose.check`."""
        check_name(self.options.compute.model_name, "detection")
        if self.detection.parquet:
            check_table()

    def load(self) -> Model[Any]:
        """Return a detector: see `Purpose.load`."""
        compute = self.options.compute
        return load_detector(compute.model_name, compute.weights, self.detection.choice)

    def sinks(self, model: Model[Any], indexes: Sequence[StreamIndex]) -> tuple[SinkOf[Any], ...]:
        """Open COCO's file, a table, and what draws boxes, if wanted: see `Purpose.sinks`."""
        output = self.options.output
        assert isinstance(model.output, ToBoxes)
        names = [str(index.source) for index in indexes]
        opened: list[SinkOf[Any]] = [CocoFile(output.out, names, model.output.class_names)]
        try:
            if self.detection.parquet:
                opened.append(BoxTable(output.out, names))
        except ConfigError:
            opened[0].close()
            raise
        if not output.video:
            return tuple(opened)
        if not indexes:
            return (AnnotatedPictures(output.out), *opened)
        return (_video(output.out, indexes, opened, BoxPainter), *opened)


def _video(
    out: Path, indexes: Sequence[StreamIndex], opened: Sequence[SinkOf[Any]], painter: Any
) -> SinkOf[Any]:
    """Open the annotated video; where it cannot be, close what was opened before."""
    try:
        return AnnotatedVideo(out, indexes, painter)
    except ConfigError:
        for sink in opened:
            sink.close()
        raise
