"""Several creates in one transaction: each judged beside those before him, and nothing of one is another's."""

from dataclasses import replace

import pytest
from django.db import connection

from accounts.models import IdempotencyKey
from billing import services as billing
from billing.domain.budgets import Rule
from billing.models import Meter
from cluster import fleets
from cluster.models import Card, Claim, Desired
from gshare_core.errors import DomainError
from gshare_core.kit.idempotency import Once, Reply
from sessions_app import arrivals
from sessions_app.arrivals import Arrival
from sessions_app.domain.facts import MountAsk
from sessions_app.models import Attempt, QueueEntry, Run, Session, TimelineEntry
from sessions_app.representation import represent, represent_one
from sessions_app.services import create_session
from tests.apps.sessions.test_line import a_volume, close_cards
from tests.apps.sessions.world import fresh, limit
from tests.builders import a_customer, cr
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db


def once(customer, key, body=b"{}"):
    """A request with a key; its answer says which session."""
    return Once(
        customer.user.pk, "POST", "/api/v1/sessions", key, body, render=lambda made: {"id": str(made.session.pk)}
    )


def arrival(world, tier="L", *, customer=None, key=None, **changes):
    who = customer or world.alice
    return Arrival(world.ask(tier, customer=who, **changes), who.user, once(who, key) if key else None)


def shown(made):
    """The session's document as its admission made it."""
    return represent(made.session, made.details, now=made.at)


def names(made):
    """The sessions that there are, of those who were admitted; None for the others."""
    found = [Session.objects.get(pk=one.body["id"]) if isinstance(one, Reply) else one for one in made]
    return [one and fresh(one).name for one in found]


@pytest.mark.django_db(transaction=True)
def test_everybody_gets_his_own_session_with_all_that_belongs_to_it_in_one_transaction(world):
    people = [a_customer(1_000) for _number in range(3)]
    asked = [arrival(world, "L", customer=who, key=f"key-{n}", name=f"of-{n}") for n, who in enumerate(people)]
    made = arrivals.admit_together(asked)
    assert names(made) == ["of-0", "of-1", "of-2"]
    sessions = list(Session.objects.order_by("id"))
    assert [session.owner_id for session in sessions] == [who.user.pk for who in people]
    assert [session.state for session in sessions] == ["starting"] * 3
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM sessions_app_session")
        assert cursor.fetchone() == (1,)
    for session in sessions:
        run = Run.objects.get(session=session)
        assert Meter.objects.get(run_id=run.pk).held == run.hold_micro > 0
        assert list(Claim.objects.filter(run_id=run.pk).values_list("session_id", flat=True)) == [session.pk]
        assert Desired.objects.get(session_id=session.pk).spec["image"] == world.image.reference
        assert TimelineEntry.objects.get(session=session).actor == session.owner.email
    assert Card.objects.get(pk=world.card.pk).used_slots == 3
    for one, request in zip(made, asked, strict=True):
        assert create_session(request.ask, by=request.by, once=request.once) == one, "the key repeats its answer"
    assert Session.objects.count() == 3
    assert everything_agrees()


def test_what_is_told_of_a_new_session_is_what_a_later_look_says(world):
    told = []
    for number, tier in enumerate(("XL", "XL", "L")):
        look = Once(world.alice.user.pk, "POST", "/", f"key-{number}", b"", render=shown)
        (reply,) = arrivals.admit_together([Arrival(world.ask(tier), world.alice.user, look)])
        told.append(reply.body)
    assert [document["state"] for document in told] == ["starting", "starting", "queued"]
    for document in told:
        session = Session.objects.select_related("owner", "image").get(pk=document["id"])
        assert represent_one(session, now=world.time.now()) == document


def test_the_last_credits_are_spent_once_and_nothing_stays_of_who_came_too_late(world):
    poor = a_customer(20)  # a quarter of a card holds 12.5
    made = arrivals.admit_together([arrival(world, customer=poor, key=f"key-{n}", name=f"of-{n}") for n in range(2)])
    assert names(made) == ["of-0", None]
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["key-0"]
    assert (Session.objects.count(), Run.objects.count(), Meter.objects.count(), Claim.objects.count()) == (1, 1, 1, 1)
    assert everything_agrees()


def test_a_blocking_budget_counts_who_came_before(world):
    group = world.alice.group
    scope = billing.BudgetScope("group", group.pk)
    billing.create_budget(scope=scope, limit=cr(20), mode="block", rule=Rule("UTC"), by=None)
    other = a_customer(1_000, group=group)
    made = arrivals.admit_together([arrival(world, name="first"), arrival(world, customer=other)])
    assert names(made) == ["first", None]
    assert everything_agrees()


