"""A custom kind of extraction, complete in this file: a contact sheet for each video."""

from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image

from decode.linear import linear_frames
from extraction.conftest import LENGTHS
from extraction.extracting import contents
from headrace.atomic_file import write_bytes_whole
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.extraction.chunk_worker import ChunkWorker, chunk_of, run_worker
from headrace.extraction.extraction import Extraction
from headrace.extraction.extraction_options import ExtractionOptions
from headrace.extraction.extraction_plan import whole_video
from headrace.extraction.journal import JournalEntry, Outcome
from headrace.extraction.pilot import pilot
from headrace.extraction.progress_recorder import StepTimer
from headrace.video.frame_format import Crop, FrameFormat

pytestmark = pytest.mark.usefixtures("forked_children")
SHAPE = FrameFormat(crop=Crop(top=8, left=16, height=64, width=96), size=(32, 48))


@dataclass(frozen=True, kw_only=True)
class SheetOptions(ExtractionOptions):
    kind: ClassVar[str] = "sheets"
    pictures: int = 4

    def _asked(self):
        return {"pictures": self.pictures}


def wanted_of(index, pictures):
    return np.unique(np.linspace(0, len(index) - 1, pictures).round().astype(np.int64))


class SheetWorker(ChunkWorker):
    def run_chunk(self, reporter):
        chunk, _ = chunk_of(reporter.payload)
        decoder = self.decoder_of(chunk.video)
        before = DecodeCounters() + decoder.counters
        wanted = wanted_of(decoder.index, self.request.asked["pictures"]).tolist()
        timer = StepTimer(chunk.video, reporter.send, self.clock)
        with timer.part("decode"):
            job = DecodeJob(tuple(wanted), conceals=self.request.conceals)
            frames = dict(decoder.run(job))
        with timer.part("write"):
            file = BytesIO()
            Image.fromarray(np.hstack([frames[n] for n in wanted])).save(file, "PNG")
            name = f"{self.request.videos[chunk.video].name}.png"
            write_bytes_whole(self.journal.folder / name, file.getvalue())
        timer.count_frame(wanted[0])
        timer.end_step()
        entry = JournalEntry(files=((name, len(file.getvalue())),), facts=None)
        self.finish(reporter, entry, decoder.counters - before, lost=0)


def make_sheets(argument, send):
    run_worker(argument, send, SheetWorker)


@dataclass(frozen=True, kw_only=True, eq=False)
class SheetExtraction(Extraction):
    noun: ClassVar[str] = "sheet"
    roles: ClassVar = {"decode": "decode", "write": "sink"}
    concealed: ClassVar[str] = "FFmpeg conceals the damage in the sheet"
    is_by_video: ClassVar[bool] = True
    function: object = field(default=make_sheets)

    @classmethod
    def cut_chunks(cls, options, video, index):
        return wanted_of(index, options.pictures), [whole_video(video, index, 1)]

    def outcome_of(self, entry):
        return Outcome(came=len(entry.files))

    def estimate(self):
        return pilot(self, self.plan.sample(1), self.options.shape.output_size)


@pytest.fixture
def prepare(clips, store, out):
    def prepare(**fields):
        sources = tuple(map(str, clips))
        options = SheetOptions(sources=sources, out=Path(out), shape=SHAPE, **fields)
        return SheetExtraction.prepare(options, store=IndexStore(store))

    return prepare


def test_a_custom_kind_is_planned_run_recorded_and_resumed(clips, prepare, out):
    extracted = prepare(workers=2).run()
    assert (extracted.is_all, extracted.came, extracted.wanted) == (True, 3, 3)
    assert extracted.session.provenance.configuration["crop"] == "64x96+8+16"
    for clip, length in zip(clips, LENGTHS, strict=True):
        frames = linear_frames(clip, SHAPE)
        indices = np.unique(np.linspace(0, length - 1, 4).round().astype(int))
        sheet = np.asarray(Image.open(out / f"{clip.stem}.png"))
        assert np.array_equal(sheet, np.hstack([frames[index] for index in indices]))
    before = contents(out)
    (out / "clip1.png").unlink()
    again = prepare().run()
    assert (again.is_all, again.were_there, len(again.session.steps)) == (True, 2, 1)
    assert contents(out) == before


def test_a_custom_kind_is_estimated_and_lists_damage(clips, prepare, out):
    measured = prepare().estimate()
    assert (measured.frames, len(measured.sizes), out.exists()) == (1, 1, False)
    content = clips[1].read_bytes()
    try:
        extraction = prepare()
        clips[1].write_bytes(content[: len(content) // 3])
        extracted = extraction.run()
    finally:
        clips[1].write_bytes(content)
    assert [(loss.input, loss.index) for loss in extracted.session.lost] == [(1, None)]
    assert (extracted.came, extracted.is_all) == (2, False)
