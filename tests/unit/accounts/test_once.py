"""How an API request becomes a key: header, person, method, full path, and the body whatever its spacing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit.idempotency import Once

PERSON = SimpleNamespace(pk=uuid7(), is_authenticated=True)


def once(body: str, headers: dict[str, str] | None = None, path: str = "/api/v1/sessions?x=1") -> Once:
    given = {"Idempotency-Key": "k"} if headers is None else headers
    plain = APIRequestFactory().generic("POST", path, body, content_type="application/json", headers=given)
    request = Request(plain, parsers=[JSONParser()])
    request.user = PERSON
    return Once.of(request, render=lambda made: {"id": made})


def test_spacing_and_order_of_a_body_make_no_difference_and_its_values_do():
    first = once('{"name": "a", "n": 1}')
    assert first.body == once('{ "n":1,\n"name":"a" }').body
    assert first.body != once('{"name": "a", "n": 2}').body
    assert (first.user_id, first.method, first.path) == (PERSON.pk, "POST", "/api/v1/sessions?x=1")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "idempotency_key_required"),
        ({"Idempotency-Key": " "}, "idempotency_key_required"),
        ({"Idempotency-Key": "x" * 256}, "invalid"),
    ],
)
def test_a_missing_or_overlong_key_is_refused_by_name(headers, code):
    with pytest.raises(DomainError) as refused:
        once("{}", headers)
    assert refused.value.code == code


def test_an_address_too_long_to_store_is_refused():
    with pytest.raises(DomainError):
        once("{}", path="/api/v1/sessions?" + "x" * 600)
