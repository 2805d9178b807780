"""The steps of the check, in order: what each runs, how long it may take, what it needs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Final, TypeVar

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
    sizes = range(len(FLAGS) + 1)
    every = map(frozenset, chain.from_iterable(combinations(FLAGS, size) for size in sizes))
    possible = [flags for flags in every if not is_refused(flags)]
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
_REHEARSE: Final = ("--rehearse",)
_SMALL: Final = ("--small",)
_FIRST_GPU: Final = ("--gpu", "0")
_Choice = TypeVar("_Choice")
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
    def videos(self) -> str:
        """Folder of the cameras' videos in H.264."""
        return str(self.media / "h264" / "videos")

    @property
    def device(self) -> tuple[str, ...]:
        """Where models run, as options."""
        return self.pick(("--device", "cuda"), ())

    @property
    def model(self) -> str:
        """A model that needs no weights: random ones take as long."""
        return self.pick("resnet18", "squeezenet1_1")

    @property
    def layer(self) -> str:
        """Where it can be split."""
        return self.pick("layer2", "features.5")

    @property
    def needs(self) -> tuple[Need, ...]:
        """What a step needs that runs on the GPU."""
        return self.pick(("a GPU",), ())

    def pick(self, full: _Choice, small: _Choice) -> _Choice:
        """Return what is for this plan."""
        return small if self.is_rehearsal else full


def steps_of(plan: Plan, configuration: dict[str, object], command: list[str]) -> tuple[Step, ...]:
    """Return all steps. What the whole was asked with is kept by the first one, the machine's.

    A rehearsal may take its time: the limits are those of a GPU that is lent, on many cores.
    """
    patience = _PATIENCE if plan.is_rehearsal else 1
    asked = ("--parameters", json.dumps(configuration), "--command", json.dumps(command))
    first = [
        _program("machine", "what this machine is", 90, (), *asked, *plan.pick((), _REHEARSE)),
        _program("media", "synthetic media", 120, (), str(plan.media), *plan.pick((), _SMALL)),
    ]
    parts = (_tests, _runs, _benches, _loading, _overlap, _live)
    steps = chain(first, *(part(plan) for part in parts))
    return tuple(replace(step, limit_seconds=patience * step.limit_seconds) for step in steps)


def _program(
    name: str, asks: str, limit: float, needs: tuple[Need, ...], *words: str, module: str = ""
) -> Step:
    """Return a step that runs a program of this folder, by default the one of its name."""
    return Step(
        name=name,
        asks=asks,
        arguments=("-m", f"benchmarks.gpu_check.{module or name}", *words),
        limit_seconds=limit,
        read=readings.report,
        needs=needs,
    )


def _tests(plan: Plan) -> Iterator[Step]:
    """Yield the tests of a GPU in two halves, with nothing between."""
    halves: tuple[tuple[str, str, str, tuple[Need, ...]], ...] = (
        ("gpu", "tests that name a GPU, but for those of NVDEC", "and not", ("a GPU",)),
        ("nvdec", "tests of NVDEC", "and", ("a GPU", "NVDEC")),
    )
    folder = ROOT / "tests"
    rehearsed = tuple(str(folder / name) for name in _TESTS_REHEARSED)
    for name, asks, word, needs in halves:
        junit = plan.out / f"tests-{name}.xml"
        words = f"({OF_A_GPU}) {word} ({OF_NVDEC})"
        yield Step(
            name=f"tests:{name}",
            asks=asks,
            arguments=(
                *("-m", "pytest", "-q", "-k", words, "-p", "no:cacheprovider"),
                *("--rootdir", str(ROOT), "--continue-on-collection-errors"),
                *("--junit-xml", str(junit), *plan.pick((str(folder),), rehearsed)),
            ),
            limit_seconds=150,
            read=partial(readings.tests, junit=junit),
            needs=plan.pick(needs, ()),
            environment=plan.pick({"REQUIRE_GPU": "1"}, {}),
        )


def _runs(plan: Plan) -> Iterator[Step]:
    """Yield the flags of a run by pairs, the plain run on the CPU first."""
    for number, flags in enumerate(covering()):
        yield _run(plan, str(number) if flags else "plain", flags)
    for number, flags in enumerate(REFUSED, start=1):
        yield _run(plan, f"refused{number}", flags)


def _run(plan: Plan, name: str, flags: Combination) -> Step:
    out = plan.out / f"run-{name}"
    given = [flag for flag in FLAGS if flag in flags]
    is_refused = flags in REFUSED
    left_out = ON_GPU & flags if plan.is_rehearsal and not is_refused else frozenset()
    words = [word for flag in given if flag not in left_out for word in flag.split()]
    if "--split-point" in words:
        words.insert(words.index("--split-point") + 1, f"{plan.model}:{plan.layer}")
    plain = plan.out / "run-plain" if flags else None
    read = partial(readings.inference, out=out, plain=plain)
    if "--mode retrain" in flags:
        read = partial(readings.training, out=out)
    else:
        words.insert(0, "--no-video")
    needs = plan.needs if ON_GPU & flags and not is_refused else ()
    rehearsed = f", rehearsed without {', '.join(sorted(left_out))}" if left_out else ""
    return Step(
        name=f"run:{name}",
        asks=f"headrace run {' '.join(given) or 'as it is'}{rehearsed}",
        arguments=_run_arguments(plan, out, "8", "4", *words),
        limit_seconds=100,
        read=readings.refusal if is_refused else read,
        exit_status=2 if is_refused else 0,
        needs=(*needs, "NVDEC") if needs and BY_NVDEC in flags else needs,
    )


