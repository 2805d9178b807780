"""The page holds everything, loads nothing and shows names as text."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

from headrace.profiling.inputs import LostFrame
from headrace.profiling.session import Session
from headrace.report.html import render_html
from report.recorded import SOURCE, record

HOSTILE = "</script><script>hurt()</script><img src=x onerror=hurt()>\"'&{{7*7}}<!--\u2028"


class Reader(HTMLParser):
    """Collects what a browser would find in the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._is_script = False
        self._is_quiet = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._is_script = tag == "script"
        self._is_quiet = tag in ("script", "style")
        if tag in ("th", "td"):
            self.text += " "
        if self._is_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_script = self._is_quiet = False

    def handle_data(self, data: str) -> None:
        if self._is_script:
            self.scripts[-1] += data
        elif not self._is_quiet:
            self.text += data


def hostile() -> Session:
    session = record(
        steps=60,
        inputs=(SOURCE.model_copy(update={"path": HOSTILE}),),
        configuration={"model": HOSTILE, HOSTILE: HOSTILE},
        command=("headrace", "run", HOSTILE),
        versions={HOSTILE: HOSTILE},
        outcome="failed",
        error=HOSTILE,
        lost=(LostFrame(index=7, pts_seconds=0.2, cause=HOSTILE),),
        outputs=(HOSTILE,),
    )
    queues = tuple(queue.model_copy(update={"name": HOSTILE}) for queue in session.queues)
    return session.model_copy(update={"queues": queues})


CASES = {
    "complete": record(),
    "interrupted": record(steps=30, outcome="interrupted"),
    "failed at once": record(steps=0, outcome="failed", error="no space left", queues=()),
    "one step": record(steps=1, warmup_steps=0),
    "hostile": hostile(),
}


@pytest.fixture(params=CASES, scope="module")
def reader(request: pytest.FixtureRequest) -> Reader:
    return Reader(render_html(CASES[request.param]))


def test_the_page_has_three_scripts_and_plotly_once(reader: Reader) -> None:
    scripts = reader.scripts
    assert len(scripts) == 3
    assert [script == get_plotlyjs() for script in scripts] == [False, True, False]


def test_the_page_refers_to_nothing_outside(reader: Reader) -> None:
    for tag, attributes in reader.tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag


def test_the_policy_allows_these_scripts_and_no_network(reader: Reader) -> None:
    (policy,) = [
        attributes["content"]
        for tag, attributes in reader.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    digests = (hashlib.sha256(script.encode()).digest() for script in reader.scripts[1:])
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    assert policy == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src {' '.join(hashes)}"
    )


def test_every_figure_has_its_place(reader: Reader) -> None:
    figures: dict[str, Any] = json.loads(reader.scripts[0])
    places = [attributes.get("id") for _, attributes in reader.tags]
    assert sorted(f"chart-{name}" for name in figures) == sorted(
        place for place in places if place and place.startswith("chart-")
    )


def test_hostile_names_are_shown_as_they_are() -> None:
    reader = Reader(render_html(hostile()))
    assert "hurt()" not in "".join(reader.scripts[1:])
    assert "img" not in [tag for tag, _ in reader.tags]
    assert reader.text.count("<img src=x onerror=hurt()>") >= 10
    assert "{{7*7}}" in reader.text


def test_the_verdict_comes_first_and_the_totals_after_it() -> None:
    text = Reader(render_html(record())).text
    parts = [
        *("Bound by the model", "street.mp4 ·\nresnet50 on cpu", "complete"),
        *("Try next", "Totals", "L_dec : L_prep : L_inf", "Where the time went"),
        *("What each stage did", "What was run", "Recorded by headrace 0.1.0"),
    ]
    found = [text.find(part) for part in parts]
    assert -1 not in found
    assert found == sorted(found)


def test_the_totals_of_the_page_are_those_of_the_console() -> None:
    text = Reader(render_html(record())).text.replace("\N{NO-BREAK SPACE}", " ")
    for value in ("4,500", "69.2 s", "69.5 frames/s", "353 ms", "0.110", "19.1 ms", "23.4 MB"):
        assert value in text


def test_numbers_stay_with_their_units() -> None:
    verdict = re.search(r"<h1 class=\"verdict\">(Bound by.*?)</h1>", render_html(record()))
    assert verdict is not None
    assert "100\N{NO-BREAK SPACE}% of" in verdict[1]
    assert " %" not in verdict[1]


def test_damaged_frames_are_listed() -> None:
    damaged = (
        LostFrame(index=1200, pts_seconds=40.04, cause="error while decoding MB 12 3"),
        LostFrame(index=1201, pts_seconds=None, cause="concealed"),
    )
    text = Reader(render_html(record(steps=20, lost=damaged))).text
    rows = " ".join(text[text.find("Damaged: 2 frames") :].split())
    assert "what time reason frame 1,200 40.040 s error while decoding MB 12 3 frame 1,201" in rows


def test_thousands_of_damaged_frames_are_counted_not_listed() -> None:
    damaged = tuple(
        LostFrame(index=2 * i, pts_seconds=None, cause=f"lost {i % 2}") for i in range(2000)
    )
    text = Reader(render_html(record(steps=20, lost=damaged))).text
    assert text.count("lost") == 500
    assert "The first 500 of 2,000; session.json lists them all." in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("failed at once", "The run failed. no space left"),
        ("failed at once", "Fewer than two steps were measured"),
        ("interrupted", "The run was interrupted."),
    ],
)
def test_a_run_that_did_not_end_well_says_so(name: str, words: str) -> None:
    assert words in Reader(render_html(CASES[name])).text


def test_the_same_session_gives_the_same_page() -> None:
    assert render_html(record(steps=20)) == render_html(record(steps=20))
