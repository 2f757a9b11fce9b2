"""The audit trail: rows written in the acting transaction, and the one sealer that chains them.

Guarantees: an entry exists exactly when its act committed; no act waits for another's entry (entries carry no number);
sealing happens within a second by a tick, one sealer at a time (an advisory lock), and each seal is a row that is only
ever inserted: its number and its entry are unique, so the chain cannot fork. Refuses to record secrets.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet

from accounts.domain.chain import GENESIS, Fault, Link, faults, seal_hash
from accounts.models import AuditEntry, AuditSeal, Group, Membership, Organisation, User
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, lock_name, ordered
from gshare_core.kit.problem import request_id

SYSTEM = "system"
BATCH = 1_000
# The quick pass looks back this far behind the newest sealed entry; no transaction that writes entries lives as long.
LOOK_BACK = timedelta(minutes=15)
LATE_AFTER = timedelta(minutes=10)

_SECRET = re.compile(r"(^|_)(password|secret|token|kubeconfig|cookie|credential|key)$", re.IGNORECASE)
# What a seal covers. A column that is added later must not change the hashes of entries that are sealed already.
SEALED_FIELDS = (
    "id",
    "at",
    "actor_id",
    "actor_label",
    "act",
    "target_kind",
    "target_id",
    "target_label",
    "organisation_id",
    "organisation_label",
    "group_id",
    "group_label",
    "before",
    "after",
    "reason",
    "address",
    "request_id",
)

_address: ContextVar[str | None] = ContextVar("gshare_audit_address", default=None)


@contextmanager
def acting_from(address: str | None) -> Iterator[None]:
    """Entries recorded in this context come from `address`; what is not an IP address is left out."""
    token = _address.set(_ip_or_none(address))
    try:
        yield
    finally:
        _address.reset(token)


def acting_address() -> str | None:
    """The address that this context acts from, if it is known."""
    return _address.get()


def record(  # noqa: PLR0913 -- an entry has so many facts, and each caller names those it has
    *,
    by: User | None,
    act: str,
    target_kind: str,
    at: datetime,
    target_id: object = "",
    target_label: str = "",
    organisation_id: UUID | None = None,
    group_id: UUID | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str | None = None,
) -> AuditEntry:
    """Write one entry in the open transaction. `by` None is the system.

    `before` and `after` hold only what changed. A group's organisation is filled in, so that both see the entry. Raises
    ValueError when a value looks like a secret.
    """
    for side in (before, after):
        _refuse_secrets(side or {})
    group = Group.objects.select_related("organisation").filter(pk=group_id).first() if group_id else None
    organisation = group.organisation if group else None
    if organisation is None and organisation_id is not None:
        organisation = Organisation.objects.filter(pk=organisation_id).first()
    return AuditEntry.objects.create(
        at=at,
        actor_id=by.pk if by else None,
        actor_label=by.email if by else SYSTEM,
        act=act,
        target_kind=target_kind,
        target_id=str(target_id),
        target_label=target_label[:300],
        organisation_id=organisation.pk if organisation else organisation_id,
        organisation_label=organisation.name if organisation else "",
        group_id=group_id,
        group_label=group.name if group else "",
        before=dict(before) if before else None,
        after=dict(after) if after else None,
        reason=reason or "",
        address=_address.get(),
        request_id=request_id()[:64],
    )


def group_of(person: User) -> UUID | None:
    """The group whose administrators read what is done to somebody: the only one in which he sits, at his home. One statement.

    With seats in several places only those above all of them read it: no group learns of the others.
    """
    seats = list(Membership.objects.filter(user=person).values_list("group_id", "group__organisation_id")[:2])
    if len(seats) != 1:
        return None
    group_id, organisation_id = seats[0]
    return group_id if person.organisation_id in (None, organisation_id) else None


def seal_entries() -> int:
    """The sealer's tick: chain every entry that committed since the last one; answers how many. Safe beside another.

    Looks back `LOOK_BACK` behind the newest sealed entry; `seal_stragglers` finds what committed later still.
    """
    newest = AuditSeal.objects.order_by("-seq").values_list("entry__at", flat=True).first()
    since = AuditEntry.objects.filter(at__gte=newest - LOOK_BACK) if newest else AuditEntry.objects.all()
    return _seal(since)


def seal_stragglers() -> int:
    """The sealer's thorough pass, over the whole trail; answers how many it found."""
    return _seal(AuditEntry.objects.all())


