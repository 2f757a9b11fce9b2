"""Equal requests at the same instant: one effect, one answer for all."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import IdempotencyKey, Notification
from accounts.notices import notify
from gshare_core.errors import DomainError
from gshare_core.kit import clock, idempotency
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.kit.locks import ordered
from tests.builders import LONG_AGO, a_user
from tests.concurrency.rivals import Held, Waiting, times, together
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
RIVALS = 8


def once(user, key: str = "k", body: bytes = b"{}", path: str = "/api/v1/sessions") -> Once:
    return Once(user.pk, "POST", path, key, body, render=lambda made: {"id": made.pk, "title": made.title})


def act(asked: Once, user) -> Reply:
    """What a view does: claim, effect, keep."""
    with ordered():
        reply = asked.claim()
        if reply is None:
            made = notify(user_id=user.pk, kind="test", title="made", body="", at=LONG_AGO)
            reply = asked.keep(made)
    return reply


def refuse(asked: Once, pause=lambda: None) -> None:
    """What a view does whose service refuses."""
    with ordered():
        assert asked.claim() is None
        pause()
        raise DomainError("quota_exceeded", "full")


def test_eight_claims_of_one_key_take_effect_once_and_all_get_its_answer():
    user = a_user()
    replies = together(*times(RIVALS, lambda: act(once(user), user)))
    made = Notification.objects.get()
    assert replies == [Reply(201, {"id": str(made.pk), "title": "made"})] * RIVALS


def test_another_body_path_method_or_person_is_another_request():
    user, other = a_user(), a_user()
    act(once(user), user)
    with pytest.raises(DomainError) as refused:
        act(once(user, body=b'{"x": 1}'), user)
    assert refused.value.code == "idempotency_mismatch"
    act(once(user, path="/api/v1/sessions?x=1"), user)
    act(once(other), other)
    act(once(user, key="other"), user)
    assert Notification.objects.count() == 4


def test_a_refusal_is_not_kept():
    user = a_user()
    with pytest.raises(DomainError):
        refuse(once(user))
    assert not IdempotencyKey.objects.exists()
    assert act(once(user), user).status == 201


def test_whoever_comes_second_waits_and_acts_itself_when_the_first_is_refused():
    user = a_user()

    def refused(pause):
        with suppress(DomainError):
            refuse(once(user), pause)

    first = Held(refused)
    second = Waiting(lambda: act(once(user), user))
    until(second.is_blocked, within=10, what="the second request to wait")
    first.release()
    assert second.result().status == 201
    assert Notification.objects.count() == 1


def test_a_key_is_forgotten_after_its_time_also_before_the_sweep():
    user = a_user()
    act(once(user), user)
    old = clock.now() - settings.GSHARE.idempotency_ttl - timedelta(seconds=1)
    IdempotencyKey.objects.update(at=old)
    assert act(once(user, body=b"other"), user).status == 201
    assert Notification.objects.count() == 2
    IdempotencyKey.objects.update(at=old)
    act(once(user, key="young"), user)
    assert idempotency.sweep() == 1
    assert IdempotencyKey.objects.get().key == "young"


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("", "idempotency_key_required"),
        ("   ", "idempotency_key_required"),
        ("x" * 256, "invalid"),
        ("a\0b", "invalid"),
    ],
)
def test_a_key_that_cannot_be_kept_is_refused(key, code):
    with pytest.raises(DomainError) as refused:
        once(a_user(), key=key)
    assert refused.value.code == code


def test_keys_that_are_given_back_together_take_one_statement_and_are_free_again_and_no_other_is():
    user, other = a_user(), a_user()
    mine = [once(user, key=key) for key in ("a", "b", "c")]
    alike = [once(other, key="a"), once(user, key="a", path="/api/v1/volumes"), once(user, key="d")]
    for one in alike:
        act(one, user)
    with ordered():
        assert len(idempotency.claim_all(mine, now=clock.now())) == 3
        with CaptureQueriesContext(connection) as captured:
            idempotency.disclaim(mine)
            idempotency.disclaim([])
            assert IdempotencyKey.objects.count() == len(alike)
        assert len(captured) == 2, "the one that gives back, and the one that counts"
    kept = {idempotency.Row(*row) for row in IdempotencyKey.objects.values_list("user_id", "method", "path", "key")}
    assert kept == {one.row for one in alike}
    assert [act(one, user).status for one in mine] == [201] * 3
