"""What can be rented, at what price, and who sees which image."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import IntegrityError, ProgrammingError, transaction
from django.test import Client

from catalog import queries, seeds
from catalog.domain.tiers import SHARE_OF_TIER
from catalog.models import Image, Offering, Preset, PriceRevision
from catalog.services import set_price
from gshare_core.clock import ManualClock
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from tests.builders import a_group, a_super_admin, a_user, an_org_admin, cr

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DIGEST = "sha256:" + "a" * 64


def an_offering(**fields: Any) -> Offering:
    values = {"name": "A100", "model": "NVIDIA A100", "vram_mib": 81_559, "tiers": ["L", "M"]}
    return Offering.objects.create(**values | fields)


def an_image(name: str = "PyTorch", **fields: Any) -> Image:
    values = {"reference": f"registry.example/pytorch@{DIGEST}", "cuda": "12.8", "apps": ["lab"]}
    return Image.objects.create(name=name, **values | fields)


# Prices --------------------------------------------------------------------------------------------------------------


def test_the_latest_revision_that_has_started_is_the_price() -> None:
    offering = an_offering()
    for hours, rate in ((-2, 10), (-1, 20), (1, 30)):
        PriceRevision.objects.create(
            offering=offering, rate_micro_per_hour=rate, starts_at=NOON + timedelta(hours=hours)
        )
    assert queries.price_at(offering.pk, NOON) == 20
    assert queries.price_at(offering.pk, NOON + timedelta(hours=1)) == 30
    assert queries.price_at(offering.pk, NOON - timedelta(hours=3)) is None


def test_of_two_revisions_from_the_same_moment_the_later_made_counts() -> None:
    offering = an_offering()
    for rate in (10, 20):
        PriceRevision.objects.create(offering=offering, rate_micro_per_hour=rate, starts_at=NOON)
    assert queries.price_at(offering.pk, NOON) == 20


def test_a_missing_rate_is_no_price_and_never_means_free() -> None:
    offering = an_offering()
    assert queries.price_at(offering.pk, NOON) is None
    assert queries.prices_at([offering.pk], NOON) == {}


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_must_be_positive(rate: int) -> None:
    offering = an_offering()
    with pytest.raises(IntegrityError), transaction.atomic():
        PriceRevision.objects.create(offering=offering, rate_micro_per_hour=rate, starts_at=NOON)
    with pytest.raises(DomainError) as refused:
        set_price(offering_id=offering.pk, rate_micro_per_hour=rate, by=None)
    assert refused.value.code == "invalid"


def test_a_price_that_was_set_is_never_changed() -> None:
    price = PriceRevision.objects.create(offering=an_offering(), rate_micro_per_hour=5, starts_at=NOON)
    with pytest.raises(ProgrammingError), transaction.atomic():
        PriceRevision.objects.filter(pk=price.pk).update(rate_micro_per_hour=6)
    with pytest.raises(ProgrammingError), transaction.atomic():
        PriceRevision.objects.filter(pk=price.pk).delete()


def test_only_super_administrators_set_prices_from_now_on() -> None:
    offering, root = an_offering(), a_super_admin()
    with pytest.raises(DomainError) as refused:
        set_price(offering_id=offering.pk, rate_micro_per_hour=1, by=an_org_admin(a_group().organisation))
    assert refused.value.code == "forbidden"
    with clock.using(ManualClock(NOON)):
        set_price(offering_id=offering.pk, rate_micro_per_hour=cr(50), by=root)
        with pytest.raises(DomainError) as late:
            set_price(offering_id=offering.pk, rate_micro_per_hour=1, by=root, starts_at=NOON - timedelta(seconds=1))
    assert "starts_at" in late.value.errors
    assert queries.price_at(offering.pk, NOON) == cr(50)


# What is offered -----------------------------------------------------------------------------------------------------


def test_what_is_switched_off_is_not_offered() -> None:
    offering = an_offering(is_active=False)
    preset = Preset.objects.create(name="M", tier="M", cpu_milli=1, memory_mib=1, scratch_gib=1, is_active=False)
    image = an_image(is_active=False)
    root = a_super_admin()
    assert queries.offering(offering.pk) is None
    assert queries.preset(preset.pk) is None
    assert queries.image_for(image.pk, user=root) is None
    assert (queries.active_offerings(), queries.active_presets()) == ([], [])
    assert queries.shelf_for(root, NOON) == queries.Shelf((), (), {})
    assert queries.image(image.pk) is not None  # what runs already keeps its image


def test_images_are_visible_to_whom_they_say() -> None:
    group = a_group()
    sister, stranger = a_group(group.organisation), a_group()
    member, cousin, alien = a_user(group), a_user(sister), a_user(stranger)
    owner, root = an_org_admin(group.organisation), a_super_admin()
    an_image("public")
    an_image("of the organisation", visibility="organisation", organisation=group.organisation)
    an_image("of the group", visibility="group", group=group)
    seen = {
        person: [image.name for image in queries.shelf_for(person, NOON).images]
        for person in (member, cousin, alien, owner, root)
    }
    everything = ["of the group", "of the organisation", "public"]
    assert seen == {
        member: everything,
        cousin: ["of the organisation", "public"],
        alien: ["public"],
        owner: everything,
        root: everything,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"reference": "registry.example/pytorch:latest"},
        {"reference": f"registry.example/pytorch@{DIGEST[:-1]}"},
        {"cuda": "12"},
        {"apps": []},
        {"apps": ["lab", "vnc"]},
        {"visibility": "group"},
        {"visibility": "nobody"},
    ],
)
def test_an_image_is_named_by_digest_and_serves_known_apps(wrong: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        an_image(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tier": "L", "cards": 1},
        {"tier": "exclusive", "cards": 0},
        {"tier": "exclusive", "cards": 9},
        {"tier": "huge"},
        {"tier": "cpu", "cpu_milli": 0},
    ],
)
def test_a_size_is_a_share_or_one_to_eight_cards_or_none(wrong: dict[str, Any]) -> None:
    values: dict[str, Any] = {"name": "x", "tier": "L", "cpu_milli": 1000, "memory_mib": 1024, "scratch_gib": 1}
    with pytest.raises(IntegrityError), transaction.atomic():
        Preset.objects.create(**values | wrong)


@pytest.mark.parametrize("wrong", [{"vram_mib": 1023}, {"min_cuda": "x"}, {"tiers": ["XXL"]}])
def test_an_offering_is_a_possible_card(wrong: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        an_offering(**wrong)


def test_forms_refuse_unknown_tiers_and_apps_in_words() -> None:
    with pytest.raises(ValidationError):
        Offering(name="x", model="x", vram_mib=2048, tiers=["L", "L"]).full_clean()
    with pytest.raises(ValidationError):
        Image(name="x", reference=f"r/x@{DIGEST}", apps=["vnc"]).full_clean()


# Seeding -------------------------------------------------------------------------------------------------------------


def test_seeding_fills_an_empty_catalogue_once_and_keeps_what_was_changed() -> None:
    call_command("seed_catalog", verbosity=0)
    a100 = queries.active_offerings()[0]
    assert (a100.name, a100.model, a100.tiers) == ("A100 80GB", "NVIDIA A100-SXM4-80GB", ("XL", "L", "M", "exclusive"))
    assert a100.vram_mib // 4 == 20_389
    assert queries.price_at(a100.id, NOON) == cr(50)
    Offering.objects.filter(pk=a100.id).update(name="Big card", is_active=False)
    before = (Offering.objects.count(), PriceRevision.objects.count(), Preset.objects.count(), Image.objects.count())
    call_command("seed_catalog", verbosity=0)
    after = (Offering.objects.count(), PriceRevision.objects.count(), Preset.objects.count(), Image.objects.count())
    assert before == after == (len(seeds.OFFERINGS), len(seeds.OFFERINGS), len(seeds.PRESETS), len(seeds.IMAGES))
    assert Offering.objects.get(pk=a100.id).name == "Big card"


def test_every_seeded_row_passes_the_forms_own_checks() -> None:
    call_command("seed_catalog", verbosity=0)
    for model in (Offering, Preset, Image):
        for row in model.objects.all():
            row.full_clean()
    assert {row.name for row in queries.active_presets()} >= {"S", "M", "L", "XL", "1 card", "8 cards", "CPU"}


def test_no_seeded_tier_gives_less_than_the_smallest_share_of_memory() -> None:
    for offering in seeds.OFFERINGS:
        smallest = min(SHARE_OF_TIER[tier] for tier in offering.tiers if tier in SHARE_OF_TIER)
        assert offering.vram_mib * smallest >= 1024, offering.name


def test_digests_of_built_images_replace_the_seeded_references(tmp_path: Path) -> None:
    call_command("seed_catalog", verbosity=0)
    built = tmp_path / "digests.json"
    built.write_text(json.dumps({"sessions/python-3.11": DIGEST}))
    call_command("seed_catalog", verbosity=0, digests=built, registry="registry.example")
    assert Image.objects.get(name="Python 3.11").reference == f"registry.example/sessions/python-3.11@{DIGEST}"
    built.write_text(json.dumps({"sessions/python-3.11": "latest"}))
    with pytest.raises(CommandError, match="by digest"):
        call_command("seed_catalog", verbosity=0, digests=built)
    built.write_text("{")
    with pytest.raises(CommandError, match="cannot read"):
        call_command("seed_catalog", verbosity=0, digests=built)


# API -----------------------------------------------------------------------------------------------------------------


def test_the_api_lists_presets_in_their_order_and_images_that_are_visible(client: Client) -> None:
    call_command("seed_catalog", verbosity=0)
    group = a_group()
    an_image("secret", visibility="group", group=group)
    client.force_login(a_user(a_group()))
    presets = client.get("/api/v1/presets").json()
    assert presets["count"] == len(seeds.PRESETS)
    assert [row["name"] for row in presets["results"]][:4] == ["S", "M", "L", "XL"]
    assert presets["results"][2] | {"id": ""} == {
        "id": "",
        "name": "L",
        "tier": "L",
        "cards": 0,
        "cpu_milli": 8000,
        "memory_mib": 32768,
        "scratch_gib": 50,
        "position": 2,
    }
    names = [row["name"] for row in client.get("/api/v1/images").json()["results"]]
    assert "secret" not in names
    assert len(names) == len(seeds.IMAGES)
    client.force_login(a_user(group))
    assert "secret" in [row["name"] for row in client.get("/api/v1/images?q=secr").json()["results"]]


def test_the_catalogue_is_for_who_is_signed_in(client: Client) -> None:
    for path in ("presets", "images"):
        assert client.get(f"/api/v1/{path}").status_code == 401


def test_the_admin_deletes_what_nothing_uses_and_says_why_not(client: Client) -> None:
    client.force_login(a_super_admin())
    unused = an_image("unused", is_active=False)
    offered = an_image("offered")
    body = {"action": "delete_unused", "_selected_action": [str(unused.pk), str(offered.pk)]}
    answer = client.post("/django-admin/catalog/image/", body, follow=True)
    assert list(Image.objects.values_list("name", flat=True)) == ["offered"]
    assert "It is offered." in answer.content.decode()
