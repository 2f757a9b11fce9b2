"""A real Chromium on pages rendered from samples: no server, the console's own Content-Security-Policy, no other host.

`open_console(browser, …)` answers every request of the page itself: pages and fragments from samples, files from the build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from csp.utils import build_policy
from django.conf import settings
from playwright.sync_api import Browser, Page, Route, sync_playwright

from tests.web import samples
from tests.web.rendering import ORIGIN, render_page, static_file

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DIST = Path(settings.BASE_DIR) / "static" / "dist"
MISSING = [str(path) for path in (CHROMIUM, DIST / "app.css", DIST / "app.js") if not path.exists()]
needs_browser = pytest.mark.skipif(bool(MISSING), reason=f"needs Chromium and `npm run build`; missing: {MISSING}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium that ends with the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Console:
    """A page with what it asked for and what it complained about."""

    page: Page
    theme: str = "light"
    asked: list[tuple[str, str]] = field(default_factory=list)  # (path, fragment)
    complaints: list[str] = field(default_factory=list)
    answers: dict[str, Callable[[], str]] = field(default_factory=dict)

    def visit(self, name: str) -> None:
        """Open a page of the samples and wait until its scripts run."""
        self._shown = name
        self.page.goto(ORIGIN + samples.path_of(name) if name != "parts" else f"{ORIGIN}/gallery/")
        self.page.wait_for_function("document.documentElement.classList.contains('scripted')")

    def fragments(self, name: str) -> int:
        """How often the page asked for a fragment."""
        return sum(fragment == name for _, fragment in self.asked)

    def answer(self, route: Route) -> None:
        """One request of the page."""
        request = route.request
        if not request.url.startswith(ORIGIN):
            self.complaints.append(f"asked another host: {request.url}")
            route.abort()
            return
        path = request.url.removeprefix(ORIGIN).partition("?")[0]
        file = static_file(path)
        if file is not None:
            route.fulfill(body=file[0], content_type=file[1])
            return
        fragment = request.headers.get("hx-target", "") if request.headers.get("hx-request") else ""
        self.asked.append((path, fragment))
        if fragment in self.answers:
            html = self.answers[fragment]()
        elif fragment == "dialog":
            html = render_page("ask", theme=self.theme, fragment=fragment)
        else:
            html = render_page(self._shown, theme=self.theme, fragment=fragment)
        route.fulfill(
            body=html, content_type="text/html; charset=utf-8", headers={"Content-Security-Policy": build_policy()}
        )


@contextmanager
def open_console(
    browser: Browser, *, width: int = 1440, theme: str = "light", scripts: bool = True, **more: Any
) -> Iterator[Console]:
    """A console in a fresh context, `width` pixels wide."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, java_script_enabled=scripts, reduced_motion="reduce", **more
    )
    page = context.new_page()
    console = Console(page, theme)
    page.on("pageerror", lambda error: console.complaints.append(str(error)))
    page.on("console", lambda message: _listen(console, message.type, message.text))
    page.route("**/*", console.answer)
    yield console
    context.close()


def _listen(console: Console, kind: str, text: str) -> None:
    if kind in ("error", "warning") and "WebSocket" not in text:
        console.complaints.append(text)
