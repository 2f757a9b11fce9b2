"""What is wanted of a session stands where its cluster finds it, and never gives way to something older."""

import pytest

from cluster import services
from cluster.models import Desired
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from tests.builders import a_cluster, ids
from tests.cluster_acts import a_spec, want

pytestmark = pytest.mark.django_db


def test_a_newer_document_replaces_the_older_under_a_new_number():
    cluster, (session, _b, _c) = a_cluster(), ids()
    first = want(cluster, a_spec(session, generation=1))

    second = want(cluster, a_spec(session, generation=2, desired="Paused"))

    row = Desired.objects.get()
    assert first is not None
    assert row.seq == second > first
    assert row.spec["desired"] == "Paused"
    assert row.accepted_at is None


@pytest.mark.parametrize(("run", "generation"), [(2, 5), (2, 4), (1, 9)], ids=["the same", "older", "an older run"])
def test_a_document_that_is_not_newer_changes_nothing(run, generation):
    cluster, (session, _b, _c) = a_cluster(), ids()
    want(cluster, a_spec(session, run=2, generation=5))

    assert want(cluster, a_spec(session, run=run, generation=generation, desired="Stopped")) is None

    assert Desired.objects.get().spec["desired"] == "Running"


def test_a_tombstone_ends_the_document_that_stands_there():
    cluster, (session, _b, _c) = a_cluster(), ids()
    want(cluster, a_spec(session, run=2, generation=5))

    assert want(cluster, None, session=session) is not None

    row = Desired.objects.get()
    assert row.spec is None
    assert row.order == (2, 5)
    assert want(cluster, a_spec(session, run=2, generation=5)) is None
    assert want(cluster, a_spec(session, run=3, generation=6)) is not None


def test_a_tombstone_of_nothing_is_not_written():
    cluster, (session, _b, _c) = a_cluster(), ids()

    assert want(cluster, None, session=session) is None
    assert not Desired.objects.exists()


def test_a_document_counts_as_accepted_once_its_generation_was_observed():
    cluster, (session, _b, _c) = a_cluster(), ids()
    want(cluster, a_spec(session, run=1, generation=3))

    assert not accept(cluster, session, 1, 2)
    assert accept(cluster, session, 1, 3)
    assert not accept(cluster, session, 1, 3)

    row = Desired.objects.get()
    assert (row.observed_run, row.observed_generation) == (1, 3)


def test_what_was_observed_never_goes_back():
    cluster, (session, _b, _c) = a_cluster(), ids()
    want(cluster, a_spec(session, run=2, generation=4))
    accept(cluster, session, 2, 4)

    accept(cluster, session, 1, 9)

    row = Desired.objects.get()
    assert (row.observed_run, row.observed_generation) == (2, 4)


def test_a_new_document_waits_to_be_accepted_again():
    cluster, (session, _b, _c) = a_cluster(), ids()
    want(cluster, a_spec(session))
    accept(cluster, session, 1, 1)

    want(cluster, a_spec(session, generation=2))

    assert Desired.objects.get().accepted_at is None


def test_each_cluster_is_told_its_own_and_neither_touches_the_others():
    here, there, (session, _b, _c) = a_cluster("here"), a_cluster("there"), ids()
    want(here, a_spec(session, run=1, generation=3, desired="Stopped"))
    want(there, a_spec(session, run=2, generation=4))

    accept(there, session, 2, 4)

    ended = Desired.objects.get(cluster=here)
    assert (ended.order, ended.spec["desired"], ended.observed_run) == ((1, 3), "Stopped", 0)
    services.drop_desired(session, cluster_id=here.pk, run=1)
    assert [row.cluster_id for row in Desired.objects.all()] == [there.pk]


def test_the_end_of_an_earlier_run_does_not_take_the_document_of_a_later_one():
    cluster, (session, _b, _c) = a_cluster(), ids()
    want(cluster, a_spec(session, run=2, generation=4))

    assert not services.drop_desired(session, cluster_id=cluster.pk, run=1)
    assert services.drop_desired(session, cluster_id=cluster.pk, run=3)


def accept(cluster, session, run, generation):
    with ordered():
        return services.accept_desired(
            session_id=session, cluster_id=cluster.pk, run=run, generation=generation, at=clock.now()
        )
