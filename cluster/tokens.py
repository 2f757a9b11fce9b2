"""Tokens with which a cluster's programs speak to the internal listener, and the key that comes with them.

Guarantees: a token names one cluster and one scope and ends within `cluster_token_ttl`; renewing goes on for
`cluster_token_renewal_max` from one issue and no longer; raising the cluster's epoch ends every token at once. Clocks that
differ by `cluster_token_leeway` still verify.
Refuses: any algorithm but RS256 whatever the header says, keys that are not in our own folder (`jku`, `jwk` and `x5u` are
never looked at), other issuers and audiences, missing claims, removed clusters.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import jwt
import structlog
from django.conf import settings
from django.utils.translation import gettext as _

from cluster import keys
from cluster.models import Cluster
from gshare_core.contract import TOKEN_AUDIENCE
from gshare_core.errors import DomainError

logger = structlog.get_logger(__name__)

SCOPES = frozenset({"operator", "agent", "yielder"})
_SUBJECT = re.compile(r"cluster:([0-9a-f-]{36})")
_REQUIRED = ["iss", "aud", "sub", "scope", "iat", "nbf", "exp", "jti", "epoch", "origin"]
_KEY_LABEL = b"gshare.cluster-key\x00"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token it was. `issued_at` is the first issue that renewals go back to."""

    cluster_id: UUID
    scope: str
    issued_at: datetime
    claims: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Issued:
    """A token with the cluster's key, as the file of `issue_token` and the renewal's answer say it."""

    token: str = field(repr=False)
    cluster_id: UUID
    cluster_key: bytes = field(repr=False)
    expires_at: datetime

    def as_dict(self) -> dict[str, str]:
        """The JSON form; the key in hex."""
        return {
            "token": self.token,
            "cluster": str(self.cluster_id),
            "cluster_key": self.cluster_key.hex(),
            "expires_at": self.expires_at.isoformat(),
        }

    def as_json(self) -> str:
        """The content of the file."""
        return json.dumps(self.as_dict())


class _Ring:
    """The key ring of a folder, read again when the folder changed or an unknown key is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamp: tuple[Path, int] | None = None
        self._ring = keys.KeyRing(())

    def get(self) -> keys.KeyRing:
        folder = settings.GSHARE.keys_path
        with self._lock:
            stamp = (folder, folder.stat().st_mtime_ns if folder.is_dir() else 0)
            if stamp != self._stamp:
                self._ring, self._stamp = keys.read(folder), stamp
            return self._ring


_ring = _Ring()


def issue(cluster: Cluster, scope: str, *, at: datetime, origin: datetime | None = None) -> Issued:
    """A token for a cluster's program. `origin` is the issue that a renewal goes back to.

    Raises ValueError for an unknown scope and keys.NoKeyError when nothing can sign.
    """
    if scope not in SCOPES:
        raise ValueError(f"unknown scope {scope!r}: choose one of {', '.join(sorted(SCOPES))}")
    at = at.replace(microsecond=0)  # as the token says it
    origin = origin or at
    expires_at = min(at + settings.GSHARE.cluster_token_ttl, origin + settings.GSHARE.cluster_token_renewal_max)
    signing = _ring.get().signing
    claims = {
        "iss": TOKEN_AUDIENCE,
        "aud": TOKEN_AUDIENCE,
        "sub": f"cluster:{cluster.pk}",
        "scope": scope,
        "epoch": cluster.token_epoch,
        "iat": _seconds(at),
        "nbf": _seconds(at),
        "exp": _seconds(expires_at),
        "origin": _seconds(origin),
        "jti": str(uuid4()),
    }
    token = jwt.encode(claims, signing.private, algorithm=keys.ALGORITHM, headers={"kid": signing.kid})
    return Issued(token, cluster.pk, cluster_key(cluster.pk), expires_at)


def issue_or_refuse(cluster: Cluster, scope: str, *, at: datetime, origin: datetime | None = None) -> Issued:
    """As `issue`, for who answers people and programs: DomainError `unavailable` where no key can sign."""
    try:
        return issue(cluster, scope, at=at, origin=origin)
    except (keys.NoKeyError, OSError, ValueError, TypeError) as error:
        logger.exception("no_signing_key", folder=str(settings.GSHARE.keys_path), error=str(error))
        raise DomainError(
            "unavailable",
            _("There is no key that can sign a token."),
            remedy=_("Run manage.py bootstrap, which makes the signing key, and check the folder of keys."),
        ) from error


def renew(caller: Caller, *, at: datetime) -> Issued:
    """A new token for who shows a valid one. Raises DomainError `unauthenticated` when its issue is too long ago."""
    if at >= caller.issued_at + settings.GSHARE.cluster_token_renewal_max:
        raise _refused(_("This token was issued too long ago to be renewed."))
    cluster = Cluster.objects.present().filter(pk=caller.cluster_id).first()
    if cluster is None:
        raise _refused(_("The token was revoked."))
    return issue_or_refuse(cluster, caller.scope, at=at, origin=caller.issued_at)


def verify(token: str, *, at: datetime) -> Caller:
    """Whose token it is. Raises DomainError `unauthenticated`, saying no more than which kind of fault it was."""
    claims = _decoded(token, at)
    match = _SUBJECT.fullmatch(str(claims["sub"]))
    if match is None or claims["scope"] not in SCOPES:
        raise _refused(_("The token is not a cluster's."))
    cluster_id = _uuid(match[1])
    epoch = Cluster.objects.present().filter(pk=cluster_id).values_list("token_epoch", flat=True).first()
    if epoch is None or epoch != claims["epoch"]:
        raise _refused(_("The token was revoked."))
    issued_at = datetime.fromtimestamp(int(claims["origin"]), UTC)
    return Caller(cluster_id, str(claims["scope"]), issued_at, claims)


def cluster_key(cluster_id: UUID) -> bytes:
    """The key from which both sides compute the app tokens of a cluster's sessions: HMAC-SHA256(site's secret, cluster)."""
    secret = settings.SECRET_KEY.encode()
    return hmac.new(secret, _KEY_LABEL + str(cluster_id).encode(), hashlib.sha256).digest()


def write_file(path: Path, issued: Issued) -> None:
    """Put a token where its program reads it: JSON, readable by its owner only, replaced as a whole."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    keys.write_private(path, issued.as_json().encode())


