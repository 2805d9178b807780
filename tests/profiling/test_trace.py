"""A trace as a value: rows, ranges and arrows."""

import gzip
import json
from collections import Counter

import pytest

from headrace.errors import ConfigError
from headrace.profiling.trace import Journey, trace_events, write_trace
from headrace.runtime.marks import TimedRange


def ranged(stage, number, start, end, *, process=7, thread=None):
    thread = thread or f"{stage}-0"
    return TimedRange(
        process_id=process,
        thread_id=len(thread),
        thread=thread,
        stage=stage,
        number=number,
        start_ns=start * 1000,
        end_ns=end * 1000,
    )


def arrows(events):
    """Return id -> the names of the ranges that an arrow goes through, found by row and moment."""
    places = {(e["tid"], e["ts"]): e["name"] for e in events if e["ph"] == "X"}
    found: dict[int, list[str]] = {}
    for event in events:
        if event["ph"] in "stf":
            found.setdefault(event["id"], []).append(places[event["tid"], event["ts"]])
    return found


def test_each_thread_has_a_row_in_the_order_their_stages_began():
    ranges = [
        *(ranged("model", 0, 30, 40), ranged("decode", 0, 10, 20, thread="decode-1")),
        *(ranged("decode", 1, 12, 20, thread="decode-0"), ranged("decode", 0, 5, 9, process=9)),
    ]
    events = trace_events(ranges, origin_ns=5000)
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    order = {
        (e["pid"], e["tid"]): e["args"]["sort_index"]
        for e in events
        if e["name"] == "thread_sort_index"
    }
    assert [(row[0], rows[row]) for row in sorted(order, key=lambda row: (row[0], order[row]))] == [
        *((7, "decode-0"), (7, "decode-1"), (7, "model-0"), (9, "decode-0")),
    ]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {7: "headrace 7", 9: "headrace 9"}


def test_a_range_is_an_event_in_microseconds_since_the_origin():
    (event,) = [e for e in trace_events([ranged("model", 3, 30, 42)], origin_ns=5000) if "dur" in e]
    assert (event["name"], event["ts"], event["dur"]) == ("model 3", 25, 12)
    assert event["args"] == {"stage": "model", "item": 3}


def test_an_arrow_follows_an_item_from_the_source_to_the_last_stage():
    ranges = [ranged(s, n, 10 * k + n, 10 * k + n + 1) for k, s in enumerate("abc") for n in (0, 1)]
    journeys = [Journey(number=1, stages=("a", "b", "c"))]
    events = trace_events(ranges, journeys, origin_ns=0)
    assert arrows(events) == {1: ["a 1", "b 1", "c 1"]}
    assert Counter(e["ph"] for e in events if e["ph"] in "stf") == {"s": 1, "t": 1, "f": 1}


def test_each_frame_of_a_batch_has_an_arrow_through_the_batch():
    ranges = [ranged("decode", n, n, n + 1) for n in range(4)]
    ranges += [ranged("batch", 0, 5, 6), ranged("model", 0, 8, 9)]
    journeys = [Journey(number=0, stages=("decode", "batch", "model"))]
    events = trace_events(ranges, journeys, {("batch", 0): (2, 3)}, origin_ns=0)
    assert arrows(events) == {
        2: ["decode 2", "batch 0", "model 0"],
        3: ["decode 3", "batch 0", "model 0"],
    }


def test_an_arrow_begins_where_the_source_worked_on_it_under_another_number():
    ranges = [ranged("decode", 5, 1, 2), ranged("model", 4, 3, 4)]
    journeys = [Journey(number=4, stages=("decode", "model"), source_number=5)]
    assert arrows(trace_events(ranges, journeys, origin_ns=0)) == {4: ["decode 5", "model 4"]}


def test_the_last_range_of_an_item_in_a_stage_is_the_one_an_arrow_takes():
    ranges = [ranged("a", 0, 1, 9), ranged("b", 0, 2, 3), ranged("b", 0, 10, 12)]
    events = trace_events(ranges, [Journey(number=0, stages=("a", "b"))], origin_ns=0)
    assert [e["ts"] for e in events if e["ph"] in "sf"] == [1, 10]


def test_an_item_that_was_seen_in_one_place_only_has_no_arrow():
    events = trace_events(
        [ranged("b", 0, 2, 3)], [Journey(number=0, stages=("a", "b"))], origin_ns=0
    )
    assert arrows(events) == {}


def test_a_trace_is_whole_json_in_gzip(tmp_path):
    write_trace(tmp_path / "trace.json.gz", trace_events([ranged("a", 0, 1, 2)], origin_ns=0))
    found = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert [e["name"] for e in found["traceEvents"] if e["ph"] == "X"] == ["a 0"]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json.gz"]


def test_a_trace_that_is_not_finished_leaves_no_file(tmp_path):
    class Interrupting(dict):
        def __iter__(self):
            raise KeyboardInterrupt

        def items(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(tmp_path / "trace.json.gz", [{"name": "a"}, Interrupting(name="b")])
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_cannot_be_written_is_said_in_a_line(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot write .*no such file or directory; give"):
        write_trace(tmp_path / "none" / "trace.json.gz", [])
