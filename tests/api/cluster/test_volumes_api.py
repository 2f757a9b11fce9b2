"""`/volumes`: a person's own, his groups', those shared with him, and nothing else."""

import pytest
from django.test import Client

from cluster import services
from cluster.models import Pool
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from tests.builders import a_cluster, a_group, a_limit, a_super_admin, a_user, an_org_admin

pytestmark = pytest.mark.django_db
JSON = "application/json"
API = "/api/v1/volumes"


def as_(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def cluster():
    return a_cluster("north")


@pytest.fixture
def group():
    return a_group()


@pytest.fixture
def alice(group):
    return a_user(group)


def make(user, **fields):
    body = {"name": f"v-{uuid7()}", "kind": "data", "access": "rwx", "size_gib": 10} | fields
    response = as_(user).post(API, body, content_type=JSON)
    assert response.status_code == 201, response.content
    return response.json()


def listed(user, query=""):
    response = as_(user).get(f"{API}{query}")
    assert response.status_code == 200, response.content
    return {row["id"] for row in response.json()["results"]}


def mount(volume, run):
    with ordered():
        services.attach(
            session_id=uuid7(),
            run_id=run,
            mounts=[{"volume": volume["id"], "path": "/data", "mode": "rw"}],
            at=clock.now(),
        )


def test_a_volume_is_made_on_the_only_cluster_that_its_maker_may_use(cluster, alice):
    made = make(alice, name="data")

    assert made["cluster"] == str(cluster.pk)
    assert made["owner"] == {"id": str(alice.pk), "email": alice.email}
    assert (made["mode"], made["in_use"], made["group"]) == ("rw", False, None)
    assert listed(alice) == {made["id"]}


def test_with_several_clusters_the_maker_says_which(cluster, alice):
    other = a_cluster("south")

    response = as_(alice).post(API, {"name": "data", "size_gib": 1}, content_type=JSON)

    assert response.status_code == 400
    assert "cluster" in response.json()["errors"]
    assert make(alice, cluster=str(other.pk))["cluster"] == str(other.pk)


def test_a_cluster_that_is_not_open_to_him_does_not_exist(cluster, alice):
    Pool.objects.filter(cluster=cluster).update(is_shared=False)

    response = as_(alice).post(API, {"name": "d", "size_gib": 1, "cluster": str(cluster.pk)}, content_type=JSON)

    assert response.status_code == 404


def test_what_exceeds_a_limit_names_field_limit_use_and_scope(cluster, alice):
    a_limit(alice.organisation, storage_gib=15)
    make(alice)

    response = as_(alice).post(API, {"name": "more", "size_gib": 10}, content_type=JSON)

    body = response.json()
    assert (response.status_code, body["code"]) == (409, "quota_exceeded")
    assert body["facts"] == {
        "field": "storage_gib",
        "limit": 15,
        "used": 10,
        "asked": 10,
        "scope": f"organisation:{alice.organisation_id}",
    }
    assert body["remedy"]


def test_lists_never_cross_tenants(cluster, group, alice):
    stranger = a_user(a_group())
    mine, theirs = make(alice), make(stranger)
    ours = make(a_user(group, "group_admin"), group=str(group.pk))

    assert listed(alice) == {mine["id"], ours["id"]}
    assert listed(stranger) == {theirs["id"]}
    assert listed(a_user(group, "guest")) == set()
    assert as_(alice).get(f"{API}/{theirs['id']}").status_code == 404


def test_administrators_see_the_volumes_of_their_scope_and_of_no_other(cluster, group, alice):
    mine = make(alice)
    admin, owner = a_user(group, "group_admin"), an_org_admin(group.organisation)
    ours = make(admin, group=str(group.pk))
    foreign = make(a_user(a_group()))

    assert listed(owner) == {ours["id"]}  # what he may mount; the rest he looks after
    assert listed(admin, f"?scope=group:{group.pk}") == {ours["id"]}
    assert listed(owner, f"?scope=organisation:{group.organisation_id}") == {mine["id"], ours["id"]}
    assert listed(a_super_admin(), "?scope=all") == {mine["id"], ours["id"], foreign["id"]}
    for person, scope in (
        (alice, f"group:{group.pk}"),
        (admin, f"organisation:{group.organisation_id}"),
        (owner, "all"),
        (owner, f"group:{uuid7()}"),
        (owner, "group:x"),
    ):
        assert as_(person).get(f"{API}?scope={scope}").status_code == 404


def test_a_volume_grows_and_is_renamed_and_does_not_shrink(cluster, alice):
    made = make(alice)
    path = f"{API}/{made['id']}"

    grown = as_(alice).patch(path, {"size_gib": 20, "name": "bigger"}, content_type=JSON).json()
    assert (grown["size_gib"], grown["name"]) == (20, "bigger")
    assert as_(alice).patch(path, {"size_gib": 5}, content_type=JSON).status_code == 400


def test_a_volume_in_use_is_not_deleted_and_a_deleted_one_comes_back(cluster, alice):
    made, run = make(alice), uuid7()
    path = f"{API}/{made['id']}"
    mount(made, run)
    refused = as_(alice).delete(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")
    assert as_(alice).get(path).json()["in_use"] is True
    with ordered():
        services.release_attachments(run, at=clock.now())

    assert as_(alice).delete(path).status_code == 204
    assert as_(alice).get(path).status_code == 404
    assert listed(alice) == set()
    assert listed(alice, "?deleted=true") == {made["id"]}

    restored = as_(alice).post(f"{path}/restore")
    assert restored.status_code == 200
    assert restored.json()["deleted_at"] is None
    assert listed(alice) == {made["id"]}


def test_a_share_is_given_by_id_or_address_and_taken_back(cluster, group, alice):
    bob, made = a_user(group), make(alice)
    path = f"{API}/{made['id']}/shares"

    given = as_(alice).post(path, {"user": str(bob.pk), "mode": "ro"}, content_type=JSON)
    assert given.status_code == 201
    assert listed(bob) == {made["id"]}
    assert as_(bob).get(f"{API}/{made['id']}").json()["mode"] == "ro"
    assert as_(bob).get(path).status_code == 403
    assert as_(bob).delete(f"{API}/{made['id']}").status_code == 403

    as_(alice).post(path, {"user": bob.email, "mode": "rw"}, content_type=JSON)
    assert [row["mode"] for row in as_(alice).get(path).json()["results"]] == ["rw"]
    assert as_(alice).delete(f"{path}/{given.json()['id']}").status_code == 204
    assert listed(bob) == set()


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "ro"},
        {"user": "nobody@example.org", "mode": "ro"},
        {"user": "x", "group": str(uuid7()), "mode": "ro"},
        {"group": str(uuid7()), "mode": "ro"},
    ],
)
def test_a_share_with_nobody_is_refused(body, cluster, alice):
    made = make(alice)

    assert as_(alice).post(f"{API}/{made['id']}/shares", body, content_type=JSON).status_code == 400


