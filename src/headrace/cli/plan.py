"""`headrace plan`: which way to draw training batches from these videos, and what it costs."""

import json as json_format
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.progress import progress
from headrace.sampling.rho import TAKEN_RHO

if TYPE_CHECKING:
    from headrace.experiments.plan import Plan
    from headrace.experiments.trial import Trial
    from headrace.sampling.strategies import Strategy

_WIDTH = 132
"""Columns, where the output is no terminal."""


def plan(
    videos: Annotated[list[Path], typer.Argument(help="Video files, or folders of them.")],
    batch_size: Annotated[int, typer.Option(min=1, help="Frames in a batch.")] = 128,
    memory: Annotated[
        str, typer.Option(help="For frames that wait, and three batches; like 256MiB or 1GiB.")
    ] = "1GiB",
    size: Annotated[
        tuple[int, int], typer.Option(min=1, metavar="H W", help="Height and width of the frames.")
    ] = (256, 256),
    target_fps: Annotated[
        float | None, typer.Option(min=1, help="Frames per second that the model takes.")
    ] = None,
    rho: Annotated[
        float,
        typer.Option(min=0, max=1, help="Correlation of the gradients of two frames of a burst."),
    ] = TAKEN_RHO,
    burst: Annotated[
        int | None, typer.Option(min=2, help="Frames in a burst; chosen if it is not given.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run each strategy too, beside its prediction.")
    ] = False,
    measure_seconds: Annotated[
        float,
        typer.Option(min=0.1, help="How long; filling the window may take six times that first."),
    ] = 10.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare ways to draw random frames: speed, memory, bias and noise; recommend one."""
    from headrace.experiments.plan import PlanConfig
    from headrace.experiments.plan import plan as make_plan
    from headrace.video.manifest import find_videos
    from headrace.video.source import Source

    config = PlanConfig(
        batch_size=batch_size,
        memory_budget=memory,
        size=size,
        target=target_fps,
        rho=rho,
        frames_per_burst=burst,
        trial_seconds=measure_seconds if measure else None,
    )
    sources = [Source(file) for file in find_videos(videos)]
    with progress(is_quiet=json) as on_progress:
        made = make_plan(sources, config, on_progress=on_progress)
    print(json_format.dumps(_facts(made), indent=1) if json else "\n".join(_page(made)))


def _page(made: "Plan") -> Iterator[str]:
    yield from _setting(made)
    yield ""
    yield _table(made)
    yield ""
    yield from _recommended(made)
    yield ""
    yield from _rows_in_words(made)
    yield ""
    yield from _how_to_read(made)
    yield ""
    yield from _copies(made)
    yield from _left_out(made)


def _left_out(made: "Plan") -> Iterator[str]:
    from headrace.report.numbers import counted

    left_out = made.contents.left_out
    if left_out:
        yield ""
        are = "is" if len(left_out) == 1 else "are"
        yield f"Warning: {counted(len(left_out), 'video')} cannot be read and {are} left out"
        yield from (f"  {error}" for error in left_out[:5])
        if len(left_out) > 5:
            yield f"  and {len(left_out) - 5} more; `headrace index` lists them all"


def _setting(made: "Plan") -> Iterator[str]:
    from headrace.report.numbers import count, counted, milliseconds, percent, seconds

    has, decoding, config = made.contents, made.decoding, made.config
    speed, (height, width) = decoding.speed, config.size
    yield (
        f"{counted(has.videos, 'video')}, {count(has.frames)} frames, {counted(has.gops, 'GOP')}: "
        f"a frame lies in a GOP of {has.gop_of_a_frame:.0f} on average, the longest has "
        f"{has.longest_gop}"
    )
    yield (
        f"Decoding, timed on {counted(decoding.gops, 'GOP')} of them in "
        f"{seconds(decoding.seconds)}, {counted(speed.workers, 'thread')} at a time: "
        f"{milliseconds(1e3 * speed.seconds_per_seek)} to enter a GOP,"
    )
    skipped = (
        f"; {percent(speed.droppable_share)} of frames are decoded only if asked for"
        if speed.droppable_share
        else ""
    )
    yield (
        f"  {milliseconds(1e3 * speed.seconds_per_decoded)} for each frame decoded, "
        f"{milliseconds(1e3 * speed.seconds_per_delivered)} to make one {height}x{width}{skipped}"
    )
    yield (
        f"For batches of {config.batch_size} in {_memory(made.memory_bytes)}; gradients of two "
        f"frames of a burst are taken to correlate by rho = {config.rho:g}"
    )


def _table(made: "Plan") -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(width=_WIDTH, highlight=False, markup=False, emoji=False)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("   strategy", no_wrap=True)
    for head in _heads(made):
        table.add_column(head, justify="right")
    for row in made.strategies:
        is_best = row is made.recommendation.strategy
        style = "bold" if is_best else ("" if row.is_sound else "dim")
        mark = "=> " if is_best else ("   " if row.is_sound else "!  ")
        cells = [f"{mark}{row.name}", *_cells(row, made)]
        table.add_row(*(Text(cell) for cell in cells), style=style)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def _heads(made: "Plan") -> list[str]:
    batch, measured = made.config.batch_size, bool(made.trials)
    return [
        *("frames/s\nexpected", "decoded\na frame"),
        *(("frames/s\nmeasured", "decoded\nmeasured") if measured else ()),
        "memory\nMiB",
        *(("most\nmeasured",) if measured else ()),
        *("bias", f"{batch} are\nworth", "with\nSGD", "over\nmany"),
        *((f"{batch}\nmeasured", "many\nmeasured") if measured else ()),
    ]


def _cells(row: "Strategy", made: "Plan") -> list[str]:
    from headrace.report.numbers import decimal

    if not row.is_feasible:
        return ["-"] * len(_heads(made))
    worth = ["-"] * 3
    if row.is_sound:
        inflations = (row.design_effect, row.inflation_at, row.inflation)
        worth = [f"{made.config.batch_size / each:,.0f}" for each in inflations]
    trial = made.trials.get(row.name)
    speed, memory, seen = _trial_cells(trial, made.config.batch_size) if made.trials else ([],) * 3
    return [
        decimal(row.frames_per_second),
        decimal(row.amplification),
        *speed,
        f"{row.memory_bytes / 2**20:,.0f}",
        *memory,
        f"≤ {row.bias_bound:.1f} σ" if row.bias_bound else "none",
        *worth,
        *seen,
    ]


def _trial_cells(trial: "Trial | None", batch_size: int) -> tuple[list[str], list[str], list[str]]:
    """What was measured of speed, of memory, and of what a batch is worth."""
    from headrace.report.numbers import decimal

    if trial is None:
        return ["-"] * 2, ["-"], ["-"] * 2
    mark = "" if trial.is_filled else "*"
    speed = [f"{decimal(trial.frames_per_second)}{mark}", f"{decimal(trial.amplification)}{mark}"]
    found = (trial.design_effect, trial.inflation)
    worth = ["-" if each is None else f"{batch_size / max(each, 0.01):,.0f}" for each in found]
    return speed, [f"{trial.memory_bytes / 2**20:,.0f}"], worth


def _recommended(made: "Plan") -> Iterator[str]:
    best = made.recommendation
    verdict = "Recommended" if best.reaches_target else "Out of reach; nearest"
    yield f"{verdict}: {best.strategy.name}"
    yield f"  {best.why}"
    yield f"  {_call(best.strategy, made)}"


def _rows_in_words(made: "Plan") -> Iterator[str]:
    yield "Strategies"
    for row in made.strategies:
        yield f"  {row.name}: {row.words}"
        if row.why_not:
            yield f"    not possible here: {row.why_not}"


def _how_to_read(made: "Plan") -> Iterator[str]:
    batch = made.config.batch_size
    yield "How to read it"
    yield "  frames/s: if nothing but decoding is slow, once the window is filled"
    if any(not trial.is_filled for trial in made.trials.values()):
        yield "  *: measured while the window was still filling, so it will be faster"
    yield "  decoded a frame: 1 is as cheap as reading in order; below 1, frames are used again"
    yield "  memory: frames that wait, and three batches; each thread's decoder comes on top"
    if made.trials:
        yield "    measured is the most of it at any time, expected the mean"
    yield "  bias: how far gradients are off on average, in standard deviations of one frame's"
    yield f"  {batch} are worth: a batch is as noisy a gradient as so many independent frames"
    yield "  with SGD: the same for steps taken together, where step size x curvature is"
    yield f"    a = {made.noise.contraction:g}; above {batch} where no frame comes twice an epoch"
    yield "  over many: the same over many steps, at worst: in directions that hardly curve"
    if made.trials:
        yield f"  {batch} and many, measured: the same of a batch and of many, by the frames of one"
        yield "    GOP that met in the batches that were run; - where these were too few to tell"
    yield "  rho: taken, not measured; `headrace.sampling.estimate.burst_correlation` measures it."
    yield f"    Features of 8 neighbouring frames gave {TAKEN_RHO:g} on real clips; gradients"
    yield "    usually correlate less, and then bursts are worth more (docs/sampling.md)"


def _copies(made: "Plan") -> Iterator[str]:
    from headrace.report.numbers import decimal, megabytes, seconds

    copies = made.reencode
    height, width = made.config.size
    yield f"Copies of {height}x{width} with GOPs of {copies.gop} " + (
        "would pay (estimated)" if copies.pays else "would not pay"
    )
    if not copies.pays:
        yield f"  {copies.why_not}"
        return
    yield (
        f"  about {megabytes(copies.disk_bytes)} on disk and {seconds(copies.seconds)} to make; "
        f"decoded per frame {decimal(copies.amplification_before)} -> "
        f"{decimal(copies.amplification_after)},"
    )
    yield (
        f"  look-ahead {decimal(copies.before)} -> {decimal(copies.after)} frames/s; earned back "
        f"after {copies.epochs or 0:.1f} epochs; what is finer than {height}x{width} is lost"
    )


def _call(row: "Strategy", made: "Plan") -> str:
    """The loader to write for a strategy."""
    from headrace.sampling.bursts import Bursts

    name, arguments = type(row.sampler).__name__, ""
    if isinstance(row.sampler, Bursts):
        arguments = f"frames_per_burst={row.sampler.frames_per_burst}, lanes={row.sampler.lanes}"
    is_default = row.lookahead in (row.budget.lookahead, row.budget.lookahead_once)
    lookahead = "" if is_default else f", lookahead={row.lookahead}"
    config = made.config
    return (
        f"FrameLoader(videos, batch_size={config.batch_size}, size={config.size}, "
        f"sampling={name}({arguments}), memory_budget={config.memory_budget!r}{lookahead})"
    )


def _memory(number: int) -> str:
    return f"{number / 2**20:,.0f} MiB"


def _facts(made: "Plan") -> dict[str, Any]:
    from dataclasses import asdict

    contents = asdict(made.contents)
    contents["left_out"] = [
        {"source": error.source, "error": str(error)} for error in made.contents.left_out
    ]
    best = made.recommendation
    return {
        "config": asdict(made.config),
        "noise": asdict(made.noise),
        "contents": contents,
        "decoding": asdict(made.decoding),
        "strategies": [
            {
                **_row_facts(row),
                "is_recommended": row is best.strategy,
                "measured": asdict(made.trials[row.name]) if row.name in made.trials else None,
            }
            for row in made.strategies
        ],
        "recommendation": {
            "name": best.strategy.name,
            "reaches_target": best.reaches_target,
            "why": best.why,
            "loader": _call(best.strategy, made),
        },
        "reencode": asdict(made.reencode),
    }


def _row_facts(row: "Strategy") -> dict[str, Any]:
    return {
        "name": row.name,
        "sampling": None if row.sampler is None else repr(row.sampler),
        "lookahead": row.lookahead,
        "frames_per_second": row.frames_per_second,
        "amplification": row.amplification,
        "seeks": row.cost.seeks,
        "memory_bytes": row.memory_bytes,
        "bias_bound": row.bias_bound,
        "design_effect": row.design_effect,
        "autocorrelation": row.autocorrelation,
        "inflation": row.inflation,
        "inflation_at": row.inflation_at,
        "words": row.words,
        "why_not": row.why_not,
    }
