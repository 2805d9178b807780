"""Task of a run: classification, clip classification or detection; its model and sinks."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from headrace.errors import ConfigError
from headrace.models.catalogue import check_name, names_of
from headrace.models.load import (
    load_classifier,
    load_clip_classifier,
    load_detector,
    with_clip_length,
)
from headrace.models.model import Model
from headrace.models.outputs import BoxDecoder
from headrace.runs.run_options import DetectionOptions, RunOptions
from headrace.sinks.annotated import AnnotatedImages, AnnotatedVideos
from headrace.sinks.batch_results import ResultSink
from headrace.sinks.coco import CocoFile
from headrace.sinks.custom_sink import any_sink_needs_frames, custom_sinks
from headrace.sinks.painting import BoxPainter, LabelPainter
from headrace.sinks.result_rows import check_table, open_boxes, open_predictions
from headrace.video.stream_index import StreamIndex

TaskName = Literal["classification", "video", "detection"]
"""Classes of each frame; classes of each clip; boxes in each frame or image."""
_LOADERS: Final = {"classification": load_classifier, "video": load_clip_classifier}


def with_task(options: RunOptions) -> RunOptions:
    """Return the options; for a detector, with detection options.

    The format of the predictions sets the format of the boxes.
    """
    if options.detection is not None or options.compute.model_name not in names_of("detection"):
        return options
    is_table = options.output.predictions == "parquet"
    return replace(options, detection=DetectionOptions(parquet=is_table, lines=not is_table))


@dataclass(frozen=True)
class Task:
    """Task of one run."""

    options: RunOptions
    """Options from `with_task`."""

    @property
    def name(self) -> TaskName:
        """Kind of the task."""
        if self.options.detection is not None:
            return "detection"
        is_video = self.options.compute.model_name in names_of("video")
        return "video" if is_video else "classification"

    def check(self) -> None:
        """Check the model and its options. Opens no source.

        Raises:
            ConfigError: the model does not exist, or does not support an option.
            BackendError: an extra is missing.
        """
        check_name(self.options.compute.model_name, self.name)
        any_sink_needs_frames(self.options.output.sinks)  # imports the sinks
        detection = self.options.detection
        if detection is not None and self.options.output.top_k != 1:
            raise ConfigError(
                f"--top-k is for classes of frames, and {self.options.compute.model_name} returns "
                "boxes with one class each; leave it out"
            )
        predictions = self.options.output.predictions
        if predictions == "parquet" if detection is None else detection.parquet:
            check_table(of_boxes=detection is not None)

    def load(self) -> Model[Any]:
        """Return the model.

        Raises:
            ConfigError: the weights cannot be loaded or do not fit, or the model does not support
                the clip length.
        """
        compute, detection = self.options.compute, self.options.detection
        name, weights = compute.model_name, compute.weights
        model: Model[Any]
        if detection is not None:
            model = load_detector(name, weights, detection.choice)
        else:
            model = _LOADERS[self.name](name, weights, top_k=self.options.output.top_k)
        return with_clip_length(model, self.options.clips.clip_len)

    def sinks(
        self,
        model: Model[Any],
        names: Sequence[str],
        *,
        indexes: Sequence[StreamIndex] = (),
        is_interleaved: bool = False,
        is_live: bool = False,
    ) -> tuple[ResultSink, ...]:
        """Open the sinks of the results; the first writes the annotated video or images.

        Args:
            model: Model from `load`.
            names: Names of the sources.
            indexes: Indexes of videos that are read one after the other; empty for images.
            is_interleaved: Whether frames of several sources alternate.
            is_live: Whether each frame has an `Arrival`.

        Raises:
            ConfigError: a file cannot be written; all files are then closed.
        """
        output, detection = self.options.output, self.options.detection
        out, opened = output.out, list[ResultSink]()
        painter: Any = LabelPainter if detection is None else BoxPainter
        with ExitStack() as stack:

            def add(sink: ResultSink) -> None:
                stack.callback(sink.close)
                opened.append(sink)

            if detection is None:
                kind, top_k = output.predictions, output.top_k
                add(open_predictions(kind, out, names, top_k=top_k, is_live=is_live))
            else:
                assert isinstance(model.output, BoxDecoder)
                add(CocoFile(out, names, model.output.class_names))
                if detection.lines:
                    add(open_boxes("jsonl", out, names))
                if detection.parquet:
                    add(open_boxes("parquet", out, names, is_live=is_live))
            if output.video and (is_interleaved or indexes):
                opened.insert(0, AnnotatedVideos(out, len(names), painter, indexes=indexes))
            elif output.video:
                opened.insert(0, AnnotatedImages(out))
            opened += custom_sinks(
                output.sinks, out, names if is_interleaved or indexes else (), model.name
            )
            stack.pop_all()
        return tuple(opened)
