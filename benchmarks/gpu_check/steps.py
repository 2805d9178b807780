"""Steps of the check, in order, with command, time limit and requirements."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu_check import media, readings
from benchmarks.gpu_check.step import Need, Step
from benchmarks.worker import ROOT

RUNS: Final = (
    (),
    ("--decode cuda", "--prep-on-gpu", "--infer-on-gpu", "--enable-compile", "--use-amp"),
    ("--decode cuda", "--prep-on-gpu", "--split-point"),
    ("--infer-on-gpu", "--enable-compile", "--mode retrain"),
    ("--infer-on-gpu", "--use-amp", "--split-point"),
    ("--use-amp", "--mode retrain"),
    ("--decode cuda", "--enable-compile"),
    ("--prep-on-gpu",),
)
"""Flags of each run. The runs cover, for every two flags, each allowed combination: both, one, the
other, neither. --split-point takes a layer."""
REFUSED: Final = (
    ("--enable-compile", "--split-point"),
    ("--prep-on-gpu", "--mode retrain"),
    ("--split-point", "--mode retrain"),
    ("--decode cuda", "--mode retrain"),
)
"""Incompatible flags, which are refused at once."""
ON_GPU: Final = frozenset({"--decode cuda", "--prep-on-gpu", "--infer-on-gpu"})
BY_NVDEC: Final = "--decode cuda"
"""Flag that needs NVDEC in addition to a GPU."""
ALWAYS: Final = ("machine", "media")
"""Steps that --only always includes, because the others need them."""
OF_A_GPU: Final = "gpu or two_devices or not_wait_for_the_model"
"""Value of pytest's -k for tests that need a GPU."""
OF_NVDEC: Final = "gpu_frames or from_the_gpu or of_the_gpu or nvdec or device_decoder"
"""Value of pytest's -k for tests that need NVDEC."""
_PATIENCE: Final = 4
"""Factor of time limits in a rehearsal; the limits are for a GPU machine with many cores."""
_TESTS_REHEARSED: Final = (
    *("models/test_model.py", "decode/test_decoder_config.py", "decode/test_device_decoder.py"),
    *("loaders/test_decoding_choice.py", "preprocess/test_levels.py"),
)
_SCALES: Final = {
    "model": ("resnet18", "squeezenet1_1"),
    "layer": ("layer2", "features.5"),
    "device": ("--device cuda", ""),
    "sizes": ("360p,720p,1080p,4K", "360p"),
    "batch_sizes": ("1,4,16", "1"),
    "precisions": ("auto", "float32"),
    "turns": ("--seconds 1 --repeats 3", "--seconds 0.05 --repeats 1"),
    "few": ("4", "1"),
    "sampled": (
        "--seconds 2 --batch-size 128 --size 256x256",
        "--seconds 0.3 --batch-size 4 --size 96x96",
    ),
    "loaded": ("--gpu 0", "--batch-size 4 --batches 3 --repeats 1 --seconds 0.3 --size 96 160"),
    "traced": ("--gpu 0", "--batches 3"),
    "run": ("--batch-size 16 --max-steps 12", "--batch-size 8 --max-steps 3"),
    "live": ("--seconds 2 --steps 8 --p95-ms 100", "--seconds 1 --steps 1 --p95-ms 1000"),
    "rehearse": ("", "--rehearse"),
    "small": ("", "--small"),
}
"""Placeholder in a command → its value, and its value in a rehearsal on the CPU.

Models have random weights; the values do not affect the time.
"""
_GPU: Final[tuple[Need, ...]] = ("a GPU",)
_NVDEC: Final[tuple[Need, ...]] = ("a GPU", "NVDEC")
_STEPS: Final[tuple[tuple[str, str, float, tuple[Need, ...], str], ...]] = (
    (
        *("memory", "GPU memory by batch size (D6)", 90, _GPU),
        "bench memory {device} --sizes {sizes} --model-name {model} --batch-sizes {batch_sizes} "
        "--precisions {precisions}",
    ),
    ("decode", "comparison of decoders (A7)", 60, _GPU, "bench decode {clip}"),
    ("transfer", "transfers between CPU and GPU (C6)", 60, _GPU, "bench transfer {clip} {turns}"),
    (
        *("preprocess", "preprocessing on CPU and GPU", 75, _GPU),
        "bench preprocess {clip} {turns} --model-name {model} --batch-size {few}",
    ),
    (
        *("sampling", "random frames, decoded by the CPU", 60, _GPU),
        "bench sampling {videos} --repeats 1 --strategies look-ahead {sampled}",
    ),
    (
        *("nvdec:frames", "random frames by NVDEC", 75, _NVDEC),
        "loading frames {videos} --kept {loaded}",
    ),
    (
        *("pynvvideocodec:frames", "random frames by PyNvVideoCodec, and by FFmpeg's NVDEC"),
        *(75, (*_NVDEC, "PyNvVideoCodec")),
        "loading frames {videos} --kept --pynvvideocodec {loaded}",
    ),
    (
        *("auto:frames", "random frames by NVDEC and the CPU together, and by each alone"),
        *(75, _NVDEC, "loading frames {videos} --auto {loaded}"),
    ),
    *(
        (
            *(f"nvdec:{name}", f"camera streams of {name} by NVDEC", 75, _NVDEC),
            f"loading cameras {{{name}}} --kept {{loaded}}",
        )
        for name in media.CODECS
    ),
    (
        *("overlap:loader", "overlap of a loader's copies with work on the GPU, in a trace"),
        *(60, _GPU, "overlap {videos} {traced} --out {out}/overlap-loader.json.gz"),
    ),
    (
        *(
            "overlap:run",
            "overlap of a run's copies with its model, in its trace",
            60,
            _GPU,
        ),
        "run {clip} --model-name {model} --weights none {run} --out {out}/run-traced --json "
        "--no-video --trace {device}",
    ),
    (
        *("live", "highest live rate", 75, _GPU),
        "bench live {clip} {device} --model-name {model} {live}",
    ),
)
"""Name, subject, time limit in seconds, requirements, and a command of headrace or this folder."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of the check."""

    out: Path
    """Output folder."""
    is_rehearsal: bool = False
    """Whether to run on the CPU with small settings."""

    def words(self, command: str) -> list[str]:
        """Return the words of a command with replaced placeholders; a path is one word."""
        folder = self.out / ("media-small" if self.is_rehearsal else "media")
        paths = {
            "out": self.out,
            "media": folder,
            "clip": media.clip_path(folder),
            "videos": folder / "h264" / "videos",
            **{name: media.index_path(folder, name) for name in media.CODECS},
        }
        scales = {name: both[self.is_rehearsal] for name, both in _SCALES.items()}
        text = command.format(**scales, **{name: f"{{{name}}}" for name in paths})
        return [word.format(**paths) for word in text.split()]

    def step(
        self, name: str, asks: str, limit: float, needs: tuple[Need, ...], command: str, **more: Any
    ) -> Step:
        """Return a step that runs a headrace command or a program of this folder."""
        program, *words = self.words(command)
        arguments, read = ["-m", f"benchmarks.gpu_check.{program}", *words], readings.report
        if program in ("bench", "run"):
            arguments = ["-m", "headrace", program, *words]
        if program == "bench":
            arguments += ["--out", str(self.out / "bench"), "--json"]
            read = partial(readings.bench, name=words[0])
        if name == "overlap:run":
            out, copies = self.out / "run-traced", not self.is_rehearsal
            read = partial(readings.traced, out=out, copies=copies)
        about: dict[str, Any] = {"arguments": tuple(arguments), "read": read, **more}
        return self.fitted(Step(name=name, asks=asks, limit_seconds=limit, needs=needs, **about))

    def fitted(self, step: Step) -> Step:
        """Return the step for this plan; in a rehearsal, it needs no GPU and has more time."""
        if not self.is_rehearsal:
            return step
        return replace(step, needs=(), limit_seconds=_PATIENCE * step.limit_seconds)


