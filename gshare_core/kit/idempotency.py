"""A request that must not be done twice is done once: the first answer is kept and repeated.

Guarantees: of any number of equal requests with the same (user, method, full path, key) one takes effect and all get its
answer, from different processes too: the row is written first, in the transaction of the effect, and whoever comes
second waits on its unique key. Refuses another body under the same key. Refusals are not kept: their transaction rolls
back and the row with it. A row older than the time to live is taken over as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, models
from rest_framework.request import Request

from gshare_core.errors import DomainError, invalid
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, note
from gshare_core.kit.rows import prepared, write

HEADER = "Idempotency-Key"
KEY_MAX = 255
PATH_MAX = 500
_MODEL = ("accounts", "IdempotencyKey")


class Row(NamedTuple):
    """A request as its row's unique key tells it from others."""

    user_id: UUID
    method: str
    path: str
    key: str


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that can be given again."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Once:
    """One request and its key. Inside `locks.ordered()`, after the requester's lock: `claim`, act, `keep`.

    once = Once.of(request, render=session_json)
    with ordered():
        requester = lock_requester(…)
        if (reply := once.claim()) is None:
            reply = once.keep(create(…))
    return Response(reply.body, status=reply.status)
    """

    user_id: UUID
    method: str
    path: str
    key: str
    body: bytes
    render: Callable[[Any], dict[str, Any]]
    status: int = 201

    def __post_init__(self) -> None:
        if not self.key.strip():
            raise DomainError(
                "idempotency_key_required",
                f"This request needs an {HEADER} header.",
                remedy=f"Send a fresh {HEADER}, and the same one when you repeat the request.",
            )
        if len(self.key) > KEY_MAX:
            raise invalid(HEADER, f"At most {KEY_MAX} characters.")
        if "\0" in self.key or len(self.path) > PATH_MAX:
            raise invalid(HEADER, "This key or address cannot be stored.")

    @classmethod
    def of(cls, request: Request, *, render: Callable[[Any], dict[str, Any]], status: int = 201) -> Once:
        """The key and body of an API request. Raises DomainError `idempotency_key_required`, `invalid`."""
        body = json.dumps(request.data, sort_keys=True, cls=DjangoJSONEncoder).encode()
        return cls(
            user_id=UUID(str(request.user.pk)),
            method=str(request.method),
            path=request.get_full_path(),
            key=request.headers.get(HEADER, ""),
            body=body,
            render=render,
            status=status,
        )

    def claim(self) -> Reply | None:
        """None: this request is the one that acts. Else the first one's answer.

        Waits for a rival's transaction to end. Raises DomainError `idempotency_mismatch` when the key was used with
        another body. The race it prevents: two equal requests that both find no row and both act.
        """
        note(Rank.IDEMPOTENCY, self.key)
        now = clock.now()
        while not self._insert(now):
            row = self._mine().first()
            if row is not None:
                return self._reply_of(row)
            # The rival's row was swept between the two statements: the place is free again.
        return None

    def keep(self, result: Any) -> Reply:
        """Store what the request is answered with; the same transaction as `claim` and the effect."""
        return keep_all([(self, result)])[0]

    def _insert(self, now: datetime) -> bool:
        return bool(_insert_all([self], now))

    def _reply_of(self, row: Any) -> Reply:
        if row.body_hash != self._hash():
            raise DomainError(
                "idempotency_mismatch",
                f"This {HEADER} was used for another request.",
                remedy=f"Use a fresh {HEADER} for a new request.",
            )
        if row.status is None:
            raise RuntimeError("an idempotency row was committed without its answer: `keep` was not called")
        return Reply(row.status, row.answer)

    def _mine(self) -> models.QuerySet[Any]:
        return _rows().filter(user_id=self.user_id, method=self.method, path=self.path, key=self.key)

    def _hash(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def row(self) -> Row:
        """What the row's unique key is made of."""
        return Row(self.user_id, self.method, self.path, self.key)


def claim_all(asked: Sequence[Once], *, now: datetime) -> set[Row]:
    """Claim the keys of several requests, in the order of their keys; answers those that are the ones that act.

    The others were answered before, or are another request's: `claim` says which. Waits for rivals like it; no two of
    `asked` may have the same row.
    """
    ordered = sorted(asked, key=lambda once: (once.key, once.row))
    for once in ordered:
        note(Rank.IDEMPOTENCY, once.key)
    return _insert_all(ordered, now) if ordered else set()


def keep_all(answered: Sequence[tuple[Once, Any]]) -> list[Reply]:
    """Store what several requests are answered with, as `Once.keep` does for one; one statement."""
    replies = [
        Reply(once.status, json.loads(json.dumps(once.render(result), cls=DjangoJSONEncoder)))
        for once, result in answered
    ]
    if not replies:
        return []
    table = connection.ops.quote_name(_rows().model._meta.db_table)
    kept = [
        {
            "user_id": str(once.user_id),
            "method": once.method,
            "path": once.path,
            "key": once.key,
            "status": reply.status,
            "answer": reply.body,
        }
        for (once, _result), reply in zip(answered, replies, strict=True)
    ]
    write(
        f"UPDATE {table} AS kept SET status = new.status, answer = new.answer"  # noqa: S608 -- our table
        f" FROM json_populate_recordset(NULL::{table}, %s) AS new"
        " WHERE (kept.user_id, kept.method, kept.path, kept.key) = (new.user_id, new.method, new.path, new.key)",
        [json.dumps(kept, ensure_ascii=False)],
    )
    return replies


def disclaim(asked: Sequence[Once]) -> None:
    """Give claimed keys of this transaction back unanswered, as a refusal would by its rollback."""
    if not asked:
        return
    table = connection.ops.quote_name(_rows().model._meta.db_table)
    write(
        f"DELETE FROM {table} AS kept"  # noqa: S608 -- our table
        " USING unnest(%s::uuid[], %s::text[], %s::text[], %s::text[]) AS mine (user_id, method, path, key)"
        " WHERE (kept.user_id, kept.method, kept.path, kept.key) = (mine.user_id, mine.method, mine.path, mine.key)",
        [list(column) for column in zip(*(once.row for once in asked), strict=True)],
    )


def _insert_all(asked: Sequence[Once], now: datetime) -> set[Row]:
    """Insert the rows in their order; answers those that were not there, or had expired."""
    table = connection.ops.quote_name(_rows().model._meta.db_table)
    with prepared() as cursor:
        cursor.execute(
            f"INSERT INTO {table} AS kept (id, user_id, method, path, key, body_hash, at)"  # noqa: S608 -- our table
            " SELECT mine.id, mine.user_id, mine.method, mine.path, mine.key, mine.hash, %(at)s"
            " FROM unnest(%(id)s::uuid[], %(user)s::uuid[], %(method)s::text[], %(path)s::text[], %(key)s::text[],"
            " %(hash)s::text[]) WITH ORDINALITY AS mine (id, user_id, method, path, key, hash, place)"
            " ORDER BY mine.place"
            " ON CONFLICT (user_id, method, path, key) DO UPDATE"
            " SET body_hash = EXCLUDED.body_hash, at = EXCLUDED.at, status = NULL, answer = NULL"
            " WHERE kept.at < %(expired)s RETURNING user_id, method, path, key",
            {
                "id": [uuid7() for _once in asked],
                "user": [once.user_id for once in asked],
                "method": [once.method for once in asked],
                "path": [once.path for once in asked],
                "key": [once.key for once in asked],
                "hash": [once._hash() for once in asked],  # noqa: SLF001 -- its own module
                "at": now,
                "expired": now - _time_to_live(),
            },
        )
        return {Row(*row) for row in cursor.fetchall()}


def sweep() -> int:
    """A tick: forget the keys past their time to live; answers how many."""
    forgotten, _ = _rows().filter(at__lt=clock.now() - _time_to_live()).delete()
    return forgotten


def _rows() -> models.QuerySet[Any]:
    model: Any = apps.get_model(*_MODEL)
    rows: models.QuerySet[Any] = model.objects.all()
    return rows


def _time_to_live() -> timedelta:
    span: timedelta = settings.GSHARE.idempotency_ttl
    return span
