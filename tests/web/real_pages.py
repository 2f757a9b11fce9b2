"""Pages that the views made, in a real Chromium: rendered before the browser opens, answered from memory, no other host.

`rendered(client, paths)` asks the views; `opened(browser, pages)` shows what they answered, with the console's own
Content-Security-Policy. The database is out of reach while the browser runs, so a page cannot ask for anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from csp.utils import build_policy
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, Route

from tests.web.rendering import ORIGIN, static_file

AXE = Path(settings.BASE_DIR) / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def rendered(client: Client, paths: Iterable[str], *, theme: str = "light") -> dict[str, str]:
    """What the views answer at these addresses, by path and query."""
    client.cookies["theme"] = theme
    pages = {}
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        pages[path] = answer.content.decode()
    return pages


@dataclass
class Shown:
    """A page of the browser with what it complained about."""

    page: Page
    pages: Mapping[str, str]
    complaints: list[str] = field(default_factory=list)

    def visit(self, path: str) -> None:
        """Open an address and wait until its scripts run."""
        self.page.goto(ORIGIN + path)
        self.page.wait_for_function("document.documentElement.classList.contains('scripted')")

    def violations(self) -> list[str]:
        """What axe finds on the page that is open."""
        self.page.evaluate(AXE.read_text())
        script = "tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']})"
        result = self.page.evaluate(script, RULES)
        return [
            f"{self.page.url}: {violation['id']} {node['target']} {node['failureSummary'].splitlines()[1:2]}"
            for violation in result["violations"]
            for node in violation["nodes"][:3]
        ]

    def answer(self, route: Route) -> None:
        """One request of the page: a file of the build, or what the view answered."""
        url = urlsplit(route.request.url)
        if not route.request.url.startswith(ORIGIN):
            self.complaints.append(f"asked another host: {route.request.url}")
            route.abort()
            return
        file = static_file(url.path)
        if file is not None:
            route.fulfill(body=file[0], content_type=file[1])
            return
        path = f"{url.path}?{url.query}" if url.query else url.path
        headers = {"Content-Security-Policy": build_policy()}
        if path in self.pages:
            route.fulfill(body=self.pages[path], content_type="text/html; charset=utf-8", headers=headers)
        else:
            route.fulfill(status=204)


@contextmanager
def opened(browser: Browser, pages: Mapping[str, str], *, width: int = 1440, height: int = 900) -> Iterator[Shown]:
    """These pages in a fresh browser context, `width` pixels wide."""
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    page = context.new_page()
    shown = Shown(page, pages)
    page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    page.route("**/*", shown.answer)
    yield shown
    context.close()
