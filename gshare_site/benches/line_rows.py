"""Rows for `bench queue` and `bench admission`: a large installation in which a long line waits.

`python -m gshare_site.benches.line_rows fill|drain|check …` is a process of its own, because it serves the throw-away
database and its secrets. Guarantees: what it fills in agrees with itself (trial balance, recount), as if the services had
written it one by one; that would take longer than the bench.
"""

from __future__ import annotations

import json
import random
import sys
import time
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import django

from gshare_site.benches import scratch

MODEL, FREE_MODEL = "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"
VRAM, RATE = 81_559, 50_000_000
TIERS = ("S", "M", "L", "XL", "exclusive")
CARDS_A_NODE = 8
PASSWORD = "bench bench bench"  # noqa: S105 -- of a throw-away installation
START = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Run one of the acts and print what it found as JSON."""
    parser = ArgumentParser()
    parser.add_argument("act", choices=["fill", "drain", "check"])
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--waiting", type=int, default=50_000)
    parser.add_argument("--cards", type=int, default=2_000)
    parser.add_argument("--dequeues", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    json.dump({"fill": fill, "drain": drain, "check": check}[options.act](options), sys.stdout)


# Filling --------------------------------------------------------------------------------------------------------------


def fill(options: Namespace) -> dict[str, Any]:
    """People, credits, metal that is taken whole, and the line; answers what a client needs to ask for more."""
    people = _people(options.groups)
    catalogue = make_catalogue()
    _metal(options.cards)
    _line(people, catalogue, options)
    offering, free, presets, image = catalogue
    return {
        "users": [user.email for user, _group in people],
        "groups": [str(group.pk) for _user, group in people],
        "offering": str(offering.pk),
        "free": str(free.pk),
        "presets": {tier: str(preset.pk) for tier, preset in presets.items()},
        "image": str(image.pk),
    }


def _people(groups: int) -> list[tuple[Any, Any]]:
    from django.contrib.auth.hashers import make_password  # noqa: PLC0415 -- after django.setup()

    from accounts.models import Group, Membership, Organisation, PolicyValue, User  # noqa: PLC0415 -- likewise
    from accounts.services import ensure_global_policy  # noqa: PLC0415 -- likewise
    from billing import services as billing  # noqa: PLC0415 -- likewise
    from billing.models import SYSTEM_ID  # noqa: PLC0415 -- likewise

    ensure_global_policy()
    PolicyValue.objects.exclude(field__in=("max_runtime_min", "idle_timeout_min")).exclude(value__lte=1).update(
        value=10**9
    )
    place = Organisation.objects.create(name="Bench", created_at=START)
    hashed = make_password(PASSWORD)
    made_groups = [Group(organisation=place, name=f"group {number:04d}", created_at=START) for number in range(groups)]
    Group.objects.bulk_create(made_groups)
    users = [
        User(email=f"u{n}@bench.example", name=f"u{n}", organisation=place, created_at=START, password=hashed)
        for n in range(groups)
    ]
    User.objects.bulk_create(users)
    people = list(zip(users, made_groups, strict=True))
    Membership.objects.bulk_create(
        [Membership(user=user, group=group, role="member", created_at=START) for user, group in people]
    )
    funds = 100_000 * 1_000_000
    organisation = billing.ensure_wallet("organisation", place.pk)
    billing.issue(amount=funds * groups, by=None)
    billing.allocate(source=SYSTEM_ID, to=organisation, amount=funds * groups, by=None)
    for user, group in people:
        above, own = billing.ensure_wallet("group", group.pk), billing.ensure_wallet("user", user.pk)
        billing.allocate(source=organisation, to=above, amount=funds, by=None)
        billing.allocate(source=above, to=own, amount=funds, by=None)
    return people


def make_catalogue() -> tuple[Any, Any, dict[str, Any], Any]:
    from catalog.models import Image, Offering, Preset, PriceRevision  # noqa: PLC0415 -- after django.setup()

    offerings = []
    for model in (MODEL, FREE_MODEL):
        offering = Offering.objects.create(name=model, model=model, vram_mib=VRAM, min_cuda="12.0", tiers=list(TIERS))
        PriceRevision.objects.create(offering=offering, rate_micro_per_hour=RATE, starts_at=START)
        offerings.append(offering)
    presets = {
        tier: Preset.objects.create(
            tier=tier, name=tier, cpu_milli=1_000, memory_mib=2_048, scratch_gib=1, cards=int(tier == "exclusive")
        )
        for tier in TIERS
    }
    reference = f"registry.example/bench@sha256:{'0' * 64}"
    image = Image.objects.create(name="bench", reference=reference, cuda="12.8", apps=["lab"])
    return offerings[0], offerings[1], presets, image


def _metal(cards: int) -> None:
    """Nodes of eight cards: all of the waiting line's model are taken whole, as many of the other model are free."""
    from cluster.models import Card, Claim, Cluster, Node, Pool, Sequence  # noqa: PLC0415 -- after django.setup()
    from gshare_core.ids import uuid7  # noqa: PLC0415 -- likewise

    now = datetime.now(UTC)
    cluster = Cluster.objects.create(
        name="bench", kind="local", state="connected", created_at=START, last_beat_at=now + timedelta(days=1)
    )
    Sequence.objects.create(cluster=cluster)
    pool = Pool.objects.create(cluster=cluster, name="shared", is_shared=True)
    for model, prefix in ((MODEL, "a"), (FREE_MODEL, "b")):
        taken = model == MODEL
        nodes = [
            Node(
                cluster=cluster,
                pool=pool,
                name=f"{prefix}-{number:04d}",
                cpu_milli=512_000,
                memory_mib=2_000_000,
                scratch_gib=20_000,
                is_ready=True,
            )
            for number in range(cards // CARDS_A_NODE)
        ]
        Node.objects.bulk_create(nodes)
        made = [
            Card(
                node=node,
                index=index,
                uuid=f"GPU-{uuid7()}",
                model=model,
                vram_mib=VRAM,
                core_milli=1_000,
                slots=16,
                used_vram_mib=VRAM if taken else 0,
                used_milli=1_000 if taken else 0,
                used_slots=1 if taken else 0,
            )
            for node in nodes
            for index in range(CARDS_A_NODE)
        ]
        Card.objects.bulk_create(made, batch_size=2_000)
        if taken:
            Claim.objects.bulk_create(
                [
                    Claim(
                        session_id=uuid7(),
                        run_id=uuid7(),
                        run=1,
                        node=card.node,
                        card=card,
                        is_exclusive=True,
                        vram_mib=VRAM,
                        milli=1_000,
                        slots=1,
                        claimed_at=now,
                    )
                    for card in made
                ],
                batch_size=2_000,
            )


def _line(people: list[tuple[Any, Any]], catalogue: tuple[Any, Any, dict[str, Any], Any], options: Namespace) -> None:
    """The waiting sessions with their runs, meters, holds and counters, in batches."""
    from django.db.models import Sum  # noqa: PLC0415 -- likewise

    from billing import ledger  # noqa: PLC0415 -- likewise
    from billing.models import Account, Meter  # noqa: PLC0415 -- likewise
    from gshare_core.kit.locks import ordered  # noqa: PLC0415 -- likewise
    from sessions_app import counters, recounting, spec  # noqa: PLC0415 -- likewise

    rng = random.Random(options.seed)  # noqa: S311 -- a bench that can be repeated
    now = datetime.now(UTC) - timedelta(minutes=5)
    wallets = dict(Account.objects.filter(kind="user").values_list("user_id", "pk"))
    lane = ""
    numbers = iter(range(options.waiting))
    while batch := list(islice(numbers, 2_000)):
        made = []
        for number in batch:
            user, group = people[rng.randrange(len(people))]
            made.append(_session(number, user, group, catalogue, rng, now + timedelta(milliseconds=5 * number)))
        lane = lane or spec.lane_of(made[0][0])
        _write_batch(made, wallets, lane)
    holds = dict(Meter.objects.order_by().values_list("wallet_id").annotate(Sum("held")))
    with ordered():
        ledger.post([], ledger.lock_purses(holds), holds)
    for user, group in people:
        counters.prepare(counters.scopes_of(user=user.pk, group=group.pk, organisation=group.organisation_id))
    recounting.repair()
    scratch.analyse()


def _write_batch(made: list[tuple[Any, int]], wallets: dict[Any, Any], lane: str) -> None:
    """Sessions with their holds, each with a run, a meter and a place in line."""
    from django.db import transaction  # noqa: PLC0415 -- after django.setup()

    from billing.models import Meter  # noqa: PLC0415 -- likewise
    from sessions_app import line  # noqa: PLC0415 -- likewise
    from sessions_app.models import QueueEntry, Run, Session  # noqa: PLC0415 -- likewise

    sessions = [session for session, _hold in made]
    runs = [
        Run(session=s, number=1, opened_at=s.created_at, rate_micro_per_hour=RATE, hold_micro=hold) for s, hold in made
    ]
    meters = [
        Meter(
            run_id=run.pk,
            reference=s.pk,
            number=1,
            label=s.name,
            user_id=s.owner_id,
            group_id=s.group_id,
            organisation_id=s.organisation_id,
            wallet_id=wallets[s.owner_id],
            rate_micro_per_hour=RATE,
            occupancy_numerator=s.occupancy_numerator,
            occupancy_denominator=s.occupancy_denominator,
            opened_at=s.created_at,
            billable_from=s.created_at,
            target=hold,
            held=hold,
        )
        for run, (s, hold) in zip(runs, made, strict=True)
    ]
    entries = [
        QueueEntry(
            session=s,
            lane=lane,
            shape=line.shape_key(s, runtime_min=0),
            enqueued_at=s.created_at,
            order_at=s.created_at,
            reason="not_now",
        )
        for s in sessions
    ]
    with transaction.atomic():
        Session.objects.bulk_create(sessions)
        Run.objects.bulk_create(runs)
        Meter.objects.bulk_create(meters)
        QueueEntry.objects.bulk_create(entries)


def _session(number: int, user: Any, group: Any, catalogue: Any, rng: random.Random, at: datetime) -> tuple[Any, int]:
    from billing.domain import pricing  # noqa: PLC0415 -- after django.setup()
    from cluster.domain.shapes import Host, Shape, tier_shape  # noqa: PLC0415 -- likewise
    from sessions_app import plans  # noqa: PLC0415 -- likewise
    from sessions_app.models import Session  # noqa: PLC0415 -- likewise

    offering, _free, presets, image = catalogue
    tier = rng.choice(TIERS)
    shape = tier_shape(tier, offering_vram_mib=VRAM, host=Host(1_000, 2_048, 1), cards=int(tier == "exclusive"))
    assert isinstance(shape, Shape)
    hold = pricing.hold_micro(pricing.Price(RATE, shape.occupancy, 1000), timedelta(hours=1))
    session = Session(
        name=f"waiting-{number}",
        owner=user,
        group=group,
        organisation_id=group.organisation_id,
        offering=offering,
        preset=presets[tier],
        image=image,
        tier=tier,
        **plans.shape_columns(shape),
        state="queued",
        state_since=at,
        created_at=at,
        line_at=at,
        run_number=1,
    )
    return session, hold


# Draining -------------------------------------------------------------------------------------------------------------


def drain(options: Namespace) -> dict[str, Any]:
    """Free random cards and walk along the line, until so many have left it; answers the time of the walks alone."""
    from cluster import fleets  # noqa: PLC0415 -- after django.setup()
    from cluster.models import Claim  # noqa: PLC0415 -- likewise
    from cluster.services import release_claims  # noqa: PLC0415 -- likewise
    from gshare_core.kit.locks import ordered  # noqa: PLC0415 -- likewise
    from sessions_app import line, queue  # noqa: PLC0415 -- likewise
    from sessions_app.models import QueueEntry  # noqa: PLC0415 -- likewise

    rng = random.Random(options.seed)  # noqa: S311 -- a bench that can be repeated
    taken = list(Claim.objects.filter(state="open", is_exclusive=True).values_list("run_id", flat=True))
    rng.shuffle(taken)
    queue.drain()  # the first walk reads the fleet; nothing is free yet
    left, seconds, cpu, walks, wrong = 0, 0.0, 0.0, [], []
    while left < options.dequeues and taken:
        for _card in range(min(rng.randint(1, 16), len(taken))):
            with ordered():
                release_claims(taken.pop(), at=datetime.now(UTC))
        before = {bucket: _ids(bucket) for bucket in line.buckets()}
        started, busy = time.perf_counter(), time.process_time()
        gone = queue.drain()
        walks.append(time.perf_counter() - started)
        cpu += time.process_time() - busy
        left, seconds = left + gone, seconds + walks[-1]
        for bucket, ids in before.items():
            after = _ids(bucket)
            if ids[len(ids) - len(after) :] != after:
                wrong.append(f"{bucket.shape}: not the first of its kind left")
        wrong += _still_fitting()
    waiting = QueueEntry.objects.count()
    fleets.forget()
    return {
        "left": left,
        "seconds": seconds,
        "cpu": cpu,
        "walks": len(walks),
        "worst": max(walks),
        "wrong": wrong,
        "waiting": waiting,
    }


def _ids(bucket: Any) -> list[Any]:
    from sessions_app.models import QueueEntry  # noqa: PLC0415 -- after django.setup()

    rows = QueueEntry.objects.filter(lane=bucket.lane, shape=bucket.shape).order_by(
        "-priority", "order_at", "session_id"
    )
    return list(rows.values_list("session_id", flat=True))


def _still_fitting() -> list[str]:
    """Shapes of which somebody waits although it would fit: a walk has to leave none."""
    from cluster import services as cluster  # noqa: PLC0415 -- after django.setup()
    from cluster.domain.placement import NoPlace  # noqa: PLC0415 -- likewise
    from sessions_app import line, queue  # noqa: PLC0415 -- likewise
    from sessions_app.models import QueueEntry  # noqa: PLC0415 -- likewise

    found = []
    for bucket in line.buckets():
        entry = QueueEntry.objects.filter(lane=bucket.lane, shape=bucket.shape).select_related("session__owner").first()
        request = queue.request_of(entry.session) if entry else None
        if request is not None and not isinstance(cluster.look(request), NoPlace):
            found.append(f"{bucket.shape}: somebody waits who would fit")
    return found


def check(_options: Namespace) -> dict[str, Any]:
    """Whether books, counters, line and metal agree."""
    from django.db.models import F  # noqa: PLC0415 -- after django.setup()

    from billing.trial import differences  # noqa: PLC0415 -- likewise
    from cluster.models import Card, Node  # noqa: PLC0415 -- likewise
    from sessions_app import recounting  # noqa: PLC0415 -- likewise

    found = [str(difference) for difference in (*differences(), *recounting.differences())]
    over = (
        Card.objects.filter(used_vram_mib__gt=F("vram_mib")).count()
        + Node.objects.filter(used_cpu_milli__gt=F("cpu_milli")).count()
    )
    return {"differences": found[:20], "over": over}


if __name__ == "__main__":
    django.setup()
    main()
