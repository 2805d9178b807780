"""`headrace bench`: experiments on the user's own videos and machine."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from headrace.cli.progress import progress
from headrace.sampling.rho import TAKEN_RHO

if TYPE_CHECKING:
    from headrace.experiments.camera_rank import CameraWay
    from headrace.experiments.record import ExperimentRecord
    from headrace.report.experiment import Experiment

bench = typer.Typer(no_args_is_help=True, help="Measure on your own videos and machine.")


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError as error:
        raise typer.BadParameter(
            f"numbers with commas between them, got {text!r}", param_hint=option
        ) from error


@bench.command("workers")
def workers(
    videos: Annotated[list[Path], typer.Argument(help="Video files, or folders of them.")],
    numbers: Annotated[
        str, typer.Option("--workers", help="Values of num_workers; 0 is the process itself.")
    ] = "0,1,2,4,8",
    batch_size: Annotated[int, typer.Option(min=1, help="Clips in a batch.")] = 4,
    clip_len: Annotated[int, typer.Option(min=1, help="Frames in a clip.")] = 16,
    stride: Annotated[int, typer.Option(min=1, help="1 means consecutive frames.")] = 2,
    size: Annotated[
        tuple[int, int], typer.Option(min=1, metavar="H W", help="Height and width of the frames.")
    ] = (256, 256),
    boundary: Annotated[
        Literal["error", "repeat_last", "wrap"],
        typer.Option(help="What a video that is shorter than a clip does."),
    ] = "error",
    clips_per_video: Annotated[
        int | None,
        typer.Option(min=1, help="Clips of each video in an epoch; by default 4 batches a worker."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Epochs for each number of workers.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("headrace_bench"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON, nothing else.")] = False,
) -> None:
    """Time an epoch of clips for each num_workers of a DataLoader; name where it saturates."""
    from headrace.experiments.record import make_folder
    from headrace.experiments.workers import WorkersConfig, measure_workers
    from headrace.experiments.workers_report import workers_experiment
    from headrace.video.manifest import find_videos

    config = WorkersConfig(
        videos=tuple(str(path) for path in find_videos(videos)),
        workers=_numbers(numbers, "--workers"),
        batch_size=batch_size,
        clip_len=clip_len,
        stride=stride,
        size=size,
        boundary=boundary,
        clips_per_video=clips_per_video,
        repeats=repeats,
    )
    make_folder(out)
    with progress(is_quiet=json) as on_progress:
        record = measure_workers(config, command=_command(), on_progress=on_progress)
    _conclude(record, workers_experiment(record), out, "workers", as_json=json)


@bench.command("sampling")
def sampling(
    videos: Annotated[list[Path], typer.Argument(help="Video files, or folders of them.")],
    batch_size: Annotated[int, typer.Option(min=1, help="Frames in a batch.")] = 128,
    size: Annotated[
        tuple[int, int], typer.Option(min=1, metavar="H W", help="Height and width of the frames.")
    ] = (256, 256),
    memory: Annotated[str, typer.Option(help="For frames that wait; like 256MiB or 1GiB.")] = (
        "1GiB"
    ),
    burst: Annotated[int, typer.Option(min=2, help="Frames in a burst.")] = 8,
    rho: Annotated[
        float,
        typer.Option(min=0, max=1, help="Correlation of the gradients of two frames of a burst."),
    ] = TAKEN_RHO,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes or threads that decode, the same for all.")
    ] = 2,
    strategies: Annotated[
        str, typer.Option(help="Which to measure; the baseline always is.")
    ] = "baseline,dataset,naive,look-ahead,quarter,permutation,bursts",
    seconds: Annotated[
        float, typer.Option(help="How long each turn is measured; warming up comes on top.")
    ] = 10.0,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each strategy.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("headrace_bench"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON, nothing else.")] = False,
) -> None:
    """Time random frames in several ways beside a plain baseline; name what limits them."""
    from headrace.experiments.record import make_folder
    from headrace.experiments.sampling import SamplingConfig, measure_sampling
    from headrace.experiments.sampling_report import machine_line, sampling_experiment
    from headrace.profiling.machine import describe_machine
    from headrace.video.manifest import find_videos

    config = SamplingConfig(
        videos=tuple(str(path) for path in find_videos(videos)),
        batch_size=batch_size,
        size=size,
        memory=memory,
        burst=burst,
        rho=rho,
        workers=workers,
        strategies=tuple(part.strip() for part in strategies.split(",")),
        seconds=seconds,
        repeats=repeats,
    )
    make_folder(out)
    if not json:
        print(machine_line(describe_machine()), flush=True)
    with progress(is_quiet=json) as on_progress:
        record = measure_sampling(config, command=_command(), on_progress=on_progress)
    _conclude(record, sampling_experiment(record), out, "sampling", as_json=json)


@bench.command("cameras")
def cameras(
    index_file: Annotated[
        Path, typer.Option("--index-file", "--index_file", help="{video_dir: {clip: frames}}.")
    ],
    ranks: Annotated[str, typer.Option(help="Numbers of ranks, each a process.")] = "1,2,4,8",
    workers: Annotated[str, typer.Option(help="Numbers of workers of each rank.")] = "1,2",
    ways: Annotated[
        str, typer.Option(help="Besides plain decoding: loader, dataset, wandering.")
    ] = "loader,dataset,wandering",
    group_num: Annotated[int, typer.Option(min=1, help="Clips in a batch.")] = 4,
    size: Annotated[
        tuple[int, int], typer.Option(min=1, metavar="H W", help="Height and width of the frames.")
    ] = (256, 704),
    repeats: Annotated[int, typer.Option(min=1, help="Epochs of each.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("headrace_bench"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON, nothing else.")] = False,
) -> None:
    """Count how often camera streams decode a frame, by ranks and workers, and time it."""
    from headrace.experiments.cameras import CamerasConfig, measure_cameras
    from headrace.experiments.cameras_report import cameras_experiment
    from headrace.experiments.record import make_folder

    config = CamerasConfig(
        index_file=index_file,
        ways=cast("tuple[CameraWay, ...]", tuple(part.strip() for part in ways.split(","))),
        ranks=_numbers(ranks, "--ranks"),
        workers=_numbers(workers, "--workers"),
        group_num=group_num,
        size=size,
        repeats=repeats,
    )
    make_folder(out)
    with progress(is_quiet=json) as on_progress:
        record = measure_cameras(config, command=_command(), on_progress=on_progress)
    _conclude(record, cameras_experiment(record), out, "cameras", as_json=json)


def _command() -> tuple[str, ...]:
    return ("headrace", *sys.argv[1:])


def _conclude(
    record: "ExperimentRecord", experiment: "Experiment", out: Path, name: str, *, as_json: bool
) -> None:
    """Write numbers and chart into `out`, and print them."""
    from headrace.experiments.record import write_experiment
    from headrace.report.experiment import render_experiment, render_experiment_text

    files = write_experiment(record, render_experiment(experiment), out, name)
    if as_json:
        print(record.model_dump_json())
        return
    print(render_experiment_text(experiment))
    print(f"Numbers: {files[0]}\nChart: {files[1]}")
