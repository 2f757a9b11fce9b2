"""The sessions of `bench pages` with their runs, meters, claims, places in line and volumes.

Guarantees: whole-hour stretches, so that no charge spans a month of any time zone of whole hours, and amounts without a
remainder; the journal that pays for them comes after.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from billing.domain import pricing
from billing.models import Meter, MeterInterval
from cluster.models import Attachment, Claim, Volume, VolumeShare
from gshare_core.quantities import microseconds
from gshare_site.benches.line_rows import RATE, TIERS
from gshare_site.benches.page_town import BIG_GROUP, SOMEBODY, STRANGER, Metal, Shelf, Town, many
from sessions_app import line, plans, spec
from sessions_app.models import QueueEntry, Run, RunActivity, Session

STRETCH = timedelta(minutes=30)
HOUR = timedelta(hours=1)
HEAVY_SHARE = 50  # one of so many sessions is the heavy user's
HELD = ("running", "queued")


@dataclass
class Made:
    """One session with what belongs to it."""

    session: Session
    run: Run
    meter: Meter


def make_sessions(count: int, charges: int, town: Town, shelf: Shelf, metal: Metal) -> list[Made]:
    """All of them, written; each that ran has `charges` stretches behind it."""
    made = [_one(number, count, charges, town, shelf) for number in range(count)]
    for one in made:
        if one.session.state == "running":
            _take(metal, one)
    _fill_up(metal, shelf)
    many(list(metal.nodes.values()))
    many([card for cards in metal.cards.values() for card in cards])
    for budget in town.budgets.values():
        budget.held = sum(one.meter.held for one in made if budget.pk in one.meter.counted_by)
        budget.save(update_fields=["held"])
    many([one.session for one in made])
    many([one.run for one in made])
    many([one.meter for one in made])
    ran = [one for one in made if one.session.state != "queued"]
    many([MeterInterval(meter=one.meter, starts_at=one.session.created_at, ends_at=one.run.closed_at) for one in ran])
    many(metal.claims)
    running = [one for one in made if one.session.state == "running"]
    many([RunActivity(run=one.run, judged_at=town.now, state="active", sampled_at=town.now) for one in running])
    _line([one.session for one in made if one.session.state == "queued"])
    return made


def _one(number: int, count: int, charges: int, town: Town, shelf: Shelf) -> Made:
    heavy = count // HEAVY_SHARE
    owner = town.users[SOMEBODY if number < heavy else 1 + number * 7919 % (len(town.users) - 1)]
    group, tier = town.group_of[owner.pk], TIERS[number % len(TIERS)]
    state = _state_of_heavy(number) if number < heavy else _state(number)
    began, ended = _times(number, count, charges, state, town.now)
    shape = shelf.shapes[tier]
    price = pricing.Price(RATE, shape.occupancy)
    hold = int(pricing.hold_micro(price, HOUR)) if state in HELD else 0
    ran_us = 0 if ended is None else microseconds(ended - began)
    charged = 0 if state == "queued" else int(pricing.charge_micro(price, microseconds(charges * STRETCH)))
    session = Session(
        name=f"{'train' if number % 2 else 'look'}-{number}",
        owner=owner,
        group=group,
        organisation_id=group.organisation_id,
        offering=shelf.offerings[0 if state == "queued" else number // len(TIERS) % 5 != 0],
        preset=shelf.presets[tier],
        image=shelf.image,
        tier=tier,
        **plans.shape_columns(shape),
        state=state,
        state_since=ended or began,
        created_at=began,
        ended_at=ended if state in ("stopped", "failed") else None,
        reason="crash_loop" if state == "failed" else "",
        line_at=began if state == "queued" else None,
        run_number=1,
        running_us=ran_us,
        charged=charged if ended else 0,
        wanted={"running": "Running", "paused": "Paused"}.get(state, "Stopped"),
    )
    run = Run(
        session=session,
        number=1,
        opened_at=began,
        closed_at=ended,
        rate_micro_per_hour=RATE,
        hold_micro=hold,
        charged=charged,
    )
    return Made(session, run, _meter(session, run, town, charged=charged, hold=hold, charges=charges))


def _state(number: int) -> str:
    """Of every forty six run, one waits, one is paused, one failed."""
    turn = number % 40
    return "running" if turn < 6 else {6: "queued", 7: "paused", 8: "failed"}.get(turn, "stopped")


def _state_of_heavy(number: int) -> str:
    return {0: "running", 1: "running", 2: "running", 3: "queued", 4: "paused"}.get(number, "stopped")


def _times(number: int, count: int, charges: int, state: str, now: datetime) -> tuple[datetime, datetime | None]:
    """When it began and, if it did, ended: spread over a year, on whole hours."""
    if state == "queued":
        return now - timedelta(minutes=5) - timedelta(seconds=number % 7200), None
    hour, length = now.replace(minute=0), charges * STRETCH
    if state == "running":
        return hour - length, None
    ended = hour - timedelta(hours=1 + 360 * 24 * number // count)
    return ended - length, ended


def _meter(session: Session, run: Run, town: Town, *, charged: int, hold: int, charges: int) -> Meter:
    scopes = (session.owner_id, session.group_id, session.organisation_id)
    meter = Meter(
        run_id=run.pk,
        reference=session.pk,
        number=1,
        label=session.name,
        user_id=session.owner_id,
        group_id=session.group_id,
        organisation_id=session.organisation_id,
        wallet_id=town.wallets["user"][session.owner_id],
        rate_micro_per_hour=RATE,
        occupancy_numerator=session.occupancy_numerator,
        occupancy_denominator=session.occupancy_denominator,
        opened_at=session.created_at,
        billable_from=session.created_at,
        charged=charged,
        held=hold,
        target=hold or 1,
        counted_by=[town.budgets[scope].pk for scope in scopes if scope in town.budgets] if hold else [],
    )
    if run.closed_at is not None:
        meter.closed_us, meter.settled_at = session.running_us, run.closed_at
    elif session.state == "running":
        meter.started_at, meter.charged_until = session.created_at, session.created_at + charges * STRETCH
        meter.proven_until, meter.hold_ends_at = town.now, meter.charged_until + HOUR
        meter.due_at = meter.charged_until + STRETCH
    return meter


def _take(metal: Metal, made: Made) -> None:
    """The first card of the offering's model with room, and the claim on it. Raises ValueError when there is none."""
    session, run = made.session, made.run
    assert session.offering_id is not None
    card = next(
        (
            card
            for card in metal.cards[session.offering_id]
            if card.used_vram_mib + session.vram_mib <= card.vram_mib
            and card.used_milli + session.core_milli <= card.core_milli
        ),
        None,
    )
    if card is None:
        raise ValueError("more sessions run than these cards hold: give more cards")
    node = metal.nodes[card.node_id]
    host: dict[str, Any] = {name: getattr(session, name) for name in ("cpu_milli", "memory_mib", "scratch_gib")}
    card.used_vram_mib, card.used_milli = card.used_vram_mib + session.vram_mib, card.used_milli + session.core_milli
    card.used_slots += 1
    for name, amount in host.items():
        setattr(node, f"used_{name}", getattr(node, f"used_{name}") + amount)
    metal.claims.append(
        Claim(
            session_id=session.pk,
            run_id=run.pk,
            run=1,
            node=node,
            card=card,
            is_exclusive=session.mode == "exclusive",
            vram_mib=session.vram_mib,
            milli=session.core_milli,
            slots=1,
            claimed_at=session.created_at,
            **host,
        )
    )
    run.placed_at = run.ready_at = session.created_at
    run.cluster, run.node, run.card_uuids = node.cluster, node.name, [card.uuid]
    run.phase, run.last_alive_at, run.endpoints = "running", run.opened_at, {"lab": "127.0.0.1:1"}


