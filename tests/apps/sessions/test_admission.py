"""Admission against real rows: what is placed, queued and refused, and what each leaves behind."""

from datetime import timedelta
from fractions import Fraction
from uuid import uuid4

import pytest

from billing import services as billing
from billing.models import Account, Meter, Transfer
from catalog.models import PriceRevision
from cluster import fleets
from cluster.models import Card, Claim, Desired
from gshare_core.errors import DomainError
from sessions_app.domain.facts import CustomAsk
from sessions_app.models import Attempt, QueueEntry, Run, Session, TimelineEntry, Usage
from sessions_app.services import Asked, create_session, preview, stop_session
from tests.apps.sessions.world import limit
from tests.builders import a_customer, a_user, cr

pytestmark = pytest.mark.django_db


def refused(world, code, **ask):
    customer = ask.pop("customer", world.alice)
    tier = ask.pop("tier", "L")
    with pytest.raises(DomainError) as caught:
        create_session(world.ask(tier, customer=customer, **ask), by=customer.user)
    assert caught.value.code == code
    assert caught.value.remedy
    return caught.value


def test_a_quarter_of_a_card_is_placed_held_for_and_handed_over(world):
    session = world.create("L")
    run = Run.objects.get(session=session)
    assert session.state == "starting"
    assert session.occupancy == Fraction(1, 4)
    assert (run.node, run.card_uuids) == ("gpu-01", [world.card.uuid])
    assert (world.card.used_vram_mib, world.card.used_milli, world.card.used_slots) == (20_389, 250, 1)
    wallet = Account.objects.get(pk=world.alice.wallet)
    assert (wallet.balance, wallet.held) == (cr(1_000), cr("12.5"))
    desired = Desired.objects.get(session_id=session.pk)
    assert desired.spec["gpu"]["cards"] == [world.card.uuid]
    assert desired.spec["desired"] == "Running"
    assert (desired.run, desired.generation) == (1, 1)


def test_a_session_without_a_card_costs_nothing_and_leaves_no_ledger_row(world):
    poor = a_customer(0, group=world.alice.group)
    before = Transfer.objects.count()
    session = world.create("cpu", customer=poor)
    assert session.state == "starting"
    assert not Meter.objects.filter(reference=session.pk).exists()
    assert Transfer.objects.count() == before
    assert Desired.objects.get(session_id=session.pk).spec["class"] == "cpu"


def test_a_newcomer_with_an_empty_wallet_is_refused_and_told_how_to_get_credits(world):
    newcomer = a_customer(0, group=world.alice.group)
    error = refused(world, "insufficient_credit", customer=newcomer)
    assert error.gate == 6
    assert "Request 12.50 cr from your group" in str(error.remedy)


def test_a_refusal_leaves_nothing_behind_but_the_attempt(world):
    newcomer = a_customer(0, group=world.alice.group)
    refused(world, "insufficient_credit", customer=newcomer)
    assert not Session.objects.exists()
    assert not Claim.objects.exists()
    assert not Usage.objects.exclude(used=0).exists()
    attempt = Attempt.objects.get()
    assert (attempt.user, attempt.gate, attempt.code) == (newcomer.user, 6, "insufficient_credit")


@pytest.mark.parametrize("whose", ["group", "stranger", "unknown"])
def test_a_wallet_that_is_not_ones_own_is_refused_whatever_it_is(world, whose):
    wallet = {
        "group": lambda: billing.ensure_wallet("group", world.alice.group.pk),
        "stranger": lambda: a_customer(5).wallet,
        "unknown": uuid4,
    }[whose]()
    assert refused(world, "wallet_forbidden", wallet=wallet).gate == 3


def test_a_guest_creates_nothing(world):
    guest = a_user(world.alice.group, role="guest")
    with pytest.raises(DomainError) as caught:
        create_session(world.ask("cpu"), by=guest)
    assert caught.value.code == "forbidden"


def test_a_stranger_to_the_group_gets_not_found(world):
    stranger = a_customer(100)
    with pytest.raises(DomainError) as caught:
        create_session(world.ask(), by=stranger.user)
    assert caught.value.code == "not_found"


def test_what_can_never_fit_is_refused_at_once_with_the_largest_that_would(world):
    custom = CustomAsk(cpu_milli=4_000, memory_mib=9_000_000, scratch_gib=10, vram_mib=20_000, core_percent=25, cards=0)
    error = refused(world, "never_fits", preset=None, custom=custom)
    assert error.gate == 1
    assert error.facts["largest"]["memory_mib"] == 524_288


def test_sizes_that_a_gpu_is_offered_in_are_named_from_the_smallest(world):
    world.offering.tiers = ["XL", "exclusive", "M", "S"]
    world.offering.save()
    error = refused(world, "never_fits", preset=world.presets["L"].pk)
    assert error.remedy == "It is offered in: S, M, XL, exclusive."


def test_a_limit_of_sessions_names_the_scope_that_set_it(world):
    limit("group", "max_sessions", 1, target=world.alice.group)
    world.create("S")
    error = refused(world, "quota_exceeded")
    assert error.facts["field"] == "max_sessions"
    assert (error.facts["limit"], error.facts["used"]) == (1, 1)
    assert error.facts["scope"] == f"group:{world.alice.group.pk}"