def steps_of(plan: Plan, configuration: dict[str, object], command: list[str]) -> tuple[Step, ...]:
    """Return all steps; the first, the machine's, records the options of the check."""
    machine = plan.step("machine", "description of this machine", 90, (), "machine {rehearse}")
    options = ("--parameters", json.dumps(configuration), "--command", json.dumps(command))
    return (
        replace(machine, arguments=(*machine.arguments, *options)),
        plan.step("media", "synthetic media", 120, (), "media {media} {small}"),
        *_tests(plan),
        *(_run(plan, str(n) if flags else "plain", flags) for n, flags in enumerate(RUNS)),
        *(_run(plan, f"refused{n}", flags) for n, flags in enumerate(REFUSED, start=1)),
        *(plan.step(*about) for about in _STEPS),
    )


def _tests(plan: Plan) -> Iterator[Step]:
    """Yield the GPU tests in two halves."""
    halves: tuple[tuple[str, str, str, tuple[Need, ...]], ...] = (
        ("gpu", "GPU tests, except NVDEC", "and not", _GPU),
        ("nvdec", "NVDEC tests", "and", _NVDEC),
    )
    folder = ROOT / "tests"
    rehearsed = [str(folder / name) for name in _TESTS_REHEARSED]
    for name, asks, word, needs in halves:
        junit = plan.out / f"tests-{name}.xml"
        step = Step(
            name=f"tests:{name}",
            asks=asks,
            arguments=(
                *("-m", "pytest", "-q", "-k", f"({OF_A_GPU}) {word} ({OF_NVDEC})"),
                *("-p", "no:cacheprovider", "--rootdir", str(ROOT)),
                *("--continue-on-collection-errors", "--junit-xml", str(junit)),
                *(rehearsed if plan.is_rehearsal else [str(folder)]),
            ),
            limit_seconds=150,
            read=partial(readings.tests, junit=junit),
            needs=needs,
            environment={} if plan.is_rehearsal else {"REQUIRE_GPU": "1"},
        )
        yield plan.fitted(step)


def _run(plan: Plan, name: str, flags: tuple[str, ...]) -> Step:
    out = plan.out / f"run-{name}"
    is_refused, of_gpu = flags in REFUSED, ON_GPU & {*flags}
    left_out = of_gpu if plan.is_rehearsal and not is_refused else frozenset()
    words = " ".join(flag for flag in flags if flag not in left_out)
    words = words.replace("--split-point", "--split-point {model}:{layer}")
    read = partial(readings.inference, out=out, plain=plan.out / "run-plain" if flags else None)
    if "--mode retrain" in flags:
        read = partial(readings.training, out=out)
    else:
        words = f"--no-video {words}"
    needs = _NVDEC if BY_NVDEC in flags else _GPU
    rehearsed = f", rehearsed without {', '.join(sorted(left_out))}" if left_out else ""
    return plan.step(
        f"run:{name}",
        f"headrace run {' '.join(flags) or 'without flags'}{rehearsed}",
        100,
        needs if of_gpu and not is_refused else (),
        "run {clip} --model-name {model} --weights none --batch-size 8 --max-steps 4 "
        f"--out {{out}}/{out.name} --json {words}",
        read=readings.refusal if is_refused else read,
        exit_status=2 if is_refused else 0,
    )
