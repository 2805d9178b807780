"""What `bench affinity` times: the model alone, and the path of a run, bound as a run would be."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from headrace.bench.affinity_settings import MODEL, WHOLE, Setting, way_of
from headrace.bench.contest import Way
from headrace.bench.model_variants import Flowing, HeldFrames, endless, on_device, passes
from headrace.models.load import load_classifier
from headrace.models.prepare import prepare
from headrace.preprocess.levels import build_preprocess
from headrace.runs.options import ComputeOptions, ExecutionOptions
from headrace.runs.place import computing_place
from headrace.runs.stages import SOURCE, Carriers, stages_of
from headrace.runtime.clock import Clock
from headrace.runtime.pipeline import Pipeline


class Paths:
    """The ways of each setting: `model: ...` and `whole: ...`."""

    def __init__(
        self,
        compute: ComputeOptions,
        held: HeldFrames,
        settings: Sequence[Setting],
        *,
        seconds: float,
        clock: Clock,
    ) -> None:
        """Load the model, and preprocess the frames that are held."""
        self._compute, self._index = compute, held.index
        self._settings = {setting.way: setting for setting in settings}
        self._model = prepare(
            lambda: load_classifier(compute.model_name, compute.weights),
            compute.compute(),
            batch_size=compute.batch_size,
            clock=clock,
        ).model
        batches = held.prepared(compute.prep_level, self._model.input)
        self._batches = on_device(batches, compute.device)
        self._alone = passes(self._batches, self._model.run, seconds=seconds, clock=clock)
        self._whole = Flowing(self._flow, seconds, clock)

    def ways(self) -> dict[str, Way]:
        """Return what is timed, by its name; the setting is made by `settled`."""
        return {
            way_of(kind, setting): work
            for kind, work in ((MODEL, self._alone), (WHOLE, self._whole))
            for setting in self._settings.values()
        }

    @contextmanager
    def settled(self, way: str) -> Iterator[None]:
        """Take the cores and threads of a way, and begin it; all is given back behind the block."""
        kind, _, name = way.partition(": ")
        setting = self._settings[name]
        execution = ExecutionOptions(core_bind=setting.cores)
        with computing_place(replace(self._compute, threads=setting.threads, execution=execution)):
            if kind == WHOLE:
                with self._whole.begun():
                    yield
            else:
                self._model.run(self._batches[0])  # its threads begin
                yield

    @contextmanager
    def _flow(self) -> Iterator[Iterator[int]]:
        """Decode, preprocess and infer without end, in the stages of a run."""
        preprocess = build_preprocess(self._compute.prep_level, self._model.input)
        stages = stages_of(preprocess, Carriers.of(self._model, prep_on_gpu=False), self._model, [])
        source = endless(self._index, self._compute.batch_size)
        line = Pipeline(source=source, stages=stages, source_name=SOURCE, marks_source=False)
        with line.run() as run:
            yield (item.value.frames for item in run)
