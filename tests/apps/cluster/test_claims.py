"""Taking a part of the metal and giving it back, one at a time."""

import pytest

from cluster import fleets, queries, services
from cluster.domain.placement import NoPlace, Request
from cluster.models import Attachment, Card, Claim, FleetChange, Node, PoolGrant
from cluster.services.claims import Reserved
from gshare_core.kit import clock
from gshare_core.kit.locks import LockOrderError, Rank, note, ordered
from tests.builders import LONG_AGO, a_cluster, a_group, a_node, ids
from tests.cluster_acts import a_pool, a_quarter, a_spec, orphan, release, take, want

pytestmark = pytest.mark.django_db

WHOLE = {"exclusive": True, "cpu_milli": 4_000, "memory_mib": 8_192}


def test_a_claim_takes_its_share_of_card_and_node_and_gives_all_of_it_back():
    node = a_node(a_cluster(), cards=[{}])
    _session, run, _other = ids()

    found = take(a_quarter(), run_id=run)

    assert isinstance(found, Reserved)
    assert found.node == node.name
    assert found.kind == "shared"
    card, node = Card.objects.get(), Node.objects.get()
    assert found.cards == (card.uuid,)
    assert (card.used_vram_mib, card.used_milli, card.used_slots) == (20_480, 250, 1)
    assert (node.used_cpu_milli, node.used_memory_mib, node.used_scratch_gib) == (4_000, 16_384, 20)

    assert release(run) is True
    card, node = Card.objects.get(), Node.objects.get()
    assert (card.used_vram_mib, card.used_milli, card.used_slots) == (0, 0, 0)
    assert (node.used_cpu_milli, node.used_memory_mib, node.used_scratch_gib) == (0, 0, 0)
    claim = Claim.objects.get()
    assert claim.state == "released"
    assert claim.released_at is not None


def test_a_claim_is_given_back_once():
    a_node(a_cluster(), cards=[{}])
    run, _b, _c = ids()
    take(a_quarter(), run_id=run)

    assert release(run) is True
    assert release(run) is False
    assert Card.objects.get().used_slots == 0


def test_the_eleventh_session_on_a_card_with_ten_slots_waits():
    a_node(a_cluster(), cards=[{"slots": 10}])
    small = Request(vram_mib=1_024, core_percent=1, cpu_milli=100, memory_mib=256)

    for _number in range(10):
        assert isinstance(take(small), Reserved)
    refused = take(small)

    assert isinstance(refused, NoPlace)
    assert refused.kind == "not_now"
    assert refused.short == {"slots": 1}


