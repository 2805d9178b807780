"""The page in a real browser: updates, problems, and isolation from other sites."""

from pathlib import Path

import pytest

from headrace.sinks.web.status import EventStatus
from report.chromium import Page
from sinks.web.faked_run import DOOR, faked_run, labelled_frame, source, status

HOSTILE = "<img src=x onerror=alert(1)>"
SHOW = """new Promise(done => {{
    const image = new Image();
    image.onload = () => done('shown');
    image.onerror = () => done('refused');
    image.src = '{}';
}})"""
STATUS_NEVER_COMES = """(() => {
    const original = window.fetch;
    window.fetch = (url, options) => {
        if (url !== 'status.json') return original(url, options);
        window.waiting = true;
        return new Promise(() => {});
    };
})()"""
IMAGE_WIDTH = "document.getElementById('picture').naturalWidth"


def text(page: Page, name: str) -> str:
    return str(page.evaluate(f"document.getElementById('{name}').innerText"))


def test_the_page_shows_image_and_metrics_and_updates_them(page: Page):
    with faked_run() as run:
        run.view.write(labelled_frame(7))
        page.open(f"{run.root}/", width=1280)
        page.wait_for(f"{IMAGE_WIDTH} === 128 && document.title.startsWith('29.0 FPS')")
        page.wait_for("document.getElementById('cards').innerText.includes('chart')")
        cards = text(page, "cards").replace("\n\n", "\n").splitlines()
        assert cards[:9] == [
            *("FPS", "29.0", "now; chart: last 5 min"),
            *("Latency p50", "41.7 ms", "from arrival"),
            *("Latency p95", "63.2 ms", "n = 1,789, last 60 s"),
        ]
        assert cards[9:] == [
            *("Latency jitter", "4.62 ms", "std of output intervals"),
            *("Dropped", "2 %", "536 of 22,640 frames"),
            *("In flight", "3", "frames in the pipeline"),
        ]
        assert "sink\t0.400 ms\tn too small\t1 %" in text(page, "stages")
        assert "stale, at decode\t530" in text(page, "frames")
        assert "live for 12 min 34 s" in text(page, "sources")
        assert text(page, "events").endswith("\njoined 640 ms behind")
        assert page.evaluate("document.getElementById('alert').hidden")

        words = "frames arrive faster than they are processed"
        overload = EventStatus(wall_seconds=0, source="", kind="overloaded", words=words)
        run.set_status(status(fps=12.0, events=(overload,)))
        run.view.write(labelled_frame(8, size=(36, 64)))
        page.wait_for(f"{IMAGE_WIDTH} === 64 && document.title.startsWith('12.0 FPS')")
        assert text(page, "events").endswith(f"\n{words}")
        assert page.console == []
        assert all(url.startswith((run.root, f"blob:{run.root}")) for url in page.requested)


def test_an_image_has_no_caption_before_the_next_status(page: Page):
    with faked_run() as run:
        page.open(f"{run.root}/", width=1280)
        page.wait_for("document.title.startsWith('29.0 FPS')")
        assert text(page, "caption") == "No image yet"
        page.evaluate(STATUS_NEVER_COMES)
        page.wait_for("window.waiting")
        run.view.write(labelled_frame(7))
        page.wait_for(f"{IMAGE_WIDTH} === 128")
        assert text(page, "caption") == ""


def test_the_page_shows_since_when_a_source_is_down_and_why(page: Page):
    words = "connection refused; attempt 5 in 8 s"
    down = source(state="reconnecting", since_seconds=41.3, words=words, fps=0)
    with faked_run() as run:
        run.view.write(labelled_frame(7))
        page.open(f"{run.root}/", width=1280)
        page.wait_for(f"{IMAGE_WIDTH} === 128")
        run.set_status(status(fps=0, seconds_since_last_result=43.0, sources=(down,)))
        page.wait_for("document.body.className === 'down'")
        since = page.evaluate(
            "new Date((1700000000 - 41.3) * 1000).toLocaleTimeString('en-GB', { hour12: false })"
        )
        assert text(page, "alert") == f"{DOOR}: reconnecting since {since}, {words}."
        assert text(page, "caption") == "Last image, 43 s ago"
        assert page.evaluate("document.title").startswith("⚠ 0 FPS")
        run.set_status(status())
        page.wait_for("document.body.className === '' && document.getElementById('alert').hidden")


def test_the_page_shows_the_end_of_a_run_and_follows_the_next_one_on_the_port(page: Page):
    with faked_run() as run:
        run.view.write(labelled_frame(7))
        run.view.write(labelled_frame(8))
        page.open(f"{run.root}/", width=1280)
        page.wait_for(f"{IMAGE_WIDTH} === 128")
    page.wait_for("document.body.className === 'stale'")
    assert text(page, "alert").startswith("The run does not respond since ")
    with faked_run(port=run.view.port) as again:
        again.view.write(labelled_frame(1, size=(36, 64)))
        page.wait_for(f"document.body.className === '' && {IMAGE_WIDTH} === 64")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_in_both_color_schemes(page: Page, scheme: str):
    long_name = "rtsp://10.0.0.7/" + "a-very-long-name/" * 20
    sources = (source(long_name), source(state="stalled", words=long_name))
    with faked_run() as run:
        run.set_status(status(title=f"resnet18 on {long_name}", sources=sources))
        run.view.write(labelled_frame(7, size=(720, 1280)))
        for width in (1280, 390):
            page.open(f"{run.root}/", width=width, scheme=scheme)
            page.wait_for(f"{IMAGE_WIDTH} === 1280 && document.title.startsWith('⚠')")
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert (page.brightness() > 128) == (scheme == "light")


def test_markup_in_names_is_shown_as_text(page: Page):
    with faked_run() as run:
        run.set_status(
            status(title=HOSTILE, sources=(source(HOSTILE, state="failed", words=HOSTILE),))
        )
        page.open(f"{run.root}/", width=390)
        page.wait_for("document.title.startsWith('⚠')")
        assert text(page, "title") == HOSTILE
        assert page.evaluate("document.images.length") == 1
        assert page.console == []


def test_the_policy_blocks_foreign_scripts(page: Page):
    """Shows that the console checks above can fail."""
    with faked_run() as run:
        page.open(f"{run.root}/", width=390)
        script = "Object.assign(document.createElement('script'), {text: 'hurt()'})"
        page.evaluate(f"document.body.append({script})")
        assert "Content Security Policy" in page.console[0]


def test_a_page_of_another_site_has_no_access(page: Page, tmp_path: Path):
    """A browser on another origin can neither read the status nor display the image."""
    (tmp_path / "other.html").write_text("<!doctype html><title>other</title>")
    page.show(tmp_path / "other.html", width=390)
    with faked_run() as run:
        run.view.write(labelled_frame(1))
        read = f"fetch('{run.root}/status.json').then(() => 'read', () => 'refused')"
        assert page.evaluate(read) == "refused"
        assert page.evaluate(SHOW.format(f"{run.root}/picture.jpg")) == "refused"
        page.open(f"{run.root}/", width=390)
        assert page.evaluate(read) == "read"
        assert page.evaluate(SHOW.format(f"{run.root}/picture.jpg")) == "shown"
