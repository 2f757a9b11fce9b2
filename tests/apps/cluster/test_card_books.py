"""Trap 41: where pods, HAMi and claims disagree about a card for too long, it is said."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from structlog.testing import capture_logs

from cluster.card_books import alarmed_drifts
from cluster.models import Card, CardDrift, Cluster
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from tests.apps.cluster.test_inventory import UUID_A, UUID_B, beat, card, node
from tests.apps.sessions.world import manual_clock
from tests.builders import a_cluster, a_super_admin
from tests.cluster_acts import a_quarter, release, take

pytestmark = pytest.mark.django_db
KEPT = "HAMi counts 5,000 MiB, but all pods are annotated with 0 MiB."


@pytest.fixture
def time():
    with clock.using(manual_clock()) as made:
        yield made


@pytest.fixture
def cluster(time) -> Cluster:
    return a_cluster("north", kind="kube", kubeconfig="main")


def held(session: Any, mib: int = 20_480) -> list[dict[str, Any]]:
    return [{"session": str(session), "vram_mib": mib, "core_percent": 25}]


def shown(cluster: Cluster) -> list[Any]:
    root = Client()
    root.force_login(a_super_admin())
    return [row["drift"] for row in root.get(f"/api/v1/clusters/{cluster.pk}/cards").json()["results"]]


def test_an_allotment_that_hami_keeps_is_alarmed_once_when_it_lasts_and_called_off_when_it_ends(cluster, time):
    def look(minutes: int, **fields: Any) -> list[str]:
        time.advance(timedelta(minutes=minutes))
        with capture_logs() as logs:
            beat(cluster, node(cards=[card(**fields), card(UUID_B, 1, counted_mib=0)]))
        return [entry["event"] for entry in logs if entry["event"].startswith("card_books")]

    assert look(0, counted_mib=5_000) == []
    assert (shown(cluster), alarmed_drifts()) == ([None, None], {}), "a start or an end takes a moment"
    assert look(5, counted_mib=5_000) == ["card_books_disagree"]
    first, other = shown(cluster)
    assert (first["words"], other) == ([KEPT], None)
    assert alarmed_drifts() == {"north": 1}
    assert look(1, counted_mib=5_000) == [], "it is alarmed once"
    assert look(1, counted_mib=0) == ["card_books_agree"]
    assert (shown(cluster), alarmed_drifts(), CardDrift.objects.count()) == ([None, None], {}, 0)


def test_claims_without_pods_and_pods_without_claims_are_found_and_what_agrees_is_not(cluster, time):
    beat(cluster, node(cards=[card()]))
    session, run = uuid7(), uuid7()
    assert take(a_quarter(), session_id=session, run_id=run)

    def words(**fields: Any) -> list[str]:
        beat(cluster, node(cards=[card(**fields)]))
        return [word for row in CardDrift.objects.all() for word in row.words]

    assert words(bound=held(session), counted_mib=20_480) == []
    assert words() == ["Open claims hold 20,480 MiB, but sessions' pods are annotated with 0 MiB."]
    release(run)
    assert words(bound=held(session)) == ["Open claims hold 0 MiB, but sessions' pods are annotated with 20,480 MiB."]


def test_what_is_not_said_is_no_difference_and_a_card_that_is_not_listed_keeps_what_was_found(cluster, time):
    beat(cluster, node(cards=[card(counted_mib=5_000)]))
    beat(cluster, node(ready=False, cards=[]))
    assert [row.words for row in CardDrift.objects.all()] == [[KEPT]]
    beat(cluster, node(cards=[card()]))
    assert not CardDrift.objects.exists()


def test_of_a_silent_node_claims_are_not_compared(cluster, time):
    beat(cluster, node(cards=[card()]))
    assert take(a_quarter())
    beat(cluster, node(ready=False, cards=[card()]))
    assert not CardDrift.objects.exists()


def test_a_local_cluster_has_one_book(time):
    beat(a_cluster("demo"), node(cards=[card(counted_mib=5_000)]))
    assert Card.objects.get().uuid == UUID_A
    assert not CardDrift.objects.exists()
