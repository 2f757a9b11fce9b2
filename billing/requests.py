"""Requests for credits: asked one level up, approved with the credits in the same transaction, rejected, withdrawn, forwarded.

Guarantees: a request is decided once, whoever tries at once; approving moves exactly what was asked, once per key; nobody
decides what he asked for, for himself or through somebody who forwarded it. Who can decide hears of a request, who asked
hears of the decision.
Refuses: asking for a wallet that one does not act for, or a parent that is none (`invalid`, `forbidden`); a second open
request to the same parent (`conflict`); deciding twice (`already_decided`); rejecting without a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import IntegrityError
from django.utils.translation import gettext as _

from accounts import audit, notices
from accounts.domain.rights import Target
from accounts.domain.roles import Role
from accounts.permissions import Act
from accounts.services.common import authorise, in_language_of
from accounts.standings import People, locked
from billing import ledger
from billing.hierarchy import act_between, administrators_of, check_receiver, target_between, wallet_named
from billing.models import SYSTEM_ID, Account, CreditRequest, RequestState, TransferKind
from billing.models.ledger import owners_of
from billing.moving import Order, check_free, checked_note, hand_over, positive
from billing.wallets import ensure_wallet
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock, live, locks
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.money import display_credits, format_credits

if TYPE_CHECKING:
    from accounts.models import User

_OWNERS = owners_of("wallet", "parent")


def ask_for_credits(*, wallet: UUID, parent: UUID, amount: int, reason: str, by: User) -> CreditRequest:
    """Ask a parent for credits: a member for his wallet, an administrator for his group's or organisation's.

    Raises DomainError `not_found`, `invalid`, `forbidden`, `reason_required`, `conflict`.
    """
    above, below = wallet_named(parent), wallet_named(wallet)
    act_between(above, below)
    positive(amount)
    why = _reason(reason)
    with locks.ordered():
        people = locked(share=[by.pk, below.user_id])
        _check_may_ask(above, below, people, by)
        return _ask(above, below, amount, why, by, None)


def approve_request(*, request_id: UUID, by: User, note: str = "", once: Once | None = None) -> CreditRequest | Reply:
    """Give what was asked for. Raises `not_found`, `forbidden`, `already_decided`, `insufficient_pool`, `invalid`."""
    words = checked_note(note)
    seen = _seen(request_id)
    with locks.ordered():
        people = _deciding(seen, by)
        check_receiver(seen.parent, seen.wallet, people)
        reply = once.claim() if once is not None else None
        if reply is not None:
            return reply
        request = _open(request_id)
        purses = ledger.lock_purses((request.wallet_id, request.parent_id))
        order = Order(TransferKind.ALLOCATE, request.parent_id, request.wallet_id, request.amount, words, request.pk)
        check_free(order, purses)
        (done,) = hand_over([order], by, purses)
        request.transfer = done
        _decide(request, RequestState.APPROVED, words, by, done.at)
        if once is not None:
            once.keep(request)
        return request


def reject_request(*, request_id: UUID, reason: str, by: User) -> CreditRequest:
    """Refuse what was asked for, with a reason. Raises `reason_required`, `not_found`, `forbidden`, `already_decided`."""
    why = _reason(reason)
    seen = _seen(request_id)
    with locks.ordered():
        _deciding(seen, by)
        request = _open(request_id)
        _decide(request, RequestState.REJECTED, why, by, clock.now())
        return request


def withdraw_request(*, request_id: UUID, by: User) -> CreditRequest:
    """Take one's own request back. Raises `not_found`, `forbidden`, `already_decided`."""
    seen = _seen(request_id)
    if seen.asked_by_id != by.pk:
        raise DomainError("forbidden", _("Only who asked can withdraw it."), remedy=_("Reject it instead."))
    with locks.ordered():
        locked(share=[by.pk])
        request = _open(request_id)
        _decide(request, RequestState.WITHDRAWN, "", by, clock.now())
        return request


def forward_request(*, request_id: UUID, by: User, note: str = "") -> CreditRequest:
    """Ask the next level for the credits that a request needs; the request itself stays open. Answers the new one.

    Raises `not_found`, `forbidden`, `already_decided`, `invalid` (nobody stands above), `conflict` (forwarded already).
    """
    words = checked_note(note)
    seen = _seen(request_id)
    above = wallet_named(wallet_above(seen.parent))
    with locks.ordered():
        _deciding(seen, by)
        request = _open(request_id)
        return _ask(above, seen.parent, request.amount, words or request.reason, by, request)


def end_requests(wallet: UUID, parents: list[UUID], *, at: datetime) -> None:
    """Whoever left has nothing to ask there any more. Before any wallet is locked."""
    mine = CreditRequest.objects.filter(wallet_id=wallet, parent_id__in=parents, state=RequestState.OPEN)
    mine.update(state=RequestState.WITHDRAWN, decided_at=at)


def wallet_above(wallet: Account) -> UUID:
    """The wallet that a place's credits come from, made where it is not there yet. Raises `invalid` for others."""
    if wallet.group is not None:
        return ensure_wallet("organisation", wallet.group.organisation_id)
    if wallet.organisation_id is not None:
        return SYSTEM_ID
    raise invalid("parent", _("Nobody stands above it."))