def _fill_up(metal: Metal, shelf: Shelf) -> None:
    """What is left of the first model's cards is held by pods of others."""
    for card in metal.cards[shelf.offerings[0].pk]:
        card.foreign_vram_mib = card.vram_mib - card.used_vram_mib
        card.foreign_milli = card.core_milli - card.used_milli


def _line(waiting: list[Session]) -> None:
    lanes = spec.lanes_of(waiting)
    entries = [
        QueueEntry(
            session=session,
            lane=lanes[session.pk],
            shape=line.shape_key(session, runtime_min=0),
            enqueued_at=session.created_at,
            order_at=session.created_at,
            reason="not_now",
        )
        for session in waiting
    ]
    many(entries)


def make_volumes(town: Town, metal: Metal, made: list[Made]) -> None:
    """A volume of everybody, some of them mounted, and some of each group; those of the first people are shared with their group."""
    volumes = [_volume(town, metal, number, owner=user) for number, user in enumerate(town.users)]
    several = [
        _volume(town, metal, number, owner=town.users[SOMEBODY], name=f"data-{number}") for number in range(1, 30)
    ]
    teams = [_volume(town, metal, number, group=group) for number, group in enumerate(town.groups)]
    many([*volumes, *several, *teams])
    shares = [VolumeShare(volume=volume, mode="rw", created_at=town.now) for volume in volumes[1:BIG_GROUP:10]]
    for share in shares:
        share.group = town.groups[0]
    many([share for share in shares if share.volume.owner_id != town.users[STRANGER].pk])
    first = {volume.owner_id: volume for volume in volumes}
    mounted = {one.session.owner_id: one for one in made if one.session.state == "running"}
    many(
        [
            Attachment(
                volume=first[owner_id],
                session_id=one.session.pk,
                run_id=one.run.pk,
                path="/data/home",
                mode="rw",
                is_sole=True,
                attached_at=one.session.created_at,
            )
            for owner_id, one in mounted.items()
        ]
    )


def _volume(town: Town, metal: Metal, number: int, *, name: str = "home", **whose: Any) -> Volume:
    return Volume(
        name=name,
        kind="home",
        access="rwx" if "group" in whose else "rwo",
        size_gib=10,
        cluster=metal.clusters[number % 2],
        claim=f"v-{name}-{'g' if 'group' in whose else 'u'}{number}",
        created_at=town.now - timedelta(days=400),
        **whose,
    )