def _seal(rows: QuerySet[AuditEntry]) -> int:
    total = 0
    while (done := _seal_batch(rows)) == BATCH:
        total += done
    return total + done


def _seal_batch(rows: QuerySet[AuditEntry]) -> int:
    """One transaction of sealing. The lock is what keeps the chain one: whoever waited reads the newer last seal."""
    if not rows.filter(seal=None).exists():
        return 0
    with ordered():
        lock_name(Rank.AUDIT, "audit-seal")
        now = clock.now()
        last = AuditSeal.objects.order_by("-seq").first()
        seq, before = (last.seq, last.hash) if last else (0, GENESIS)
        seals = []
        for entry in rows.filter(seal=None).order_by("id")[:BATCH]:
            seq += 1
            before = seal_hash(seq, before, _sealed_form(entry))
            seals.append(AuditSeal(seq=seq, entry=entry, hash=before, sealed_at=now))
        AuditSeal.objects.bulk_create(seals)
    return len(seals)


@dataclass(frozen=True)
class Verification:
    """What `verify` found. `late` counts entries that should have been sealed long ago."""

    sealed: int
    unsealed: int
    late: int
    head: str
    faults: list[Fault]

    @property
    def is_sound(self) -> bool:
        return not self.faults and not self.late


def verify() -> Verification:
    """Recompute the whole chain and count what is not sealed; changes nothing."""
    links = (
        Link(seal.seq, seal.hash, _sealed_form(seal.entry))
        for seal in AuditSeal.objects.select_related("entry").order_by("seq").iterator(BATCH)
    )
    found = faults(links)
    last = AuditSeal.objects.order_by("-seq").first()
    waiting = AuditEntry.objects.filter(seal=None)
    return Verification(
        sealed=AuditSeal.objects.count(),
        unsealed=waiting.count(),
        late=waiting.filter(at__lt=clock.now() - LATE_AFTER).count(),
        head=f"{last.seq}:{last.hash}" if last else f"0:{GENESIS}",
        faults=found,
    )


def verify_newest(count: int) -> Verification:
    """Recompute the newest `count` links, however long the chain is; `sealed` counts those. Three statements."""
    rows = list(AuditSeal.objects.select_related("entry").order_by("-seq")[: count + 1])
    rows.reverse()
    after = (0, GENESIS)
    if len(rows) > count:
        after = (rows[0].seq, rows[0].hash)
        rows = rows[1:]
    found = faults((Link(seal.seq, seal.hash, _sealed_form(seal.entry)) for seal in rows), after=after)
    waiting = AuditEntry.objects.filter(seal=None)
    return Verification(
        sealed=len(rows),
        unsealed=waiting.count(),
        late=waiting.filter(at__lt=clock.now() - LATE_AFTER).count(),
        head=f"{rows[-1].seq}:{rows[-1].hash}" if rows else f"0:{GENESIS}",
        faults=found,
    )


def holds(head: str) -> bool:
    """Is a head noted earlier (`seq:hash`, as `verify` gave it) still a link of the chain? Finds a cut-off end."""
    seq, _, noted = head.partition(":")
    if seq == "0":
        return noted == GENESIS
    try:
        return seq.isdecimal() and AuditSeal.objects.get(seq=int(seq)).hash == noted
    except ObjectDoesNotExist:
        return False


def unsealed_count() -> int:
    """Entries that still wait for their seal; for the metrics."""
    return AuditEntry.objects.filter(seal=None).count()


def _sealed_form(entry: AuditEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in SEALED_FIELDS}


def _refuse_secrets(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, Mapping):
            _refuse_secrets(value)
        elif isinstance(value, str) and value and _SECRET.search(name):
            raise ValueError(f"{name} does not belong into the audit trail")


def _ip_or_none(address: str | None) -> str | None:
    try:
        return str(ipaddress.ip_address(address)) if address else None
    except ValueError:
        return None
