"""A cluster's token speaks for its own cluster, for its own programs, for a while."""

import base64
import hashlib
import hmac
import json
import stat
from datetime import timedelta
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.management import call_command
from django.test import RequestFactory

from cluster import keys, services, tokens
from cluster.callbacks.auth import caller
from gshare_core.contract import app_token
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from tests.builders import a_cluster

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("signing_keys")]


@pytest.fixture
def cluster():
    return a_cluster("demo")


def signing(tmp_path):
    return keys.read(tmp_path / "keys").signing


def forged(tmp_path, cluster, *, key=None, algorithm="RS256", headers=None, **changes):
    """A token like ours with something changed."""
    now = int(clock.now().timestamp())
    claims = {
        "iss": "gshare-internal",
        "aud": "gshare-internal",
        "sub": f"cluster:{cluster.pk}",
        "scope": "operator",
        "epoch": cluster.token_epoch,
        "iat": now,
        "nbf": now,
        "exp": now + 3600,
        "origin": now,
        "jti": str(uuid4()),
    } | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    own = signing(tmp_path)
    return jwt.encode(claims, key or own.private, algorithm=algorithm, headers={"kid": own.kid} | (headers or {}))


def refusal(token, at=None):
    with pytest.raises(DomainError) as refused:
        tokens.verify(token, at=at or clock.now())
    return refused.value.code


def test_an_issued_token_names_its_cluster_and_scope(cluster):
    issued = tokens.issue(cluster, "operator", at=clock.now())

    found = tokens.verify(issued.token, at=clock.now())

    assert (found.cluster_id, found.scope) == (cluster.pk, "operator")
    assert jwt.get_unverified_header(issued.token)["alg"] == "RS256"


def test_the_same_token_with_nothing_changed_verifies(cluster, tmp_path):
    assert tokens.verify(forged(tmp_path, cluster), at=clock.now()).cluster_id == cluster.pk


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "somebody-else"},
        {"aud": ["gshare-internal", "somebody-else"]},
        {"iss": "somebody-else"},
        {"scope": "superuser"},
        {"sub": "user:0197f3c2-a1b2-7c4e-9d10-aabbccddeeff"},
        {"sub": "cluster:------------------------------------"},
        {"epoch": 7},
        {"epoch": None},
        {"exp": None},
        {"nbf": None},
        {"jti": None},
        {"exp": "tomorrow"},
        {"origin": 1.5},
    ],
    ids=str,
)
def test_a_token_of_ours_is_refused_when_its_claims_are(changes, cluster, tmp_path):
    assert refusal(forged(tmp_path, cluster, **changes)) == "unauthenticated"


def test_what_was_issued_does_not_show_its_secrets_in_logs(cluster):
    issued = tokens.issue(cluster, "operator", at=clock.now())

    assert issued.token not in repr(issued)
    assert issued.cluster_key.hex() not in repr(issued)
    assert repr(issued.cluster_key) not in repr(issued)


def test_an_expired_token_is_refused(cluster, gshare):
    gshare(cluster_token_ttl=timedelta(hours=24))
    at = clock.now()
    issued = tokens.issue(cluster, "operator", at=at)

    assert refusal(issued.token, at=at + timedelta(hours=24, seconds=61)) == "unauthenticated"


@pytest.mark.parametrize("difference", [-60, 60])
def test_clocks_60_s_apart_still_verify_tokens(difference, cluster):
    at = clock.now()
    issued = tokens.issue(cluster, "operator", at=at)
    new = at + timedelta(seconds=difference)
    nearly_over = issued.expires_at + timedelta(seconds=59)

    assert tokens.verify(issued.token, at=new).cluster_id == cluster.pk
    assert tokens.verify(issued.token, at=nearly_over).cluster_id == cluster.pk


def test_clocks_further_apart_do_not(cluster):
    at = clock.now()
    issued = tokens.issue(cluster, "operator", at=at)

    assert refusal(issued.token, at=at - timedelta(seconds=62)) == "unauthenticated"


def test_a_token_without_an_algorithm_is_refused(cluster, tmp_path):
    whole = jwt.decode(forged(tmp_path, cluster), options={"verify_signature": False})
    bare = jwt.encode(whole, None, algorithm="none", headers={"kid": signing(tmp_path).kid})

    assert refusal(bare) == "unauthenticated"


def test_a_token_signed_with_our_public_key_as_a_shared_secret_is_refused(cluster, tmp_path):
    """Key confusion: the library refuses to make such a token, so it is made by hand."""
    own = signing(tmp_path)
    claims = jwt.decode(forged(tmp_path, cluster), options={"verify_signature": False})
    for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER):
        secret = own.public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
        header = {"alg": "HS256", "typ": "JWT", "kid": own.kid}
        signed = b".".join(_base64url(json.dumps(part).encode()) for part in (header, claims))
        mac = hmac.new(secret, signed, hashlib.sha256).digest()
        assert refusal((signed + b"." + _base64url(mac)).decode()) == "unauthenticated"


def test_a_key_that_is_not_ours_is_refused_under_whatever_name_it_comes(cluster, tmp_path):
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    assert refusal(forged(tmp_path, cluster, key=stranger)) == "unauthenticated"
    assert refusal(forged(tmp_path, cluster, key=stranger, headers={"kid": "unknown"})) == "unauthenticated"
    assert (
        refusal(forged(tmp_path, cluster, key=stranger, headers={"jku": "https://evil.example"})) == "unauthenticated"
    )


