"""A small world for tests of sessions: one cluster, one offering, people with credits, and the words to report with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from accounts.models import Policy, PolicyValue, User
from accounts.services import ensure_global_policy
from catalog.models import Image, Offering, Preset, PriceRevision
from cluster.heartbeat import INTERNAL
from cluster.models import Card, Cluster, Heartbeat, Node
from gshare_core.clock import ManualClock
from gshare_core.contract import Inventory, Phase, Reason, StatusReport
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from sessions_app import reports
from sessions_app.domain.facts import Ask, MountAsk
from sessions_app.models import Run, Session
from sessions_app.services import Asked, create_session
from tests.builders import LONG_AGO, Customer, a_cluster, a_customer, a_node, cr

NOON = datetime(2026, 10, 14, 12, tzinfo=UTC)
MODEL = "NVIDIA A100-SXM4-80GB"


@dataclass
class World:
    """What there is, and verbs to act in it."""

    time: ManualClock
    cluster: Cluster
    node: Node
    offering: Offering
    presets: dict[str, Preset]
    image: Image
    alice: Customer

    @property
    def card(self) -> Card:
        """The first card as it is now."""
        return Card.objects.filter(node=self.node).order_by("index").first()

    def ask(self, tier: str = "L", *, customer: Customer | None = None, **changes: Any) -> Ask:
        """A request for a size of the offering."""
        who = customer or self.alice
        facts: dict[str, Any] = {
            "name": f"session-{uuid7().hex[-8:]}",
            "group": who.group.pk,
            "image": self.image.pk,
            "preset": self.presets[tier].pk,
            "offering": None if tier == "cpu" else self.offering.pk,
        }
        return Ask(**(facts | changes))

    def create(self, tier: str = "L", *, customer: Customer | None = None, **changes: Any) -> Session:
        """A session as its owner would create it."""
        who = customer or self.alice
        made = create_session(self.ask(tier, customer=who, **changes), by=who.user)
        assert isinstance(made, Session)
        return Session.objects.get(pk=made.pk)

    def report(self, session: Session, phase: str, reason: str | None = None, **changes: Any) -> bool:
        """A report of the session's current run, sent and received now; answers whether it was fresh."""
        now = self.time.now()
        facts: dict[str, Any] = {
            "run": session.run_number,
            "generation": session.generation,
            "sequence": _next(),
            "phase": Phase(phase),
            "reason": Reason(reason) if reason else None,
            "node": self.node.name,
            "observed_at": now,
            "sent_at": now,
            "last_alive_at": now,
        }
        report = StatusReport(**(facts | changes))
        placed = Run.objects.filter(session=session, cluster__isnull=False)
        run = placed.filter(number=report.run).first() or placed.order_by("number")[0]
        return reports.receive_status(run.cluster_id, session.pk, report)

    def run(self, tier: str = "L", **changes: Any) -> Session:
        """A session that was created and reported ready at once."""
        session = self.create(tier, **changes)
        self.ready(session)
        session.refresh_from_db()
        return session

    def ready(self, session: Session) -> bool:
        """Report that it is ready now."""
        return self.report(session, "running", ready_at=self.time.now())

    def gone(self, session: Session, reason: str = "stopped", **changes: Any) -> bool:
        """Report that its pod is gone."""
        session.refresh_from_db()
        return self.report(session, "gone", reason, **changes)

    def beat(self, *pods: tuple[Any, int, int], node: Node | None = None, ready: bool = True, **parts: Any) -> None:
        """The cluster of a node lists it with its cards, and these pods as (session or its id, run, generation)."""
        where, now = node or self.node, self.time.now().isoformat()
        cards = [
            {
                "uuid": card.uuid,
                "index": card.index,
                "model": card.model,
                "vram_mib": card.vram_mib,
                "slots": card.slots,
                "core_percent": 100,
            }
            for card in Card.objects.filter(node=where, retired_at=None)
        ]
        host = {"cpu_milli": 128_000, "memory_mib": 524_288, "scratch_gib": 2_000}
        body = {
            "contract_version": 1,
            "observed_at": now,
            "sent_at": now,
            "nodes": [{"name": where.name, "ready": ready, **host, "cards": cards}],
            "volumes": [],
            "sessions": [
                {
                    "id": str(getattr(session, "pk", session)),
                    "run": run,
                    "generation": generation,
                    "phase": "running",
                    "last_alive_at": now,
                }
                for session, run, generation in pods
            ],
        }
        document, bad = Inventory.read(body | parts)
        reports.receive_inventory(where.cluster_id, document, bad)

    def pass_time(self, span: timedelta, *alive: Session) -> None:
        """Let time pass; the sessions named were alive all along."""
        self.time.advance(span)
        for session in alive:
            self.report(
                session, "running", ready_at=Run.objects.get(session=session, number=session.run_number).ready_at
            )


