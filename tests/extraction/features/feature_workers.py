"""Workers for tests: features by arithmetic instead of a model, and faults.

`main` is a run to be killed. Imported by child processes; does not import PyTorch.
"""

import os
import signal
from functools import partial
from pathlib import Path

import numpy as np

from extraction import faults
from headrace.cache.redis_store import RedisStore
from headrace.decode.index_store import IndexStore
from headrace.errors import MediaError
from headrace.extraction.chunk_worker import run_worker
from headrace.extraction.extraction_plan import Videos
from headrace.extraction.features import feature_options, feature_result
from headrace.extraction.features.feature_extraction import FeatureExtraction, FeaturePlan
from headrace.extraction.features.feature_options import FeatureOptions
from headrace.extraction.features.feature_worker import FeatureWorker
from headrace.extraction.features.model_spec import ModelSignature, OwnModel, SampleSpec
from headrace.sampling.selection import selection_of

FACTS = ModelSignature(
    shape=(2,),
    layer="",
    origin="the tests",
    preprocess={},
    model={"name": "arithmetic", "weights": "sha256:0"},
    numerics={},
)
IN_FLIGHT = 3
"""Max chunks in progress in a worker."""


class Arithmetic:
    """Engine whose features are computed from frame indices, with several chunks in progress."""

    def __init__(self, worker):
        self.worker = worker
        self.sampling = SampleSpec.of_asked(worker.request.asked)

    def run(self, chunks):
        results = []
        for chunk in chunks:
            self.worker.hooks.on_begun(chunk)
            results.append(self.read(chunk))
            self.worker.hooks.on_read(chunk)
            if len(results) == IN_FLIGHT:
                yield results.pop(0)
        yield from results

    def read(self, chunk):
        try:
            index = self.worker.index_of(chunk.video)
        except MediaError as error:
            return feature_result.ChunkResult.failed(
                chunk, str(error), shape=(2,), dtype="float32", made=feature_result.ResultInfo()
            )
        starts = chunk.of(self.sampling.starts(index))
        lost = tuple(feature_result.Lost(index=int(n), cause="damaged") for n in starts if n == 25)
        starts = starts[starts != 25]
        return feature_result.ChunkResult(
            chunk_id=chunk.name,
            size=index.info.upright_size,
            time_base=index.info.time_base,
            samples=feature_result.Samples(
                index=starts,
                pts=index.pts[starts],
                is_concealed=np.zeros(len(starts), bool),
                features=np.stack([starts, starts + 1000 * chunk.video], 1).astype(np.float32),
            ),
            lost=lost,
            made=feature_result.ResultInfo(
                times=feature_result.Times(decode_ms=2.0, queue_ms=1.0, model_ms=1.0), worker="w"
            ),
        )


def do_features(argument, send, engine_of):
    run_worker(argument, send, partial(FeatureWorker, engine_of=engine_of))


def arithmetic(argument, send):
    do_features(argument, send, Arithmetic)


def gives_nan(argument, send):
    """The second feature has NaN, the third Inf."""

    class NotFinite(Arithmetic):
        def read(self, chunk):
            result = super().read(chunk)
            for number, value in ((5, np.nan), (10, -np.inf)):
                result.samples.features[result.samples.index == number, 1] = value
            return result

    do_features(argument, send, NotFinite)


def has_another_state(argument, send):
    do_features(argument, send, lambda worker: worker.cache_nothing(["k"]) or Arithmetic(worker))


def start_no_worker(argument, send):
    raise AssertionError("a worker was started")


def at_the_second_video(fault, argument, send):
    faults.before(
        Arithmetic, "read", act=fault, where=lambda _, chunk: (chunk.video, chunk.start) == (1, 10)
    )
    do_features(argument, send, Arithmetic)


def crashes(*arguments):
    at_the_second_video(faults.crash, *arguments)


def hangs(*arguments):
    at_the_second_video(faults.hang, *arguments)


def interrupts_its_parent(*arguments):
    at_the_second_video(faults.interrupt_the_parent, *arguments)


def signals_the_server(number, *arguments):
    server = int(os.environ["SERVER"])
    at_the_second_video(lambda *_: os.kill(server, number), *arguments)


def kills_the_server(*arguments):
    signals_the_server(signal.SIGKILL, *arguments)


def finds_the_server_slow(*arguments):
    """The cache server stops responding during the run; the timeout is short."""
    be_impatient()
    signals_the_server(signal.SIGSTOP, *arguments)


def impatient(*arguments):
    be_impatient()
    arithmetic(*arguments)


def be_impatient(setitem=dict.__setitem__):
    """Shorten the timeout of a cache server."""
    setitem(RedisStore.__init__.__kwdefaults__, "timeout_seconds", 0.1)


def runs_out_of_room(*arguments):
    """A disk that is full after 7 files."""
    faults.before(Path, "write_bytes", act=faults.fill_the_disk, calls=7, once=False)
    arithmetic(*arguments)


def is_killed(*arguments):
    """SIGKILL of worker and parent at the n-th change of the folder."""
    if os.environ["VICTIM"] == "worker":
        faults.before(
            Path, "replace", "unlink", act=faults.kill_both, calls=int(os.environ["CHANGES"])
        )
    arithmetic(*arguments)


def planned(paths, out, store, function=arithmetic, **fields):
    """Return a prepared extraction."""
    options = FeatureOptions(
        sources=tuple(map(str, paths)),
        model=OwnModel(build="tests:arithmetic"),
        sampling=SampleSpec(selection=selection_of("every 5")),
        out=Path(out),
        **{"cache": "none", "workers": 1, **fields},
    )
    store = IndexStore(Path(store))
    plan = FeaturePlan.of(options, Videos.of(options, store), FACTS)
    return FeatureExtraction(options=options, plan=plan, store=store, function=function)


def main(paths, out, store):
    feature_options._CHUNK_PIXELS = 1.0
    extraction = planned(paths, out, store, is_killed)
    if os.environ["VICTIM"] == "parent":
        faults.before(Path, "replace", "unlink", act=faults.kill, calls=int(os.environ["CHANGES"]))
    extraction.run()