@pytest.mark.parametrize("token", ["", "nonsense", "a.b.c", "." * 5, "é.é.é"])
def test_what_is_no_token_is_refused(token):
    assert refusal(token) == "unauthenticated"


def test_a_token_of_another_cluster_speaks_for_that_one_only(cluster):
    other = a_cluster("other")
    issued = tokens.issue(other, "operator", at=clock.now())

    assert tokens.verify(issued.token, at=clock.now()).cluster_id == other.pk != cluster.pk
    assert tokens.cluster_key(other.pk) != tokens.cluster_key(cluster.pk)


def test_revoking_ends_every_token_of_the_cluster_at_once_and_of_no_other(cluster):
    other = a_cluster("other")
    mine = [tokens.issue(cluster, scope, at=clock.now()) for scope in ("operator", "agent")]
    theirs = tokens.issue(other, "operator", at=clock.now())

    services.revoke_tokens(by=None, cluster_id=cluster.pk)

    assert {refusal(issued.token) for issued in mine} == {"unauthenticated"}
    assert tokens.verify(theirs.token, at=clock.now()).cluster_id == other.pk
    cluster.refresh_from_db()
    assert tokens.verify(tokens.issue(cluster, "operator", at=clock.now()).token, at=clock.now())


def test_a_removed_cluster_has_no_valid_token(cluster):
    issued = tokens.issue(cluster, "operator", at=clock.now())

    services.remove_cluster(by=None, cluster_id=cluster.pk)

    assert refusal(issued.token) == "unauthenticated"


def test_a_token_can_be_renewed_for_30_days_from_its_issue_and_no_longer(cluster):
    begin = at = clock.now()
    issued = tokens.issue(cluster, "operator", at=at)
    for _renewal in range(35):
        at += timedelta(hours=20)
        issued = tokens.renew(tokens.verify(issued.token, at=at), at=at)

    assert issued.expires_at == begin.replace(microsecond=0) + timedelta(days=30)
    end = issued.expires_at
    last = tokens.verify(issued.token, at=end)
    with pytest.raises(DomainError) as refused:
        tokens.renew(last, at=end)
    assert refused.value.code == "unauthenticated"
    assert refusal(issued.token, at=end + timedelta(seconds=61)) == "unauthenticated"


def test_a_rotated_key_signs_at_once_and_the_former_one_verifies_for_the_overlap(cluster, tmp_path, gshare):
    gshare(signing_key_overlap=timedelta(days=2))
    at = clock.now()
    old = tokens.issue(cluster, "operator", at=at)
    former = signing(tmp_path).kid

    rotated = keys.rotate(tmp_path / "keys", at=at + timedelta(seconds=1))

    new = tokens.issue(cluster, "operator", at=at)
    assert jwt.get_unverified_header(new.token)["kid"] == rotated.kid != former
    assert tokens.verify(old.token, at=at).cluster_id == cluster.pk
    published = {key["kid"] for key in tokens.jwks(at=at + timedelta(days=1))["keys"]}
    assert published == {former, rotated.kid}
    later = tokens.jwks(at=at + timedelta(days=2, seconds=2))["keys"]
    assert [key["kid"] for key in later] == [rotated.kid]
    assert keys.prune(tmp_path / "keys", at=at + timedelta(days=3), overlap=timedelta(days=2)) == [former]


def test_the_public_keys_verify_our_tokens_and_hold_nothing_private(cluster):
    issued = tokens.issue(cluster, "operator", at=clock.now())
    published = tokens.jwks(at=clock.now())

    key = jwt.PyJWKSet.from_dict(published)[jwt.get_unverified_header(issued.token)["kid"]]

    claims = jwt.decode(issued.token, key, algorithms=["RS256"], audience="gshare-internal")
    assert claims["sub"] == f"cluster:{cluster.pk}"
    assert set(published["keys"][0]) == {"kty", "use", "alg", "kid", "n", "e"}


def test_key_files_are_their_owners_only_and_made_once(tmp_path):
    folder = tmp_path / "keys"
    files = list(folder.glob("*.pem"))

    assert keys.ensure(folder, at=clock.now()) is False
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_command_writes_the_token_file_that_the_operator_reads(cluster, tmp_path):
    path = tmp_path / "operator" / "token.json"

    call_command("issue_token", cluster="demo", scope="operator", file=path, verbosity=0)

    held = json.loads(path.read_text())
    assert tokens.verify(held["token"], at=clock.now()).cluster_id == cluster.pk
    assert held["cluster"] == str(cluster.pk)
    session = uuid4()
    key = bytes.fromhex(held["cluster_key"])
    assert app_token(key, session, 1) == app_token(tokens.cluster_key(cluster.pk), session, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("header", "code"),
    [({}, "unauthenticated"), ({"Authorization": "Basic Zm9vOmJhcg=="}, "unauthenticated")],
)
def test_a_request_without_a_bearer_token_has_no_caller(header, code):
    with pytest.raises(DomainError) as refused:
        caller(RequestFactory().get("/internal/v1/desired", headers=header), scope="operator")

    assert refused.value.code == code


def test_a_token_of_another_scope_may_not_do_the_operators_work(cluster):
    token = tokens.issue(cluster, "agent", at=clock.now()).token
    request = RequestFactory().get("/internal/v1/desired", headers={"Authorization": f"Bearer {token}"})

    with pytest.raises(DomainError) as refused:
        caller(request, scope="operator")

    assert refused.value.code == "forbidden"
    assert caller(request, scope="agent").cluster_id == cluster.pk


def _base64url(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
