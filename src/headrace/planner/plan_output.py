"""Output of a plan: table and text for the console, values for JSON."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields, is_dataclass
from textwrap import wrap
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from headrace.measuring.interleaved import disturbance
from headrace.planner.planner import Plan
from headrace.planner.strategy_cost import PlanProbe
from headrace.profiling.number_format import (
    count,
    counted,
    decimal,
    megabytes,
    milliseconds,
    percent,
    seconds,
)
from headrace.report.benchmark_page import Column, table
from headrace.sampling.bias import DEFAULT_RHO
from headrace.sampling.strategies import Strategy

_WIDTH: Final = 132
"""Width of the table if the output is not a terminal."""
_READABLE: Final = 80
"""Width of sentences."""
_NAMED: Final = 20
"""Max paths in a printed command."""
_ROW_FACTS: Final = (
    *("memory_bytes", "bias_bound", "design_effect", "autocorrelation", "inflation"),
    *("inflation_at", "words", "why_not"),
)
"""Last fields of a strategy in JSON."""
Columns = tuple[Column[Strategy], ...]


def render_plan(plan: Plan, videos: Sequence[str]) -> str:
    """Return the videos, strategies, advice and explanations as text.

    Args:
        plan: The plan.
        videos: Files, folders and lists, as the user named them.
    """
    sections = (
        _setting_text(plan),
        [_table(plan)],
        _describe_strategies(plan),
        _legend(plan),
        _spill_text(plan),
        _proxies_text(plan, videos),
        _skipped_videos(plan),
        _recommendation(plan),
    )
    return "\n\n".join(filter(None, map("\n".join, sections)))


def _skipped_videos(plan: Plan) -> Iterator[str]:
    left_out = plan.contents.left_out
    if left_out:
        are = "is" if len(left_out) == 1 else "are"
        yield f"Warning: {counted(len(left_out), 'video')} cannot be read and {are} skipped"
        yield from (f"  {error}" for error in left_out[:5])
        if len(left_out) > 5:
            yield f"  and {len(left_out) - 5} more; `headrace index` lists them all"


def _setting_text(plan: Plan) -> Iterator[str]:
    contents, decoding, config = plan.contents, plan.decoding, plan.config
    speed, (height, width) = decoding.speed, config.size
    yield (
        f"{counted(contents.videos, 'video')}, {count(contents.frames)} frames, "
        f"{counted(contents.gops, 'GOP')}; length of a frame's GOP: "
        f"{contents.gop_of_a_frame:.0f} on average, at most {contents.longest_gop}"
    )
    yield (
        f"Decoding, timed on {counted(decoding.gops, 'GOP')} for {seconds(decoding.seconds)} "
        f"with {counted(speed.workers, 'thread')}: "
        f"{milliseconds(1e3 * speed.seconds_per_seek)} per seek,"
    )
    disposable = (
        f"; {percent(speed.droppable_share)} of frames are disposable: decoded only on request"
        if speed.droppable_share
        else ""
    )
    yield (
        f"  {milliseconds(1e3 * speed.seconds_per_decoded)} per decoded frame, "
        f"{milliseconds(1e3 * speed.seconds_per_delivered)} to convert a frame to "
        f"{height}x{width}{disposable}"
    )
    batches = f"Batches of {counted(config.samples_per_batch, config.noun)}"
    memory = f"within {decimal(plan.memory_bytes / 2**20)} MiB"
    if config.num_frames is None:
        yield f"{batches} {memory}; assumed correlation of gradients in a burst: rho={config.rho:g}"
    else:
        yield f"{batches} of {counted(config.num_frames, 'frame')} {memory}"


def _table(plan: Plan) -> str:
    columns = columns_of(plan)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(width=_WIDTH, highlight=False, markup=False, emoji=False)
    grid = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        is_name = column is columns[0]
        grid.add_column(column.header, no_wrap=is_name, justify="left" if is_name else "right")
    for row, cells in zip(plan.strategies, table(columns, plan.strategies, "").rows, strict=True):
        is_best = row is plan.recommendation.strategy
        style = "bold" if is_best else ("" if row.is_sound else "dim")
        grid.add_row(*map(Text, cells), style=style)
    with console.capture() as captured:
        console.print(grid)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def _recommendation(plan: Plan) -> Iterator[str]:
    best = plan.recommendation
    verdict = "Recommended" if best.reaches_target else "Target not reached; nearest"
    yield f"{verdict}: {best.strategy.name}"
    yield from _wrap(best.why)
    for sentence in disturbance(plan.others, plan.cores):
        yield from _wrap(sentence)
    if not plan.decoding.is_told_apart:
        yield from _wrap(
            "Warning: the costs of seeking and decoding could not be separated, so expected "
            "frames/s are too high; plan again on an idle machine, or run the strategies with "
            "--measure"
        )
    yield f"  {loader_call(best.strategy, plan)}"


def _wrap(sentence: str) -> list[str]:
    return wrap(
        sentence, _READABLE, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


def _describe_strategies(plan: Plan) -> Iterator[str]:
    yield "Strategies"
    for row in plan.strategies:
        yield from _wrap(f"{row.name}: {row.words}")
        if row.why_not:
            yield f"    not possible here: {row.why_not}"


def _legend(plan: Plan) -> Iterator[str]:
    batch, noun = plan.config.samples_per_batch, plan.config.noun
    yield "How to read it"
    yield "  frames/s: the rate if decoding is the bottleneck, after the window has filled"
    if any(not trial.is_filled for trial in plan.trials.values()):
        yield "  *: measured before the window had filled; the steady rate is higher"
    yield "  decoded/frame: 1 costs as much as reading in order; below 1, frames are reused"
    yield "  memory: buffered frames and three batches, without the decoders of the threads"
    if plan.trials:
        yield "    measured is the maximum at any time, expected the mean"
    yield "  bias: mean error of the gradient, in standard deviations of one frame's gradient"
    yield f"  ESS batch: effective sample size of a batch of {batch}: number of independent"
    yield f"    {noun}s with an equally noisy gradient"
    yield "  ESS SGD: the same over consecutive steps, for step size x curvature"
    yield f"    a = {plan.noise.contraction:g}; above {batch} if no frame repeats within an epoch"
    yield "  ESS long-run: the same over many steps; worst case: directions of low curvature"
    if plan.config.num_frames is not None:
        return
    if plan.trials:
        yield "  batch and long-run, measured: ESS from the frames of one GOP in the measured"
        yield "    batches; -: too few batches"
    yield "  rho: assumed; headrace.sampling.bias.burst_correlation measures it."
    yield f"    Features of 8 neighbouring frames gave {DEFAULT_RHO:g} on real clips. Gradients"
    yield "    usually correlate less, which favors bursts (docs/explanation/sampling.md)"


def _spill_text(plan: Plan) -> Iterator[str]:
    spill = plan.spill
    if spill is None:
        return
    folder = "DIR" if plan.config.spill is None else plan.config.spill
    yield f"Frames stored on a local disk: spill={folder!r} (estimated)"
    yield from _wrap(
        f"about {megabytes(spill.disk_bytes)} for all frames, "
        f"{decimal(spill.bytes_per_frame / 1e3)} kB each, packed by {spill.codec}; every frame is "
        f"decoded once: {decimal(spill.first_epoch)} frames/s on average in the first epoch, "
        f"slowest at its start; {decimal(spill.later_epochs)} frames/s from the second epoch on"
    )
    if spill.free_bytes is not None:
        room = "enough" if spill.fits else "too few; frames that do not fit are decoded every time"
        yield f"  {megabytes(spill.free_bytes)} are free there: {room}"


def _proxies_text(plan: Plan, videos: Sequence[str]) -> Iterator[str]:
    proxies = plan.reencode
    height, width = plan.config.size
    yield f"Proxies of {height}x{width} with GOPs of {proxies.gop} " + (
        "would pay off (estimated)" if proxies.pays else "would not pay off"
    )
    if not proxies.pays:
        yield f"  {proxies.why_not}"
        return
    yield from _wrap(
        f"about {megabytes(proxies.disk_bytes)} on disk and {seconds(proxies.seconds)} to encode; "
        f"decoded per frame {decimal(proxies.amplification_before)} -> "
        f"{decimal(proxies.amplification_after)}, look-ahead {decimal(proxies.before)} -> "
        f"{decimal(proxies.after)} frames/s; they pay off after {proxies.epochs or 0:.1f} epochs; "
        f"detail finer than {height}x{width} is lost"
    )
    is_long = len(videos) > _NAMED
    command = proxy_command(plan, ["VIDEOS"] if is_long else videos)
    yield f"  {command}"
    if is_long:
        yield f"  VIDEOS stands for the {len(videos)} given paths"
    yield f'  then {_loader(plan)}(headrace.Proxies("proxies").all(videos), ...): same samples'


def columns_of(plan: Plan) -> Columns:
    """Return the columns, predicted figures and with trials also measured ones."""
    batch = plan.config.samples_per_batch

    def measured(head: str, cell: Callable[[PlanProbe], str]) -> Columns:
        def of(row: Strategy) -> str:
            return cell(plan.trials[row.name]) if row.name in plan.trials else "-"

        return (Column(head, _if_feasible(of)),) if plan.trials else ()

    def ess(head: str, variance: Callable[[Strategy], float]) -> Column[Strategy]:
        return Column(head, lambda row: f"{batch / variance(row):,.0f}" if row.is_sound else "-")

    return (
        Column("   strategy", lambda row: f"{_mark(row, plan)}{row.name}"),
        Column("frames/s\nexpected", _if_feasible(lambda row: decimal(row.frames_per_second))),
        Column("decoded\n/frame", _if_feasible(lambda row: decimal(row.amplification))),
        *measured(
            "frames/s\nmeasured", lambda trial: _star_unfilled(trial.frames_per_second, trial)
        ),
        *measured("decoded\nmeasured", lambda trial: _star_unfilled(trial.amplification, trial)),
        Column("memory\nMiB", _if_feasible(lambda row: decimal(row.memory_bytes / 2**20))),
        *measured("max\nmeasured", lambda trial: decimal(trial.memory_bytes / 2**20)),
        Column("bias", _if_feasible(_bias)),
        ess("ESS\nbatch", lambda row: row.design_effect),
        ess("ESS\nSGD", lambda row: row.inflation_at),
        ess("ESS\nlong-run", lambda row: row.inflation),
        *measured("batch\nmeasured", lambda trial: _ess(batch, trial.design_effect)),
        *measured("long-run\nmeasured", lambda trial: _ess(batch, trial.inflation)),
    )


def _if_feasible(cell: Callable[[Strategy], str]) -> Callable[[Strategy], str]:
    return lambda row: cell(row) if row.is_feasible else "-"


def _mark(row: Strategy, plan: Plan) -> str:
    if row is plan.recommendation.strategy:
        return "=> "
    return "   " if row.is_sound else "!  "


def _bias(row: Strategy) -> str:
    return f"≤ {row.bias_bound:.1f} σ" if row.bias_bound else "none"


def _star_unfilled(figure: float, trial: PlanProbe) -> str:
    """Return a figure, with a star if the window was still filling."""
    return decimal(figure) + ("" if trial.is_filled else "*")


def _ess(batch_size: int, variance: float | None) -> str:
    """Return the effective sample size of a batch, in frames; `-`: unknown."""
    return "-" if variance is None else f"{batch_size / max(variance, 0.01):,.0f}"


def plan_facts(plan: Plan, videos: Sequence[str]) -> dict[str, Any]:
    """Return a plan as JSON-compatible values; `videos` as the user named them."""
    contents = asdict(plan.contents)
    contents["left_out"] = [
        {"source": error.source, "error": str(error)} for error in plan.contents.left_out
    ]
    best = plan.recommendation
    return {
        "config": {**asdict(plan.config), "batch_size": plan.config.samples_per_batch},
        "noise": asdict(plan.noise),
        "contents": contents,
        "decoding": {**asdict(plan.decoding), "is_told_apart": plan.decoding.is_told_apart},
        "strategies": [
            {
                **_row_facts(row),
                "is_recommended": row is best.strategy,
                "measured": asdict(plan.trials[row.name]) if row.name in plan.trials else None,
            }
            for row in plan.strategies
        ],
        "recommendation": {
            "name": best.strategy.name,
            "reaches_target": best.reaches_target,
            "why": best.why,
            "loader": loader_call(best.strategy, plan),
        },
        "spill": plan.spill and {**asdict(plan.spill), "fits": plan.spill.fits},
        "reencode": {**asdict(plan.reencode), "command": proxy_command(plan, videos)},
    }


def _row_facts(row: Strategy) -> dict[str, Any]:
    return {
        "name": row.name,
        "sampling": None if row.sampler is None else repr(row.sampler),
        "lookahead": row.lookahead,
        "frames_per_second": row.frames_per_second,
        "amplification": row.amplification,
        "seeks": row.cost.seeks,
        **{name: getattr(row, name) for name in _ROW_FACTS},
    }


def loader_call(row: Strategy, plan: Plan) -> str:
    """Return the loader call for a strategy."""
    config = plan.config
    is_default = row.lookahead in (row.budget.lookahead, row.budget.lookahead_once)
    lookahead = "" if is_default else f", lookahead={row.lookahead}"
    argument = "sampling" if config.num_frames is None else "clips"
    spill = "" if config.spill is None else f", spill={config.spill!r}"
    return (
        f"{_loader(plan)}(videos, batch_size={config.samples_per_batch}, size={config.size}, "
        f"{argument}={_sampler_call(row.sampler)}, memory_budget={config.memory_budget!r}"
        f"{lookahead}{spill})"
    )


def _loader(plan: Plan) -> str:
    return "FrameLoader" if plan.config.num_frames is None else "ClipLoader"


def _sampler_call(sampler: object) -> str:
    """Return the sampler call, without default arguments."""
    assert is_dataclass(sampler)
    values = [(field, getattr(sampler, field.name)) for field in fields(sampler)]
    changed = {field.name: value for field, value in values if value != field.default}
    if "fps" in changed:
        changed["fps"] = str(changed["fps"])
    arguments = ", ".join(f"{name}={value!r}" for name, value in changed.items())
    return f"{type(sampler).__name__}({arguments})"


def proxy_command(plan: Plan, videos: Sequence[str]) -> str:
    """Return the command that creates the proxies of a plan.

    Args:
        plan: The plan.
        videos: Files, folders and lists, as the user named them.
    """
    size = "x".join(str(side + side % 2) for side in plan.config.size)
    paths = [f"./{video}" if video.startswith("-") else video for video in videos]
    options = ("-o", "proxies", "--size", size, "--gop", str(plan.reencode.gop))
    return shlex.join(["headrace", "proxy", *paths, *options])
