"""Signing in and out, the first password change, the account page, as a browser without JavaScript does it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.test import Client

from accounts import services
from accounts.models import AuditEntry, Notification, SignIn, User
from accounts.notices import notify
from gshare_core.kit import clock
from tests.builders import LONG_AGO, a_group, a_super_admin, a_user

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def sign_in(client: Client, user: User, password: str = PASSWORD, **more):
    return client.post("/login/", {"email": user.email, "password": password, **more.pop("fields", {})}, **more)


@pytest.fixture
def user() -> User:
    return a_user(a_group(), email="ada@example.org")


def test_the_right_password_leads_to_the_dashboard_and_leaves_a_trace(user):
    client = Client()
    page = client.get("/login/")
    assert page.status_code == 200
    assert b'name="email"' in page.content
    answer = sign_in(client, user, REMOTE_ADDR="192.0.2.9")
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert AuditEntry.objects.get(act="user.sign_in").address == "192.0.2.9"
    assert client.get("/login/")["Location"] == "/"


@pytest.mark.parametrize(
    ("email", "password"),
    [("ada@example.org", "wrong"), ("nobody@example.org", PASSWORD), ("gone@example.org", PASSWORD), ("ada", PASSWORD)],
)
def test_wrong_unknown_and_deactivated_get_the_same_answer(user, email, password):
    a_user(email="gone@example.org", is_active=False)
    answer = Client().post("/login/", {"email": email, "password": password})
    assert answer.status_code == 401
    assert "E-mail address or password are not right." in answer.content.decode()
    assert password not in answer.content.decode()


@pytest.mark.parametrize("fields", [{}, {"email": "ada@example.org"}, {"email": "a\0b@example.org", "password": "x"}])
def test_an_incomplete_form_is_shown_again(user, fields):
    assert Client().post("/login/", fields).status_code == 400


@pytest.mark.parametrize(
    ("wanted", "goes_to"),
    [
        ("/wallet/?x=1", "/wallet/?x=1"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("/\\evil.example", "/"),
        ("http://testserver.evil.example/", "/"),
    ],
)
def test_after_signing_in_the_way_stays_on_this_host(user, wanted, goes_to):
    answer = sign_in(Client(), user, fields={"next": wanted})
    assert answer["Location"] == goes_to


def test_guessing_is_throttled_per_address_and_account_whatever_the_case_and_ends_by_itself(user):
    client, limit = Client(REMOTE_ADDR="192.0.2.1"), settings.GSHARE.login_attempts_max
    for n in range(limit - 1):
        spelled = user.email.upper() if n % 2 else user.email
        assert client.post("/login/", {"email": spelled, "password": "wrong"}).status_code == 401
    last = client.post("/login/", {"email": user.email, "password": "wrong"})
    assert last.status_code == 429
    assert "Too many failed attempts" in last.content.decode()
    assert sign_in(client, user).status_code == 429
    assert AuditEntry.objects.filter(act="user.sign_in_locked").count() == 1
    assert sign_in(Client(REMOTE_ADDR="192.0.2.2"), user).status_code == 302
    assert sign_in(Client(REMOTE_ADDR="192.0.2.1"), a_user(email="bob@example.org")).status_code == 302


def test_a_lock_passes_with_its_time(user, gshare, settings):
    settings.AXES_COOLOFF_TIME = timedelta(seconds=0)
    client = Client()
    for _ in range(settings.GSHARE.login_attempts_max + 1):
        client.post("/login/", {"email": user.email, "password": "wrong"})
    assert sign_in(client, user).status_code == 302


def test_a_newcomer_can_only_change_his_password_and_then_everything(user):
    made = services.register_user(email="new@example.org", name="New", organisation_id=user.organisation_id, by=None)
    client = Client()
    sign_in(client, made.user, made.initial_password)
    for path in ("/account/", "/notifications/", "/"):
        assert client.get(path)["Location"] == "/password/"
    page = client.get("/password/").content.decode()
    assert "The first one was known to your administrator" in page
    form = {"current": made.initial_password, "new": "seven green umbrellas", "repeat": "seven green umbrellas"}
    assert client.post("/password/", form | {"repeat": "other"}).status_code == 400
    assert client.post("/password/", form | {"current": "wrong"}).status_code == 400
    assert client.post("/password/", form)["Location"] == "/"
    assert client.get("/account/").status_code == 200
    assert sign_in(Client(), made.user, made.initial_password).status_code == 401
    assert sign_in(Client(), made.user, "seven green umbrellas").status_code == 302


def test_an_expired_initial_password_opens_nothing(user):
    User.objects.filter(pk=user.pk).update(must_change_password=True, initial_password_expires_at=LONG_AGO)
    answer = sign_in(Client(), user)
    assert answer.status_code == 403
    assert "has expired" in answer.content.decode()


def test_signing_out_needs_a_post_and_ends_this_browser(user):
    client = Client()
    sign_in(client, user)
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/account/")["Location"].startswith("/login/?next=")
    assert SignIn.objects.get().ended_at is not None
    assert Client().post("/logout/").status_code == 302


def test_the_account_page_names_where_one_is_signed_in_and_ends_all_of_it(user):
    here, there = Client(headers={"User-Agent": FIREFOX}), Client(headers={"User-Agent": "curl/8"})
    sign_in(there, user)
    sign_in(here, user)
    page = here.get("/account/").content.decode()
    assert "Firefox on Linux" in page
    assert "curl" in page
    assert "2 browsers are signed out" in here.get("/account/sign-out-everywhere/").content.decode()
    assert here.post("/account/sign-out-everywhere/")["Location"] == "/login/"
    for client in (here, there):
        assert client.get("/account/")["Location"].startswith("/login/")


def test_a_password_change_leaves_only_this_browser_on_the_account_page(user):
    here, there = Client(headers={"User-Agent": FIREFOX}), Client(headers={"User-Agent": "curl/8"})
    sign_in(there, user)
    sign_in(here, user)
    here.post("/password/", {"current": PASSWORD, "new": "seven green umbrellas", "repeat": "seven green umbrellas"})
    page = here.get("/account/").content.decode()
    assert "Firefox on Linux" in page
    assert "curl" not in page
    assert there.get("/account/")["Location"].startswith("/login/")


def test_preferences_hold_on_this_browser_and_on_the_next(user):
    client = Client()
    sign_in(client, user)
    answer = client.post("/account/", {"language": "ko", "time_zone": "Asia/Seoul"})
    assert answer.cookies["django_language"].value == "ko"
    client.post("/account/theme/", {"theme": "dark", "next": "/account/"})
    user.refresh_from_db()
    assert (user.language, user.time_zone, user.theme) == ("ko", "Asia/Seoul", "dark")
    fresh = sign_in(Client(), user)
    assert (fresh.cookies["django_language"].value, fresh.cookies["theme"].value) == ("ko", "dark")
    assert client.post("/account/", {"language": "xx"}).status_code == 422


def test_notices_are_listed_by_day_and_read_together(user):
    for title in ("first", "second"):
        notify(user_id=user.pk, kind="test", title=title, body="", at=clock.now())
    notify(user_id=a_super_admin().pk, kind="test", title="not yours", body="", at=clock.now())
    client = Client()
    sign_in(client, user)
    page = client.get("/notifications/").content.decode()
    assert "first" in page
    assert "second" in page
    assert "not yours" not in page
    assert client.post("/notifications/", {"act": "read"})["Location"] == "/notifications/"
    assert Notification.objects.filter(user=user, read_at=None).count() == 0
    assert client.get("/notifications/?cursor=broken")["Location"] == "/notifications/"


def test_long_lists_of_notices_have_pages(user):
    for n in range(60):
        notify(user_id=user.pk, kind="test", title=f"notice number {n}", body="", at=LONG_AGO + timedelta(minutes=n))
    client = Client()
    sign_in(client, user)
    page = client.get("/notifications/")
    assert page.content.decode().count("notice number") == 50
    following = client.get(page.context["next"])
    assert following.content.decode().count("notice number") == 10
    assert following.context["previous"] == "/notifications/"


@pytest.mark.parametrize("path", ["/account/", "/password/", "/notifications/", "/account/sign-out-everywhere/"])
def test_pages_of_a_person_lead_strangers_to_the_sign_in(path):
    assert Client().get(path)["Location"] == f"/login/?next={path}"


def test_a_sign_in_gets_a_fresh_browser_session(user):
    client = Client()
    client.get("/login/")
    before = client.session.session_key
    sign_in(client, user)
    assert client.session.session_key not in (None, before)
    assert client.cookies["__Host-sessionid"]["httponly"]
