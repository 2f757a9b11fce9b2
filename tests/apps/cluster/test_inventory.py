"""One beat taken in: what is adopted, what is left aside, what is known to be gone."""

from datetime import timedelta

import pytest

from cluster import fleets, inventory, queries, services
from cluster.domain.placement import NoPlace
from cluster.models import Card, Cluster, FleetChange, Node
from cluster.services.claims import Reserved
from gshare_core.contract import Inventory
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from tests.builders import a_cluster, ids
from tests.cluster_acts import a_quarter, a_spec, orphan, release, take, want

pytestmark = pytest.mark.django_db

UUID_A, UUID_B = "GPU-aaaa", "GPU-bbbb"


@pytest.fixture
def cluster():
    return a_cluster("demo", state="pending")


def card(uuid=UUID_A, index=0, **fields):
    values = {"model": "NVIDIA A100-SXM4-80GB", "vram_mib": 81_920, "core_percent": 100, "slots": 10}
    return {"uuid": uuid, "index": index} | values | fields


def node(name="gpu-01", cards=(), **fields):
    values = {"ready": True, "cpu_milli": 64_000, "memory_mib": 262_144, "scratch_gib": 1_000}
    return {"name": name, "cards": list(cards)} | values | fields


def beat(cluster, *nodes, at=None, sent_at=None, **parts):
    """Take in one beat, sent now."""
    received = clock.now()
    observed = at or received
    body = {
        "contract_version": 1,
        "observed_at": observed.isoformat(),
        "sent_at": (sent_at or received).isoformat(),
        "nodes": list(nodes),
        "volumes": [],
        "sessions": [],
    } | parts
    document, bad = Inventory.read(body)
    return inventory.adopt(cluster.pk, document, received, bad)


def test_unknown_nodes_and_cards_are_adopted_and_can_be_used_at_once(cluster):
    receipt = beat(cluster, node(cards=[card(), card(UUID_B, 1, model="Tesla T4", vram_mib=15_360)]))

    assert receipt.skipped == ()
    cluster.refresh_from_db()
    assert cluster.state == "connected"
    assert {row.uuid: row.vram_mib for row in Card.objects.all()} == {UUID_A: 81_920, UUID_B: 15_360}
    assert isinstance(take(a_quarter()), Reserved)


def test_a_beat_that_says_nothing_new_writes_nothing_but_the_beat(cluster, django_assert_max_num_queries):
    document = node(cards=[card(), card(UUID_B, 1)], labels={"zone": "a"})
    beat(cluster, document)
    changes = FleetChange.objects.count()

    with django_assert_max_num_queries(10):
        beat(cluster, document)

    assert FleetChange.objects.count() == changes


def test_readiness_follows_the_beats(cluster):
    beat(cluster, node(cards=[card()]))
    beat(cluster, node(cards=[card()], ready=False))

    refused = take(a_quarter())
    assert isinstance(refused, NoPlace)
    assert refused.kind == "not_now"
    assert Node.objects.get().not_ready_since is not None
    assert not queries.node_is_ready(cluster.pk, "gpu-01")

    beat(cluster, node(cards=[card()]))
    assert isinstance(take(a_quarter()), Reserved)
    assert queries.node_is_ready(cluster.pk, "gpu-01")


def test_foreign_use_is_counted_and_forgotten_when_it_ends(cluster):
    stranger = {"session": None, "vram_mib": 70_000, "core_percent": 50}
    beat(cluster, node(cards=[card(bound=[stranger])]))
    refused = take(a_quarter())
    assert isinstance(refused, NoPlace)
    assert refused.short == {"vram_mib": 8_560}

    beat(cluster, node(cards=[card()]))

    assert isinstance(take(a_quarter()), Reserved)


def test_pods_of_sessions_with_a_claim_are_not_foreign_and_a_second_pod_is(cluster):
    beat(cluster, node(cards=[card()]))
    session, run, _other = ids()
    take(a_quarter(), session_id=session, run_id=run)
    mine = {"session": str(session), "vram_mib": 20_480, "core_percent": 25}

    beat(cluster, node(cards=[card(bound=[mine])]))
    assert Card.objects.get().foreign_slots == 0

    beat(cluster, node(cards=[card(bound=[mine, mine])]))
    found = Card.objects.get()
    assert (found.foreign_slots, found.foreign_vram_mib, found.foreign_milli) == (1, 20_480, 250)


def test_a_claim_given_back_after_the_cluster_looked_is_not_foreign(cluster):
    beat(cluster, node(cards=[card()]))
    session, run, _other = ids()
    take(a_quarter(), session_id=session, run_id=run)
    looked = clock.now()
    release(run)

    beat(
        cluster,
        node(cards=[card(bound=[{"session": str(session), "vram_mib": 20_480, "core_percent": 25}])]),
        at=looked,
    )

    assert Card.objects.get().foreign_slots == 0


