"""Chart of the inside of a loop's step: its parts, and what the loop's thread did in them."""

from typing import Final

from headrace.profiling.run_records import LoaderRecord
from headrace.report.drawing import PLAIN, Chart, bar, draw, label

_GIL_COLOR: Final = "#c2553f"
_GPU_COLOR: Final = "#dd8233"
_OTHER_COLOR: Final = "rgba(128, 136, 148, 0.32)"


def step_chart(loader: LoaderRecord | None) -> Chart | None:
    """Return the bars of the parts of a step; None where they are not known."""
    if loader is None or loader.inside is None:
        return None
    parts = loader.inside.parts[::-1]  # plotly draws the first category at the bottom
    names = [label(part.name) for part in parts]
    worked = [min(part.cpu_ms, part.ms) for part in parts]
    gil = [
        min(part.gil_wait_ms or 0.0, part.ms - cpu) for part, cpu in zip(parts, worked, strict=True)
    ]
    other = [part.ms - cpu - wait for part, cpu, wait in zip(parts, worked, gil, strict=True)]
    bars = [bar(x=worked, y=names, orientation="h", name="worked", color=PLAIN)]
    if sum(gil) > 0:
        bars.append(bar(x=gil, y=names, orientation="h", name="GIL", color=_GIL_COLOR))
    bars.append(bar(x=other, y=names, orientation="h", name="waited", color=_OTHER_COLOR))
    device = [part.device_ms for part in parts]
    if any(device):
        gpu = [ms or 0.0 for ms in device]
        bars.append(bar(x=gpu, y=names, orientation="h", name="GPU", color=_GPU_COLOR))
        for trace in bars:  # the GPU works at the same time: its bar lies below the thread's
            trace.update(offsetgroup="GPU" if trace.name == "GPU" else "thread")
    figure = draw(bars, height=60 + 36 * len(names), barmode="stack")
    figure.update_traces(hovertemplate="%{x:.3g} ms")
    figure.update_xaxes(title_text="ms per step")
    return Chart(
        name="inside-step",
        title="Inside a step",
        reading="Mean time of each part of a step, without its wait for data. Worked: CPU time of "
        "the loop's thread. GIL: its wait for other Python threads. Waited: for other threads, a "
        "core, a device or a disk. GPU: time between the ends of the part on the GPU. Rest: all "
        "code that is no other part.",
        figure=figure,
    )
