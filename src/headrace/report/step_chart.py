"""Chart of the parts of a training step."""

from typing import Final

from headrace.profiling.run_records import LoaderRecord
from headrace.report.page import BLOCKED_COLOR, PLAIN, Chart, bar, draw, label

_GIL_COLOR: Final = "#c2553f"
_GPU_COLOR: Final = "#dd8233"


def step_chart(loader: LoaderRecord | None) -> Chart | None:
    """Return the chart of the parts of a step; None: they are not known."""
    if loader is None or loader.inside is None:
        return None
    parts = loader.inside.parts[::-1]  # plotly draws the first category at the bottom
    names = [label(part.name) for part in parts]
    worked = [min(part.cpu_ms, part.ms) for part in parts]
    gil = [
        min(part.gil_wait_ms or 0.0, part.ms - cpu) for part, cpu in zip(parts, worked, strict=True)
    ]
    waited = [part.ms - cpu - wait for part, cpu, wait in zip(parts, worked, gil, strict=True)]
    on_gpu = [part.device_ms or 0.0 for part in parts]
    bars = [
        bar(x=ms, y=names, orientation="h", name=name, color=color)
        for name, ms, color, is_shown in (
            ("worked", worked, PLAIN, True),
            ("GIL", gil, _GIL_COLOR, sum(gil) > 0),
            ("waited", waited, BLOCKED_COLOR, True),
            ("GPU", on_gpu, _GPU_COLOR, any(on_gpu)),
        )
        if is_shown
    ]
    if any(on_gpu):
        for trace in bars:  # the GPU works at the same time: its bar is below that of the thread
            trace.update(offsetgroup="GPU" if trace.name == "GPU" else "thread")
    figure = draw(bars, height=60 + 36 * len(names), barmode="stack")
    figure.update_xaxes(title_text="ms per step")
    figure.update_traces(hovertemplate="%{x:.3g} ms")
    return Chart(
        name="inside-step",
        title="Inside a step",
        reading="Mean time of each part of a step, without its wait for data. Worked: CPU time of "
        "the loop's thread. GIL: its wait for other Python threads. Waited: for other threads, a "
        "core, a device or a disk. GPU: time between the ends of the part on the GPU. Rest: all "
        "other code.",
        figure=figure,
    )