def test_a_card_of_another_cluster_is_skipped_and_listed(cluster):
    other = a_cluster("other")
    beat(other, node("x", cards=[card()]))

    receipt = beat(cluster, node("y", cards=[card(), card(UUID_B, 1)]))

    assert [(row.where, row.why) for row in receipt.skipped] == [
        (f"card {UUID_A} of node y", "registered by another cluster")
    ]
    assert Card.objects.get(uuid=UUID_A).node.cluster_id == other.pk
    assert Card.objects.get(uuid=UUID_B).node.cluster_id == cluster.pk


def test_after_a_cluster_was_removed_its_cards_can_be_registered_elsewhere(cluster):
    beat(cluster, node(cards=[card()]))
    services.remove_cluster(by=None, cluster_id=cluster.pk)
    other = a_cluster("other")

    receipt = beat(other, node("y", cards=[card()]))

    assert receipt.skipped == ()
    assert Card.objects.get(retired_at=None).node.cluster_id == other.pk


@pytest.mark.parametrize(
    "absurd",
    [{"vram_mib": 4_194_304}, {"slots": 5_000}, {"index": 4_000}, {"core_percent": 100_000}],
    ids=str,
)
def test_absurd_cards_are_left_aside_and_their_neighbours_are_not(absurd, cluster):
    receipt = beat(cluster, node(cards=[card(**absurd), card(UUID_B, 1)]))

    assert len(receipt.skipped) == 1
    assert [row.uuid for row in Card.objects.all()] == [UUID_B]


def test_unreadable_rows_make_nothing_missing(cluster):
    beat(cluster, node("a", cards=[card()]), node("b", cards=[card(UUID_B)]))

    beat(cluster, node("a", cards=[card(vram_mib="[Not Supported]")]), {"name": "b", "ready": "perhaps"})

    assert list(
        Node.objects.filter(missing_since=None, is_ready=True).order_by("name").values_list("name", flat=True)
    ) == [
        "a",
        "b",
    ]
    assert not Card.objects.exclude(missing_since=None).exists()


def test_a_silent_node_that_lists_no_cards_keeps_them(cluster):
    beat(cluster, node(cards=[card()]))

    beat(cluster, node(ready=False, cpu_milli=0, memory_mib=0, scratch_gib=0))

    found = Node.objects.get()
    assert (found.cpu_milli, found.memory_mib, found.scratch_gib) == (64_000, 262_144, 1_000)
    assert Card.objects.get().missing_since is None


def test_a_card_that_a_ready_node_does_not_list_takes_nothing_new_but_still_counts_as_possible(cluster):
    beat(cluster, node(cards=[card()]))

    beat(cluster, node())

    refused = take(a_quarter())
    assert isinstance(refused, NoPlace)
    assert refused.kind == "not_now"
    beat(cluster, node(cards=[card()]))
    assert isinstance(take(a_quarter()), Reserved)


def test_what_was_missing_for_a_day_is_retired_and_its_rows_stay_as_history(cluster):
    beat(cluster, node("a", cards=[card()]), node("b", cards=[card(UUID_B)]))
    beat(cluster, node("a"), at=clock.now())
    day = timedelta(hours=25)
    Node.objects.filter(name="b").update(missing_since=clock.now() - day)
    Card.objects.filter(uuid=UUID_A).update(missing_since=clock.now() - day)

    beat(cluster, node("a"))

    assert Node.objects.get(name="b").retired_at is not None
    assert Card.objects.filter(retired_at=None).count() == 0
    assert [each.name for each in fleets.snapshot()] == ["demo/a"]
    assert services.look(a_quarter()).kind == "never"


def test_what_is_missing_with_a_claim_on_it_is_not_retired(cluster):
    beat(cluster, node(cards=[card()]))
    take(a_quarter())
    beat(cluster, node())
    Card.objects.update(missing_since=clock.now() - timedelta(days=3))

    beat(cluster, node())

    assert Card.objects.get().retired_at is None


def test_a_beat_that_lists_no_node_at_all_concludes_nothing(cluster):
    beat(cluster, node(cards=[card()]))

    receipt = beat(cluster)

    assert [row.where for row in receipt.skipped] == ["nodes"]
    assert Node.objects.get().is_ready


def test_a_capacity_never_falls_below_what_is_claimed(cluster):
    beat(cluster, node(cards=[card()]))
    for _number in range(3):
        take(a_quarter())

    beat(cluster, node(cards=[card(slots=2, vram_mib=40_000, core_percent=50)], cpu_milli=1_000))

    found = Card.objects.get()
    assert (found.slots, found.vram_mib, found.core_milli) == (3, 61_440, 750)
    assert Node.objects.get().cpu_milli == 12_000
    assert isinstance(take(a_quarter()), NoPlace)


def test_an_unclaimed_card_may_change_its_node_and_a_claimed_one_may_not(cluster):
    beat(cluster, node("a", cards=[card()]), node("b"))
    beat(cluster, node("a"), node("b", cards=[card()]))
    assert Card.objects.get().node.name == "b"
    take(a_quarter())

    receipt = beat(cluster, node("a", cards=[card()]), node("b"))

    assert [row.why for row in receipt.skipped] == ["claimed on node b"]
    assert Card.objects.get().node.name == "b"