def secret_manifest(issued: Issued, scope: str, namespace: str) -> dict[str, Any]:
    """The Kubernetes Secret of a token, as its program mounts it: the file `token.json`."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"gshare-{scope}-token", "namespace": namespace},
        "type": "Opaque",
        "stringData": {"token.json": issued.as_json()},
    }


def jwks(*, at: datetime) -> dict[str, Any]:
    """The public keys that verify now."""
    return _ring.get().as_jwks(at=at, overlap=settings.GSHARE.signing_key_overlap)


def _decoded(token: str, at: datetime) -> dict[str, Any]:
    """The claims of a token that one of our published keys signed and whose times hold at `at`."""
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        published = _ring.get().published(at=at, overlap=settings.GSHARE.signing_key_overlap)
        if not isinstance(kid, str) or kid not in published:
            raise _refused(_("The token names no key of ours."))
        claims: dict[str, Any] = jwt.decode(
            token,
            published[kid].public,
            algorithms=[keys.ALGORITHM],
            audience=TOKEN_AUDIENCE,
            issuer=TOKEN_AUDIENCE,
            options={
                "require": _REQUIRED,
                "strict_aud": True,
                # The times are compared below with the database's clock, the one of all deadlines.
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except jwt.PyJWTError as error:
        raise _refused(_("The token is not valid.")) from error
    _check_times(claims, at)
    return claims


def _check_times(claims: Mapping[str, Any], at: datetime) -> None:
    times = [claims[name] for name in ("nbf", "iat", "exp", "origin")]
    if not all(isinstance(time, int) and not isinstance(time, bool) for time in times):
        raise _refused(_("The token is not valid."))
    not_before, issued, expires, _origin = times
    leeway = int(settings.GSHARE.cluster_token_leeway / timedelta(seconds=1))
    now = at.timestamp()
    if now + leeway < max(not_before, issued):
        raise _refused(_("The token is not valid yet."))
    if now - leeway >= expires:
        raise _refused(_("The token has expired."))


def _refused(detail: str) -> DomainError:
    return DomainError(
        "unauthenticated",
        detail,
        remedy=_("Issue a new token for this cluster (manage.py issue_token, or the cluster's page)."),
    )


def _seconds(at: datetime) -> int:
    return int(at.timestamp())


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _refused(_("The token is not a cluster's.")) from None
