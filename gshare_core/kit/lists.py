"""Lists by keyset: a page begins after the last row of the page before, so that it costs the same wherever it is.

Guarantees: every order is total (it ends in the primary key) and comes from a whitelist; cursors are signed and good for
their own list, filters and order only; counts stop at `COUNT_LIMIT`; the number of queries does not depend on the number
of rows. Refuses, as `invalid`: unknown orders, cursors of other lists, filters with impossible values, searches below two
characters. CSV cells that a spreadsheet would run get an apostrophe.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from django.contrib.postgres.expressions import ArraySubquery
from django.core import signing
from django.db.models import BooleanField, F, Func, Model, Q, QuerySet, TextField, Value
from django.db.models.lookups import GreaterThan, LessThan
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django_filters import FilterSet
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from gshare_core.errors import DomainError, invalid
from gshare_core.kit.problem import invalid_fields

M = TypeVar("M", bound=Model)

PAGE = 50
PAGE_MAX = 200
COUNT_LIMIT = 1_000
SEARCH_MIN = 2
SEARCH_MAX = 100
CSV_MAX = 50_000
CSV_TYPE = "text/csv"
_SALT = "gshare.lists.cursor"
_RISKY = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Listing:
    """What may be asked of a list.

    `orderings`: public name → column (never null; with an index that ends in the primary key); a leading `-` turns it
    round. `default`: one of them, with or without `-`. `search`: columns of `?q=` (each with a trigram index). `unique`: names
    whose column alone tells the rows of this list apart, so that its own index gives their order.
    """

    orderings: Mapping[str, str]
    default: str
    search: tuple[str, ...] = ()
    filters: type[FilterSet] | None = None
    unique: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeysetPage(Generic[M]):
    """One page of rows; `next_cursor` is None on the last."""

    rows: list[M]
    next_cursor: str | None
    count: int
    count_is_exact: bool


def page_of(rows: QuerySet[M], listing: Listing, request: HttpRequest | Request) -> KeysetPage[M]:
    """The page of `rows` that the request's parameters name. Two queries. Raises DomainError `invalid`."""
    parameters = request.GET
    found = narrowed(rows, listing, parameters)
    ordering, column, descending = _ordering(listing, parameters)
    digest = _digest(request.path, parameters)
    count = found.order_by()[: COUNT_LIMIT + 1].count()
    limit = _limit(parameters)
    alone = ordering.removeprefix("-") in listing.unique
    wanted = _ordered(found, column, descending, alone=alone)
    cursor = parameters.get("cursor")
    if cursor:
        wanted = _after(wanted, column, descending, _opened(cursor, ordering, digest), alone=alone)
    if alone:
        wanted = _ordered(_among(found, wanted[: limit + 1]), column, descending, alone=alone)
    page = list(wanted[: limit + 1])
    more, page = len(page) > limit, page[:limit]
    return KeysetPage(
        rows=page,
        next_cursor=_sealed(page[-1], ordering, digest) if more else None,
        count=min(count, COUNT_LIMIT),
        count_is_exact=count <= COUNT_LIMIT,
    )


def answer(
    request: HttpRequest | Request, page: KeysetPage[M], present: Callable[[M], dict[str, Any]]
) -> dict[str, Any]:
    """The API's form of a page."""
    return {
        "results": [present(row) for row in page.rows],
        "next": None if page.next_cursor is None else request.build_absolute_uri(next_address(request, page)),
        "count": page.count,
        "count_is_exact": page.count_is_exact,
    }


def next_address(request: HttpRequest | Request, page: KeysetPage[M]) -> str:
    """Path and query of the page that follows; for links in pages as well."""
    kept = [(name, value) for name, values in request.GET.lists() for value in values if name != "cursor"]
    return f"{request.path}?{urlencode([*kept, ('cursor', page.next_cursor or '')])}"


def head(request: HttpRequest, listing: Listing, key: str, name: str, css: str = "") -> dict[str, str]:
    """The head of a column; what the list can be ordered by carries the address that orders by it, or turns the order round."""
    if key not in listing.orderings:
        return {"name": name, "direction": "", "url": "", "css": css}
    ordering = request.GET.get("ordering", "") or listing.default
    column, descending = ordering.removeprefix("-"), ordering.startswith("-")
    kept = request.GET.copy()
    kept.pop("cursor", None)
    kept["ordering"] = f"-{key}" if column == key and not descending else key
    direction = ("descending" if descending else "ascending") if column == key else "none"
    return {"name": name, "direction": direction, "url": f"?{kept.urlencode()}", "css": css}


def narrowed(rows: QuerySet[M], listing: Listing, parameters: QueryDict) -> QuerySet[M]:
    """The rows that `?q=` and the filters leave."""
    found = rows
    words = parameters.get("q", "").strip()
    if words and listing.search:
        if not SEARCH_MIN <= len(words) <= SEARCH_MAX or "\0" in words:
            raise invalid("q", _("Search for 2 to 100 characters."))
        matches = Q()
        for column in listing.search:
            matches |= Q(**{f"{column}__icontains": words})
        found = found.filter(matches)
    if listing.filters is None:
        return found
    filterset = listing.filters(data=parameters, queryset=found)
    if not filterset.is_valid():
        raise invalid_fields(filterset.errors)
    narrow: QuerySet[M] = filterset.qs
    return narrow


