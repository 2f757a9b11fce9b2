"""live.js and its neighbours in a real browser: a lost push, socket or right costs latency, never truth."""

import json

import pytest

from tests.waiting import until
from tests.web.browser import chromium, needs_browser, open_console
from tests.web.rendering import render_page

pytestmark = [pytest.mark.e2e, needs_browser]

SESSION = "session:019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0"


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


class Server:
    """The other end of the page's websocket."""

    def __init__(self, page):
        self.sockets = []
        self.heard = []
        page.route_web_socket("**/ws/live/", self._accept)

    def _accept(self, socket):
        self.sockets.append(socket)
        socket.on_message(lambda text: self.heard.append(json.loads(text)))

    def say(self, **message):
        self.sockets[-1].send(json.dumps(message))

    def subscribed(self):
        return {topic for message in self.heard for topic in message.get("subscribe", [])}


@pytest.fixture
def live(browser):
    """A session's page with a clock that the test moves."""
    with open_console(browser) as console:
        server = Server(console.page)
        console.page.clock.install()
        console.visit("session")
        wait(console, lambda: SESSION in server.subscribed(), "the subscription")
        console.asked.clear()
        yield console, server


def wait(console, condition, what):
    """Lets the page's events run until `condition` holds."""

    def poll():
        console.page.evaluate("1")
        return condition()

    return until(poll, within=10, what=what)


def test_the_page_asks_for_what_it_shows(live):
    _, server = live
    assert {SESSION, "wallet"} <= server.subscribed()


def test_a_newer_version_fetches_the_fragment_and_an_older_one_does_not(live):
    console, server = live
    server.say(topic=SESSION, version=17)
    server.say(topic=SESSION, version=18)
    wait(console, lambda: console.fragments("session-head") == 1, "one fetch for the newer version")
    wait(console, lambda: console.fragments("timeline") == 1, "one fetch of the page's other part")
    assert console.fragments("wallet-chip") == 0, "another topic stays as it is"
    assert console.fragments("session-head") == 1, "the version it already showed fetched nothing"


def test_a_message_that_is_no_message_changes_nothing(live):
    console, server = live
    server.sockets[-1].send("<html>proxy error</html>")
    server.say(pong=1)
    server.say(topic=SESSION, version=18)
    wait(console, lambda: console.fragments("session-head") == 1, "the page lives on")
    assert console.complaints == []


def test_what_is_pressed_open_stays_open_when_its_surroundings_are_fetched_again(live):
    console, server = live
    console.page.locator(".foot-table > summary").click()
    server.say(topic=SESSION, version=18)
    wait(console, lambda: console.fragments("session-use") == 1, "the fetch")
    assert console.page.locator(".foot-table").get_attribute("open") is not None


def test_without_any_push_the_page_is_at_most_thirty_seconds_old(live):
    console, _ = live
    console.page.clock.run_for(31_000)
    wait(console, lambda: console.fragments("session-head") >= 1, "the fetch after 30 s")
    wait(console, lambda: console.fragments("wallet-chip") >= 1, "the fetch of the other topic")


def test_the_connection_beats_every_twenty_seconds(live):
    console, server = live
    server.heard.clear()
    console.page.clock.run_for(20_100)
    wait(console, lambda: any("ping" in message for message in server.heard), "the heartbeat")


def test_a_lost_connection_comes_back_and_everything_is_fetched_again(live):
    console, server = live
    server.sockets[-1].close()
    wait(console, lambda: console.page.evaluate("document.documentElement.dataset.connection") == "waiting", "the loss")
    console.asked.clear()
    server.heard.clear()
    console.page.clock.run_for(2_000)
    wait(console, lambda: len(server.sockets) == 2 and SESSION in server.subscribed(), "the reconnect")
    wait(console, lambda: console.fragments("session-head") >= 1, "the fetch after the reconnect")
    assert console.page.evaluate("document.documentElement.dataset.connection") == "live"


def test_a_connection_that_fell_silent_is_given_up_before_its_close_arrives(live):
    console, server = live
    console.page.clock.run_for(82_000)
    wait(console, lambda: len(server.sockets) >= 2, "a second connection")


def test_who_is_signed_out_sees_it_at_once(live):
    console, server = live
    with console.page.expect_navigation():
        server.sockets[-1].close(code=4401)


def test_a_change_is_announced_once_and_politely(live):
    console, server = live
    html = render_page("session", fragment="session-head").replace("vit-ft is running", "vit-ft is pausing")
    console.answers["session-head"] = lambda: html
    server.say(topic=SESSION, version=18)
    region = console.page.locator("#announcer")
    wait(console, lambda: region.text_content() == "vit-ft is pausing", "the announcement")
    assert region.get_attribute("aria-live") == "polite"


