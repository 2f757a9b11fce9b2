"""The fleet in memory follows the rows, and keeps what is not committed to itself."""

import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, transaction

from cluster import fleets, services
from cluster.domain.placement import NoPlace
from cluster.models import Card, FleetChange, Node, Sequence
from cluster.services.claims import Reserved
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from tests.builders import a_cluster, a_node, ids
from tests.cluster_acts import a_quarter, release, take

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _fresh_fleet():
    fleets.forget()
    yield
    fleets.forget()


def used_slots():
    return sum(card.used_slots for node in fleets.snapshot() for card in node.cards)


def test_it_sees_a_claim_that_another_process_committed():
    a_node(a_cluster(), cards=[{}])
    assert used_slots() == 0

    in_another_thread(lambda: take(a_quarter()))

    assert used_slots() == 1


def test_it_answers_for_the_changes_of_the_open_transaction_and_forgets_them_with_it():
    a_node(a_cluster(), cards=[{"slots": 1}])
    session, run, _other = ids()
    assert used_slots() == 0

    with undone():
        services.reserve(request=a_quarter(), session_id=session, run_id=run, run=1, at=clock.now())
        assert used_slots() == 1
        assert isinstance(services.look(a_quarter()), NoPlace)
        assert in_another_thread(used_slots) == 0

    assert used_slots() == 0
    assert isinstance(take(a_quarter()), Reserved)


def test_a_number_that_a_rolled_back_transaction_gave_back_is_not_skipped_the_second_time():
    node = a_node(a_cluster(), cards=[{}])
    used_slots()
    with undone():
        services.cordon_node(by=None, node_id=node.pk, cordoned=True)
        used_slots()

    services.cordon_node(by=None, node_id=node.pk, cordoned=True)

    assert [node.cordoned for node in fleets.snapshot()] == [True]


def test_it_reads_everything_again_when_the_last_time_is_too_long_ago(gshare):
    node = a_node(a_cluster(), cards=[{}])
    used_slots()
    Card.objects.filter(node=node).update(used_slots=3)  # no change recorded, as after a restore
    assert used_slots() == 0

    gshare(fleet_reread_period=timedelta(0))

    assert used_slots() == 3


def test_it_starts_anew_when_the_counter_went_back():
    cluster = a_cluster()
    node = a_node(cluster, cards=[{}])
    take(a_quarter())
    assert used_slots() == 1
    Sequence.objects.filter(cluster=cluster).update(last=0)
    FleetChange.objects.all().delete()
    Card.objects.filter(node=node).update(used_slots=0, used_vram_mib=0, used_milli=0)

    assert used_slots() == 0


def test_it_forgets_nodes_that_are_retired_and_clusters_that_are_removed():
    cluster = a_cluster()
    a_node(cluster, "a", cards=[{}])
    a_node(a_cluster("other"), "b", cards=[{}])
    assert len(fleets.snapshot()) == 2

    services.remove_cluster(by=None, cluster_id=cluster.pk)

    assert [node.name for node in fleets.snapshot()] == ["other/b"]
    assert Node.objects.get(name="a").retired_at is not None


def test_it_learns_of_many_new_nodes_at_once():
    cluster = a_cluster("big")
    a_node(cluster, "n-00", cards=[{}])
    used_slots()

    for number in range(1, 25):
        a_node(cluster, f"n-{number:02}", cards=[{}])

    assert len(fleets.snapshot()) == 25
    assert isinstance(take(a_quarter()), Reserved)
    assert used_slots() == 1


def test_following_costs_one_statement_when_nothing_changed(django_assert_num_queries):
    a_node(a_cluster(), cards=[{}])
    used_slots()

    with django_assert_num_queries(1):
        used_slots()


def test_a_committed_release_is_seen_by_the_next_question():
    a_node(a_cluster(), cards=[{"slots": 1}])
    _session, run, _other = ids()
    take(a_quarter(), run_id=run)
    assert isinstance(services.look(a_quarter()), NoPlace)

    release(run)

    assert isinstance(services.look(a_quarter()), Reserved)


def test_threads_of_one_process_share_it_safely():
    a_node(a_cluster(), cards=[{"slots": 40, "vram_mib": 409_600}], cpu_milli=1_000_000, memory_mib=10_000_000)
    results = []
    threads = [threading.Thread(target=lambda: results.append(closing(lambda: take(a_quarter())))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 4
    assert all(isinstance(result, Reserved) for result in results)
    assert used_slots() == 4


@contextmanager
def undone():
    """A transaction that is rolled back at its end."""
    with ordered():
        yield
        transaction.set_rollback(True)


def closing(work):
    try:
        return work()
    finally:
        connection.close()


def in_another_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(closing(work)))
    thread.start()
    thread.join()
    assert not transaction.get_connection().needs_rollback
    return found[0]
