"""One instant a page: what only reads asks the database for the time once, what writes as often as it has to."""

from __future__ import annotations

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from gshare_core.kit import clock
from gshare_site.instants import OneInstant

pytestmark = pytest.mark.django_db


def instants(method: str) -> tuple[int, int]:
    """How many different times a view hears that asks thrice, and how many statements that took."""
    heard = set()

    def view(request: HttpRequest) -> HttpResponse:
        heard.update(clock.now() for _time in range(3))
        return HttpResponse()

    with clock.using(clock.DatabaseClock()), CaptureQueriesContext(connection) as asked:
        OneInstant(view)(RequestFactory().generic(method, "/"))
    return len(heard), len(asked)


def test_a_page_that_is_read_shows_one_instant_for_one_statement() -> None:
    assert instants("GET") == (1, 1)


def test_what_changes_something_reads_the_clock_each_time() -> None:
    assert instants("POST") == (3, 3)


def test_the_clock_goes_on_after_the_page() -> None:
    with clock.using(clock.DatabaseClock()):
        with clock.standing():
            first = clock.now()
        assert clock.now() > first
