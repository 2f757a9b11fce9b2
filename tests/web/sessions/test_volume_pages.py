"""The volumes page and the page of a volume's shares, as each of several people meets them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from cluster import services as metal
from cluster.models import Volume, VolumeShare
from cluster.services import ShareWish, VolumeWish
from sessions_app.models import Session
from tests.apps.sessions.world import MountAsk, World
from tests.builders import a_customer, a_group, a_user
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db


def text(page: Any) -> str:
    return str(page.content.decode())


def a_volume(world: World, name: str = "data", access: str = "rwx") -> Volume:
    wish = VolumeWish(name=name, kind="data", access=access, size_gib=2, cluster_id=world.cluster.pk)
    return metal.create_volume(by=world.alice.user, wish=wish)


def fields(world: World, **changes: str) -> dict[str, str]:
    body = {"name": "team", "kind": "data", "access": "rwx", "size_gib": "2", "cluster": str(world.cluster.pk)}
    return body | changes


def test_a_group_administrator_makes_a_volume_of_the_group_and_its_people_see_whose_it_is(
    world: World, alice: Client
) -> None:
    group = world.alice.group
    admin = browser(a_user(group, role="group_admin"))
    assert 'name="group"' in text(admin.get("/volumes/"))

    assert admin.post("/volumes/", fields(world, group=str(group.pk))).status_code == 302

    made = Volume.objects.get()
    assert (made.group, made.owner) == (group, None)
    page = text(alice.get("/volumes/"))
    assert f"of {group.name}, read and write" in page
    assert f"/volumes/{made.pk}/delete/" not in page
    assert 'name="group"' not in page


def test_a_member_cannot_make_a_volume_of_his_group_by_hand(world: World, alice: Client) -> None:
    alice.post("/volumes/", fields(world, group=str(world.alice.group.pk)))

    assert not Volume.objects.filter(group=world.alice.group).exists()


@pytest.mark.parametrize("name", ["My data", "-a", "a_b", "x" * 64])
def test_a_name_that_breaks_the_rule_is_told_at_its_field(world: World, alice: Client, name: str) -> None:
    page = alice.post("/volumes/", fields(world, name=name))

    assert page.status_code == 422
    assert "Use 1 to 63 small letters, digits and hyphens" in text(page)
    assert not Volume.objects.exists()


def test_who_has_no_room_left_is_told_at_the_form(world: World, alice: Client) -> None:
    page = alice.post("/volumes/", fields(world, size_gib="1000000"))

    assert page.status_code == 422
    assert "would exceed the limit" in text(page)


def test_a_volume_is_shared_with_a_person_and_a_group_and_taken_back(world: World, alice: Client) -> None:
    volume, bob = a_volume(world, "moon-rocks"), a_user(world.alice.group)
    shares = f"/volumes/{volume.pk}/shares/"
    assert "Shared with nobody" in text(alice.get(shares))

    assert alice.post(shares, {"email": bob.email, "mode": "ro"}).status_code == 302
    assert alice.post(shares, {"group": str(world.alice.group.pk), "mode": "rw"}).status_code == 302
    page = text(alice.get(shares))
    assert bob.email in page
    assert world.alice.group.name in page
    assert "shared with 2" in text(alice.get("/volumes/"))
    assert "shared by" in text(browser(bob).get("/volumes/"))

    for share in VolumeShare.objects.all():
        assert alice.post(f"{shares}{share.pk}/end/").status_code == 302
    assert "moon-rocks" not in text(browser(bob).get("/volumes/"))
    assert not VolumeShare.objects.exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"mode": "ro"}, "Name one person or one group."),
        ({"email": "nobody@example.org", "mode": "ro"}, "There is no such person"),
        ({"email": "not an address", "mode": "ro"}, "valid"),
        ({"group": "0197f3c2-a1b2-7c4e-9d10-000000000001", "mode": "ro"}, "choice"),
        ({"email": "nobody@example.org", "mode": "rwx"}, "choice"),
    ],
)
def test_a_share_that_cannot_be_stays_on_its_form(world: World, alice: Client, body: dict[str, str], said: str) -> None:
    page = alice.post(f"/volumes/{a_volume(world).pk}/shares/", body)

    assert page.status_code == 422
    assert said in text(page)
    assert not VolumeShare.objects.exists()


def test_only_who_looks_after_a_volume_meets_its_shares(world: World) -> None:
    volume, bob = a_volume(world), a_user(world.alice.group)
    share = metal.share_volume(by=world.alice.user, volume_id=volume.pk, wish=ShareWish("rw", user_id=bob.pk))

    for person, status in ((bob, 403), (a_user(a_group()), 404)):
        client = browser(person)
        assert client.get(f"/volumes/{volume.pk}/shares/").status_code == status
        assert client.post(f"/volumes/{volume.pk}/shares/", {"email": bob.email, "mode": "rw"}).status_code == status
        assert client.post(f"/volumes/{volume.pk}/shares/{share.pk}/end/").status_code == status
    assert VolumeShare.objects.count() == 1


def test_a_deleted_volume_has_no_shares_page_and_is_shown_to_who_can_take_it_back(world: World, alice: Client) -> None:
    volume, bob = a_volume(world, "going"), a_user(world.alice.group)
    metal.share_volume(by=world.alice.user, volume_id=volume.pk, wish=ShareWish("rw", user_id=bob.pk))
    metal.delete_volume(by=world.alice.user, volume_id=volume.pk)

    assert alice.get(f"/volumes/{volume.pk}/shares/").status_code == 404
    assert f"/volumes/{volume.pk}/restore/" in text(alice.get("/volumes/"))
    assert "going" not in text(browser(bob).get("/volumes/"))


def test_the_size_is_asked_for_and_a_refused_one_stays(world: World, alice: Client) -> None:
    volume = a_volume(world)
    address = f"/volumes/{volume.pk}/resize/"
    assert 'name="size_gib"' in text(alice.get(address))

    page = alice.post(address, {"size_gib": "1"})

    assert page.status_code == 422
    assert 'value="1"' in text(page)
    assert "only grows" in text(page)


def test_snapshots_are_shown_disabled_and_say_why(world: World, alice: Client) -> None:
    volume = a_volume(world)

    page = text(alice.get("/volumes/"))

    assert f'disabled aria-describedby="no-snapshot-{volume.pk}"' in page
    assert "There are no snapshots yet." in page


def test_a_mounted_volume_offers_no_delete_and_names_who_mounts_it(world: World, alice: Client) -> None:
    volume = a_volume(world)
    session = world.run("L", mounts=(MountAsk(volume.pk, "/data", "rw"),), name="trainer")

    page = text(alice.get("/volumes/"))

    assert f"/volumes/{volume.pk}/delete/" not in page
    assert "trainer" in page
    alice.post(f"/volumes/{volume.pk}/delete/")
    assert Volume.objects.get().deleted_at is None
    assert Session.objects.get(pk=session.pk).state == "running"


def test_a_foreign_volume_can_be_neither_mounted_nor_seen(world: World) -> None:
    volume = a_volume(world, "secret-plans")
    carol = a_customer(1_000)

    assert "secret-plans" not in text(browser(carol.user).get("/volumes/"))
    assert "secret-plans" not in text(browser(carol.user).get("/sessions/new/"))
    assert browser(carol.user).post(f"/volumes/{volume.pk}/delete/").status_code == 404
