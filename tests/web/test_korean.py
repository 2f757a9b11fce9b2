"""Korean is complete: every message has its translation, and no page of the console falls back into English."""

import re
from datetime import timedelta
from html.parser import HTMLParser
from io import BytesIO

import pytest
from django.test import Client
from django.utils import translation

from accounts.models import Notification
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.verdicts import Gate, passed, refused
from gshare_site import translations
from sessions_app import services
from sessions_app.models import Session
from sessions_app.services import Asked
from sessions_app.views import verdicts
from tests.apps.sessions.world import a_world, limit, manual_clock
from tests.builders import a_user
from tests.web.rendering import render_page

WORDS = re.compile(r"[A-Za-z]{3,}")
PROPER = frozenset(
    {"GShare", "GPU", "CPU", "CUDA", "CSV", "GiB", "MiB", "TiB", "UTC", "JupyterLab", "Code", "Korean", "English"}
)
HEX = r"(?:GPU-)?[0-9a-f]{4,}(?:[-…][0-9a-f]{4,})+"
PATHS = re.compile(rf"/(?:home/work|data|mnt|workspace)|\b[A-Z]\w+/\w+|{HEX}")  # mount paths, time zones, identifiers


class Texts(HTMLParser):
    """What a reader sees or hears of a page: text, labels and hints; not what is marked as an identifier or a language."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._skipped: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        own = "mono" in (given.get("class") or "").split() or given.get("lang") == "en" or tag in {"script", "style"}
        own = own or (tag == "select" and given.get("name") == "time_zone")
        if self._skipped or own:
            self._skipped += [tag] if tag not in {"input", "img", "br", "meta", "link", "use", "hr", "wbr"} else []
            return
        if given.get("lang", "ko") == "ko":
            self.found += [given[name] or "" for name in ("aria-label", "title", "placeholder") if name in given]

    def handle_endtag(self, tag):
        if self._skipped and self._skipped[-1] == tag:
            self._skipped.pop()

    def handle_data(self, data):
        if not self._skipped:
            self.found.append(data)


def english(html: str, *names: str) -> set[str]:
    """Words of three letters and more that are no proper names and none of `names`."""
    text = PATHS.sub(" ", "\n".join(Texts(html).found))
    for name in names:
        text = text.replace(name, " ")
    return set(WORDS.findall(text)) - PROPER


def test_every_message_is_translated_with_its_placeholders():
    assert translations.faults(translations.load("ko")) == []


def test_the_catalogue_holds_exactly_the_messages_of_the_sources():
    kept = {(message.id, message.context) for message in translations.load("ko") if message.id}
    found = {(message.id, message.context) for message in translations.extract() if message.id}
    assert found - kept == set(), "make messages"
    assert kept - found == set(), "make messages"


def test_the_catalogue_is_written_as_the_tool_writes_it():
    assert translations.path_of("ko").read_bytes() == translations.written(translations.merged("ko")), "make messages"


def test_a_missing_translation_and_a_lost_placeholder_are_named():
    catalogue = translations.Catalog(locale="ko")
    catalogue.add("Stop %(name)s", "중지")
    catalogue.add("Pause", "")
    assert translations.faults(catalogue) == [
        "placeholders differ: 'Stop %(name)s' and '중지'",
        "not translated: 'Pause'",
    ]


def test_templates_give_their_strings_whole_with_plural_and_context():
    source = b"""{% load i18n %}{% translate "Open" %}{{ _("Close") }}<c-x title="{% translate 'It%' context 'c' %}" />
    {% blocktranslate count n=3 trimmed %}
        {{ n }} card
    {% plural %}{{ n }} cards{% endblocktranslate %}"""
    found = [(function, text) for _line, function, text, _c in translations.extract_templates(BytesIO(source))]
    assert found == [
        ("gettext", "Open"),
        ("_", "Close"),
        ("pgettext", ("c", "It%%")),
        ("ngettext", ("%(n)s card", "%(n)s cards")),
    ]


@pytest.mark.urls("tests.web.console_urls")
@pytest.mark.parametrize("page", ["400", "403", "404", "500", "503", "csrf"])
def test_pages_of_errors_are_korean(page):
    html = render_page(page, language="ko")
    assert '<html lang="ko"' in html
    assert english(html, "Vision Lab", "Engineering") == set()


def test_the_ways_in_are_korean(db):
    someone = a_user(must_change_password=True)
    browser = Client(headers={"accept-language": "ko"})
    assert english(_page(browser, "/login/")) == set()
    browser.force_login(someone)
    assert english(_page(browser, "/password/"), someone.email, someone.name) == set()


@pytest.fixture
def korean(db):
    """Alice's browser, which prefers Korean, and a world with a session in every state that she can see."""
    time = manual_clock()
    with clock.using(time):
        world = a_world(time)
        Notification.objects.filter(user=world.alice.user).delete()  # told before she chose a language
        running = world.run("XL", name="running-1")
        world.create("M", name="starting-1")
        paused = world.run("M", name="paused-1")
        services.pause_session(Asked(paused.pk, world.alice.user))
        world.gone(paused)
        world.create("exclusive", name="queued-1")
        stopped = world.run("cpu", name="stopped-1")
        services.stop_session(Asked(stopped.pk, world.alice.user))
        world.gone(stopped)
        world.pass_time(timedelta(minutes=70), running)
        client = Client(headers={"accept-language": "ko"})
        client.force_login(world.alice.user)
        yield world, client


def _page(client: Client, path: str) -> str:
    response = client.get(path, secure=True)
    assert response.status_code == 200, path
    assert response.headers["Content-Language"] == "ko"
    return response.content.decode()


