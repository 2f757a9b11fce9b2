"""Limits as people see them: with the use that they are really held against."""

import pytest

from cluster import services as cluster
from cluster.services import VolumeWish
from sessions_app.overview import limits_of

pytestmark = pytest.mark.django_db


def test_storage_in_use_is_what_the_volumes_take(world):
    wish = VolumeWish(name="home", kind="home", access="rwo", size_gib=20, cluster_id=world.cluster.pk)
    cluster.create_volume(by=world.alice.user, wish=wish)
    shown = {limit.field: limit for limit in limits_of(world.alice.user.pk, world.alice.group.pk)}
    assert (shown["storage_gib"].used, shown["storage_gib"].value) == (20, 200)
