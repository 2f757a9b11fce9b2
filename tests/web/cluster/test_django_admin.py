"""Django's own admin of the metal: super administrators look, what acts goes through the services."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client

from accounts.models import AuditEntry
from cluster import heartbeat, services
from cluster.models import (
    Card,
    CardDrift,
    Cluster,
    Earmark,
    Listing,
    ModeChange,
    Node,
    NodeDrain,
    PoolGrant,
    VolumeDrain,
    VolumeShare,
)
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from tests.builders import LONG_AGO, a_cluster, a_group, a_node, a_super_admin, a_user, an_org_admin
from tests.cluster_acts import a_quarter, a_spec, take, want

pytestmark = pytest.mark.django_db
OWN = list(apps.get_app_config("cluster").get_models())


def as_(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def rows():
    """At least one row of everything."""
    cluster, group = a_cluster("north"), a_group()
    a_node(cluster, "gpu-01", cards=[{}])
    take(a_quarter())
    want(cluster, a_spec(uuid7()))
    alice = a_user(group)
    wish = services.VolumeWish("data", "data", "rwo", 1, cluster.pk)
    volume = services.create_volume(by=alice, wish=wish)
    VolumeShare.objects.create(volume=volume, group=group, mode="ro", created_at=LONG_AGO)
    with ordered():
        mounts = [{"volume": str(volume.pk), "path": "/data", "mode": "rw"}]
        services.attach(session_id=uuid7(), run_id=uuid7(), mounts=mounts, at=clock.now())
    PoolGrant.objects.create(pool=cluster.pools.get(), group=group)
    Listing.objects.create(cluster=cluster, observed_at=LONG_AGO, is_complete=True)
    Earmark.objects.create(session_id=uuid7(), node=Node.objects.get(), made_at=LONG_AGO)
    VolumeDrain.objects.create(volume=volume, changed_at=LONG_AGO)
    services.drain_node(by=None, node_id=Node.objects.get().pk, mode="stop", reason="moving house")
    services.cordon_node(by=None, node_id=Node.objects.get().pk, cordoned=False)
    ModeChange.objects.create(
        node=Node.objects.get(), target="mig", asked_at=LONG_AGO, stepped_at=LONG_AGO, state="failed"
    )
    CardDrift.objects.create(card=Card.objects.get(), words=["HAMi counts 1 MiB."], since=LONG_AGO)
    heartbeat.stamp(LONG_AGO)
    heartbeat.stamp(clock.now())
    return {"cluster": cluster, "node": Node.objects.get()}


@pytest.mark.parametrize("model", OWN, ids=lambda model: model.__name__)
def test_lists_searches_and_rows_can_be_looked_at_and_nothing_changed(model, rows):
    client, root = as_(a_super_admin()), f"/django-admin/cluster/{model._meta.model_name}/"
    assert admin.site.is_registered(model)
    row = model.objects.first()
    assert row is not None

    assert client.get(root).status_code == 200
    assert client.get(f"{root}?q=ab").status_code == 200
    page = client.get(f"{root}{row.pk}/change/")
    assert page.status_code == 200
    assert page.context["adminform"].form.fields == {}
    assert client.get(f"{root}add/").status_code == 403
    assert client.post(f"{root}{row.pk}/delete/").status_code == 403


@pytest.mark.parametrize("who", ["member", "org_admin"])
def test_nobody_else_gets_in(who, rows):
    person = a_user(a_group()) if who == "member" else an_org_admin(a_group().organisation)

    assert as_(person).get("/django-admin/cluster/cluster/").status_code == 404


def test_actions_call_the_services(rows):
    top = a_super_admin()
    client = as_(top)

    def act(model, action, row, **more):
        body = {"action": action, "_selected_action": [str(row.pk)]} | more
        return client.post(f"/django-admin/cluster/{model}/", body, follow=True)

    assert act("node", "cordon", rows["node"]).status_code == 200
    assert Node.objects.get().is_cordoned
    act("node", "uncordon", rows["node"])
    assert not Node.objects.get().is_cordoned
    act("node", "drain", rows["node"])
    assert not NodeDrain.objects.filter(closed_at=None).exists(), "without a reason it is refused"
    act("node", "drain", rows["node"], reason="a fan is broken")
    act("node", "drain_by_stopping", rows["node"], reason="a fan is broken")
    assert NodeDrain.objects.get(closed_at=None).mode == "stop"
    act("cluster", "revoke_tokens", rows["cluster"])
    assert Cluster.objects.get().token_epoch == 2
    acts = set(AuditEntry.objects.filter(actor_id=top.pk).values_list("act", flat=True))
    assert {"node.cordon", "node.uncordon", "cluster.revoke_tokens"} <= acts