def test_an_older_beat_changes_nothing_but_counts_as_a_beat(cluster):
    beat(cluster, node(cards=[card()]))
    Cluster.objects.update(state="lost")
    earlier = clock.now() - timedelta(seconds=30)

    receipt = beat(cluster, node(cards=[card()], ready=False), at=earlier)

    assert receipt.stale
    assert receipt.returned
    assert Node.objects.get().is_ready
    cluster.refresh_from_db()
    assert cluster.state == "connected"


def test_a_senders_clock_that_is_wrong_does_not_make_its_beats_old(cluster):
    ahead = timedelta(hours=3)
    beat(cluster, node(cards=[card()]), at=clock.now() + ahead, sent_at=clock.now() + ahead)

    receipt = beat(cluster, node(cards=[card()], ready=False))

    assert not receipt.stale
    assert not Node.objects.get().is_ready


def test_a_removed_cluster_has_no_beats(cluster):
    services.remove_cluster(by=None, cluster_id=cluster.pk)

    with pytest.raises(DomainError) as refused:
        beat(cluster, node())

    assert refused.value.code == "not_found"


def test_sessions_that_never_were_on_the_cluster_are_strangers(cluster):
    beat(cluster, node(cards=[card()]))
    session, run, _other = ids()
    take(a_quarter(), session_id=session, run_id=run)
    rows = [pod(session), pod(uuid7())]

    receipt = beat(cluster, node(cards=[card()]), sessions=rows)

    assert [row.id for row in receipt.sessions] == [session]
    assert len(receipt.skipped) == 1


# Orphans --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def orphaned(cluster):
    """A run that ended without word: run 2, ending generation 5."""
    session, run, _other = ids()
    beat(cluster, node(cards=[card()]), node("other"))
    take(a_quarter(), session_id=session, run_id=run, run=2)
    want(cluster, a_spec(session, run=2, generation=5, desired="Stopped"))
    orphan(run, generation=5)
    return session, run


def observe(session, run=2, generation=5):
    with ordered():
        services.accept_desired(
            session_id=session,
            cluster_id=Cluster.objects.get(name="demo").pk,
            run=run,
            generation=generation,
            at=clock.now(),
        )


def test_an_orphan_is_freed_when_its_end_was_observed_and_no_pod_of_it_is_left(cluster, orphaned):
    session, run = orphaned
    observe(session)

    receipt = beat(cluster, node(cards=[card()]), node("other"))

    assert [(each.session_id, each.run_id, each.run) for each in receipt.freed] == [(session, run, 2)]
    assert Card.objects.get().used_slots == 1  # to be given back under the session's lock


def test_an_orphan_stays_while_a_pod_of_it_is_listed(cluster, orphaned):
    session, _run = orphaned
    observe(session)

    assert beat(cluster, node(cards=[card()]), sessions=[pod(session, run=2)]).freed == ()
    assert beat(cluster, node(cards=[card()]), sessions=[pod(session, run=3)]).freed != ()


def test_an_orphan_stays_until_its_ending_generation_was_observed(cluster, orphaned):
    session, _run = orphaned
    observe(session, generation=4)

    assert beat(cluster, node(cards=[card()])).freed == ()


def test_a_later_run_that_was_observed_says_the_same(cluster, orphaned):
    session, run = orphaned
    observe(session, run=3, generation=6)

    assert [each.run_id for each in beat(cluster, node(cards=[card()])).freed] == [run]


def test_an_orphan_stays_while_its_node_is_silent_and_goes_with_the_nodes_object(cluster, orphaned):
    session, run = orphaned
    observe(session)

    assert beat(cluster, node(cards=[card()], ready=False), node("other")).freed == ()

    assert [each.run_id for each in beat(cluster, node("other")).freed] == [run]


def test_an_orphan_stays_when_the_cluster_looked_before_it_had_observed_the_end(cluster, orphaned):
    session, _run = orphaned
    looked = clock.now()
    observe(session)

    assert beat(cluster, node(cards=[card()]), at=looked).freed == ()


def test_an_orphan_stays_without_a_document_that_ends_it_and_by_what_another_cluster_observed(cluster, orphaned):
    session, _run = orphaned
    services.drop_desired(session, cluster_id=cluster.pk)
    other = a_cluster("other")
    want(other, a_spec(session, run=3, generation=6))
    with ordered():
        services.accept_desired(session_id=session, cluster_id=other.pk, run=3, generation=6, at=clock.now())

    assert beat(cluster, node(cards=[card()])).freed == ()


def test_nothing_is_freed_by_a_beat_with_unreadable_rows(cluster, orphaned):
    session, _run = orphaned
    observe(session)

    assert beat(cluster, node("other"), sessions=[{"id": str(session), "run": "two"}]).freed == ()


def pod(session, run=1):
    return {
        "id": str(session),
        "run": run,
        "generation": 1,
        "phase": "running",
        "last_alive_at": clock.now().isoformat(),
    }
