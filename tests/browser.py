"""A real Chromium without a window, driven over its DevTools protocol through a pair of pipes; nothing else is needed.

with Browser() as browser:
    page = browser.open("file:///tmp/page.html")
    page.key("ArrowRight")
    page.evaluate("document.title")
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = "Chromium is not installed; on Debian: apt-get install -y chromium; elsewhere set ADJOINT_CHROMIUM to its path"
PATIENCE = 60.0  # seconds until a browser that does not answer is given up

_KEYS = {
    "ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40,
    "Home": 36, "End": 35, "Enter": 13, "Escape": 27, "Tab": 9,
}  # fmt: skip


def executable() -> str | None:
    """The path of Chromium, or None."""
    return os.environ.get("ADJOINT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser process, with a profile of its own that is removed with it."""

    def __init__(self) -> None:
        program = executable()
        if program is None:
            raise RuntimeError(INSTALL)
        self.profile = tempfile.TemporaryDirectory(prefix="adjoint-chromium-", ignore_cleanup_errors=True)
        # Chromium reads from descriptor 3 and writes to 4. Its ends get high numbers first, so that neither is overwritten.
        near_in, self.out = os.pipe()
        self.inp, near_out = os.pipe()
        theirs_in, theirs_out = (fcntl.fcntl(end, fcntl.F_DUPFD, 100) for end in (near_in, near_out))
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
            "--force-color-profile=srgb", f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        command = f"exec 3<&{theirs_in} 4>&{theirs_out}; exec {shlex.join([program, *options])}"
        self.process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for end in (near_in, near_out, theirs_in, theirs_out):
            os.close(end)
        self.buffer = b""
        self.last = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # the group that was started for it
        self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        self.profile.cleanup()

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """One command and its answer; events that come meanwhile are kept."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data) :]
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            if not select.select([self.inp], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium has not answered for {PATIENCE:.0f} s")
            data = os.read(self.inp, 1 << 16)
            if not data:
                raise RuntimeError(f"Chromium has ended, with exit code {self.process.poll()}")
            self.buffer += data
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, url: str, *, width: int = 1400, height: int = 900, dark: bool = False) -> Page:
        """A new page, loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.prefer(dark)
        page.call("Page.navigate", url=url)
        page.wait("Page.loadEventFired")
        return page


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

    def events(self, method: str) -> list[dict[str, Any]]:
        """The events of a kind on this page so far."""
        return [e["params"] for e in self.browser.events if e["method"] == method and e.get("sessionId") == self.session]

    def wait(self, method: str) -> None:
        while not self.events(method):
            self.browser.receive()

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")

    def key(self, name: str, times: int = 1, modifiers: int = 0) -> None:
        """Press a key: one character, or a name such as ArrowRight."""
        typed = {"text": name} if len(name) == 1 else {"text": "\r"} if name == "Enter" else {}
        code = _KEYS.get(name) or (ord(name.upper()) if name.isalnum() else 0)
        for _ in range(times):
            self.call(
                "Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, modifiers=modifiers, **typed
            )
            self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code, modifiers=modifiers)

    def write(self, text: str) -> None:
        for character in text:
            self.key(character)

    def click(self, selector: str, count: int = 1) -> None:
        """Click the middle of an element with the mouse."""
        found = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        box = self.evaluate(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({found})")
        for nth in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=nth)

    def prefer(self, dark: bool) -> None:
        """What the reader's system asks for: light or dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the page: exceptions, the console, the policy."""
        found = [e["exceptionDetails"]["text"] for e in self.events("Runtime.exceptionThrown")]
        found += [str(e["args"]) for e in self.events("Runtime.consoleAPICalled") if e["type"] in ("error", "warning", "assert")]
        return found + [e["entry"]["text"] for e in self.events("Log.entryAdded") if e["entry"]["level"] in ("error", "warning")]

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        return [e["request"]["url"] for e in self.events("Network.requestWillBeSent")]