def _ordering(listing: Listing, parameters: QueryDict) -> tuple[str, str, bool]:
    ordering = parameters.get("ordering", "") or listing.default
    name = ordering.removeprefix("-")
    if name not in listing.orderings:
        raise invalid("ordering", _("Order by one of: %(names)s.") % {"names": ", ".join(sorted(listing.orderings))})
    return ordering, listing.orderings[name], ordering.startswith("-")


def _limit(parameters: QueryDict) -> int:
    text = parameters.get("limit", "") or str(PAGE)
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= PAGE_MAX):
        raise invalid("limit", _("Give a number from 1 to %(most)s.") % {"most": PAGE_MAX})
    return int(text)


def _ordered(rows: QuerySet[M], column: str, descending: bool, *, alone: bool) -> QuerySet[M]:
    sign = "-" if descending else ""
    keyed: Any = rows.annotate(keyset_order=F(column))
    ordered: QuerySet[M] = keyed.order_by(*(f"{sign}{name}" for name in (column, "pk")[: 1 if alone else 2]))
    return ordered


def _among(rows: QuerySet[M], few: QuerySet[M]) -> QuerySet[M]:
    """Those of `rows` that are among `few`, which PostgreSQL finds by their index first: it would join all rows and sort them,
    since it takes what is joined to be cheaper than it is."""
    keys = ArraySubquery(few.values("pk"))
    among = Func(F("pk"), keys, arg_joiner=" = ANY(", template="(%(expressions)s))", output_field=BooleanField())
    found: QuerySet[M] = rows.filter(among)
    return found


def _after(rows: QuerySet[M], column: str, descending: bool, key: Sequence[Any], *, alone: bool) -> QuerySet[M]:
    """Rows beyond `key`, compared as one pair, which PostgreSQL answers from the index on (column, id); or by the column alone."""
    if alone:
        return rows.filter(**{f"{column}__{'lt' if descending else 'gt'}": key[0]})
    here = Func(F(column), F("pk"), function="ROW", output_field=TextField())
    there = Func(*(Value(part) for part in key), function="ROW", output_field=TextField())
    return rows.filter(LessThan(here, there) if descending else GreaterThan(here, there))


def _digest(path: str, parameters: QueryDict) -> str:
    kept = sorted((name, values) for name, values in parameters.lists() if name not in ("cursor", "limit"))
    return hashlib.sha256(repr((path, kept)).encode()).hexdigest()[:16]


def _sealed(row: Any, ordering: str, digest: str) -> str:
    key = row.keyset_order
    text = key.isoformat() if isinstance(key, datetime) else str(key)
    return signing.dumps({"o": ordering, "k": [text, str(row.pk)], "d": digest}, salt=_SALT, compress=True)


def _opened(cursor: str, ordering: str, digest: str) -> list[str]:
    try:
        held = signing.loads(cursor, salt=_SALT)
    except signing.BadSignature:
        held = {}
    if held.get("o") != ordering or held.get("d") != digest:
        raise DomainError(
            "invalid",
            _("This cursor belongs to another list."),
            errors={"cursor": [_("This cursor belongs to another list.")]},
            remedy=_("Start again without a cursor."),
        )
    key: list[str] = held["k"]
    return key


class CsvRenderer(BaseRenderer):
    """Lets a view be asked for `text/csv`; the view answers with `csv_response` itself."""

    media_type = CSV_TYPE
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        raise NotImplementedError("a view that accepts text/csv answers with csv_response")


def wants_csv(request: Request) -> bool:
    """Did the API request's Accept choose text/csv?"""
    return bool(getattr(request, "accepted_media_type", "").startswith(CSV_TYPE))


def csv_rows(rows: QuerySet[M], listing: Listing, parameters: QueryDict) -> list[M]:
    """All rows that the filters leave, in order. Raises DomainError `invalid` above `CSV_MAX`."""
    name, column, descending = _ordering(listing, parameters)
    alone = name.removeprefix("-") in listing.unique
    found = list(_ordered(narrowed(rows, listing, parameters), column, descending, alone=alone)[: CSV_MAX + 1])
    if len(found) > CSV_MAX:
        raise DomainError(
            "invalid",
            _("A file holds at most %(most)s rows.") % {"most": CSV_MAX},
            remedy=_("Narrow it down with filters, for example to a month."),
        )
    return found


def csv_response(filename: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """A CSV file; every text cell passes `guarded`."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow([guarded(cell) for cell in header])
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    return HttpResponse(
        buffer.getvalue(),
        content_type=f"{CSV_TYPE}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{filename}"', "Cache-Control": "no-store"},
    )


def guarded(cell: Any) -> str:
    """A cell's text; what a spreadsheet would take for a formula begins with an apostrophe."""
    if cell is None:
        return ""
    text = cell.isoformat() if isinstance(cell, datetime) else str(cell)
    return f"'{text}" if text.startswith(_RISKY) else text
