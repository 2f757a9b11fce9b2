"""One walk along the line: who fits is placed, in order; who has waited long at the head of its lane gets a place kept.

Guarantees: the order (priority descending, `order_at`, id) is one over all lanes and read by an index; a head that finds no
room stops nobody who fits beside it, and after `reserve_after` nobody passes it any more who would delay it; an entry
that another gate refuses keeps its place and shows why while those behind it are tried; one bad row stops nobody.
Every walk reads the rows anew: a lost or doubled wake-up changes nothing but latency.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID

import structlog
from django.conf import settings

from accounts import queries as accounts
from cluster import fleets
from cluster import queries as cluster_queries
from cluster import services as cluster
from cluster.domain.earmarks import Holding
from cluster.domain.placement import NoPlace, Request
from gshare_core.kit import clock
from sessions_app import dequeuing, hints, line, plans, preemption, priorities, requesters
from sessions_app.domain.queue import Bucket, Outcome, Pass, Waiting
from sessions_app.ends import ends
from sessions_app.models import QueueEntry, Session
from sessions_app.spec import lanes_of

logger = structlog.get_logger(__name__)

_BATCH = 2_000
_TOGETHER = 16
"""How many may leave in one transaction: others wait for its locks, so it is a matter of tens of milliseconds."""


def drain() -> int:
    """Walk along the line once; answers how many left it."""
    if not line.buckets():
        _clear_up(Pass())
        return 0
    follow_pools()
    priorities.follow_policies()
    following, left, sight, held = Pass(), 0, plans.Sight(clock.now()), _Held()
    waiting = _Next(line.in_order(following), following)
    while entries := waiting.take(_TOGETHER):
        now = clock.now()
        if not sight.fresh(now):
            sight = plans.Sight(now)
        gone = _try_together(entries, sight, now)
        left += gone
        if gone < len(entries):
            entry = entries[gone]
            waiting.put_back(entries[gone + 1 :])
            is_head = entry.bucket.lane not in following.heads and _has_waited(entry, now)
            outcome = _try(entry, sight, now, for_keeps=is_head)
            left += outcome is Outcome.LEFT
            if following.heard(entry, outcome) and not preemption.make_room(entry) and is_head:
                _keep_a_place(entry, held, sight)
    _clear_up(following)
    line.sum_up()
    if left:
        hints.line_moved()
    return left


def _clear_up(following: Pass) -> None:
    """Give up what is kept for nobody's sake and what was said of lanes in which nobody waits."""
    cluster.drop_earmarks_but({head.session for head in following.heads.values()})
    line.forget_looks()


class _Next:
    """Who is to be tried next, several at a time; who was not reached is put back."""

    def __init__(self, entries: Iterator[Waiting], following: Pass) -> None:
        self._back: deque[Waiting] = deque()
        self._entries, self._following = entries, following

    def take(self, count: int) -> list[Waiting]:
        """The next of whom it is not known already that trying them is in vain."""
        found: list[Waiting] = []
        while len(found) < count:
            entry = self._back.popleft() if self._back else next(self._entries, None)
            if entry is None:
                break
            if self._following.tries(entry):
                found.append(entry)
        return found

    def put_back(self, entries: Sequence[Waiting]) -> None:
        """They come next."""
        self._back.extendleft(reversed(entries))


def _try_together(entries: Sequence[Waiting], sight: plans.Sight, now: datetime) -> int:
    """How many of these, from the first on, left in one transaction: those who wait for the metal only, and fit now."""
    try:
        asking = []
        with fleets.one_picture():
            for entry in entries:
                request = _request_of(entry, now, sight) if entry.reason in line.OF_METAL else None
                if request is None:
                    break
                asking.append((request, cluster.Passage(entry.session)))
            fitting = cluster.fit_in_turn(asking) if asking else 0
        return dequeuing.dequeue_together(entries[:fitting], sight) if fitting else 0
    except Exception as error:
        # What is wrong with one of them is found out, and told, when they are tried one by one.
        logger.exception("dequeue_together_failed", entries=len(entries), error=str(error))
        return 0


def _try(entry: Waiting, sight: plans.Sight, now: datetime, *, for_keeps: bool) -> Outcome:
    """What becomes of an entry.

    One that the metal kept and keeps is not tried again, unless a place may be kept for it (`for_keeps`), or nobody of its lane and
    shape was judged by all gates for a minute (a limit may keep him too); what no pool or no node could ever give is the
    gates' to say.
    """
    try:
        if entry.reason in line.OF_METAL and not for_keeps and not _is_due(entry, now):
            request = _request_of(entry, now, sight)
            found = cluster.look(request, cluster.Passage(entry.session)) if request is not None else None
            if isinstance(found, NoPlace) and found.kind == "not_now" and "pool" not in found.short:
                line.note_look(entry.bucket, {"reason": found.kind, "detail": found.detail, "missing": found.short})
                return Outcome.NO_ROOM
        return dequeuing.dequeue(entry, sight)
    except Exception as error:
        # One row that cannot be judged, for whatever reason, stops nobody behind it.
        logger.exception("dequeue_failed", session=str(entry.session), lane=entry.bucket.lane, error=str(error))
        return Outcome.BROKEN


