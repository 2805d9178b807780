"""The annotated video in a real browser."""

from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from headrace.sinks.video_file import VideoFile

LOADED = """new Promise(done => {
    const video = document.querySelector('video');
    const tell = () => done([
        video.error && video.error.message, video.videoWidth, video.videoHeight, video.duration,
    ]);
    video.onloadedmetadata = video.onerror = tell;
    video.load();
})"""
"""What the browser finds: an error or null, width, height and seconds."""

SHOWN = """new Promise(done => {{
    const video = document.querySelector('video');
    video.requestVideoFrameCallback((now, frame) => done(frame.mediaTime));
    video.currentTime = {};
}})"""
"""Goes to a time; the time of the frame that is then on the screen."""


def test_a_browser_plays_it_and_shows_the_right_frame_in_the_right_colour(page, tmp_path):
    colours = [(200, 40, 40), (40, 180, 60), (50, 60, 200), (210, 200, 50)]
    with VideoFile(tmp_path / "annotated.mp4", Fraction(2)) as video:
        for k in range(40):
            video.write(np.full((181, 321, 3), colours[k // 10], np.uint8), k / 2)
    html = "<body style='margin: 0'><video src='annotated.mp4' muted></video>"
    (tmp_path / "play.html").write_text(f"<!doctype html>{html}")
    page.show(tmp_path / "play.html", width=400)
    assert page.evaluate(LOADED) == [None, 322, 182, 20]
    for seconds in (12.2, 3.2, 17.2):
        assert page.evaluate(SHOWN.format(seconds)) == seconds // 0.5 / 2
        page.screenshot(tmp_path / "shot.png")
        with Image.open(tmp_path / "shot.png") as shot:
            found = shot.convert("RGB").getpixel((160, 90))
        assert found == pytest.approx(colours[int(seconds // 5)], abs=12)
