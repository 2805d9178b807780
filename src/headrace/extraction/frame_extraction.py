"""Extracting frames: pictures of them, and a table of the pictures."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from headrace.extraction.decoders import check_decoder
from headrace.extraction.extraction import Extraction
from headrace.extraction.forecast import Forecast, forecast, make_samples
from headrace.extraction.frame_job import FrameJob
from headrace.extraction.frame_plan import FramePlan
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.frame_worker import extract_frames
from headrace.extraction.table import NAME
from headrace.extraction.videos import Videos
from headrace.extras import check_extra
from headrace.runtime.child import ChildFunction
from headrace.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameExtraction(Extraction[FrameOptions, FramePlan]):
    """An extraction of frames that can begin: `FrameExtraction.prepare(options).run()`."""

    function: ChildFunction = field(default=extract_frames)

    @property
    def wanted(self) -> int:
        """Frames that are wanted."""
        return self.plan.frames

    def forecast(self, function: ChildFunction = make_samples) -> Forecast:
        """Return how many pictures, how large and how long: decodes and encodes a few of them.

        Args:
            function: What makes them, in a child process.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C.
        """
        return forecast(self, function)

    @classmethod
    def _check(cls, options: FrameOptions) -> None:
        check_extra("parquet", f"the table of the frames, {NAME},")
        options.pictures.check()
        check_decoder(options.decode)

    @classmethod
    def _planned(
        cls,
        options: FrameOptions,
        videos: Videos,
        clock: Clock,
        on_phase: Callable[[str], None],
    ) -> tuple[FramePlan, Mapping[str, float]]:
        check_decoder(options.decode, videos.indexes.values())
        return FramePlan.of(options, videos), {}

    def _job(self, on_warning: Callable[[str], None]) -> nullcontext[FrameJob]:
        return nullcontext(FrameJob(extraction=self))
