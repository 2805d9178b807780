"""Output of a plan for the console: the recommendation, the table, and how to read it."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from textwrap import wrap
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from headrace.measuring.interleaved import disturbance
from headrace.planner.decode_speed import SpillEstimate
from headrace.planner.plan_facts import loader_call, loader_name, proxy_command
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

_WIDTH: Final = 100
"""Width of the tables if the output is not a terminal."""
_READABLE: Final = 80
"""Width of sentences."""
_NAMED: Final = 20
"""Max paths in a printed command."""
Columns = tuple[Column[Strategy], ...]


def render_plan(plan: Plan, videos: Sequence[str]) -> str:
    """Return the videos, advice, strategies, statistics and explanations as text.

    Args:
        plan: The plan.
        videos: Files, folders and lists, as the user named them.
    """
    sections = (
        _setting_text(plan),
        _recommendation(plan),
        _next_steps(plan, videos),
        _skipped_videos(plan),
        [_table(plan, speed_columns(plan))],
        _describe_strategies(plan),
        _speed_legend(plan),
        _spill_text(plan),
        _proxies_text(plan),
        [_table(plan, noise_columns(plan))],
        _noise_legend(plan),
        _timing_text(plan),
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
    contents, config = plan.contents, plan.config
    yield (
        f"{counted(contents.videos, 'video')}, {count(contents.frames)} frames, "
        f"{counted(contents.gops, 'GOP')}; length of a frame's GOP: "
        f"{contents.gop_of_a_frame:.0f} on average, at most {contents.longest_gop}"
    )
    clips = "" if config.num_frames is None else f" of {counted(config.num_frames, 'frame')}"
    yield (
        f"Batches of {counted(config.samples_per_batch, config.noun)}{clips} "
        f"within {decimal(plan.memory_bytes / 2**20)} MiB"
    )


def _recommendation(plan: Plan) -> Iterator[str]:
    best = plan.recommendation
    verdict = "Recommended" if best.reaches_target else "Target not reached; nearest"
    yield f"{verdict}: {best.strategy.name}{', with frames on a disk' if plan.spills else ''}"
    yield f"  {loader_call(best.strategy, plan)}"
    yield from _wrap(_expected_rates(plan))
    yield from _wrap(best.why)
    if plan.config.spill is not None:
        yield from _wrap(_spill_verdict(plan))
    for sentence in disturbance(plan.others, plan.cores):
        yield from _wrap(sentence)
    if not plan.decoding.is_told_apart:
        yield from _wrap(
            "Warning: the costs of seeking, decoding and converting could not be separated, so "
            "expected frames/s are too high; plan again on an idle machine, or run the strategies "
            "with --measure"
        )


def _expected_rates(plan: Plan) -> str:
    """Return the expected rates of the recommended loader, and when the start is over."""
    row, spill = plan.recommendation.strategy, plan.spill
    if spill is not None and plan.spills:
        return _spill_rates(plan, spill)
    start = _start_of(row, plan)
    return (
        f"{decimal(plan.frames_per_second)} frames/s expected{start and ', '}{start}; "
        f"{decimal(row.first_epoch_frames_per_second)} on average in the first epoch"
    )


def _spill_rates(plan: Plan, spill: SpillEstimate) -> str:
    """Return the rates of frames on a disk; an epoch of clips does not read all frames."""
    if plan.config.num_frames is not None:
        return f"{decimal(spill.later_epochs)} frames/s expected once all frames are stored"
    return (
        f"{decimal(spill.later_epochs)} frames/s expected from the second epoch on; "
        f"{decimal(spill.first_epoch)} on average in the first epoch, slowest at its start"
    )


def _start_of(row: Strategy, plan: Plan) -> str:
    """Return after how many batches the lookahead of a strategy is full; empty: at once."""
    epoch = row.cost.first_epoch
    batches = ceil(row.lookahead / plan.config.frames_per_batch)
    if epoch is None or batches <= 1:
        return ""
    return (
        f"from about batch {count(batches)} (epoch {row.lookahead // epoch.frames + 1}), when the "
        f"lookahead of {count(row.lookahead)} frames is full"
    )


def _spill_verdict(plan: Plan) -> str:
    spill, name = plan.spill, f"spill={plan.config.spill!r}"
    if spill is None:
        return f"{name} is left out: no codec packs these frames losslessly"
    rates = (
        f"{decimal(spill.later_epochs)} instead of "
        f"{decimal(plan.recommendation.strategy.frames_per_second)} frames/s"
    )
    if plan.spills:
        return f"{name} is faster: {rates}"
    if not spill.fits:
        return f"{name} is left out: the disk has too little room for all frames"
    if spill.later_epochs > plan.frames_per_second:
        return f"{name} is left out: the target is reached without it"
    return f"{name} is left out; it would be slower: {rates}"


def _next_steps(plan: Plan, videos: Sequence[str]) -> Iterator[str]:
    """Yield what to do if training still waits for data."""
    proxies, spill, rate = plan.reencode, plan.spill, plan.frames_per_second
    height, width = plan.config.size
    is_faster = plan.config.spill is None and spill is not None and spill.later_epochs > rate
    pays = proxies.pays and proxies.after > rate
    is_enough = plan.config.target is not None and plan.recommendation.reaches_target
    if is_enough or not (pays or is_faster):
        return
    yield "If training still waits for data with it, then (estimated)"
    if spill is not None and is_faster:
        yield from _wrap(
            f"add spill='DIR', a folder on a local disk: {decimal(spill.later_epochs)} instead of "
            f"{decimal(rate)} frames/s once all frames are stored"
        )
    if not pays:
        return
    yield from _wrap(
        f"{'or ' if is_faster else ''}write proxies of {height}x{width}: {decimal(proxies.after)} "
        f"instead of {decimal(rate)} frames/s; {seconds(proxies.seconds)} to encode, so they pay "
        f"off after {proxies.epochs or 0:.1f} epochs; detail finer than {height}x{width} is lost"
    )
    is_long = len(videos) > _NAMED
    yield f"  {proxy_command(plan, ['VIDEOS'] if is_long else videos)}"
    if is_long:
        yield f"  VIDEOS stands for the {len(videos)} given paths"
    yield f'  {loader_name(plan)}(headrace.Proxies("proxies").all(videos), ...): same samples'


def _table(plan: Plan, columns: Columns) -> str:
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


def _speed_legend(plan: Plan) -> Iterator[str]:
    yield "Speed and memory"
    yield from _wrap(
        "frames/s expected: the rate if the loader is the bottleneck, once the lookahead is full "
        "(from about batch lookahead ÷ frames per batch); a mean over as many epochs as the "
        "lookahead spans, of which some decode more than others"
    )
    yield from _wrap(
        "first epoch: the mean rate from the first batch on, while the lookahead fills"
    )
    if any(not trial.is_filled for trial in plan.trials.values()):
        yield from _wrap(
            "*: measured before the lookahead was full, so not comparable with expected; the "
            "steady rate is higher: use a longer --measure-seconds"
        )
    yield "  decoded: frames decoded per frame delivered; 1 costs as much as reading in"
    yield "    order; below 1, frames are reused"
    yield "  memory: MiB of buffered frames and three batches, without the decoders"
    if plan.trials:
        yield "    measured is the maximum at any time, expected the mean"


def _noise_legend(plan: Plan) -> Iterator[str]:
    batch, noun = plan.config.samples_per_batch, plan.config.noun
    yield "Bias and noise of the gradient"
    yield "  bias: mean error of the gradient, in standard deviations σ of one frame's"
    yield f"  ESS batch: effective sample size of a batch of {batch}: number of independent"
    yield f"    {noun}s with an equally noisy gradient"
    yield "  ESS SGD: the same over consecutive steps, for step size x curvature"
    yield f"    a = {plan.noise.contraction:g}; above {batch} if no frame repeats within an epoch"
    yield "  ESS long-run: the same over many steps; worst case: directions of low curvature"
    if plan.config.num_frames is not None:
        return
    if plan.trials:
        yield "  measured: ESS from the frames of one GOP in the measured batches; -: too few"
        yield "    batches"
    yield f"  Assumed correlation of gradients in a burst: rho={plan.config.rho:g};"
    yield "    headrace.sampling.bias.burst_correlation measures it."
    yield f"    Features of 8 neighboring frames gave {DEFAULT_RHO:g} on real clips. Gradients"
    yield "    usually correlate less, which favors bursts"


def _timing_text(plan: Plan) -> Iterator[str]:
    decoding, speed, (height, width) = plan.decoding, plan.decoding.speed, plan.config.size
    yield (
        f"Times of this machine, from {counted(decoding.gops, 'GOP')} in "
        f"{seconds(decoding.seconds)} with {counted(speed.workers, 'thread')}"
    )
    times = {
        "seek": speed.seconds_per_seek,
        "decoded frame": speed.seconds_per_decoded,
        f"frame converted to {height}x{width}": speed.seconds_per_delivered,
        "frame written to a batch": speed.seconds_per_collated,
    }
    disposable = (
        f"; {percent(speed.droppable_share)} of frames are disposable: decoded only on request"
        if speed.droppable_share
        else ""
    )
    figures = (
        f"{milliseconds(1e3 * value) if value else 'not separated from the others'} per {what}"
        for what, value in times.items()
    )
    yield from _wrap(f"{', '.join(figures)}{disposable}")


def _spill_text(plan: Plan) -> Iterator[str]:
    spill = plan.spill
    if spill is None:
        return
    folder = "DIR" if plan.config.spill is None else plan.config.spill
    yield f"Frames stored on a local disk: spill={folder!r} (estimated)"
    yield from _wrap(
        f"about {megabytes(spill.disk_bytes)} for all frames, "
        f"{decimal(spill.bytes_per_frame / 1e3)} kB each, packed by {spill.codec}; every frame is "
        f"decoded once: {_spill_rates(plan, spill)}"
    )
    if spill.free_bytes is not None:
        room = "enough" if spill.fits else "too few; frames that do not fit are decoded every time"
        yield f"  {megabytes(spill.free_bytes)} are free there: {room}"


def _proxies_text(plan: Plan) -> Iterator[str]:
    proxies = plan.reencode
    height, width = plan.config.size
    yield f"Proxies of {height}x{width} with GOPs of {proxies.gop} " + (
        "would pay off (estimated)" if proxies.pays else "would not pay off"
    )
    if not proxies.pays:
        yield from _wrap(proxies.why_not)
        return
    yield from _wrap(
        f"about {megabytes(proxies.disk_bytes)} on disk and {seconds(proxies.seconds)} to encode; "
        f"decoded per frame delivered {decimal(proxies.amplification_before)} -> "
        f"{decimal(proxies.amplification_after)} by look-ahead; {decimal(proxies.before)} -> "
        f"{decimal(proxies.after)} frames/s"
    )


def speed_columns(plan: Plan) -> Columns:
    """Return the columns of speed and memory: expected figures, with trials also measured ones."""
    measured = _measured(plan)
    return (
        _name_column(plan),
        Column("frames/s\nexpected", _if_feasible(lambda row: decimal(row.frames_per_second))),
        Column(
            "frames/s\n1st epoch",
            _if_feasible(lambda row: decimal(row.first_epoch_frames_per_second)),
        ),
        *measured(
            "frames/s\nmeasured", lambda trial: _star_unfilled(trial.frames_per_second, trial)
        ),
        Column("decoded\nexpected", _if_feasible(lambda row: decimal(row.amplification))),
        *measured("decoded\nmeasured", lambda trial: _star_unfilled(trial.amplification, trial)),
        Column("memory\nexpected", _if_feasible(lambda row: decimal(row.memory_bytes / 2**20))),
        *measured("memory\nmeasured", lambda trial: decimal(trial.memory_bytes / 2**20)),
    )


def noise_columns(plan: Plan) -> Columns:
    """Return the columns of bias and noise: expected figures, with trials also measured ones."""
    batch, measured = plan.config.samples_per_batch, _measured(plan)

    def ess(head: str, variance: Callable[[Strategy], float]) -> Column[Strategy]:
        return Column(head, lambda row: f"{batch / variance(row):,.0f}" if row.is_sound else "-")

    return (
        _name_column(plan),
        Column("bias", _if_feasible(_bias)),
        ess("ESS\nbatch", lambda row: row.design_effect),
        *measured("batch\nmeasured", lambda trial: _ess(batch, trial.design_effect)),
        ess("ESS\nSGD", lambda row: row.inflation_at),
        ess("ESS\nlong-run", lambda row: row.inflation),
        *measured("long-run\nmeasured", lambda trial: _ess(batch, trial.inflation)),
    )


def _name_column(plan: Plan) -> Column[Strategy]:
    return Column("   strategy", lambda row: f"{_mark(row, plan)}{row.name}")


def _measured(plan: Plan) -> Callable[[str, Callable[[PlanProbe], str]], Columns]:
    """Return a function: header, cell of a trial → its column, if there are trials."""

    def measured(head: str, cell: Callable[[PlanProbe], str]) -> Columns:
        def of(row: Strategy) -> str:
            return cell(plan.trials[row.name]) if row.name in plan.trials else "-"

        return (Column(head, _if_feasible(of)),) if plan.trials else ()

    return measured


def _if_feasible(cell: Callable[[Strategy], str]) -> Callable[[Strategy], str]:
    return lambda row: cell(row) if row.is_feasible else "-"


def _mark(row: Strategy, plan: Plan) -> str:
    if row is plan.recommendation.strategy:
        return "=> "
    return "   " if row.is_sound else "!  "


def _bias(row: Strategy) -> str:
    return f"≤ {row.bias_bound:.1f} σ" if row.bias_bound else "none"


def _star_unfilled(figure: float, trial: PlanProbe) -> str:
    """Return a figure, with a star if the lookahead was not full."""
    return decimal(figure) + ("" if trial.is_filled else "*")


def _ess(batch_size: int, variance: float | None) -> str:
    """Return the effective sample size of a batch, in frames; `-`: unknown."""
    return "-" if variance is None else f"{batch_size / max(variance, 0.01):,.0f}"