def test_a_strangers_calls_find_nothing(cluster, alice):
    made = make(alice)
    stranger = as_(a_user(a_group()))
    path = f"{API}/{made['id']}"

    answers = [
        stranger.get(path),
        stranger.patch(path, {"size_gib": 99}, content_type=JSON),
        stranger.delete(path),
        stranger.post(f"{path}/restore"),
        stranger.get(f"{path}/shares"),
        stranger.post(f"{path}/shares", {"user": alice.email, "mode": "ro"}, content_type=JSON),
        stranger.delete(f"{path}/shares/{uuid7()}"),
        stranger.get(f"{path}/snapshots"),
    ]

    assert {answer.status_code for answer in answers} == {404}


def test_nobody_gets_in_who_is_not_signed_in(cluster, alice):
    made = make(alice)

    for path in ("", f"/{made['id']}", f"/{made['id']}/shares", f"/{made['id']}/snapshots"):
        assert Client().get(f"{API}{path}").status_code == 401


@pytest.mark.parametrize("method", ["get", "post"])
def test_snapshots_are_not_implemented(method, cluster, alice):
    made = make(alice)

    response = getattr(as_(alice), method)(f"{API}/{made['id']}/snapshots")

    assert (response.status_code, response.json()["code"]) == (501, "not_implemented")


def test_volumes_are_searched_filtered_and_ordered(cluster, alice):
    for name, kind in (("beta-set", "data"), ("alpha-set", "scratch"), ("home", "home")):
        make(alice, name=name, kind=kind)

    def names(query):
        return [row["name"] for row in as_(alice).get(f"{API}{query}").json()["results"]]

    assert names("?q=SET&ordering=name") == ["alpha-set", "beta-set"]
    assert names("?kind=home") == ["home"]
    assert names("?ordering=-created_at")[0] == "home"
    assert as_(alice).get(f"{API}?ordering=size").status_code == 400


def test_a_page_costs_the_same_however_many_volumes_it_shows(cluster, group, alice, django_assert_max_num_queries):
    for _number in range(8):
        make(alice)

    client = as_(alice)
    with django_assert_max_num_queries(14):
        assert len(client.get(API).json()["results"]) == 8
