"""Every address there is, asked by everybody: who gets what is a table (`url_table.py`), and the table is complete.

A new address, or a new method on one, fails until it has its line; a line whose address is gone fails too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from cluster import keys, tokens
from gshare_core.kit import clock
from tests.apps.sessions.world import NOON, manual_clock
from tests.architecture import url_table
from tests.architecture.everybody import PERSONAS, Everybody, everybody
from tests.architecture.url_table import Row
from tests.builders import a_cluster

PUBLIC, INTERNAL = "gshare_site.urls", "gshare_site.urls_internal"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ORIGIN = "http://localhost:8000"

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def signing_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys for the clusters' tokens; making one takes a second."""
    folder = tmp_path_factory.mktemp("every-url") / "keys"
    keys.ensure(folder, at=NOON)
    return folder


@pytest.fixture
def all_of_us(db: None, signing_keys: Path, gshare: Any) -> Iterator[Everybody]:
    """The world, at a noon that stands still."""
    gshare(signing_key_dir=signing_keys)
    time = manual_clock()
    with clock.using(time):
        yield everybody(time)


class Browsers:
    """Everybody, signed in; each request is as if nobody had asked anything before."""

    def __init__(self, us: Everybody) -> None:
        self.things = us.things
        self._cookies = {name: self._sign_in(user) for name, user in us.people.items()}

    @staticmethod
    def _sign_in(user: Any) -> str:
        client = Client()
        if user is not None:
            client.force_login(user)
        return client.cookies.output(header="", sep=";")

    def ask(self, persona: str, row: Row) -> HttpResponseBase:
        """What this persona gets; whatever it changed is undone."""
        client = Client(headers={"origin": ORIGIN, "Idempotency-Key": uuid4().hex}, raise_request_exception=False)
        client.cookies = SimpleCookie(self._cookies[persona])
        path, body = row.path.format_map(self.things), _filled(row.body, self.things)
        with transaction.atomic():
            if row.path.startswith("/api/"):
                answer = client.generic(row.method, path, json.dumps(body), content_type="application/json")
            elif row.method == "POST":
                answer = client.post(path, body)
            else:
                answer = client.generic(row.method, path)
            transaction.set_rollback(True)
        return answer


def _filled(body: Any, things: dict[str, str]) -> Any:
    """The body of a row with the ids put in."""
    match body:
        case str():
            return body.format_map(things)
        case dict():
            return {key: _filled(value, things) for key, value in body.items()}
        case list():
            return [_filled(value, things) for value in body]
    return body


def code(answer: HttpResponseBase) -> str:
    """A status; redirects that close a door have words of their own, any other is `go`."""
    if answer.status_code not in (301, 302, 303):
        return str(answer.status_code)
    target = answer.headers["Location"]
    return (
        "in"
        if target.startswith(("/login/?next=", "/django-admin/login/?next="))
        else "pw"
        if target == "/password/"
        else "go"
    )


@pytest.mark.parametrize("section", url_table.SECTIONS)
def test_everybody_gets_at_every_address_what_the_table_says(section: str, all_of_us: Everybody) -> None:
    browsers = Browsers(all_of_us)
    wrong = []
    for row in url_table.SECTIONS[section]:
        got = [code(browsers.ask(persona, row)) for persona in PERSONAS]
        if got != list(row.codes):
            wrong.append(f"{row.method:<6} {row.path}\n   table {'  '.join(row.codes)}\n   got   {'  '.join(got)}")
    assert not wrong, "\n".join([" ".join(PERSONAS), *wrong])


# The table is complete ------------------------------------------------------------------------------------------------


def routes(urlconf: str) -> set[str]:
    """Every pattern of a listener as its whole route; Django's admin is one, its models are counted below."""

    def walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
        for pattern in patterns:
            whole = before + str(pattern.pattern)
            if isinstance(pattern, URLPattern):
                yield whole
            elif pattern.app_name != "admin":
                yield from walk(pattern.url_patterns, whole)

    return set(walk(get_resolver(urlconf).url_patterns, ""))


def rows() -> list[Row]:
    return [row for section in url_table.SECTIONS.values() for row in section]


class AnyId(dict[str, str]):
    """Some id for every name: enough to find the pattern behind a path."""

    def __missing__(self, name: str) -> str:
        return str(uuid4())


def route_of(path: str, urlconf: str) -> str:
    return resolve(path.partition("?")[0].format_map(AnyId()), urlconf).route


def test_every_public_address_has_a_line_and_every_line_an_address() -> None:
    described = {route_of(row.path, PUBLIC) for row in rows()}
    assert described - {"django-admin/"} == routes(PUBLIC)


