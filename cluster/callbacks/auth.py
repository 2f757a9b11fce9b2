"""Who calls: the cluster and the scope of a request's bearer token.

Guarantees: every callback asks here first, with the scope that its path needs; what the body says about clusters is
believed for the caller's cluster only. Refuses without saying which part of a token was wrong beyond its kind.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.translation import gettext as _

from cluster import tokens
from cluster.tokens import Caller
from gshare_core.errors import DomainError
from gshare_core.kit import clock

__all__ = ["Caller", "caller"]

_TOKEN_LENGTH = 8_192


def caller(request: HttpRequest, scope: str | None = None) -> Caller:
    """The caller of a request. Raises DomainError `unauthenticated` (401), or `forbidden` for a token of another scope."""
    kind, _space, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token or len(token) > _TOKEN_LENGTH:
        raise DomainError(
            "unauthenticated", _("A cluster's token is needed."), remedy=_("Send it as Authorization: Bearer …")
        )
    found = tokens.verify(token.strip(), at=clock.now())
    if scope is not None and found.scope != scope:
        raise DomainError(
            "forbidden",
            _("A token of scope %(given)s may not do this.") % {"given": found.scope},
            remedy=_("Use a token of scope %(needed)s.") % {"needed": scope},
        )
    return found