def test_stop_asks_in_a_dialog_that_names_the_thing_and_escape_keeps_it(live):
    console, _ = live
    page = console.page
    page.get_by_role("link", name="Stop").click()
    dialog = page.get_by_role("dialog", name="Stop vit-ft?")
    dialog.wait_for()
    assert dialog.get_by_role("listitem").count() == 3
    assert dialog.locator("form").get_attribute("action") == "/sessions/1/stop/"
    page.keyboard.press("Escape")
    wait(console, lambda: not dialog.is_visible(), "the dialog to close")


def test_a_form_is_sent_once_however_often_it_is_pressed(browser):
    with open_console(browser) as console:
        console.visit("new-session")
        console.page.evaluate("document.getElementById('new-session').target = 'nowhere'")
        console.page.evaluate(
            """() => { window.sent = 0;
            addEventListener('submit', event => { window.sent += !event.defaultPrevented; event.preventDefault(); }); }"""
        )
        button = console.page.locator(".start-box .btn")
        button.dispatch_event("click")
        button.dispatch_event("click")
        assert console.page.evaluate("window.sent") == 1
        assert button.get_attribute("aria-busy") == "true"


def test_typing_is_never_lost_to_a_fresh_preview(browser):
    with open_console(browser) as console:
        console.visit("new-session")
        page = console.page
        page.locator("#id_name").press("End")
        page.locator("#id_name").press_sequentially("-two")
        wait(console, lambda: console.fragments("new-session") >= 1, "the preview")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.locator("#id_name").input_value().endswith("-two")
        assert page.evaluate("document.activeElement.id") == "id_name"


def test_the_preview_sends_no_token_in_its_address(browser):
    with open_console(browser) as console:
        addresses = []
        console.page.on("request", lambda request: addresses.append(request.url))
        console.visit("new-session")
        console.page.locator("label.size", has_text="XL").click()
        wait(console, lambda: console.fragments("new-session") >= 1, "the preview")
        preview = next(address for address in addresses if "preset=" in address)
        assert "csrfmiddlewaretoken" not in preview
        assert "preset=XL" in preview
        assert "name=vit-large" in preview


def test_leaving_with_unsent_work_warns(browser):
    with open_console(browser) as console:
        warned = []
        console.page.on("dialog", lambda dialog: (warned.append(dialog.type), dialog.accept()))
        console.visit("new-session")
        console.page.locator("#id_name").press_sequentially("x")
        console.page.goto("http://console.test/")
        assert warned == ["beforeunload"]


def test_the_theme_changes_at_once_and_the_server_is_told(browser):
    with open_console(browser) as console:
        posts = []
        console.page.on("request", lambda r: posts.append(r.post_data) if r.method == "POST" else None)
        console.visit("account")
        console.page.locator(".segments.whole").get_by_role("button", name="Dark").click()
        assert console.page.evaluate("document.documentElement.dataset.theme") == "gshare-dark"
        wait(console, lambda: posts, "the post")
        assert "theme=dark" in posts[0]


def test_a_password_is_shown_only_while_asked_for(browser):
    with open_console(browser) as console:
        console.visit("sign-in")
        eye = console.page.get_by_role("button", name="Show password")
        field = console.page.locator("#id_password")
        assert field.get_attribute("type") == "password"
        eye.click()
        assert field.get_attribute("type") == "text"
        eye.click()
        assert field.get_attribute("type") == "password"


def test_the_drawer_opens_closes_and_gives_the_focus_back(browser):
    with open_console(browser, width=390) as console:
        console.visit("dashboard")
        page = console.page
        opener = page.get_by_role("button", name="Open navigation")
        opener.focus()
        page.keyboard.press("Enter")
        assert page.get_by_role("link", name="Volumes").is_visible()
        assert opener.get_attribute("aria-expanded") == "true"
        page.keyboard.press("Escape")
        assert not page.get_by_role("link", name="Volumes").is_visible()
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Open navigation"


def test_a_chart_reads_single_values_from_its_own_table(browser):
    with open_console(browser) as console:
        console.visit("session")
        page = console.page
        page.locator("#chart-1.plotted").wait_for()
        box = page.locator("#chart-1 .plot-live").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
        readout = page.locator("#chart-1 [data-readout]")
        wait(console, lambda: readout.text_content().startswith("16:12"), "the value at the cursor")
        assert console.complaints == []
