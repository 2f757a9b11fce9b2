"""Every page of the console, rendered from samples: what any screen must do, and what none may contain."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.template import engines
from django.template.loader import get_template

from gshare_core.kit.wording import STATE_LOOKS
from sessions_app.views import admin_shell
from tests.web import samples
from tests.web.rendering import render_page

pytestmark = pytest.mark.urls("tests.web.console_urls")

PAGES = ["parts", *samples.PAGES]
TEMPLATES = Path(settings.BASE_DIR) / "templates"
SOURCES = Path(settings.BASE_DIR) / "static" / "src"
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
PARTIAL = re.compile(r"{%\s*partialdef ([\w-]+)")
FRAGMENTS = [
    (page, fragment)
    for page, (template, _) in samples.PAGES.items()
    for fragment in PARTIAL.findall((TEMPLATES / template).read_text())
]


class Outline(HTMLParser):
    """Collects what the assertions below look at."""

    def __init__(self, html):
        super().__init__()
        self.elements = []
        self.texts = []
        self.open = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        element = {
            "tag": tag,
            "attrs": {k: v or "" for k, v in attrs},
            "inside": [e["tag"] for e in self.open],
            "text": "",
        }
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        while self.open and self.open.pop()["tag"] != tag:
            pass

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, *tags):
        return [element for element in self.elements if element["tag"] in tags]


@pytest.fixture(params=PAGES)
def page(request):
    return Outline(render_page(request.param))


def test_a_page_has_one_title_one_heading_one_main_and_a_skip_link(page):
    assert len(page.all("h1")) == 1
    assert page.all("h1")[0]["text"].strip()
    assert page.all("title")[0]["text"].strip().endswith("· GShare")
    assert [main["attrs"]["id"] for main in page.all("main")] == ["content"]
    assert any(a["attrs"].get("href") == "#content" and "skip" in a["attrs"].get("class", "") for a in page.all("a"))


def test_nothing_is_inline_and_nothing_comes_from_another_host(page):
    for element in page.elements:
        attrs = element["attrs"]
        assert "style" not in attrs
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("src", "href", "action", "formaction", "hx-get", "hx-post"):
            assert not attrs.get(name, "").startswith(("http:", "https:", "//", "javascript:", "data:")), attrs
    assert not page.all("style")
    assert all(script["attrs"].get("src") for script in page.all("script"))


def test_every_control_has_a_name(page):
    labelled = {label["attrs"].get("for") for label in page.all("label")}
    for control in page.all("input", "select", "textarea"):
        attrs = control["attrs"]
        if attrs.get("type") in ("hidden", "submit"):
            continue
        assert attrs.get("id") in labelled or "aria-label" in attrs or "label" in control["inside"], attrs
    for button in page.all("button", "a", "summary"):
        assert button["text"].strip() or button["attrs"].get("aria-label"), button["attrs"]


def test_every_form_that_changes_something_carries_its_token(page):
    posts = [f for f in page.all("form") if f["attrs"].get("method") == "post"]
    tokens = [i for i in page.all("input") if i["attrs"].get("name") == "csrfmiddlewaretoken"]
    assert len(tokens) == len(posts)


def test_no_identifier_is_used_twice_and_every_reference_leads_somewhere(page):
    ids = [e["attrs"]["id"] for e in page.elements if "id" in e["attrs"]]
    assert sorted(ids) == sorted(set(ids))
    for element in page.elements:
        for name in ("aria-describedby", "aria-labelledby", "for", "aria-controls", "popovertarget"):
            for reference in element["attrs"].get(name, "").split():
                assert reference in ids or reference == "ask-title", f"{name}={reference}"


@pytest.mark.parametrize("name", PAGES)
def test_no_template_syntax_reaches_the_reader(name):
    html = render_page(name)
    assert not re.search(r"{[%{#]|[%}#]}|<c-|cotton", html)


def _money(attributes):
    template = engines["django"].from_string(f"{{% cotton money {attributes} %}}{{% endcotton %}}")
    return re.sub(r"<[^>]+>", "", template.render({"micro": 12_345_000, "nothing": None})).strip()


def test_money_always_says_its_unit_unless_the_column_does():
    assert _money(':micro="micro"') == "12.35 cr"
    assert _money(':micro="micro" per="h"') == "12.35 cr/h"
    assert _money(':micro="micro" bare="yes" sign="yes"') == "+12.35"
    assert _money(':micro="nothing"') == "\N{EN DASH}"


@pytest.mark.parametrize(("name", "fragment"), FRAGMENTS, ids=lambda value: value)
def test_a_fragment_is_one_element_that_can_ask_for_itself(name, fragment):
    outline = Outline(render_page(name, fragment=fragment).strip())
    if fragment == "dialog":
        assert outline.elements[0]["tag"] == "form"
        return
    roots = [element for element in outline.elements if not element["inside"]]
    assert len(roots) == 1
    attrs = roots[0]["attrs"]
    assert attrs["id"] == fragment
    assert attrs["hx-get"]
    assert "live" in attrs["hx-trigger"]
    assert attrs["hx-target"] == "this"
    assert attrs["data-live-topic"]


def test_icons_are_drawn_from_the_list_and_the_list_holds_no_others():
    listed = set(json.loads((SOURCES / "icons.json").read_text()))
    used = {look.icon for look in STATE_LOOKS.values()}
    for template in TEMPLATES.rglob("*.html"):
        text = template.read_text()
        for name in re.findall(r'<c-icon name="([^"]+)"', text):
            used |= set(re.findall(r"[\w-]+", re.sub(r"{[%{].*?[%}]}", " ", name)))
        used |= set(re.findall(r'\bicon(?:_after)?="([\w-]+)"', text))
        used |= {
            icon
            for word in re.findall(r"{% (?:if|elif|else)[^%]*%}([\w-]+)(?={%)", text)
            for icon in [word]
            if icon in listed
        }
    for page in PAGES:
        used |= set(re.findall(r'icons\.svg#([\w-]+)"', render_page(page)))
    used |= {entry.icon for _title, entries in admin_shell.SECTIONS for entry in entries}
    used |= {"budget", "drain", "upload"}  # alarms of the overview, the acts of a list
    reserved = {"code", "file", "back"}  # applications' marks
    assert used - listed == set()
    assert listed - used - reserved == set()


def test_a_states_look_exists_for_every_state_of_the_life_cycle():
    lifecycle = pytest.importorskip("sessions_app.domain.lifecycle")
    assert set(STATE_LOOKS) == {str(state.value if hasattr(state, "value") else state) for state in lifecycle.State}


def test_the_chosen_theme_is_on_the_page_and_the_system_decides_without_one():
    assert 'data-theme="gshare-dark"' in render_page("dashboard", theme="dark")
    assert "data-theme=" not in render_page("dashboard", theme="").split("<head>")[0]


def test_what_a_user_typed_is_never_markup():
    context = samples.session_detail()
    context["session"].name = "<script>alert(1)</script>"
    html = get_template("sessions_app/session.html").render({"shell": samples.user_shell(), **context})
    assert "<script>alert" not in html
