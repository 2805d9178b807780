"""`headrace proxy`: videos written once more, small and in short GOPs, for random frames."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import typer

from headrace.cli.config_flags import flags, with_parameters
from headrace.cli.extract_options import DryRun, Json, Out, Retry, Sources, Workers
from headrace.cli.extract_run import run_extraction
from headrace.cli.extract_summary import OutputNouns, forecast_words, what_came
from headrace.cli.sources import refuse_streams

FRAMES: Final = OutputNouns(noun="frame", sample="frame", none="without a proxy")
_GO_ON: Final = (
    "headrace: interrupted; proxies that are done stay; run the same command again to go on"
)


@dataclass(frozen=True, kw_only=True)
class ProxyFlags:
    """Proxies of what, and what they are like."""

    sources: Sources
    out: Out
    size: Annotated[
        str,
        typer.Option(
            metavar="N|HxW",
            help="Pixels of the shorter side, the aspect kept; or height and width.",
        ),
    ] = "256"
    gop: Annotated[
        int | None,
        typer.Option(
            min=1, help="Frames from one keyframe to the next; without it 8, for mjpeg 1."
        ),
    ] = None
    codec: Annotated[
        Literal["h264", "hevc", "av1", "mjpeg"], typer.Option(help="Of the proxies.")
    ] = "h264"
    workers: Workers = None
    on_error: Annotated[
        Literal["skip", "raise", "conceal"],
        typer.Option(
            help="Damaged videos get no proxy and are listed, end it, or show damaged frames as "
            "FFmpeg does."
        ),
    ] = "skip"
    retry: Retry = False
    dry_run: DryRun = False
    gain: Annotated[
        bool, typer.Option(help="Time originals and proxies at the end, to say what is won.")
    ] = True
    json: Json = False


def _proxy(**typed: Any) -> None:
    from headrace.extraction.proxies.proxy_extraction import ProxyMaking
    from headrace.extraction.proxies.proxy_options import ProxyOptions, originals_of, proxy_size
    from headrace.video.find_videos import find_videos

    refuse_streams(typed["sources"], "proxies")
    options = ProxyOptions(
        sources=originals_of(find_videos(typed["sources"]), typed["out"]),
        out=typed["out"],
        size=proxy_size(typed["size"]),
        gop=typed["gop"],
        codec=typed["codec"],
        workers=typed["workers"],
        on_error=typed["on_error"],
        retry=typed["retry"],
    )
    run_extraction(
        ProxyMaking,
        options,
        FRAMES,
        typed,
        forecast_words=forecast_words,
        once_begun=_GO_ON,
        more=lambda extracted, made: what_came(extracted, made, measures=typed["gain"]),
    )


proxy = with_parameters(
    _proxy,
    flags(ProxyFlags),
    "Write small copies with short GOPs, from which random frames come fast. Resumable.",
)
