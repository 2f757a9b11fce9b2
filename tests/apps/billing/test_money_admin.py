"""Django's admin shows money and changes none of it."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client

from accounts.models import AuditEntry
from billing import services as billing
from billing import trial
from billing.domain.budgets import Rule
from billing.models import Account, Allocation, Budget, Checkpoint, Meter, Transfer, VerifiedWallet
from catalog.models import Image, Offering, Preset, PriceRevision
from catalog.services import seed
from tests.apps.billing.stage import ended, running
from tests.builders import a_customer, a_super_admin, cr

pytestmark = pytest.mark.django_db
MONEY = [Account, Transfer, Allocation, Meter, Budget, Checkpoint, VerifiedWallet]
CATALOGUE = [Offering, Preset, Image, PriceRevision]


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(a_super_admin())
    alice = a_customer(100)
    scope = billing.BudgetScope("user", alice.user.pk)
    billing.create_budget(scope=scope, limit=cr(10), mode="warn", rule=Rule("UTC"), by=None)
    ended(running(alice), at=30)
    trial.check()
    seed(registry="registry.example")
    return client


@pytest.mark.parametrize("model", [*MONEY, *CATALOGUE])
def test_every_list_and_every_row_is_shown(root: Client, model: type) -> None:
    base = f"/django-admin/{model._meta.app_label}/{model._meta.model_name}/"  # type: ignore[attr-defined]
    assert root.get(base).status_code == 200
    assert root.get(f"{base}?q=x").status_code == 200
    row = model.objects.first()  # type: ignore[attr-defined]
    assert root.get(f"{base}{row.pk}/change/").status_code == 200


@pytest.mark.parametrize("model", MONEY)
def test_money_is_neither_added_nor_changed_nor_deleted_there(root: Client, model: type) -> None:
    base = f"/django-admin/{model._meta.app_label}/{model._meta.model_name}/"  # type: ignore[attr-defined]
    row = model.objects.first()  # type: ignore[attr-defined]
    for path in (f"{base}add/", f"{base}{row.pk}/delete/"):
        assert root.get(path).status_code == 403
    assert root.post(f"{base}{row.pk}/change/", {"balance": "1"}).status_code == 403


def test_prices_are_added_and_never_changed(root: Client) -> None:
    offering = Offering.objects.get(name="A100 80GB")
    page = f"/django-admin/catalog/offering/{offering.pk}/change/"
    form = {
        "name": "A100 80 GB",
        "model": offering.model,
        "vram_mib": offering.vram_mib,
        "min_cuda": "12.1",
        "tiers": "L,M",
        "preemptible_factor_milli": 300,
        "is_active": "on",
        "prices-TOTAL_FORMS": 1,
        "prices-INITIAL_FORMS": 0,
        "prices-0-rate_micro_per_hour": cr(60),
        "prices-0-starts_at_0": "2026-05-01",
        "prices-0-starts_at_1": "00:00:00",
    }
    answer = root.post(page, form)
    assert answer.status_code == 302, answer.content.decode()[:2000]
    offering.refresh_from_db()
    assert (offering.name, offering.tiers) == ("A100 80 GB", ["L", "M"])
    assert list(offering.prices.order_by("starts_at").values_list("rate_micro_per_hour", flat=True)) == [cr(50), cr(60)]
    acts = list(
        AuditEntry.objects.filter(act__startswith="catalogue").order_by("id").values_list("act", "target_label")
    )
    assert acts == [("catalogue.change", "A100 80 GB"), ("catalogue.price", "A100 80 GB")]
    price = offering.prices.first()
    assert price is not None
    assert root.post(f"/django-admin/catalog/pricerevision/{price.pk}/change/", {}).status_code == 403
    assert root.get(f"/django-admin/catalog/offering/{offering.pk}/delete/").status_code == 403


def test_rows_of_the_catalogue_are_switched_off_not_deleted(root: Client) -> None:
    preset = Preset.objects.get(name="L")
    root.post("/django-admin/catalog/preset/", {"action": "switch_off", "_selected_action": [str(preset.pk)]})
    preset.refresh_from_db()
    assert preset.is_active is False
    assert AuditEntry.objects.get(act="catalogue.change").after == {"is_active": "False"}


def test_nobody_but_super_administrators_comes_in() -> None:
    client = Client()
    client.force_login(a_customer(1).user)
    assert client.get("/django-admin/billing/transfer/").status_code == 404
    assert all(model in admin.site._registry for model in MONEY + CATALOGUE)
