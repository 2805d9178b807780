"""Cores and threads that are worth trying, and what is timed with them, bound as a run would be."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import PositiveInt

from headrace.bench.variant_benchmark import VariantRecord, VariantSet
from headrace.profiling.provenance import Record
from headrace.runtime.affinity import cores_text
from headrace.runtime.clock import Clock

if TYPE_CHECKING:
    from headrace.bench.model_variants import HeldFrames
    from headrace.runs.options import ComputeOptions

MODEL: Final = "model"
WHOLE: Final = "whole"

Recorded = TypeVar("Recorded", bound=VariantRecord)


class CoreBinding(Record):
    """Cores and threads that were tried."""

    way: str
    """What it is called: `all cores, 1 thread`."""
    cores: str | None
    """As `--core-bind` takes them; None: those that the process may use."""
    num_cores: PositiveInt
    threads: PositiveInt | None
    """Of one operation; None: as many as PyTorch chooses."""


def core_bindings(cores: frozenset[int], *, can_bind: bool) -> tuple[CoreBinding, ...]:
    """Return what is worth trying on these cores: all or half of them, all threads or one."""
    half = sorted(cores)[: len(cores) // 2]
    every = partial(CoreBinding, cores=None, num_cores=len(cores))
    tried = [every(way="all cores", threads=None)]
    if len(cores) > 2:
        threads = len(cores) // 2
        tried.append(every(way=f"all cores, {threads} threads", threads=threads))
    if len(cores) > 1:
        tried.append(every(way="all cores, 1 thread", threads=1))
    if half and can_bind:
        bound = partial(CoreBinding, cores=cores_text(half), num_cores=len(half))
        name = "1 core" if len(half) == 1 else f"{len(half)} cores"
        tried.append(bound(way=name, threads=None))
        if len(half) > 1:
            tried.append(bound(way=f"{name}, 1 thread", threads=1))
    return tuple(tried)


def variant_of(kind: str, binding: CoreBinding) -> str:
    """Return what the turns of the model alone, or of the whole path, are called."""
    return f"{kind}: {binding.way}"


def bound_variants(
    compute: "ComputeOptions",
    held: "HeldFrames",
    bindings: Sequence[CoreBinding],
    *,
    seconds: float,
    clock: Clock,
    record: Callable[..., Recorded],
) -> VariantSet[Recorded]:
    """Load the model, and return it alone and the path of a run, each with every binding."""
    from headrace.bench.model_variants import Flowing, endless, on_device, passes
    from headrace.models.load import load_classifier
    from headrace.models.prepare import prepare
    from headrace.preprocess.levels import build_preprocess
    from headrace.runs.options import ExecutionOptions
    from headrace.runs.place import computing_place
    from headrace.runs.stages import SOURCE, Carriers, stages_of
    from headrace.runtime.pipeline import Pipeline

    @contextmanager
    def flow() -> Iterator[Iterator[int]]:
        """Decode, preprocess and infer without end, in the stages of a run."""
        preprocess = build_preprocess(compute.prep_level, model.input)
        stages = stages_of(preprocess, Carriers.of(model, prep_on_gpu=False), model, [])
        source = endless(held.index, compute.batch_size)
        line = Pipeline(source=source, stages=stages, source_name=SOURCE, marks_source=False)
        with line.run() as run:
            yield (item.value.frames for item in run)

    @contextmanager
    def settled(variant: str) -> Iterator[None]:
        """Take the cores and threads of a variant, and begin it; all is given back after it."""
        kind, _, name = variant.partition(": ")
        binding = next(each for each in bindings if each.way == name)
        execution = ExecutionOptions(core_bind=binding.cores)
        with computing_place(replace(compute, threads=binding.threads, execution=execution)):
            if kind == WHOLE:
                with whole.begun():
                    yield
            else:
                model.run(batches[0])  # its threads begin
                yield

    model = prepare(
        lambda: load_classifier(compute.model_name, compute.weights),
        compute.compute(),
        batch_size=compute.batch_size,
        clock=clock,
    ).model
    batches = on_device(held.prepared(compute.prep_level, model.input), compute.device)
    alone = passes(batches, model.run, seconds=seconds, clock=clock)
    whole = Flowing(flow, seconds, clock)
    kinds = ((MODEL, alone), (WHOLE, whole))
    variants = {variant_of(kind, each): work for kind, work in kinds for each in bindings}
    return VariantSet(variants=variants, record=record, settled=settled)
