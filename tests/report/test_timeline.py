"""What happened in a live session, as rows and on the chart of its latency."""

from headrace.profiling.live import EventRecord, SourceRecord
from headrace.profiling.metrics import Metrics
from headrace.report.html import render_html
from headrace.report.text import render_text
from headrace.report.timeline import latency_chart, timeline
from profiling.test_keeping_up import live
from report.recorded import record


def happened():
    session = live(lambda k: 20.0, dropped={"decode": {"overflow": 50}})
    events = (
        EventRecord(at_seconds=0.1, source=0, kind="joined", words="joined 640 ms behind"),
        EventRecord(at_seconds=2.0, source=0, kind="dropped", words="overflow", frames=50),
        EventRecord(at_seconds=3.0, source=None, kind="failed", words="<b>disk</b> full"),
    )
    sources = (SourceRecord(name="rtsp://***@door/1", arrived=250),)
    return session.model_copy(update={"events": events, "sources": sources, "inputs": ()})


def test_rows_say_when_what_and_where():
    rows = [(row.at, row.what, row.where, row.words) for row in timeline(happened())]
    assert rows == [
        ("0.1 s", "joined", "rtsp://***@door/1", "joined 640 ms behind"),
        ("2.0 s", "dropped", "rtsp://***@door/1", "50 frames: overflow"),
        ("3.0 s", "failed", "", "<b>disk</b> full"),
    ]


def test_what_a_row_says_it_says_once():
    joined = EventRecord(at_seconds=0.1, source=0, kind="joined", words="joined")
    session = happened().model_copy(update={"events": (joined,)})
    assert [row.words for row in timeline(session)] == [""]
    assert "joined" in render_text(session)


def test_text_and_page_show_it_with_the_base_of_latency():
    text, page = render_text(happened()), render_html(happened())
    assert "joined 640 ms behind" in text
    assert "= 200 delivered + 50 dropped + 0 in flight" in text
    assert "median from arrival, of 200 steps" in text
    assert "50 overflow at decode" in text
    for words in ("What happened", "Latency over time", "Latency from arrival"):
        assert words in page
    assert "<b>disk" not in page


def test_the_chart_has_a_point_for_each_step_and_a_mark_for_each_event():
    session = happened()
    latency, marks = latency_chart(session, Metrics.of(session)).figure.data
    assert len(latency.y) == 200
    assert set(latency.y) == {20.0}
    assert list(marks.x) == [0.1, 2.0, 3.0]
    assert latency_chart(record(), Metrics.of(record())) is None


def test_a_run_at_full_speed_looks_as_before():
    page = render_html(record())
    assert "What happened" not in page
    assert "Latency over time" not in page
