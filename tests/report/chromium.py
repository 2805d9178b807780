"""A headless Chromium, controlled over two pipes with the DevTools protocol."""

import base64
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

FLAGS = (
    *("--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
MOVE_PIPES = """
import fcntl, os, sys
high = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(high[0], 3), os.dup2(high[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""Program that runs the browser with the pipes as descriptors 3 (to read) and 4 (to write)."""
_LOADED = """new Promise(done => {
    const video = document.querySelector('video');
    const finish = () => done([
        video.error && video.error.message, video.videoWidth, video.videoHeight, video.duration,
    ]);
    video.onloadedmetadata = video.onerror = finish;
    video.load();
})"""
SILENCE_SECONDS = 60
LOOKS = 3000
"""Max checks of a condition, 10 ms apart."""


class Browser:
    """A headless Chromium with isolated pages."""

    def __init__(self, requests: int, replies: int) -> None:
        """Control the browser that reads from `requests` and writes to `replies`."""
        self._requests = requests
        self._replies = replies
        self._buffer = b""
        self._last = 0

    @contextmanager
    def page(self) -> Iterator["Page"]:
        """Open a page with its own cookies and cache; it is closed at the end of the block."""
        context = self.reply(self.send("Target.createBrowserContext", {}))["browserContextId"]
        place = {"url": "about:blank", "browserContextId": context}
        target = self.reply(self.send("Target.createTarget", place))["targetId"]
        attached = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        yield Page(self, self.reply(attached)["sessionId"])
        self.reply(self.send("Target.disposeBrowserContext", {"browserContextId": context}))

    def send(self, method: str, parameters: dict[str, Any], session: str | None = None) -> int:
        """Send a call to a page, or to the browser; return the number of the call."""
        self._last += 1
        request: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            request["sessionId"] = session
        os.write(self._requests, json.dumps(request).encode() + b"\0")
        return self._last

    def reply(self, number: int) -> dict[str, Any]:
        """Return the result of a call to the browser."""
        while (message := self.read()).get("id") != number:
            pass
        assert "error" not in message, message
        return dict(message["result"])

    def read(self) -> dict[str, Any]:
        """Return the next reply or event."""
        while b"\0" not in self._buffer:
            is_ready, _, _ = select.select([self._replies], [], [], SILENCE_SECONDS)
            assert is_ready, f"the browser sent nothing for {SILENCE_SECONDS} s"
            chunk = os.read(self._replies, 1 << 20)
            assert chunk, "the browser ended"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))


class Page:
    """One page of a browser, with its console messages and requests."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.console: list[str] = []
        """Console messages and uncaught errors."""
        self.requested: list[str] = []
        """Requested addresses, except `data:`."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def show(self, file: Path, *, width: int, scheme: str = "light") -> None:
        """Open `file`, `width` pixels wide, in a color scheme; wait until it is drawn."""
        self.open(file.as_uri(), width=width, scheme=scheme)

    def open(self, address: str, *, width: int, scheme: str = "light") -> None:
        """Open an address; see `show`."""
        self.resize(width)
        self.use_scheme(scheme)
        self.call("Page.navigate", url=address)
        self._read_until(lambda message: message.get("method") == "Page.loadEventFired")
        self._settle()

    def resize(self, width: int) -> None:
        """Set the width of the page, in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self._settle()

    def use_scheme(self, scheme: str) -> None:
        """Set the preferred color scheme: `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self._settle()

    def _settle(self) -> None:
        """Wait until the next frame is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")

    def evaluate(self, expression: str) -> Any:
        """Return the awaited value of a JavaScript expression."""
        reply = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript expression is true; fail if it stays false."""
        again = "left ? setTimeout(look, 10, left - 1) : done(false)"
        look = f"const look = left => ({condition}) ? done(true) : {again}"
        is_true = self.evaluate(f"new Promise(done => {{ {look}; look({LOOKS}); }})")
        assert is_true, f"never true: {condition}"

    def screenshot(self, file: Path) -> None:
        """Save the whole page as PNG."""
        self.picture().save(file)

    def picture(self) -> Image.Image:
        """Return an image of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return Image.open(BytesIO(base64.b64decode(shot["data"])))

    def brightness(self) -> float:
        """Return the brightness of the background, in [0, 255]."""
        return float(self.picture().convert("L").getpixel((2, 2)))

    def loaded_video(self) -> list[Any]:
        """Return [error or null, width, height, seconds] of the loaded video."""
        return list(self.evaluate(_LOADED))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a call to the page."""
        number = self._browser.send(method, parameters, self._session)
        reply = self._read_until(lambda message: message.get("id") == number)
        assert "error" not in reply, (method, reply["error"])
        return dict(reply["result"])

    def _read_until(self, is_awaited: Any) -> dict[str, Any]:
        while True:
            message = self._browser.read()
            if message.get("sessionId") == self._session:  # not a late event of another page
                self._note(message.get("method"), message.get("params", {}))
                if is_awaited(message):
                    return message

    def _note(self, event: str | None, details: dict[str, Any]) -> None:
        match event:
            case "Runtime.consoleAPICalled":
                self.console.append(f"{details['type']}: {details['args']}")
            case "Runtime.exceptionThrown":
                self.console.append(f"uncaught: {details['exceptionDetails']}")
            case "Log.entryAdded":
                self.console.append(f"{details['entry']['level']}: {details['entry']['text']}")
            case "Network.requestWillBeSent":
                url = details["request"]["url"]
                if not url.startswith("data:"):
                    self.requested.append(url)


@contextmanager
def started_browser(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser with its files in `profile`; it ends with the block."""
    read_requests, requests = os.pipe()
    replies, write_replies = os.pipe()
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", MOVE_PIPES, str(read_requests), str(write_replies)),
            *(program, *FLAGS, f"--user-data-dir={profile}", "about:blank"),
        ],
        start_new_session=True,
        pass_fds=(read_requests, write_replies),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_requests)
    os.close(write_replies)
    try:
        browser = Browser(requests, replies)
        yield browser
        browser.reply(browser.send("Browser.close", {}))
    finally:
        os.close(requests)
        os.close(replies)
        try:
            process.wait(timeout=SILENCE_SECONDS)  # closed pipes end the browser
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