def _leftovers(world, html: str) -> set[str]:
    user = world.alice.user
    names = [
        user.email, user.name, world.cluster.name, world.alice.group.name, world.alice.group.organisation.name, world.image.name,
        world.offering.name, world.node.name, "running-1", "starting-1", "paused-1", "queued-1", "stopped-1", "session-1",
        *(preset.name for preset in world.presets.values()),
    ]  # fmt: skip
    return english(html, *sorted(filter(None, names), key=len, reverse=True))


PLACES = ("/", "/sessions/", "/sessions/new/", "/queue/", "/wallet/", "/volumes/", "/notifications/", "/account/")


@pytest.mark.parametrize(
    "path", [*PLACES, "/sessions/?tab=paused", "/sessions/?tab=ended", "/sessions/?q=nothing-here"]
)
def test_every_page_of_the_console_is_korean(korean, path):
    world, client = korean
    assert _leftovers(world, _page(client, path)) - {"nothing", "here"} == set()


@pytest.mark.parametrize("state", ["running", "starting", "queued", "paused", "stopped"])
def test_a_session_is_told_in_korean_in_every_state(korean, state):
    world, client = korean
    session = Session.objects.get(owner=world.alice.user, name=f"{state}-1")
    assert _leftovers(world, _page(client, f"/sessions/{session.pk}/")) == set()


def test_a_queued_and_a_refused_request_say_why_in_korean(korean):
    world, client = korean
    whole = _page(client, f"/sessions/new/?name=big&preset={world.presets['exclusive'].pk}")
    assert "번째로 대기" in whole
    assert _leftovers(world, whole) - {"big"} == set()
    limit("user", "max_sessions", 1, target=world.alice.user)
    refused_page = _page(client, f"/sessions/new/?name=big&preset={world.presets['S'].pk}")
    assert "4번째 관문에서 거부됨: 정책" in refused_page
    assert _leftovers(world, refused_page) - {"big"} == set()


def test_the_language_of_the_account_is_kept_as_a_cookie_and_wins_over_the_browser(korean):
    _world, client = korean
    client.post("/account/", {"language": "en", "time_zone": ""}, secure=True)
    assert '<html lang="en"' in client.get("/", secure=True).content.decode()


NAMES = verdicts.Names(gpu="A100", image="PyTorch", group="Vision", volumes={"v": "home"})
REFUSED = [
    refused(Gate.REFERENCES, "forbidden", "English", "English", why="guest"),
    refused(Gate.REFERENCES, "not_found", "English", "English", field="image"),
    refused(Gate.REFERENCES, "image_incompatible", "English", "English", image_cuda=None, min_cuda="12.8"),
    refused(Gate.REFERENCES, "never_fits", "English", "English", tiers=["L"]),
    refused(Gate.REFERENCES, "never_fits", "English", "English", smallest={"vram_mib": 1024}),
    refused(Gate.REFERENCES, "never_fits", "English", "English", largest={"cards": 2, "cpu_milli": 500, "cores": 3}),
    refused(Gate.REFERENCES, "asymmetric_shape", "English", "English", core_percent_min=1, core_percent_max=4),
    refused(Gate.MOUNTS, "mount_forbidden", "English", "English", volume="v", why="other_cluster"),
    refused(Gate.MOUNTS, "mount_conflict", "English", "English", volume="v", session="s", why="stopping"),
    refused(Gate.MOUNTS, "mount_path_invalid", "English", "English", path="/home"),
    refused(Gate.WALLET, "wallet_forbidden", "English", "English"),
    refused(Gate.POLICY, "quota_exceeded", "English", "English", field="vram_mib", limit=9, used=8, scope="group:x", asked=2),
    refused(Gate.POLICY, "quota_exceeded", "English", "English", field="max_priority", limit=0, used=0, scope="global"),
    refused(Gate.BUDGET, "budget_exceeded", "English", "English", limit="1.0", spent="0.5", held="0.0", needed="2.0"),
    refused(Gate.HOLD, "insufficient_credit", "English", "English", needed="2.0", available="1.0"),
    refused(Gate.RESERVATION, "no_capacity", "English", "English", missing={}),
]  # fmt: skip


@pytest.mark.parametrize("verdict", REFUSED, ids=lambda verdict: verdict.code)
def test_every_refusal_of_admission_is_said_in_korean(verdict):
    with translation.override("ko"):
        said = verdicts.refusal(verdict, NAMES)
    assert said.detail and said.remedy
    for name in ("A100", "PyTorch", "Vision", "home", "work", "data", "mnt", "space"):
        said = verdicts.Said(said.detail.replace(name, ""), said.remedy.replace(name, ""))
    assert set(WORDS.findall(said.text)) - PROPER == set()


def test_a_refusal_without_its_facts_keeps_the_domains_own_words():
    with translation.override("ko"):
        assert verdicts.refusal(DomainError("quota_exceeded", "Too much.", remedy="Less.")).text == "Too much. Less."
        assert verdicts.refusal(DomainError("conflict", "Somebody was faster.")).text == "Somebody was faster."


def test_a_gate_that_passed_without_its_facts_keeps_the_domains_own_words():
    with translation.override("ko"):
        assert verdicts.passing(passed(Gate.HOLD, "enough"), None) == "enough"


def test_a_notice_that_was_written_in_one_language_is_shown_as_it_was_written(korean):
    world, client = korean
    Notification.objects.create(
        id=uuid7(),
        user=world.alice.user,
        kind="credits_received",
        title="크레딧을 받았습니다",
        body="",
        at=world.time.now(),
    )
    assert "크레딧을 받았습니다" in _page(client, "/notifications/")
