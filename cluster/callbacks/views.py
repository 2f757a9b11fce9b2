"""What a cluster's programs ask of the internal listener: their documents, a new token, the public keys.

Guarantees: a caller sees his own cluster's documents only; the long poll holds no connection and no thread while it
waits; every answer is JSON, every refusal a problem document, nothing is cached.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from cluster import queries, services, tokens
from cluster.callbacks.auth import caller
from gshare_core.errors import DomainError, invalid
from gshare_core.kit import clock
from gshare_core.kit.problem import problem_response

T = TypeVar("T")

_POLL_SECONDS = 0.25
_MAX_DIGITS = 18


def answers_problems(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Turn a refusal into a problem document with the challenge of RFC 6750."""

    @wraps(view)
    def wrapped(request: HttpRequest) -> HttpResponse:
        try:
            return view(request)
        except DomainError as error:
            return refusal(error, request)

    return wrapped


def refusal(error: DomainError, request: HttpRequest) -> HttpResponse:
    """A callback's refusal."""
    response = problem_response(error, request)
    if error.code == "unauthenticated":
        response["WWW-Authenticate"] = 'Bearer realm="gshare-internal"'
    return response


@csrf_exempt
@require_POST
@answers_problems
def renew_token(request: HttpRequest) -> HttpResponse:
    """`POST /internal/v1/token`: a new token for the one shown, of the same scope."""
    issued = tokens.renew(caller(request), at=clock.now())
    return _fresh(issued.as_dict())


@require_GET
@answers_problems
def jwks(request: HttpRequest) -> HttpResponse:
    """`GET /.well-known/gshare-internal-jwks.json`: the keys that tokens verify with."""
    return _fresh(tokens.jwks(at=clock.now()))


async def desired(request: HttpRequest) -> HttpResponse:
    """`GET /internal/v1/desired?after=&wait=`: documents that changed after a number, as soon as there are any.

    Beside the documents stand the claims of volumes that were given up for good (`removed_volumes`), for who keeps them,
    and the nodes that administrators cordoned here (`cordoned_nodes`), for an operator whose cluster can cordon them too.
    `after=0` answers with everything there is, at once (and waits when nothing ever was). A number that this database has not reached yet (it was restored)
    counts as 0, so that nobody waits for what will never come.
    """
    if request.method != "GET":
        return HttpResponse(status=405, headers={"Allow": "GET"})
    try:
        found = await _in_thread(lambda: caller(request, "operator"))
        after = _number(request, "after", 0)
        longest = int(settings.GSHARE.desired_wait_max.total_seconds())
        wait = min(_number(request, "wait", 0), longest)
    except DomainError as error:
        return refusal(error, request)
    await _in_thread(lambda: _suspect_restore(found.cluster_id, after))
    deadline = time.monotonic() + wait
    while True:
        feed = await _in_thread(lambda: queries.desired_after(found.cluster_id, after))
        remaining = deadline - time.monotonic()
        if feed.documents or (after == 0 and feed.seq) or remaining <= 0:
            beside = await _in_thread(lambda: _beside_documents(found.cluster_id))
            return _fresh(feed.model_copy(update=beside).to_wire())
        await asyncio.sleep(min(_POLL_SECONDS, remaining))


def _beside_documents(cluster_id: UUID) -> dict[str, tuple[str, ...]]:
    return {
        "removed_volumes": tuple(queries.volumes_to_remove(cluster_id)),
        "cordoned_nodes": tuple(queries.cordoned_nodes(cluster_id)),
    }


def _suspect_restore(cluster_id: UUID, after: int) -> None:
    """A follower that has seen more than the counter counts has seen another, later database."""
    if queries.is_behind(cluster_id, after):
        services.note_restored(cluster_id=cluster_id, at=clock.now())


async def _in_thread(work: Callable[[], T]) -> T:
    """Do a short piece of database work in a thread, and give its connection back before anybody waits."""

    def short() -> T:
        try:
            return work()
        finally:
            if not connection.in_atomic_block:
                connection.close()

    return await sync_to_async(short)()


def _number(request: HttpRequest, name: str, default: int) -> int:
    text = request.GET.get(name, "") or str(default)
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise invalid(name, _("Give a number."))
    return int(text)


def _fresh(body: dict[str, Any]) -> JsonResponse:
    return JsonResponse(body, headers={"Cache-Control": "no-store"})
