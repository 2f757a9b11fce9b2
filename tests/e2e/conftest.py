"""Where the browser stories happen, and their browser.

`demo` is a place: `make demo`'s own processes with the local cluster, and the same control plane with a cluster of Kubernetes
(`on_kubernetes.py`); each is made once for all tests that ask for it. `browser` is Debian's Chromium driven by Playwright.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.e2e.on_kubernetes import demo_on_kubernetes
from tests.e2e.running import PATIENCE_MS, Demo, quiet_page, running_demo

CHROMIUM = "/usr/bin/chromium"
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PLACES = {"local": lambda _browser: running_demo(), "kubernetes": demo_on_kubernetes}


@pytest.fixture(scope="session", params=PLACES)
def demo(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Demo]:
    """One demo of each place for all browser tests of this worker."""
    with PLACES[request.param](browser) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium; the tests that need it are required wherever the suite runs."""
    assert Path(CHROMIUM).exists(), "Chromium is missing: make setup installs it"
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield launched
        launched.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser of somebody new: no cookies."""
    fresh = browser.new_context(viewport={"width": 1440, "height": 900})
    yield fresh
    fresh.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that must not complain."""
    with quiet_page(context) as opened:
        yield opened
