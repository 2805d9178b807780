"""The steps of the check, in order: what each runs, how long it may take, what it needs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Final

from benchmarks.gpu_check import media, readings
from benchmarks.gpu_check.step import Need, Step
from benchmarks.worker import ROOT

FLAGS: Final = (
    "--decode cuda",
    "--prep-on-gpu",
    "--infer-on-gpu",
    "--enable-compile",
    "--use-amp",
    "--split-point",
    "--mode retrain",
)
"""Each is given or left out; --split-point goes with a layer."""
ON_GPU: Final = frozenset({"--decode cuda", "--prep-on-gpu", "--infer-on-gpu"})
BY_NVDEC: Final = "--decode cuda"
"""The one of them that wants more of a GPU than its cores."""
REFUSED: Final = (
    frozenset({"--enable-compile", "--split-point"}),
    frozenset({"--prep-on-gpu", "--mode retrain"}),
    frozenset({"--split-point", "--mode retrain"}),
    frozenset({"--decode cuda", "--mode retrain"}),
)
"""What does not go together, and is said to be so before anything is run."""

Combination = frozenset[str]
"""The flags that are given."""
_Met = frozenset[tuple[str, bool]]


def covering() -> tuple[Combination, ...]:
    """Return few combinations in which all pairs meet that can, the plain run first.

    A pair is two flags, each given or not: four for any two flags, but for those that are refused.
    The next combination is always the one with the most pairs that have not met yet.
    """
    possible = [each for each in _all() if not is_refused(each)]
    chosen: list[Combination] = [frozenset()]
    missing = set(chain.from_iterable(map(_pairs, possible))) - _pairs(frozenset())
    while missing:
        best = max(possible, key=lambda each: len(_pairs(each) & missing))
        chosen.append(best)
        missing -= _pairs(best)
    return tuple(chosen)


def is_refused(combination: Combination) -> bool:
    """Whether some of these flags do not go together."""
    return any(refused <= combination for refused in REFUSED)


def _all() -> list[Combination]:
    sizes = (combinations(FLAGS, size) for size in range(len(FLAGS) + 1))
    return [frozenset(flags) for flags in chain.from_iterable(sizes)]


def _pairs(combination: Combination) -> set[_Met]:
    return {
        frozenset({(one, one in combination), (other, other in combination)})
        for one, other in combinations(FLAGS, 2)
    }


ALWAYS: Final = ("machine", "media")
"""Steps that the others rest on: --only does not leave them out."""
OF_A_GPU: Final = "gpu or two_devices or batch_after_batch or not_wait_for_the_model"
"""In the names of tests that want a GPU: what pytest's -k takes."""
OF_NVDEC: Final = "from_the_gpu or of_the_gpu or nvdec or device_decoder"
"""In the names of those, and of their files, that want it to decode."""
_PATIENCE: Final = 4
_TESTS_REHEARSED: Final = (
    *("models/test_model.py", "decode/test_decoding.py", "decode/test_device_decoder.py"),
    *("training/test_decoding_choice.py", "preprocess/test_levels.py"),
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the check is made."""

    out: Path
    """Folder of all that is written."""
    is_rehearsal: bool = False
    """On the CPU, with small settings."""

    @property
    def media(self) -> Path:
        """Folder of the media."""
        return self.out / ("media-small" if self.is_rehearsal else "media")

    @property
    def device(self) -> tuple[str, ...]:
        """Where models run, as options."""
        return () if self.is_rehearsal else ("--device", "cuda")

    @property
    def model(self) -> str:
        """A model that needs no weights: random ones take as long."""
        return "squeezenet1_1" if self.is_rehearsal else "resnet18"

    @property
    def layer(self) -> str:
        """Where it can be split."""
        return "features.5" if self.is_rehearsal else "layer2"

    @property
    def needs(self) -> tuple[Need, ...]:
        """What a step needs that runs on the GPU."""
        return () if self.is_rehearsal else ("a GPU",)

    def pick(self, full: str, small: str) -> str:
        """Return the value of an option."""
        return small if self.is_rehearsal else full


def steps_of(plan: Plan, configuration: dict[str, object], command: list[str]) -> tuple[Step, ...]:
    """Return all steps. What the whole was asked with is kept by the first one, the machine's.

    A rehearsal may take its time: the limits are those of a GPU that is lent, on many cores.
    """
    steps = _steps(plan, configuration, command)
    patience = _PATIENCE if plan.is_rehearsal else 1
    return tuple(replace(step, limit_seconds=patience * step.limit_seconds) for step in steps)


def _steps(plan: Plan, configuration: dict[str, object], command: list[str]) -> tuple[Step, ...]:
    return (
        _machine(plan, configuration, command),
        _media(plan),
        _tests(
            *(plan, "gpu", "tests that name a GPU, but for those of NVDEC"),
            *(f"({OF_A_GPU}) and not ({OF_NVDEC})", ("a GPU",)),
        ),
        _tests(
            *(plan, "nvdec", "tests of NVDEC"),
            *(f"({OF_A_GPU}) and ({OF_NVDEC})", ("a GPU", "NVDEC")),
        ),
        *_runs(plan),
        _memory(plan),
        *_benches(plan),
        *_loading(plan),
        *_overlap(plan),
        _live(plan),
    )


def _machine(plan: Plan, configuration: dict[str, object], command: list[str]) -> Step:
    asked = ("--parameters", json.dumps(configuration), "--command", json.dumps(command))
    return Step(
        name="machine",
        asks="what this machine is",
        arguments=(
            *("-m", "benchmarks.gpu_check.machine", *asked),
            *(("--rehearse",) if plan.is_rehearsal else ()),
        ),
        limit_seconds=90,
        read=readings.report,
    )


def _media(plan: Plan) -> Step:
    small = ("--small",) if plan.is_rehearsal else ()
    return Step(
        name="media",
        asks="synthetic media",
        arguments=("-m", "benchmarks.gpu_check.media", str(plan.media), *small),
        limit_seconds=120,
        read=readings.report,
    )


def _tests(plan: Plan, kind: str, asks: str, words: str, needs: tuple[Need, ...]) -> Step:
    junit = plan.out / f"tests-{kind}.xml"
    folder = ROOT / "tests"
    rehearsed = [str(folder / name) for name in _TESTS_REHEARSED]
    return Step(
        name=f"tests:{kind}",
        asks=asks,
        arguments=(
            *("-m", "pytest", "-q", "-k", words, "-p", "no:cacheprovider", "--rootdir", str(ROOT)),
            *("--continue-on-collection-errors", "--junit-xml", str(junit)),
            *(rehearsed if plan.is_rehearsal else [str(folder)]),
        ),
        limit_seconds=150,
        read=readings.tests(junit),
        needs=() if plan.is_rehearsal else needs,
        environment={} if plan.is_rehearsal else {"REQUIRE_GPU": "1"},
    )


def _runs(plan: Plan) -> Iterator[Step]:
    """Yield the flags of a run by pairs, the plain run on the CPU first."""
    for number, flags in enumerate(covering()):
        yield _run(plan, "plain" if not flags else str(number), flags)
    for number, flags in enumerate(REFUSED, start=1):
        yield _run(plan, f"refused{number}", flags)


def _run(plan: Plan, name: str, flags: Combination) -> Step:
    out = plan.out / f"run-{name}"
    given = [flag for flag in FLAGS if flag in flags]
    left_out = ON_GPU & flags if plan.is_rehearsal and flags not in REFUSED else frozenset()
    is_training = "--mode retrain" in flags
    words = [word for flag in given if flag not in left_out for word in flag.split()]
    if "--split-point" in words:
        words.insert(words.index("--split-point") + 1, f"{plan.model}:{plan.layer}")
    plain = None if not flags else plan.out / "run-plain"
    is_refused = flags in REFUSED
    read = readings.training(out) if is_training else readings.inference(out, plain)
    rehearsed = f", rehearsed without {', '.join(sorted(left_out))}" if left_out else ""
    return Step(
        name=f"run:{name}",
        asks=f"headrace run {' '.join(given) or 'as it is'}{rehearsed}",
        arguments=(
            *("-m", "headrace", "run", str(media.clip_path(plan.media)), "--model-name"),
            *(plan.model, "--weights", "none", "--batch-size", "8", "--max-steps", "4"),
            *(() if is_training else ("--no-video",)),
            *("--out", str(out), "--json", *words),
        ),
        limit_seconds=100,
        read=readings.refusal if is_refused else read,
        exit_status=2 if is_refused else 0,
        needs=_needs(plan, frozenset() if is_refused else flags),
    )


def _needs(plan: Plan, flags: Combination) -> tuple[Need, ...]:
    needs = plan.needs if ON_GPU & flags else ()
    return (*needs, "NVDEC") if needs and BY_NVDEC in flags else needs


def _bench(plan: Plan, name: str, asks: str, limit: float, *options: str) -> Step:
    return Step(
        name=name,
        asks=asks,
        arguments=(
            *("-m", "headrace", "bench", name, *options),
            *("--out", str(plan.out / "bench"), "--json"),
        ),
        limit_seconds=limit,
        read=readings.bench(name),
        needs=plan.needs,
    )


def _memory(plan: Plan) -> Step:
    return _bench(
        *(plan, "memory", "what memory batches take (D6)", 90),
        *plan.device,
        *("--sizes", plan.pick("360p,720p,1080p,4K", "360p")),
        *("--batch-sizes", plan.pick("1,4,16", "1"), "--model-name", plan.model),
        *("--precisions", plan.pick("auto", "float32")),
    )


def _benches(plan: Plan) -> Iterator[Step]:
    """Yield the experiments on decoding, transfers, preprocessing and random frames."""
    clip = str(media.clip_path(plan.media))
    turns = ("--seconds", plan.pick("1", "0.05"), "--repeats", plan.pick("3", "1"))
    videos = str(plan.media / "h264" / "videos")
    named: tuple[Need, ...] = ("bench decode",)
    decode = _bench(plan, "decode", "decoders beside each other (A7)", 60, clip)
    yield replace(decode, needs=(*plan.needs, *named))
    transfer = _bench(plan, "transfer", "bytes between CPU and GPU (C6)", 60, clip, *turns)
    yield replace(transfer, needs=(*plan.needs, "bench transfer"))
    yield _bench(
        *(plan, "preprocess", "preprocessing on CPU and GPU", 75, clip, *turns),
        *("--model-name", plan.model, "--batch-size", plan.pick("4", "1")),
    )
    yield _bench(
        *(
            plan,
            "sampling",
            "random frames, decoded by the CPU",
            60,
            videos,
        ),
        *("--seconds", plan.pick("2", "0.3"), "--repeats", "1", "--strategies", "look-ahead"),
        *("--batch-size", plan.pick("128", "4"), "--size", *plan.pick("256 256", "96 96").split()),
    )


def _loading(plan: Plan) -> Iterator[Step]:
    """Yield batches by NVDEC beside the CPU's, equal first."""
    videos = str(plan.media / "h264" / "videos")
    yield _loaded(plan, "nvdec:frames", "random frames by NVDEC", "frames", videos, "--kept")
    library = "random frames by PyNvVideoCodec, beside NVDEC by FFmpeg"
    wanted = ("--kept", "--pynvvideocodec")
    step = _loaded(plan, "pynvvideocodec:frames", library, "frames", videos, *wanted)
    yield replace(step, needs=(*step.needs, "PyNvVideoCodec") if step.needs else ())
    together = "random frames by NVDEC and the CPU together, beside each alone"
    yield _loaded(plan, "auto:frames", together, "frames", videos, "--auto")
    for name in media.CODECS:
        index = str(media.index_path(plan.media, name))
        yield _loaded(
            plan, f"nvdec:{name}", f"camera streams of {name} by NVDEC", "cameras", index, "--kept"
        )


def _loaded(plan: Plan, name: str, asks: str, kind: str, *sources: str) -> Step:
    few = ("--batch-size", "4", "--batches", "3", "--repeats", "1", "--seconds", "0.3")
    return Step(
        name=name,
        asks=asks,
        arguments=(
            *("-m", "benchmarks.gpu_check.loading", kind, *sources),
            *((*few, "--size", "96", "160") if plan.is_rehearsal else ("--gpu", "0")),
        ),
        limit_seconds=75,
        read=readings.report,
        needs=() if plan.is_rehearsal else ("a GPU", "NVDEC"),
    )


def _overlap(plan: Plan) -> Iterator[Step]:
    """Yield traces that show whether copies to the GPU run beside its work."""
    few = ("--batches", "3") if plan.is_rehearsal else ("--gpu", "0")
    yield Step(
        name="overlap:loader",
        asks="copies of a loader beside the work on the batch before, in a trace",
        arguments=(
            *("-m", "benchmarks.gpu_check.overlap", str(plan.media / "h264" / "videos"), *few),
            *("--out", str(plan.out / "overlap-loader.json.gz")),
        ),
        limit_seconds=60,
        read=readings.report,
        needs=plan.needs,
    )
    out = plan.out / "run-traced"
    yield Step(
        name="overlap:run",
        asks="copies of headrace run beside the model, in its trace",
        arguments=(
            *("-m", "headrace", "run", str(media.clip_path(plan.media)), "--model-name"),
            *(plan.model, "--weights", "none", "--batch-size", plan.pick("16", "8"), "--max-steps"),
            *(plan.pick("12", "3"), "--no-video", "--trace", *plan.device),
            *("--out", str(out), "--json"),
        ),
        limit_seconds=60,
        read=readings.traced(out, copies=not plan.is_rehearsal),
        needs=plan.needs,
    )


def _live(plan: Plan) -> Step:
    return _bench(
        *(plan, "live", "the highest live rate", 75, str(media.clip_path(plan.media))),
        *(*plan.device, "--model-name", plan.model, "--seconds", plan.pick("2", "1")),
        *("--steps", plan.pick("8", "1"), "--p95-ms", plan.pick("100", "1000")),
    )