# Inside ---------------------------------------------------------------------------------------------------------------


def _check_may_ask(above: Account, below: Account, people: People, by: User) -> None:
    """For oneself as a member of the group; for a place as who gives its credits away."""
    if below.user_id is not None:
        if below.user_id != by.pk:
            raise DomainError("forbidden", _("Ask for your own wallet, or for one that you administer."))
        standing = people.standings[by.pk]
        seated = any(seat.group_id == above.group_id and seat.role is not Role.GUEST for seat in standing.seats)
        if not (standing.active and seated):
            raise DomainError("forbidden", _("Only members of a group ask it for credits."))
        return
    act = Act.CREDIT_USER if below.group_id is not None else Act.CREDIT_GROUP
    place = Target(below.group.organisation_id, below.group_id) if below.group else Target(below.organisation_id)
    authorise(people, by, act, place)


def _ask(
    above: Account, below: Account, amount: int, why: str, by: User, forwards: CreditRequest | None
) -> CreditRequest:
    at = clock.now()
    request = CreditRequest(
        wallet=below, parent=above, amount=amount, reason=why, asked_by=by, asked_at=at, forwards=forwards
    )
    try:
        with locks.attempt():
            request.save(force_insert=True)
    except IntegrityError as error:
        raise DomainError(
            "conflict", _("There is an open request already."), remedy=_("Wait for its answer, or withdraw it.")
        ) from error
    _record(request, by, "credits.request", at)
    words = {"name": below.owner_name, "amount": display_credits(amount)}
    _tell(
        (person for person in administrators_of(above) if person.pk != by.pk),
        lambda: _("%(name)s asks for %(amount)s credits") % words,
        why,
        at,
        link="/admin/credits/",
    )
    return request


def _seen(request_id: UUID) -> CreditRequest:
    found = CreditRequest.objects.select_related(*_OWNERS, "asked_by").filter(pk=request_id).first()
    if found is None:
        raise not_found("credit request")
    return found


def _deciding(seen: CreditRequest, by: User) -> People:
    """Hold still who decides and whom it is for; the right to decide. Raises `forbidden`, also for one's own."""
    people = locked(share=[by.pk, seen.wallet.user_id])
    authorise(people, by, act_between(seen.parent, seen.wallet), target_between(seen.parent, seen.wallet, people))
    if by.pk in set(_askers(seen)):
        raise DomainError(
            "forbidden", _("Nobody decides his own request."), remedy=_("Ask another administrator to decide.")
        )
    return people


def _askers(request: CreditRequest) -> Iterator[UUID]:
    """Who asked, and whose request it forwards."""
    one: CreditRequest | None = request
    while one is not None:
        yield one.asked_by_id
        one = one.forwards


def _open(request_id: UUID) -> CreditRequest:
    """The request, held. Raises `already_decided`. The race it prevents: two who decide at once."""
    request = locks.lock_row(locks.Rank.LANE, CreditRequest.objects.select_related(*_OWNERS).filter(pk=request_id))
    if request is None:
        raise not_found("credit request")
    if request.state != RequestState.OPEN:
        raise DomainError("already_decided", _("This request is decided already."), facts={"state": request.state})
    return request


def _decide(request: CreditRequest, state: RequestState, words: str, by: User, at: datetime) -> None:
    request.state, request.decision, request.decided_by, request.decided_at = state, words, by, at
    request.save(update_fields=["state", "decision", "decided_by", "decided_at", "transfer"])
    _record(request, by, f"credits.request.{state.value}", at)
    for person in administrators_of(request.parent):
        live.poke(notices.topic(person.pk))  # it leaves the inboxes of the others too
    if state == RequestState.WITHDRAWN or (state == RequestState.APPROVED and request.wallet.user_id is not None):
        return  # a person hears that the credits came
    amount, place = display_credits(request.amount), request.wallet.owner_name

    def title() -> str:
        if state == RequestState.APPROVED:
            return _("%(place)s received the %(amount)s credits that were asked for") % {
                "place": place,
                "amount": amount,
            }
        return _("The request for %(amount)s credits was rejected") % {"amount": amount}

    _tell([request.asked_by], title, words, at)


def _tell(
    people: Iterator[User] | list[User],
    title: Callable[[], str],
    body: str,
    at: datetime,
    *,
    link: str = "/wallet/request/",
) -> None:
    for person in people:
        with in_language_of(person):
            notices.notify(user_id=person.pk, kind="credit_request", title=title(), body=body, at=at, link=link)


def _reason(text: str) -> str:
    why = checked_note(text)
    if not why:
        raise DomainError("reason_required", _("Say why."), remedy=_("Send a reason."))
    return why


def _record(request: CreditRequest, by: User, act: str, at: datetime) -> None:
    wallet, parent = request.wallet, request.parent
    audit.record(
        by=by,
        act=act,
        target_kind="wallet",
        target_id=wallet.pk,
        target_label=wallet.owner_name,
        organisation_id=wallet.organisation_id or parent.organisation_id,
        group_id=wallet.group_id or parent.group_id,
        after={"amount": format_credits(request.amount), "from": parent.owner_name, "state": request.state},
        reason=request.decision or request.reason,
        at=at,
    )