def test_every_method_that_an_address_answers_has_a_line(all_of_us: Everybody) -> None:
    browsers, missing, stale = Browsers(all_of_us), [], []
    described = {(row.method, route_of(row.path, PUBLIC)) for row in rows()}
    paths = {route_of(row.path, PUBLIC): row.path for row in rows()}
    for route, path in sorted(paths.items()):
        answered = {m for m in METHODS if code(browsers.ask("super_admin", Row(m, path, ()))) != "405"}
        if path in url_table.ANY_METHOD:
            stale += [path] if answered != set(METHODS) else []
            continue
        lines = {method for method, of in described if of == route}
        missing += [f"{method} {path}" for method in sorted(answered - lines)]
        stale += [f"{method} {path}" for method in sorted(lines - answered)]
    assert (missing, stale) == ([], [])


# Django's own admin ---------------------------------------------------------------------------------------------------


def test_every_model_of_the_site_admin_opens_for_super_administrators_alone(all_of_us: Everybody) -> None:
    browsers, found = Browsers(all_of_us), {}
    for model in admin.site._registry:
        label = model._meta.label_lower
        app, name = label.split(".")
        listed = Row("GET", f"/django-admin/{app}/{name}/", ())
        assert [code(browsers.ask(persona, listed)) for persona in PERSONAS] == list(url_table.SITE_ADMIN), label
        added = code(browsers.ask("super_admin", Row("GET", f"/django-admin/{app}/{name}/add/", ())))
        found[label] = "add" if added == "200" else "view"
        assert added in ("200", "403"), label
    assert found == url_table.MODELS


# The internal listener ------------------------------------------------------------------------------------------------


@pytest.fixture
def bearers(all_of_us: Everybody) -> dict[str, dict[str, str]]:
    """The headers of who may call: nobody, a person's browser, agent and operator of the cluster, another's operator."""
    other = a_cluster()

    def bearer(cluster: Any, scope: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {tokens.issue(cluster, scope, at=clock.now()).token}"}

    person = Browsers(all_of_us)._cookies["super_admin"]
    return {
        "nobody": {},
        "person": {"Cookie": person},
        "agent": bearer(all_of_us.world.cluster, "agent"),
        "stranger": bearer(other, "operator"),
        "operator": bearer(all_of_us.world.cluster, "operator"),
    }


@pytest.mark.urls(INTERNAL)
def test_every_caller_gets_at_every_internal_address_what_the_table_says(
    all_of_us: Everybody, bearers: dict[str, dict[str, str]]
) -> None:
    assert list(bearers) == url_table.CALLERS.split()
    wrong = []
    for row in url_table.INTERNAL:
        got = []
        for headers in bearers.values():
            client = Client(headers=headers, raise_request_exception=False)
            with transaction.atomic():
                body = json.dumps(_filled(row.body, all_of_us.things))
                path = row.path.format_map(all_of_us.things)
                got.append(code(client.generic(row.method, path, body, content_type="application/json")))
                transaction.set_rollback(True)
        if got != list(row.codes):
            wrong.append(f"{row.method:<6} {row.path}: table {row.codes}, got {got}")
    assert not wrong, "\n".join(wrong)


def test_every_internal_address_has_a_line_and_every_line_an_address() -> None:
    described = {route_of(row.path, INTERNAL) for row in url_table.INTERNAL}
    assert described & set(url_table.BEFORE_DJANGO) == set()
    assert described | set(url_table.BEFORE_DJANGO) == routes(INTERNAL)


def test_the_public_listener_knows_no_internal_address(all_of_us: Everybody) -> None:
    browsers = Browsers(all_of_us)
    paths = [row.path for row in url_table.INTERNAL] + [f"/{route}" for route in url_table.BEFORE_DJANGO]
    got = {
        (persona, path): code(browsers.ask(persona, Row(method, path, ())))
        for persona in ("anonymous", "owner", "super_admin")
        for path in paths
        for method in ("GET", "POST")
    }
    assert set(got.values()) == {"404"}, {asked for asked, answer in got.items() if answer != "404"}


@pytest.mark.urls(INTERNAL)
def test_the_internal_listener_knows_no_public_address(all_of_us: Everybody) -> None:
    browsers = Browsers(all_of_us)
    paths = {row.path for row in rows()} | {f"/django-admin/{label.replace('.', '/')}/" for label in url_table.MODELS}
    got = {path: code(browsers.ask("super_admin", Row("GET", path, ()))) for path in paths}
    assert set(got.values()) == {"404"}, {path for path, answer in got.items() if answer != "404"}


def test_no_credential_but_a_sign_in_opens_any_address_of_the_api() -> None:
    wrong = []
    for header in ("Bearer abc", "Basic YWxpY2U6cGFzc3dvcmQ=", "Token abc"):
        client = Client(headers={"authorization": header, "origin": ORIGIN}, raise_request_exception=False)
        for row in rows():
            if row.path.startswith("/api/v1/") and row.path not in url_table.ANY_METHOD:
                answer = client.generic(row.method, row.path.format_map(AnyId()), "{}", "application/json")
                if answer.status_code != 401:
                    wrong.append(f"{header} {row.method} {row.path}: {answer.status_code}")
    assert wrong == []