def fresh(session: Session) -> Session:
    """The session as its row is now."""
    return Session.objects.get(pk=session.pk)


def states(*sessions: Session) -> list[str]:
    """Their states as the rows are now."""
    return [fresh(session).state for session in sessions]


def asked(world: World, session: Session) -> Asked:
    """Alice asks it of her session."""
    return Asked(session.pk, world.alice.user)


_sequence = [1_800_000_000_000]


def _next() -> int:
    _sequence[0] += 1
    return _sequence[0]


def a_world(time: ManualClock, *, cards: int = 1, slots: int = 16, funds: int | str = 1_000) -> World:
    """One node with `cards` cards of the offering (50 credits an hour each), and alice with credits."""
    ensure_global_policy()
    cluster = a_cluster(last_beat_at=NOON)
    node = a_node(cluster, "gpu-01", cards=[{"model": MODEL, "vram_mib": 81_559, "slots": slots} for _ in range(cards)])
    offering = an_offering(MODEL)
    presets = {tier: a_preset(tier) for tier in ("S", "M", "L", "XL", "exclusive", "cpu")}
    return World(time, cluster, node, offering, presets, a_cuda_image(), a_customer(funds))


def an_offering(model: str = MODEL, *, rate: int | str = 50, **fields: Any) -> Offering:
    """An offering with its price from long ago."""
    offering = Offering.objects.create(
        **{
            "name": model,
            "model": model,
            "vram_mib": 81_559,
            "min_cuda": "12.0",
            "tiers": ["XL", "L", "M", "S", "exclusive"],
        }
        | fields
    )
    PriceRevision.objects.create(offering=offering, rate_micro_per_hour=cr(rate), starts_at=LONG_AGO)
    return offering


def a_preset(tier: str, **fields: Any) -> Preset:
    """A size."""
    cards = 1 if tier == "exclusive" else 0
    values = {"cpu_milli": 4_000, "memory_mib": 8_192, "scratch_gib": 10, "cards": cards, "name": f"size {tier}"}
    return Preset.objects.create(tier=tier, **(values | fields))


def a_cuda_image(**fields: Any) -> Image:
    """A public image that every GPU takes."""
    values = {
        "name": f"PyTorch {uuid7().hex[-6:]}",
        "reference": f"registry.example/pytorch@sha256:{'ab' * 32}",
        "cuda": "12.8",
        "apps": ["lab", "terminal"],
    }
    return Image.objects.create(**(values | fields))


def limit(scope: str, field: str, value: int, *, kind: str = "per_user", target: Any = None) -> None:
    """Set one limit as an administrator would have."""
    fields = {} if target is None else {scope: target}
    policy, _ = Policy.objects.get_or_create(scope_kind=scope, **fields, defaults={"created_at": LONG_AGO})
    PolicyValue.objects.update_or_create(policy=policy, kind=kind, field=field, defaults={"value": value})


class ListeningClock(ManualClock):
    """While it is moved, the internal listener listens all along."""

    def advance(self, span: timedelta) -> datetime:
        at = super().advance(span)
        Heartbeat.objects.update_or_create(name=INTERNAL, defaults={"stamped_at": at})
        return at


def manual_clock() -> ManualClock:
    """Noon of a Wednesday."""
    return ListeningClock(NOON)


__all__ = [
    "MODEL",
    "NOON",
    "UUID",
    "MountAsk",
    "User",
    "World",
    "a_world",
    "asked",
    "clock",
    "fresh",
    "limit",
    "manual_clock",
    "states",
]
