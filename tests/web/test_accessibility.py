"""Every page in a real browser: WCAG 2.2 AA by axe, no sideways scroll, targets of 44 px on a phone, a clean console."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from tests.web import samples
from tests.web.browser import chromium, needs_browser, open_console

pytestmark = [pytest.mark.e2e, needs_browser]

AXE = Path(settings.BASE_DIR) / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ["parts", *samples.PAGES]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The gallery shows states, dialogs and repeated samples side by side as no page does.
GALLERY_ONLY = {"landmark-unique", "heading-order", "aria-dialog-name"}


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


SMALL_TARGETS = """() => [...document.querySelectorAll('a[href], button, summary, select, input:not([type=hidden])')]
    .filter(e => e.checkVisibility({checkVisibilityCSS: true}) && !e.closest('.sr-only, .skip') && !e.disabled)
    .map(e => {
        const own = e.getBoundingClientRect();
        const after = getComputedStyle(e, '::after');
        const reach = after.position === 'absolute' ? parseFloat(after.height) : 0;
        const label = e.closest('label')?.getBoundingClientRect().height ?? 0;
        return {what: e.outerHTML.slice(0, 90), tall: Math.round(Math.max(own.height, reach, label)), shown: own.width > 1};
    })
    .filter(e => e.shown && e.tall < 44).map(e => `${e.tall}px ${e.what}`)"""


def _violations(page, name):
    page.evaluate(AXE.read_text())
    result = page.evaluate(
        "tags => axe.run({exclude: [['.plot-live']]}, {runOnly: tags, resultTypes: ['violations']})", RULES
    )
    return [
        f"{name}: {violation['id']} {node['target']} {node['failureSummary'].splitlines()[1:2]}"
        for violation in result["violations"]
        if not (name == "parts" and violation["id"] in GALLERY_ONLY)
        for node in violation["nodes"][:3]
    ]


def test_axe_finds_nothing_on_any_page_in_light_on_a_desktop(browser):
    with open_console(browser) as console:
        found = []
        for name in PAGES:
            console.visit(name)
            found += _violations(console.page, name)
        assert found == []
        assert console.complaints == [], "the Content-Security-Policy or a script complained"


def test_axe_finds_nothing_in_dark_on_a_phone_where_nothing_scrolls_sideways_and_every_target_fits_a_thumb(browser):
    with open_console(browser, width=390, theme="dark") as console:
        found = []
        for name in PAGES:
            console.visit(name)
            found += _violations(console.page, name)
            if name == "parts":
                continue
            if console.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append(f"{name} scrolls sideways")
            found += [f"{name}: {fault}" for fault in console.page.evaluate(SMALL_TARGETS)]
        assert found == []


def test_the_pages_are_whole_without_scripts(browser):
    with open_console(browser, scripts=False) as console:
        page = console.page
        console._shown = "dashboard"
        page.goto("http://console.test/")
        page.locator("summary[aria-label='Open vit-ft']").click()
        assert page.get_by_role("button", name="JupyterLab").first.is_visible()
        assert page.locator("#session-0 a, .name-go").first.get_attribute("href")
        console._shown = "session"
        page.goto(f"http://console.test{samples.path_of('session')}")
        stop = page.get_by_role("link", name="Stop")
        assert stop.get_attribute("href").endswith("/stop/")
        assert page.locator("#chart-1 path.line").get_attribute("d").startswith("M")
        page.locator(".foot-table > summary").click()
        assert page.get_by_role("cell", name="16:42").is_visible()
        console._shown = "new-session"
        page.goto("http://console.test/sessions/new/")
        assert page.locator("noscript").count() == 0 or page.get_by_role("button", name="Check").is_visible()


def test_the_keyboard_alone_reaches_the_content_and_sees_where_it_is(browser):
    with open_console(browser) as console:
        console.visit("dashboard")
        page = console.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null")
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert ring == "2px"
        page.locator("summary[aria-label='Open vit-ft']").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.textContent.trim()") == "JupyterLab"
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Open vit-ft"


@pytest.mark.parametrize(("system", "dark"), [("dark", True), ("light", False)])
def test_who_chose_no_theme_gets_the_systems(browser, system, dark):
    with open_console(browser, theme="", color_scheme=system) as console:
        console.visit("dashboard")
        ground = console.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        lightness = float(re.fullmatch(r"oklch\(([\d.]+) .*\)", ground)[1])
        assert (lightness < 0.5) == dark
