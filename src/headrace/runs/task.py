"""Task of a run: which kind of model it loads, and where results of that kind go."""

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
from headrace.sinks.annotated import AnnotatedParts, AnnotatedPictures, AnnotatedVideo
from headrace.sinks.batch_results import SinkOf
from headrace.sinks.box_table import BoxLines, BoxTable, check_table
from headrace.sinks.coco import CocoFile
from headrace.sinks.own_sink import any_needs_frames, own_sinks
from headrace.sinks.painting import BoxPainter, LabelPainter
from headrace.sinks.prediction_table import check_table as check_prediction_table
from headrace.sinks.prediction_table import open_predictions
from headrace.video.stream_index import StreamIndex

TaskName = Literal["classification", "video", "detection"]
"""What is in each frame; what happens in each clip; what is where in each frame or picture."""
_LOADERS: Final = {"classification": load_classifier, "video": load_clip_classifier}


def with_task(options: RunOptions) -> RunOptions:
    """Return the options with the boxes that are kept, where the model is a detector.

    They go to the format of the predictions.
    """
    if options.detection is not None or options.compute.model_name not in names_of("detection"):
        return options
    is_table = options.output.predictions == "parquet"
    return replace(options, detection=DetectionOptions(parquet=is_table, lines=not is_table))


@dataclass(frozen=True)
class Task:
    """What a run is for."""

    options: RunOptions
    """As `with_task` returns them."""

    @property
    def name(self) -> TaskName:
        """Kind of the task."""
        if self.options.detection is not None:
            return "detection"
        is_video = self.options.compute.model_name in names_of("video")
        return "video" if is_video else "classification"

    def check(self) -> None:
        """Raise what can be raised before a source is opened.

        Raises:
            ConfigError: there is no such model, or an option that its results do not have.
            BackendError: an extra is missing.
        """
        check_name(self.options.compute.model_name, self.name)
        any_needs_frames(self.options.output.sinks)  # they are imported
        found = self.options.detection
        if found is not None and self.options.output.top_k != 1:
            raise ConfigError(
                f"--top-k names classes of a whole frame, and {self.options.compute.model_name} "
                "finds boxes, with a class each; leave it out"
            )
        if found is not None and found.parquet:
            check_table()
        if found is None and self.options.output.predictions == "parquet":
            check_prediction_table()

    def load(self) -> Model[Any]:
        """Return the model.

        Raises:
            ConfigError: the weights cannot be had or do not fit, or the model takes no such clips.
        """
        compute, found = self.options.compute, self.options.detection
        name, weights = compute.model_name, compute.weights
        model: Model[Any]
        if found is not None:
            model = load_detector(name, weights, found.choice)
        else:
            model = _LOADERS[self.name](name, weights, top_k=self.options.output.top_k)
        return with_clip_length(model, self.options.clips.clip_len)

    def sinks(
        self,
        model: Model[Any],
        names: Sequence[str],
        *,
        indexes: Sequence[StreamIndex] = (),
        is_read: bool = False,
        is_live: bool = False,
    ) -> tuple[SinkOf[Any], ...]:
        """Open the files of results, the annotated video or pictures first.

        Args:
            model: As `load` returns it.
            names: Sources by their numbers.
            indexes: Videos that are read one after the other; none where pictures are.
            is_read: Frames are read as they come, from any source in turn.
            is_live: Each frame comes with its `Arrival`.

        Raises:
            ConfigError: a file cannot be written; nothing is open then.
        """
        output, found = self.options.output, self.options.detection
        out, opened = output.out, list[SinkOf[Any]]()
        painter: Any = LabelPainter if found is None else BoxPainter
        with ExitStack() as stack:

            def keep(sink: SinkOf[Any]) -> None:
                stack.callback(sink.close)
                opened.append(sink)

            if found is None:
                keep(
                    open_predictions(
                        output.predictions, out, names, top_k=output.top_k, is_live=is_live
                    )
                )
            else:
                assert isinstance(model.output, BoxDecoder)
                keep(CocoFile(out, names, model.output.class_names))
                if found.lines:
                    keep(BoxLines(out, names))
                if found.parquet:
                    keep(BoxTable(out, names, is_live=is_live))
            if output.video and is_read:
                opened.insert(0, AnnotatedParts(out, len(names), painter))
            elif output.video and indexes:
                opened.insert(0, AnnotatedVideo(out, indexes, painter))
            elif output.video:
                opened.insert(0, AnnotatedPictures(out))
            opened += own_sinks(output.sinks, out, names if is_read or indexes else (), model.name)
            stack.pop_all()
        return tuple(opened)
