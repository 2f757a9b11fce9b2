"""What a cluster's programs get from the internal listener."""

import asyncio
import json
import threading
import time
from datetime import timedelta

import pytest
from django.test import AsyncClient, Client

from cluster import inventory, services, tokens
from cluster.models import Desired, Node
from gshare_core.contract import DesiredFeed, Inventory
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from tests.builders import a_cluster, a_group, a_node, a_user, ids
from tests.cluster_acts import a_spec, release_connection, want

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("cluster.callbacks.urls"),
    pytest.mark.usefixtures("signing_keys"),
]
PATH = "/internal/v1/desired"


@pytest.fixture
def cluster():
    return a_cluster()


def bearer(cluster, scope="operator"):
    return {"Authorization": f"Bearer {tokens.issue(cluster, scope, at=clock.now()).token}"}


def read(response):
    assert response.status_code == 200, response.content
    feed, bad = DesiredFeed.read(response.json())
    assert not bad
    return feed


def test_a_cluster_reads_its_own_documents_only(cluster):
    other = a_cluster()
    mine, theirs, _c = ids()
    want(cluster, a_spec(mine))
    want(other, a_spec(theirs))

    feed = read(Client().get(PATH, headers=bearer(cluster)))

    assert [document.session for document in feed.documents] == [mine]


def test_a_follower_gets_what_changed_after_the_number_it_knows(cluster):
    first, second, _c = ids()
    want(cluster, a_spec(first))
    known = read(Client().get(PATH, headers=bearer(cluster))).seq
    want(cluster, a_spec(second))
    want(cluster, a_spec(first, generation=2))

    feed = read(Client().get(f"{PATH}?after={known}", headers=bearer(cluster)))

    assert [document.session for document in feed.documents] == [second, first]
    assert feed.seq == feed.documents[-1].seq
    again = read(Client().get(f"{PATH}?after={feed.seq}&wait=0", headers=bearer(cluster)))
    assert again.documents == ()


def test_a_tombstone_stays_in_the_feed_until_it_is_dropped(cluster):
    session, _b, _c = ids()
    want(cluster, a_spec(session, run=2, generation=7))
    want(cluster, None, session=session, run=2, generation=8)

    row = Client().get(PATH, headers=bearer(cluster)).json()["documents"][0]
    assert row["spec"] is None
    assert (row["run"], row["generation"]) == (2, 8)

    services.drop_desired(session, cluster_id=cluster.pk)
    assert read(Client().get(PATH, headers=bearer(cluster))).documents == ()


def test_a_document_that_cannot_be_read_any_more_hides_none_of_its_neighbours(cluster):
    old, new, _c = ids()
    want(cluster, a_spec(old))
    Desired.objects.update(spec={"contractVersion": -5})
    want(cluster, a_spec(new))

    feed = read(Client().get(PATH, headers=bearer(cluster)))

    assert [document.session for document in feed.documents] == [new]


def test_a_number_that_this_database_never_reached_counts_as_none(cluster):
    session, _b, _c = ids()
    want(cluster, a_spec(session))

    feed = read(Client().get(f"{PATH}?after=1000000&wait=20", headers=bearer(cluster)))

    assert [document.session for document in feed.documents] == [session]
    assert feed.seq < 1_000_000


def test_claims_of_volumes_that_were_given_up_are_named_until_the_cluster_no_longer_has_them(cluster):
    alice = a_user(a_group())
    wish = services.VolumeWish("data", "data", "rwo", 1, cluster.pk)
    volume = services.create_volume(by=alice, wish=wish)
    services.delete_volume(by=alice, volume_id=volume.pk)

    def removed():
        return Client().get(PATH, headers=bearer(cluster)).json()["removed_volumes"]

    assert removed() == []
    services.purge_volumes(at=clock.now() + timedelta(hours=25))
    assert removed() == [volume.claim]
    beat(cluster, volumes=[{"claim": volume.claim, "size_gib": 1}])
    assert removed() == [volume.claim]
    beat(cluster)
    assert removed() == []


def test_cordoned_nodes_are_named_and_their_own_clusters_word_closes_them_too(cluster):
    a_node(cluster, "gpu-01", cards=[{}])
    other = a_node(cluster, "gpu-02", cards=[{}])

    def cordoned():
        return Client().get(PATH, headers=bearer(cluster)).json()["cordoned_nodes"]

    assert cordoned() == []
    services.cordon_node(by=None, node_id=other.pk, cordoned=True)
    assert cordoned() == ["gpu-02"]
    host = {"cpu_milli": 1_000, "memory_mib": 1_024, "scratch_gib": 1}
    for said in (True, False):
        beat(cluster, nodes=[{"name": "gpu-01", "ready": True, "unschedulable": said, **host}])
        assert Node.objects.get(name="gpu-01").is_unschedulable is said
    assert cordoned() == ["gpu-02"], "what its cluster does by itself is not repeated to it"