def _run_arguments(
    plan: Plan, out: Path, batch_size: str, max_steps: str, *words: str
) -> tuple[str, ...]:
    return (
        *("-m", "headrace", "run", str(media.clip_path(plan.media)), "--model-name", plan.model),
        *("--weights", "none", "--batch-size", batch_size, "--max-steps", max_steps),
        *("--out", str(out), "--json", *words),
    )


def _bench(
    plan: Plan, name: str, asks: str, limit: float, *options: str, needs: tuple[Need, ...] = ()
) -> Step:
    return Step(
        name=name,
        asks=asks,
        arguments=(
            *("-m", "headrace", "bench", name, *options),
            *("--out", str(plan.out / "bench"), "--json"),
        ),
        limit_seconds=limit,
        read=partial(readings.bench, name=name),
        needs=(*plan.needs, *needs),
    )


def _benches(plan: Plan) -> Iterator[Step]:
    """Yield the benchmarks on memory, decoding, transfers, preprocessing and random frames."""
    clip, pick = str(media.clip_path(plan.media)), plan.pick
    turns = ("--seconds", pick("1", "0.05"), "--repeats", pick("3", "1"))
    yield _bench(
        *(plan, "memory", "what memory batches take (D6)", 90),
        *(*plan.device, "--sizes", pick("360p,720p,1080p,4K", "360p"), "--model-name", plan.model),
        *("--batch-sizes", pick("1,4,16", "1"), "--precisions", pick("auto", "float32")),
    )
    asks = "decoders beside each other (A7)"
    yield _bench(plan, "decode", asks, 60, clip, needs=("bench decode",))
    asks = "bytes between CPU and GPU (C6)"
    yield _bench(plan, "transfer", asks, 60, clip, *turns, needs=("bench transfer",))
    yield _bench(
        *(plan, "preprocess", "preprocessing on CPU and GPU", 75, clip, *turns),
        *("--model-name", plan.model, "--batch-size", pick("4", "1")),
    )
    yield _bench(
        *(plan, "sampling", "random frames, decoded by the CPU", 60, plan.videos),
        *("--seconds", pick("2", "0.3"), "--repeats", "1", "--strategies", "look-ahead"),
        *("--batch-size", pick("128", "4"), "--size", *pick(("256", "256"), ("96", "96"))),
    )


def _loading(plan: Plan) -> Iterator[Step]:
    """Yield batches by NVDEC beside the CPU's, equal first."""
    frames = ("frames", plan.videos)
    library = ("--kept", "--pynvvideocodec")
    nvdec: tuple[Need, ...] = ("a GPU", "NVDEC")
    cameras = [
        (
            *(f"nvdec:{name}", f"camera streams of {name} by NVDEC", nvdec),
            ("cameras", str(media.index_path(plan.media, name)), "--kept"),
        )
        for name in media.CODECS
    ]
    together = "random frames by NVDEC and the CPU together, beside each alone"
    beside = "random frames by PyNvVideoCodec, beside NVDEC by FFmpeg"
    few = ("--batch-size", "4", "--batches", "3", "--repeats", "1", "--seconds", "0.3")
    there = plan.pick(_FIRST_GPU, (*few, "--size", "96", "160"))
    for name, asks, needs, words in (
        ("nvdec:frames", "random frames by NVDEC", nvdec, (*frames, "--kept")),
        ("pynvvideocodec:frames", beside, (*nvdec, "PyNvVideoCodec"), (*frames, *library)),
        ("auto:frames", together, nvdec, (*frames, "--auto")),
        *cameras,
    ):
        yield _program(name, asks, 75, plan.pick(needs, ()), *words, *there, module="loading")


def _overlap(plan: Plan) -> Iterator[Step]:
    """Yield traces that show whether copies to the GPU run beside its work."""
    yield _program(
        *("overlap:loader", "copies of a loader beside the work on the batch before, in a trace"),
        *(60, plan.needs),
        *(plan.videos, *plan.pick(_FIRST_GPU, ("--batches", "3"))),
        *("--out", str(plan.out / "overlap-loader.json.gz")),
        module="overlap",
    )
    out, batch_size, max_steps = plan.out / "run-traced", plan.pick("16", "8"), plan.pick("12", "3")
    words = ("--no-video", "--trace", *plan.device)
    yield Step(
        name="overlap:run",
        asks="copies of headrace run beside the model, in its trace",
        arguments=_run_arguments(plan, out, batch_size, max_steps, *words),
        limit_seconds=60,
        read=partial(readings.traced, out=out, copies=not plan.is_rehearsal),
        needs=plan.needs,
    )


def _live(plan: Plan) -> Iterator[Step]:
    yield _bench(
        *(plan, "live", "the highest live rate", 75, str(media.clip_path(plan.media))),
        *(*plan.device, "--model-name", plan.model, "--seconds", plan.pick("2", "1")),
        *("--steps", plan.pick("8", "1"), "--p95-ms", plan.pick("100", "1000")),
    )
