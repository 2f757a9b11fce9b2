"""The same through the asynchronous handler, as the server runs it."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from accounts.models import AuditEntry, SignIn
from tests.builders import a_group, a_user

pytestmark = pytest.mark.django_db(transaction=True)


async def test_address_and_request_reach_the_trail_through_the_asynchronous_handler():
    user = await sync_to_async(lambda: a_user(a_group()))()
    client = AsyncClient()
    body = {"email": user.email, "password": "correct horse battery"}
    answer = await client.post("/login/", body)
    assert answer.status_code == 302
    entry = await AuditEntry.objects.aget(act="user.sign_in")
    assert entry.address == "127.0.0.1"
    assert entry.request_id
    assert (await SignIn.objects.aget()).address == "127.0.0.1"
    page = await client.get("/api/v1/memberships")
    assert page.json()["count"] == 1