@pytest.mark.parametrize(("parts", "percent"), [(8, 12.5), (16, 6.25)])
def test_eighths_and_sixteenths_fill_exactly_one_card(parts, percent):
    a_node(a_cluster(), cards=[{"slots": 20, "vram_mib": 81_559, "model": "NVIDIA H100 80GB HBM3"}])
    tier = Request(vram_mib=81_559 // parts, core_percent=percent, cpu_milli=100, memory_mib=256)

    for _number in range(parts):
        assert isinstance(take(tier), Reserved)

    assert isinstance(take(tier), NoPlace)
    assert Card.objects.get().used_slots == parts


def test_two_halves_fit_the_card_that_really_reports_81559_mib():
    a_node(a_cluster(), cards=[{"vram_mib": 81_559}])
    half = Request(vram_mib=81_559 // 2, core_percent=50, cpu_milli=100, memory_mib=256)

    assert isinstance(take(half), Reserved)
    assert isinstance(take(half), Reserved)
    assert isinstance(take(half), NoPlace)


def test_an_exclusive_claim_takes_whole_empty_cards_of_one_node():
    a_node(a_cluster(), cards=[{}, {}, {}])
    run, _b, _c = ids()

    found = take(Request(cards=2, **WHOLE), run_id=run)

    assert isinstance(found, Reserved)
    assert found.kind == "exclusive"
    taken = Card.objects.filter(uuid__in=found.cards)
    assert {(card.used_vram_mib, card.used_milli) for card in taken} == {(81_920, 1_000)}
    assert isinstance(take(Request(cards=2, **WHOLE)), NoPlace)
    hosts = list(Claim.objects.filter(run_id=run).order_by("id").values_list("cpu_milli", flat=True))
    assert hosts == [4_000, 0]


def test_an_exclusive_claim_does_not_take_a_card_that_somebody_shares():
    a_node(a_cluster(), cards=[{}])
    take(a_quarter())

    assert isinstance(take(Request(cards=1, **WHOLE)), NoPlace)


def test_what_foreign_pods_use_is_not_given_away():
    a_node(a_cluster(), cards=[{"foreign_vram_mib": 61_441, "foreign_milli": 100, "foreign_slots": 1}])

    refused = take(a_quarter())

    assert isinstance(refused, NoPlace)
    assert refused.short == {"vram_mib": 1}


def test_a_session_without_a_card_takes_host_resources_only():
    node = a_node(a_cluster(), cards=[{}])
    run, _b, _c = ids()

    found = take(Request(cpu_milli=2_000, memory_mib=4_096, scratch_gib=5), run_id=run)

    assert isinstance(found, Reserved)
    assert (found.kind, found.cards) == ("cpu", ())
    assert Card.objects.get().used_slots == 0
    node.refresh_from_db()
    assert node.used_cpu_milli == 2_000
    assert Claim.objects.get().card is None
    release(run)
    node.refresh_from_db()
    assert node.used_cpu_milli == 0


def test_a_late_gone_of_run_2_never_frees_the_card_of_run_3():
    a_node(a_cluster(), cards=[{}])
    session, second, third = ids()
    take(a_quarter(), session_id=session, run_id=second, run=2)
    with ordered():
        services.carry_claims(from_run_id=second, to_run_id=third, to_run=3, at=clock.now())

    assert release(second) is False

    assert Card.objects.get().used_slots == 1
    held = queries.held_claims([second, third])
    assert [row.state for row in held[third]] == ["open"]
    assert second not in held
    assert Claim.objects.get(run_id=second).state == "released"


def test_carried_claims_and_attachments_never_leave_the_metal_free_in_between():
    a_node(a_cluster(), cards=[{}])
    session, second, third = ids()
    take(a_quarter(), session_id=session, run_id=second, run=2)
    before = Card.objects.get().used_vram_mib

    with ordered():
        services.carry_claims(from_run_id=second, to_run_id=third, to_run=3, at=clock.now())

    assert Card.objects.get().used_vram_mib == before
    assert release(third) is True
    assert Card.objects.get().used_vram_mib == 0
    assert not Attachment.objects.filter(released_at=None).exists()


def test_an_orphaned_claim_blocks_its_card_until_it_is_released():
    a_node(a_cluster(), cards=[{"slots": 1}])
    run, _b, _c = ids()
    take(a_quarter(), run_id=run)

    orphan(run, generation=5)

    assert isinstance(take(a_quarter()), NoPlace)
    assert queries.held_claims([run])[run][0].state == "orphaned"
    assert release(run) is True
    assert isinstance(take(a_quarter()), Reserved)


def test_a_refused_reservation_leaves_neither_rows_nor_locks():
    a_node(a_cluster(), cards=[{"slots": 1}], cpu_milli=4_000)
    take(a_quarter())
    changes = FleetChange.objects.count()

    with ordered():
        assert isinstance(services.reserve(request=a_quarter(), **holder(), at=clock.now()), NoPlace)
        note(Rank.REQUESTER, "nothing is held yet")

    assert Claim.objects.count() == 1
    assert FleetChange.objects.count() == changes


@pytest.mark.django_db(transaction=True)
def test_a_reservation_that_lost_to_rows_the_fleet_did_not_know_tries_the_next_best():
    cluster = a_cluster()
    first = a_node(cluster, "a", cards=[{}])
    a_node(cluster, "b", cards=[{}])
    looked = services.look(a_quarter())
    assert isinstance(looked, Reserved)
    # Somebody filled the card behind the fleet's back: no change was recorded.
    Card.objects.filter(node=first).update(used_vram_mib=81_920, used_milli=1_000, used_slots=10)

    found = take(a_quarter())

    assert isinstance(found, Reserved)
    assert found.node == "b"


def test_a_reservation_outside_the_ordered_transaction_is_refused():
    a_node(a_cluster(), cards=[{}])

    with pytest.raises(LockOrderError):
        services.reserve(request=a_quarter(), **holder(), at=clock.now())


def test_dedicated_pools_come_before_shared_ones_and_are_closed_to_others():
    cluster, group, stranger = a_cluster(), a_group(), a_group()
    own = a_pool(cluster, "theirs")
    PoolGrant.objects.create(pool=own, group=group)
    a_node(cluster, "a-shared", cards=[{}])
    a_node(cluster, "z-own", cards=[{}], pool=own)

    mine = queries.known_pools().eligible(group_id=group.pk, organisation_id=group.organisation_id, shared=True)
    theirs = queries.known_pools().eligible(group_id=stranger.pk, organisation_id=stranger.organisation_id, shared=True)

    found = take(a_quarter(pools=mine.pool_ids))
    other = take(a_quarter(pools=theirs.pool_ids))
    assert isinstance(found, Reserved)
    assert isinstance(other, Reserved)
    assert (found.node, other.node) == ("z-own", "a-shared")
    assert own.pk not in theirs.pool_ids
    assert mine.lane_key != theirs.lane_key


def test_without_the_right_to_the_shared_pool_only_dedicated_ones_are_left():
    cluster, group = a_cluster(), a_group()
    own = a_pool(cluster, "theirs")
    PoolGrant.objects.create(pool=own, organisation=group.organisation)

    found = queries.known_pools().eligible(group_id=group.pk, organisation_id=group.organisation_id, shared=False)

    assert found.pool_ids == (own.pk,)


@pytest.mark.parametrize(
    "closed", [{"is_cordoned": True}, {"is_ready": False}], ids=["a cordoned node", "a silent node"]
)
def test_nothing_new_is_placed_on(closed):
    a_node(a_cluster(), cards=[{}], **closed)

    refused = take(a_quarter())

    assert isinstance(refused, NoPlace)
    assert refused.kind == "not_now"


@pytest.mark.parametrize("state", ["pending", "suspect", "lost"])
def test_nothing_new_is_placed_on_a_cluster_that_is(state):
    a_node(a_cluster(state=state), cards=[{}])

    refused = take(a_quarter())

    assert isinstance(refused, NoPlace)
    assert refused.kind == "not_now"


def test_what_no_registered_card_could_hold_never_fits():
    a_node(a_cluster(), cards=[{}])

    refused = services.look(Request(vram_mib=90_000, core_percent=100, cpu_milli=100, memory_mib=256))

    assert isinstance(refused, NoPlace)
    assert refused.kind == "never"
    assert refused.largest is not None
    assert refused.largest["vram_mib"] == 81_920


def test_clusters_may_use_the_same_node_names():
    north, south = a_cluster("north"), a_cluster("south")
    a_node(north, "gpu-01", cards=[{"slots": 1}])
    a_node(south, "gpu-01", cards=[{"slots": 1}])

    found = {take(a_quarter()).cluster_id, take(a_quarter()).cluster_id}

    assert found == {north.pk, south.pk}
    assert {node.name for node in fleets.snapshot()} == {"north/gpu-01", "south/gpu-01"}


def test_a_claim_given_back_by_a_clock_that_stepped_back_is_dated_after_its_beginning():
    a_node(a_cluster(), cards=[{}])
    run, _b, _c = ids()
    take(a_quarter(), run_id=run)

    with ordered():
        services.release_claims(run, at=LONG_AGO)

    claim = Claim.objects.get()
    assert claim.released_at == claim.claimed_at


def test_asking_for_the_end_frees_nothing_only_gone_does():
    cluster = a_cluster()
    a_node(cluster, cards=[{"slots": 1}])
    session, run, _other = ids()
    take(a_quarter(), session_id=session, run_id=run)
    for generation, desired in ((2, "Paused"), (3, "Stopped")):
        want(cluster, a_spec(session, generation=generation, desired=desired))

    assert isinstance(take(a_quarter()), NoPlace)

    release(run)
    assert isinstance(take(a_quarter()), Reserved)


def holder():
    session, run, _other = ids()
    return {"session_id": session, "run_id": run, "run": 1}