def beat(cluster, **parts):
    now = clock.now().isoformat()
    document, bad = Inventory.read({"contract_version": 1, "observed_at": now, "sent_at": now} | parts)
    inventory.adopt(cluster.pk, document, clock.now(), bad)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "wait=1.5", "after=99999999999999999999"])
def test_numbers_that_are_none_are_refused(query, cluster):
    response = Client().get(f"{PATH}?{query}", headers=bearer(cluster))

    assert response.status_code == 400
    assert response.json()["code"] == "invalid"


@pytest.mark.parametrize("path", [PATH, "/internal/v1/token"])
def test_without_a_token_nothing_is_answered(path):
    response = Client().get(path) if path == PATH else Client().post(path)

    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert response.json()["code"] == "unauthenticated"


def test_an_agents_token_does_not_read_documents(cluster):
    response = Client().get(PATH, headers=bearer(cluster, "agent"))

    assert response.status_code == 403


@pytest.mark.parametrize(("method", "path"), [("post", PATH), ("get", "/internal/v1/token")])
def test_other_methods_are_refused(method, path, cluster):
    assert getattr(Client(), method)(path, headers=bearer(cluster)).status_code == 405


@pytest.mark.parametrize("scope", sorted(tokens.SCOPES))
def test_every_program_renews_its_token_and_keeps_its_scope(scope, cluster):
    response = Client().post("/internal/v1/token", headers=bearer(cluster, scope))

    body = response.json()
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert tokens.verify(body["token"], at=clock.now()).scope == scope
    assert body["cluster"] == str(cluster.pk)
    assert bytes.fromhex(body["cluster_key"]) == tokens.cluster_key(cluster.pk)


def test_a_revoked_token_renews_nothing(cluster):
    headers = bearer(cluster)
    services.revoke_tokens(by=None, cluster_id=cluster.pk)

    assert Client().post("/internal/v1/token", headers=headers).status_code == 401


def test_the_public_keys_need_no_token():
    body = Client().get("/.well-known/gshare-internal-jwks.json").json()

    assert [key["alg"] for key in body["keys"]] == ["RS256"]


def test_an_empty_feed_is_answered_when_the_wait_is_over(cluster):
    begin = time.monotonic()

    feed = read(Client().get(f"{PATH}?after=0&wait=1", headers=bearer(cluster)))

    assert feed.documents == ()
    assert 0.9 <= time.monotonic() - begin < 5


def test_nobody_waits_longer_than_the_setting_allows(cluster, gshare, tmp_path):
    gshare(desired_wait_max=timedelta(seconds=0))

    begin = time.monotonic()
    read(Client().get(f"{PATH}?wait=3600", headers=bearer(cluster)))

    assert time.monotonic() - begin < 5


@pytest.mark.django_db(transaction=True)
def test_a_long_poll_answers_as_soon_as_a_document_is_committed(cluster):
    session, _b, _c = ids()
    after = read(Client().get(f"{PATH}?after=0", headers=bearer(cluster))).seq
    answers = []

    def poll():
        response = asyncio.run(AsyncClient().get(f"{PATH}?after={after}&wait=20", headers=bearer(cluster)))
        answers.append((time.monotonic(), json.loads(response.content)))
        release_connection()

    thread = threading.Thread(target=poll)
    thread.start()
    want(cluster, a_spec(session))
    committed = time.monotonic()
    thread.join(15)

    at, body = answers[0]
    assert [row["session"] for row in body["documents"]] == [str(session)]
    assert at - committed < 5


@pytest.mark.django_db(transaction=True)
def test_a_follower_never_misses_the_one_who_commits_late(cluster):
    """Two write documents; the one who began first commits last. A sequence would let the follower skip it."""
    early, late, _c = ids()
    written, may_commit = threading.Event(), threading.Event()
    seen = []

    def slow():
        with ordered():
            services.write_desired(session_id=early, cluster_id=cluster.pk, spec=a_spec(early), at=clock.now())
            written.set()
            may_commit.wait(10)
        release_connection()

    def quick():
        want(cluster, a_spec(late))
        release_connection()

    first = threading.Thread(target=slow)
    first.start()
    written.wait(10)
    second = threading.Thread(target=quick)
    second.start()
    follow(cluster, seen)
    may_commit.set()
    first.join(10)
    second.join(10)
    follow(cluster, seen)

    assert set(seen) == {early, late}
    assert Desired.objects.get(session_id=early).seq < Desired.objects.get(session_id=late).seq


def follow(cluster, seen):
    after = max(Desired.objects.filter(session_id__in=seen).values_list("seq", flat=True), default=0)
    feed = read(Client().get(f"{PATH}?after={after}&wait=0", headers=bearer(cluster)))
    seen += [document.session for document in feed.documents]
