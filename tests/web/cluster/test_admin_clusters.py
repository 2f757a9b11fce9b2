"""The administrators' pages of clusters: nodes emptied with a reason, findings in words, and for super administrators only."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.models import AuditEntry
from cluster.models import Card, CardDrift, Cluster, Node, NodeDrain
from gshare_core.kit import clock
from tests.apps.sessions.world import World
from tests.web.sessions.admin_world import Administered, administered
from tests.web.sessions.conftest import browser, world

__all__ = ["world"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def us(world: World) -> Administered:
    return administered(world)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def test_clusters_and_nodes_are_for_super_administrators_only(us: Administered) -> None:
    cluster, node = us.world.cluster, us.world.node
    for path in ("/admin/clusters/", f"/admin/clusters/{cluster.pk}/", f"/admin/nodes/{node.pk}/drain/"):
        assert browser(us.root).get(path).status_code == 200
        for who in (us.org_admin, us.group_admin, us.world.alice.user):
            assert browser(who).get(path).status_code == 404, path
    assert "/admin/clusters/" in text(browser(us.root).get("/admin/"))
    assert "/admin/clusters/" not in text(browser(us.org_admin).get("/admin/"))
    assert browser(us.org_admin).post(f"/admin/nodes/{node.pk}/cordon/").status_code == 404
    assert not Node.objects.get(pk=node.pk).is_cordoned


def test_a_node_is_emptied_with_a_reason_and_used_again(us: Administered) -> None:
    client, node = browser(us.root), us.world.node
    here = f"/admin/clusters/{us.world.cluster.pk}/"
    asked = text(client.get(f"/admin/nodes/{node.pk}/drain/"))
    assert "Every session there leaves" in asked
    refused = client.post(f"/admin/nodes/{node.pk}/drain/", {"mode": "stop", "reason": " "})
    assert refused.status_code == 422
    assert "say why" in text(refused)
    assert client.post(f"/admin/nodes/{node.pk}/drain/", {"mode": "any", "reason": "memory"}).status_code == 422
    assert not NodeDrain.objects.exists()
    done = client.post(f"/admin/nodes/{node.pk}/drain/", {"mode": "reschedule", "reason": "new memory"}, follow=True)
    assert done.redirect_chain == [(here, 302)]
    (row,) = [row for row in done.context["nodes"] if row["name"] == node.name]
    assert (row["state"], row["why"], row["sessions"], row["closed"]) == (
        "is emptied: they go elsewhere",
        "new memory",
        3,
        True,
    )
    client.post(f"/admin/nodes/{node.pk}/uncordon/")
    assert not NodeDrain.objects.filter(closed_at=None).exists()
    acts = (
        AuditEntry.objects.filter(target_kind="node", actor_id=us.root.pk).order_by("id").values_list("act", flat=True)
    )
    assert list(acts) == ["node.drain", "node.uncordon"]
    assert client.get(f"/admin/nodes/{node.pk}/explode/").status_code == 302


def test_a_test_says_what_is_wrong_and_drift_is_told_once_it_lasted(us: Administered) -> None:
    client, cluster = browser(us.root), us.world.cluster
    here = f"/admin/clusters/{cluster.pk}/"
    assert "What the test found" not in text(client.get(here))
    assert "What the test found" in text(client.post(here))
    Cluster.objects.filter(pk=cluster.pk).update(sweep_held_at=clock.now(), sweep_ends=37)
    card = Card.objects.filter(node__cluster=cluster).first()
    assert card is not None
    drift = CardDrift.objects.create(card=card, words=["HAMi counts 3 pods, 2 are there"], since=clock.now())
    page = text(client.get(here))
    assert "it would end 37 sessions" in page
    assert "HAMi counts 3 pods" not in page
    CardDrift.objects.filter(pk=drift.pk).update(alarmed_at=clock.now())
    assert "HAMi counts 3 pods, 2 are there" in text(client.get(here))
