"""`headrace launch`: several runs at once, as a file describes them."""

import json as json_format
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.signals import NOTHING_RECORDED, ending_on_sigterm

if TYPE_CHECKING:
    from headrace.runs.launch.launch_record import LaunchRecord

_OUT = Path("headrace_launch")

EXAMPLE = """\
# headrace launch launch.yaml
#
# Several runs at once, each a process of its own. They load first, and begin at one moment.
# Every option of `headrace run` can stand here, by its flag's name: `headrace run --help`.
# Paths begin where the command is given.

out: headrace_launch      # a folder for each worker goes in here, and the report that compares them

defaults:                 # of every worker, unless it says otherwise
  weights: none           # random ones, so that nothing is fetched; leave it out for trained ones
  batch_size: 4
  video: false            # no annotated video
  # nsys: true            # each under NVIDIA Nsight Systems, where it is installed

workers:                  # by names of your own
  small:
    source: test://?size=240x320&rate=30&seconds=4    # a file, a list of them, 0, rtsp://...
    model_name: squeezenet1_1
    threads: 1
  large:
    source: test://?size=480x640&rate=30&seconds=4&seed=1
    model_name: mobilenet_v3_large
    prep_level: simple
    threads: 1
"""


def launch(
    config: Annotated[
        Path | None, typer.Argument(help="YAML file of the workers; see --example.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; else that of the file.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, run nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record as JSON alone.")] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print a file that runs as it is, and exit.")
    ] = False,
) -> None:
    """Run several models at once, each a process of its own, and compare them."""
    if example:
        print(EXAMPLE, end="")
        return
    if config is None:
        raise typer.BadParameter("give a file, or --example to see one", param_hint="CONFIG")
    from headrace.cli.launch_flags import RunVocabulary
    from headrace.cli.launch_progress import LaunchScreen
    from headrace.cli.run import run
    from headrace.runs.launch.launch_config import read_config
    from headrace.runs.launch.launching import Launch

    found = read_config(config, RunVocabulary(run))
    folder = out or (Path(found.out) if found.out else _OUT)
    with ending_on_sigterm() as ending:
        with LaunchScreen([worker.name for worker in found.workers], is_quiet=json) as screen:
            launched = Launch(
                config=found,
                out=folder,
                program=(sys.executable, "-P", "-m", "headrace", "run"),
                environment=dict(os.environ),
                command=("headrace", *sys.argv[1:]),
                on_event=screen.news,
                on_start=screen.begun,
                on_end=screen.ended,
            )
            launched.check()
            record = launched.run(is_dry=dry_run)
        _conclude(record, folder, ending.exit_code, is_dry=dry_run, is_quiet=json)


def _conclude(
    record: "LaunchRecord", folder: Path, interrupted: int, *, is_dry: bool, is_quiet: bool
) -> None:
    """Write and print what came of it; end with the exit code that tells."""
    from headrace.report.launch import RECORD, REPORT, TABLE, render_launch_text, write_launch
    from headrace.report.text import printable
    from headrace.runs.launch.launch_record import describe_exit, failed_workers

    bad = failed_workers(record.workers)
    has_results = any(worker.figures for worker in record.workers)
    if is_quiet:
        print(json_format.dumps(record.model_dump(mode="json")))
    elif is_dry and not bad:
        print(f"Dry run: all workers can begin; results would go to {folder}")
    elif has_results:
        print(render_launch_text(record))
    for worker in bad:
        print(f"headrace: worker {worker.name} {describe_exit(worker)}", file=sys.stderr)
        for line in worker.last_lines:
            print(f"  {printable(line)}", file=sys.stderr)
    if has_results:
        # Last, so that a full disk does not cost what was found.
        write_launch(record, folder)
        if not is_quiet:
            print(f"Report: {folder / REPORT}\nTable: {folder / TABLE}\nRecord: {folder / RECORD}")
    if any(worker.outcome == "interrupted" for worker in record.workers):
        kept = f"headrace: interrupted; what was done is kept in {folder}"
        print(kept if has_results else NOTHING_RECORDED, file=sys.stderr)
        raise typer.Exit(interrupted)
    if bad:
        raise typer.Exit(1)
