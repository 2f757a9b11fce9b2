"""Administrators who set prices at once: of one moment one price, and everything is accounted for."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from accounts.models import AuditEntry, User
from catalog import queries
from catalog.models import Offering, PriceRevision
from catalog.services import set_price
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.idempotency import Once, Reply
from tests.builders import a_super_admin, cr
from tests.concurrency.rivals import times, together

pytestmark = pytest.mark.django_db(transaction=True)
RIVALS = 6


@pytest.fixture
def offering() -> Offering:
    return Offering.objects.create(name="A100 80GB", model="NVIDIA A100", vram_mib=81_559, tiers=["L"])


def plan(offering: Offering, rate: int, start: datetime, by: User, once: Once | None = None) -> Any:
    return set_price(offering_id=offering.pk, rate_micro_per_hour=cr(rate), starts_at=start, by=by, once=once)


def test_of_rivals_who_plan_the_same_moment_one_does_and_the_others_learn_of_it(offering: Offering) -> None:
    start = clock.now() + timedelta(days=1)
    admins = [a_super_admin() for _number in range(RIVALS)]
    results = together(*(partial(plan, offering, 10 + n, start, admin) for n, admin in enumerate(admins)))
    made = [row for row in results if isinstance(row, PriceRevision)]
    refused = [row.code for row in results if isinstance(row, DomainError)]
    assert (len(made), refused) == (1, ["conflict"] * (RIVALS - 1))
    assert queries.price_at(offering.pk, start) == made[0].rate_micro_per_hour
    assert AuditEntry.objects.filter(act="catalogue.price").count() == 1


def test_a_key_that_is_sent_by_many_at_once_sets_one_price(offering: Offering) -> None:
    root, start = a_super_admin(), clock.now() + timedelta(days=1)
    once = Once(root.pk, "POST", "/api/v1/offerings/x/prices", "k", b"{}", render=lambda row: {"id": str(row.pk)})
    results = together(*times(RIVALS, partial(plan, offering, 10, start, root, once)))
    made = [row for row in results if isinstance(row, PriceRevision)]
    assert len(made) == PriceRevision.objects.count() == 1
    assert [row.body for row in results if isinstance(row, Reply)] == [{"id": str(made[0].pk)}] * (RIVALS - 1)