def _has_waited(entry: Waiting, now: datetime) -> bool:
    return now - entry.enqueued_at >= settings.GSHARE.reserve_after


class _Held:
    """What runs hold and when they give it back, read when the first head of a walk needs it, for all of them.

    Who was placed since holds what nothing says the end of: no head is promised it.
    """

    @cached_property
    def by_node(self) -> dict[str, list[Holding]]:
        """By node."""
        return cluster.holdings(ends(clock.now()))


def _keep_a_place(entry: Waiting, held: _Held, sight: plans.Sight) -> None:
    """Keep the place that will be free first for a head, or bring what is kept for it up to date."""
    with fleets.one_picture():
        request = _request_of(entry, clock.now(), sight)
        if request is not None:
            cluster.keep_place(entry.session, request, held=held.by_node, at=clock.now())


_judged: OrderedDict[Bucket, datetime] = OrderedDict()


def _is_due(entry: Waiting, now: datetime) -> bool:
    """Whether all gates should be asked again; notes that they are."""
    last = _judged.get(entry.bucket)
    if last is not None and timedelta(0) <= now - last < _REQUESTS_LAST:
        return False
    _judged[entry.bucket] = now
    if len(_judged) > _REQUESTS_MAX:
        _judged.popitem(last=False)
    return True


_requests: OrderedDict[Bucket, tuple[datetime, Request]] = OrderedDict()
_REQUESTS_MAX, _REQUESTS_LAST = 1_000, timedelta(minutes=1)


def _request_of(entry: Waiting, now: datetime, sight: plans.Sight) -> Request | None:
    """What those of a lane and shape ask of the fleet; lane and shape say nearly all of it, so it is kept for a minute.

    None for who may not ask any more: that is the gates' to say.
    """
    known = _requests.get(entry.bucket)
    if known is not None and timedelta(0) <= now - known[0] < _REQUESTS_LAST:
        return known[1]
    session = Session.objects.select_related("owner").get(pk=entry.session)
    request = request_of(session, sight)
    if request is None:
        return None
    _requests[entry.bucket] = (now, request)
    if len(_requests) > _REQUESTS_MAX:
        _requests.popitem(last=False)
    return request


def request_of(session: Session, sight: plans.Sight | None = None) -> Request | None:
    """What a waiting session asks of the fleet; None when it may not ask any more."""
    person = requesters.who(session.owner, session.group_id)
    return plans.read_plan(plans.ask_of(session), person, at=clock.now(), session=session, sight=sight).request


# Pools ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Seen:
    """What this process has seen of the pools: their state, since when, and when it last looked along the line."""

    state: str = ""
    since: datetime | None = None
    looked_at: datetime | None = None


_seen = _Seen()


def follow_pools() -> int:
    """Move entries whose pools have changed into the lane that newcomers enter now, each at its place; answers how many.

    Else whoever comes after the change would stand in another lane and pass them. It looks along the line when pools, their
    grants, or who may use the shared ones have changed, and every minute until `intent_settle` later: a request that had
    read the old pools may join after the first look, and none lives longer.
    """
    state = f"{cluster_queries.pools_fingerprint()}|{accounts.field_fingerprint('shared_pool')}"
    now, changed = clock.now(), state != _seen.state
    if changed:
        _seen.state, _seen.since = state, now
    elif _seen.since is None or (_seen.looked_at is not None and now - _seen.looked_at < _REQUESTS_LAST):
        return 0
    moved = _move_lanes()
    settled = _seen.since is not None and now - _seen.since >= settings.GSHARE.intent_settle
    _seen.since, _seen.looked_at = (None if settled else _seen.since), now
    return moved


def _move_lanes() -> int:
    moved, last = 0, UUID(int=0)
    waiting = QueueEntry.objects.select_related("session").order_by("session_id")
    while page := list(waiting.filter(session_id__gt=last)[:_BATCH]):
        lanes_now = lanes_of([entry.session for entry in page])
        for entry in page:
            lane = lanes_now[entry.session_id]
            if lane != entry.lane:
                moved += QueueEntry.objects.filter(session=entry.session_id, lane=entry.lane).update(lane=lane)
        last = page[-1].session_id
    return moved