def test_a_limit_counts_who_came_before_and_binds_only_whom_it_binds(world):
    limit("user", "max_sessions", 1, target=world.alice.user)
    other = a_customer(1_000)
    asked = [arrival(world, name="a"), arrival(world, name="b"), arrival(world, customer=other, name="c")]
    assert names(arrivals.admit_together(asked)) == ["a", None, "c"]
    assert everything_agrees()


def test_a_refusal_is_told_to_its_own_asker_only(world):
    limit("user", "max_sessions", 1, target=world.alice.user)
    world.create("L")
    with pytest.raises(DomainError) as refused:
        create_session(world.ask("L"), by=world.alice.user, once=once(world.alice, "again"))
    assert (refused.value.code, refused.value.facts["used"]) == ("quota_exceeded", 1)
    assert Attempt.objects.get().code == "quota_exceeded"
    assert not IdempotencyKey.objects.exists(), "a refusal is not kept"


def test_who_finds_no_room_waits_behind_those_who_fit_and_the_line_keeps_the_order_of_coming(world):
    close_cards(world)
    people = [a_customer(1_000) for _number in range(3)]
    made = arrivals.admit_together([arrival(world, customer=who, name=f"of-{n}") for n, who in enumerate(people)])
    assert names(made) == ["of-0", "of-1", "of-2"]
    rows = QueueEntry.objects.order_by("-priority", "order_at", "session_id")
    assert [row.session.name for row in rows] == ["of-0", "of-1", "of-2"]
    assert {row.reason for row in rows} == {"not_now"}
    assert all(row.detail for row in rows)
    assert everything_agrees()


def test_nobody_passes_who_waits_and_would_fit(world):
    close_cards(world)
    world.create("L")
    close_cards(world, closed=False)
    fleets.forget()
    made = arrivals.admit_together([arrival(world, customer=a_customer(1_000)) for _number in range(2)])
    assert [fresh(one).state for one in made] == ["queued"] * 2
    assert {row.reason for row in QueueEntry.objects.filter(session__in=made)} == {"in_line"}


def test_the_last_room_goes_to_the_first_and_who_finds_none_after_all_is_decided_on_alone(world):
    asked = [arrival(world, "XL", customer=a_customer(1_000), name=f"of-{n}") for n in range(3)]
    assert names(arrivals.admit_together(asked)) == ["of-0", "of-1", None]
    assert not QueueEntry.objects.exists()
    assert everything_agrees()
    made = create_session(asked[2].ask, by=asked[2].by)
    assert fresh(made).state == "queued"


def test_a_waiting_place_is_counted_beside_those_before(world):
    limit("user", "max_queued", 1, target=world.alice.user)
    close_cards(world)
    assert names(arrivals.admit_together([arrival(world, name="a"), arrival(world, name="b")])) == ["a", None]
    assert everything_agrees()


def test_a_key_that_was_used_and_one_that_comes_twice_are_left_to_the_way_alone(world):
    used = arrival(world, key="used", name="used")
    (reply,) = arrivals.admit_together([used])
    twice = arrival(world, key="twice", name="twice")
    made = arrivals.admit_together([used, twice, replace(twice), arrival(world, name="new")])
    assert names(made) == [None, "twice", None, "new"]
    assert create_session(used.ask, by=used.by, once=used.once) == reply
    assert create_session(twice.ask, by=twice.by, once=twice.once) == made[1]
    other_body = Once(world.alice.user.pk, "POST", "/api/v1/sessions", "used", b"other", render=lambda made: {})
    with pytest.raises(DomainError) as refused:
        create_session(used.ask, by=used.by, once=other_body)
    assert refused.value.code == "idempotency_mismatch"
    assert Session.objects.count() == 3


def test_volumes_sessions_without_a_card_strangers_and_impossible_sizes_are_left_to_the_way_alone(world):
    stranger = a_customer(1_000)
    foreign = Arrival(world.ask("L"), stranger.user)  # alice's group
    mounted = arrival(world, mounts=(MountAsk(a_volume(world, "data").pk, "/data", "rw"),))
    made = arrivals.admit_together([mounted, arrival(world, "cpu"), foreign, arrival(world, name="plain")])
    assert names(made) == [None, None, None, "plain"]
    assert arrivals.admit_together([foreign]) == [None]
    assert everything_agrees()