def test_a_total_of_the_group_binds_everybody_in_it(world):
    limit("group", "vram_mib", 31_000, kind="total", target=world.alice.group)
    world.create("L")
    bob = a_customer(100, group=world.alice.group)
    assert refused(world, "quota_exceeded", customer=bob).facts["field"] == "vram_mib"
    assert world.create("M", customer=bob).state == "starting"


def test_what_does_not_fit_now_waits_with_a_reason_and_its_hold(world):
    world.create("exclusive")
    waiting = world.create("L")
    entry = QueueEntry.objects.get(session=waiting)
    assert waiting.state == "queued"
    assert entry.reason == "not_now"
    assert entry.detail
    assert entry.missing
    assert Meter.objects.get(reference=waiting.pk).held == cr("12.5")
    assert not Desired.objects.filter(session_id=waiting.pk).exists()
    assert not Claim.objects.filter(session_id=waiting.pk).exists()


def test_a_newcomer_may_pass_who_does_not_fit_now_and_never_who_does(world):
    world.create("XL")
    whole, small = world.create("exclusive"), world.create("S")
    assert (whole.state, small.state) == ("queued", "starting")
    stop_session(Asked(whole.pk, world.alice.user))
    Card.objects.update(is_draining=True)
    fleets.forget()
    waits = world.create("L")
    Card.objects.update(is_draining=False)
    fleets.forget()
    newcomer = world.create("S")
    assert (waits.state, newcomer.state) == ("queued", "queued")
    assert QueueEntry.objects.get(session=newcomer).reason == "in_line"


def test_waiting_has_a_limit_too(world):
    limit("global", "max_queued", 1)
    world.create("exclusive")
    world.create("L")
    assert refused(world, "quota_exceeded").facts["field"] == "max_queued"


def test_a_session_without_a_card_does_not_wait_in_line(world):
    world.node.used_cpu_milli = world.node.cpu_milli
    world.node.save()
    fleets.forget()
    assert refused(world, "no_capacity", tier="cpu").gate == 7


def test_the_eleventh_session_on_a_card_with_ten_slots_waits_instead_of_failing(world):
    world.card.__class__.objects.update(slots=10)
    fleets.forget()
    limit("global", "max_sessions", 50)
    limit("global", "cpu_milli", 500_000)
    states = [world.create("S").state for _ in range(11)]
    assert states == ["starting"] * 10 + ["queued"]


def test_sixteen_sixteenths_fill_and_cost_exactly_one_card(world):
    limit("global", "max_sessions", 50)
    limit("global", "cpu_milli", 500_000)
    sessions = [world.create("S") for _ in range(16)]
    assert {session.state for session in sessions} == {"starting"}
    assert world.card.used_slots == 16
    assert sum(Meter.objects.get(reference=s.pk).held for s in sessions) == cr(50)
    assert world.create("S").state == "queued"


def test_the_preview_says_what_admission_would_and_changes_nothing(world):
    found = preview(world.ask(), by=world.alice.user)
    assert found.outcome == "placed"
    assert found.hourly == found.hold == cr("12.5")
    assert [verdict.gate for verdict in found.verdicts] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert found.placement["node"] == "gpu-01"
    assert not Session.objects.exists()
    world.create("exclusive")
    assert preview(world.ask(), by=world.alice.user).outcome == "queued"
    poor = a_customer(0, group=world.alice.group)
    refusing = preview(world.ask(customer=poor), by=poor.user)
    assert refusing.outcome == "refused"
    assert [v.code for v in refusing.verdicts if not v.passed] == ["insufficient_credit"]


def test_the_counters_follow_what_runs(world):
    session = world.create("L")
    scope = f"user:{world.alice.user.pk}"
    used = dict(Usage.objects.filter(scope=scope).values_list("field", "used"))
    assert (used["max_sessions"], used["vram_mib"], used["core_percent"], used["cards"]) == (1, 20_389, 25, 0)
    exclusive = world.create("exclusive")
    assert exclusive.state == "queued"
    used = dict(Usage.objects.filter(scope=scope).values_list("field", "used"))
    assert (used["max_sessions"], used["max_queued"]) == (1, 1)
    assert session.state == "starting"


def test_the_timeline_begins_with_who_asked_and_what_is_held(world):
    session = world.create("L")
    row = TimelineEntry.objects.get(session=session)
    assert (row.to_state, row.actor, row.held) == ("starting", world.alice.user.email, cr("12.5"))


def test_the_hold_is_the_present_price_and_a_later_price_does_not_change_it(world):
    session = world.create("L")
    world.time.advance(timedelta(minutes=1))
    PriceRevision.objects.create(
        offering=world.offering, rate_micro_per_hour=cr(100), starts_at=world.time.now() - timedelta(seconds=30)
    )
    assert Run.objects.get(session=session).rate_micro_per_hour == cr(50)
    assert Run.objects.get(session=world.create("L")).rate_micro_per_hour == cr(100)
