"""`/clusters`, `/nodes`, `/cards`, `/pools`: for who runs the metal; the others see what they may use."""

import pytest
from django.test import Client

from accounts.models import AuditEntry
from cluster import services, tokens
from cluster.models import Card, Cluster, ModeChange, Node, NodeDrain, Pool, PoolGrant
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from tests.builders import a_cluster, a_group, a_node, a_super_admin, a_user, an_org_admin
from tests.cluster_acts import a_pool, a_quarter, a_spec, release, take, want

pytestmark = pytest.mark.django_db
JSON = "application/json"
API = "/api/v1"


def as_(user):
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root():
    return as_(a_super_admin())


@pytest.fixture
def group():
    return a_group()


def names(client, path):
    response = client.get(f"{API}{path}")
    assert response.status_code == 200, response.content
    return [row["name"] for row in response.json()["results"]]


def test_a_cluster_is_registered_with_a_shared_pool(root):
    response = root.post(f"{API}/clusters", {"name": "north", "storage_classes": {"home": "nfs"}}, content_type=JSON)

    body = response.json()
    assert response.status_code == 201
    assert (body["name"], body["kind"], body["state"]) == ("north", "local", "pending")
    assert body["storage_classes"] == {"home": "nfs"}
    assert [pool.is_shared for pool in Pool.objects.filter(cluster=body["id"])] == [True]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "North"}, "name"),
        ({"name": "n" * 64}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "ok", "kubeconfig": "../../etc/passwd"}, "kubeconfig"),
        ({"name": "ok", "kubeconfig": "apiVersion: v1"}, "kubeconfig"),
        ({"name": "ok", "storage_classes": {"tape": "x"}}, "storage_classes"),
        ({"name": "ok", "storage_classes": {"home": "NFS!"}}, "storage_classes"),
    ],
)
def test_a_bad_registration_names_the_field_and_never_echoes_a_kubeconfig(body, field, root):
    response = root.post(f"{API}/clusters", body, content_type=JSON)

    assert response.status_code == 400
    assert field in response.json()["errors"]
    assert "passwd" not in response.content.decode()
    assert "apiVersion" not in response.content.decode()


def test_two_clusters_do_not_share_a_name(root):
    a_cluster("north")

    response = root.post(f"{API}/clusters", {"name": "north"}, content_type=JSON)

    assert (response.status_code, response.json()["code"]) == (409, "conflict")


def test_a_member_sees_names_and_states_of_the_clusters_that_he_may_use(group):
    open_to_all, closed = a_cluster("open"), a_cluster("closed")
    Pool.objects.filter(cluster=closed).update(is_shared=False)
    a_node(open_to_all, "gpu-01", cards=[{}])
    member = as_(a_user(group))

    assert names(member, "/clusters") == ["open"]
    row = member.get(f"{API}/clusters/{open_to_all.pk}").json()
    assert set(row) == {"id", "name", "kind", "state"}
    assert member.get(f"{API}/clusters/{closed.pk}").status_code == 404

    PoolGrant.objects.create(pool=Pool.objects.get(cluster=closed), group=group)
    assert names(member, "/clusters") == ["closed", "open"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("post", "/clusters"),
        ("patch", "/clusters/{cluster}"),
        ("delete", "/clusters/{cluster}"),
        ("post", "/clusters/{cluster}/test"),
        ("post", "/clusters/{cluster}/token"),
        ("post", "/clusters/{cluster}/revoke"),
        ("get", "/clusters/{cluster}/nodes"),
        ("get", "/clusters/{cluster}/cards"),
        ("post", "/nodes/{node}/cordon"),
        ("post", "/nodes/{node}/uncordon"),
        ("post", "/nodes/{node}/drain"),
        ("put", "/cards/{card}/mode"),
        ("post", "/pools"),
        ("patch", "/pools/{pool}"),
        ("delete", "/pools/{pool}"),
        ("post", "/pools/{pool}/grants"),
    ],
)
@pytest.mark.parametrize("role", ["guest", "member", "group_admin", "org_admin"])
def test_only_super_administrators_run_the_metal(method, path, role, group):
    cluster = a_cluster("north")
    node = a_node(cluster, cards=[{}])
    person = an_org_admin(group.organisation) if role == "org_admin" else a_user(group, role)
    card = Card.objects.get(node=node)
    places = {"cluster": cluster.pk, "node": node.pk, "card": card.pk, "pool": node.pool_id}
    bodies = {
        "/clusters": {"name": "mine"},
        "/cards/{card}/mode": {"mode": "mig"},
        "/pools": {"cluster": str(cluster.pk), "name": "mine"},
        "/pools/{pool}": {"name": "mine"},
        "/pools/{pool}/grants": {"group": str(group.pk)},
    }

    response = getattr(as_(person), method)(f"{API}{path.format(**places)}", bodies.get(path, {}), content_type=JSON)

    assert response.status_code == 403, response.content
    cluster.refresh_from_db()
    assert cluster.token_epoch == 1


def test_nodes_and_cards_are_listed_with_what_is_used_of_them(root):
    cluster = a_cluster()
    a_node(cluster, "gpu-01", cards=[{"foreign_vram_mib": 512, "foreign_slots": 1}])
    take(a_quarter())

    node = root.get(f"{API}/clusters/{cluster.pk}/nodes").json()["results"][0]
    card = root.get(f"{API}/clusters/{cluster.pk}/cards").json()["results"][0]

    assert (node["name"], node["ready"], node["cordoned"]) == ("gpu-01", True, False)
    assert node["used"] == {"cpu_milli": 4_000, "memory_mib": 16_384, "scratch_gib": 20}
    assert card["node"]["name"] == "gpu-01"
    assert card["core_percent"] == 100
    assert card["used"] == {"vram_mib": 20_480, "core_milli": 250, "slots": 1}
    assert card["foreign"] == {"vram_mib": 512, "core_milli": 0, "slots": 1}


def test_the_number_of_queries_does_not_depend_on_the_number_of_rows(root, django_assert_max_num_queries):
    cluster = a_cluster()
    for number in range(6):
        a_node(cluster, f"n{number}", cards=[{}, {}])

    for path in (f"/clusters/{cluster.pk}/nodes", f"/clusters/{cluster.pk}/cards", "/clusters", "/pools", "/volumes"):
        with django_assert_max_num_queries(14):
            root.get(f"{API}{path}")


def test_cordoning_takes_a_node_out_of_placement_and_back(root):
    node = a_node(a_cluster(), cards=[{}])

    assert root.post(f"{API}/nodes/{node.pk}/cordon").json()["cordoned"] is True
    assert not take(a_quarter())
    assert root.post(f"{API}/nodes/{node.pk}/cordon").status_code == 200
    assert root.post(f"{API}/nodes/{node.pk}/uncordon").json()["cordoned"] is False
    assert take(a_quarter())
    assert root.post(f"{API}/nodes/{uuid7()}/cordon").status_code == 404


def test_a_node_is_drained_with_a_reason_and_using_it_again_calls_that_off(root):
    node = a_node(a_cluster(), cards=[{}])
    assert take(a_quarter())
    path = f"{API}/nodes/{node.pk}"

    def drain(**body):
        return root.post(f"{path}/drain", body, content_type=JSON)

    assert (drain().status_code, drain().json()["code"]) == (400, "reason_required")
    assert (drain(mode="burn", reason="x").status_code, NodeDrain.objects.exists()) == (400, False)
    first = drain(reason="a fan is broken")
    assert first.status_code == 202
    body = first.json()
    assert (body["cordoned"], body["sessions"]) == (True, 1)
    assert (body["drain"]["mode"], body["drain"]["reason"]) == ("reschedule", "a fan is broken")
    assert not take(a_quarter())
    assert drain(mode="stop", reason="it burns").json()["drain"]["mode"] == "stop"
    assert NodeDrain.objects.count() == 1
    listed = root.get(f"{API}/clusters/{node.cluster_id}/nodes").json()["results"][0]
    assert (listed["sessions"], listed["drain"]["reason"]) == (1, "it burns")
    used = root.post(f"{path}/uncordon").json()
    assert (used["cordoned"], used["drain"]) == (False, None)
    acts = AuditEntry.objects.filter(target_id=str(node.pk)).order_by("at").values_list("act", "after")
    assert [(act, after.get("mode"), after.get("drain")) for act, after in acts] == [
        ("node.drain", "reschedule", None),
        ("node.drain", "stop", None),
        ("node.uncordon", None, "called off"),
    ]


def test_cards_are_asked_to_be_cut_by_mig_and_say_how_far_that_is(root):
    cluster = a_cluster(kind="kube", kubeconfig="kube")
    node = a_node(cluster, "gpu-01", cards=[{}, {}])
    card, other = Card.objects.filter(node=node).order_by("index")

    def put(row=card, **body):
        return root.put(f"{API}/cards/{row.pk}/mode", body, content_type=JSON)

    few = put(mode="mig")
    assert (few.status_code, set(few.json()["errors"])) == (400, {"whole_node"})
    assert set(put(mode="half").json()["errors"]) == {"mode"}
    assert set(put().json()["errors"]) == {"mode"}
    assert set(put(mode="mig", whole_node=True, profiles=["1g.10gb"]).json()["errors"]) == {"profiles"}
    assert put(mode="hami-core", whole_node=True).status_code == 200

    run = uuid7()
    assert take(a_quarter(), run_id=run)
    used = put(mode="mig", whole_node=True)
    body = used.json()
    assert (used.status_code, body["code"]) == (409, "in_use")
    assert (body["facts"]["sessions"], body["facts"]["foreign_pods"]) == (1, 0)
    assert body["remedy"]
    assert release(run)

    asked = put(mode="mig", whole_node=True)
    body = asked.json()
    assert (asked.status_code, body["mode"], body["draining"]) == (202, "hami-core", True)
    assert (body["mode_change"]["target"], body["mode_change"]["state"]) == ("mig", "draining")
    again = put(other, mode="mig", whole_node=True)
    assert (again.status_code, again.json()["mode_change"]["id"]) == (202, body["mode_change"]["id"])
    rows = root.get(f"{API}/clusters/{cluster.pk}/cards").json()["results"]
    assert [row["mode_change"]["state"] for row in rows] == ["draining", "draining"]
    assert root.post(f"{API}/nodes/{node.pk}/uncordon").json()["code"] == "conflict"

    off = put(mode="hami-core", whole_node=True)
    assert (off.status_code, off.json()["mode_change"], off.json()["draining"]) == (200, None, False)
    assert ModeChange.objects.get().asked_by != "system"
    acts = AuditEntry.objects.filter(target_id=str(node.pk)).order_by("at").values_list("act", "after")
    assert [act for act, _after in acts] == ["card.mode", "card.mode_called_off"]
    assert put(type("Gone", (), {"pk": uuid7()}), mode="mig").status_code == 404


def test_a_local_clusters_cards_cannot_be_cut(root):
    node = a_node(a_cluster(), cards=[{}])

    refused = root.put(f"{API}/cards/{node.cards.get().pk}/mode", {"mode": "mig"}, content_type=JSON)

    assert (refused.status_code, refused.json()["code"]) == (501, "not_implemented")
    assert "local" in refused.json()["detail"]


def test_a_node_that_its_own_cluster_cordoned_takes_nothing_and_says_so(root):
    node = a_node(a_cluster(), cards=[{}], is_unschedulable=True)

    row = root.get(f"{API}/clusters/{node.cluster_id}/nodes").json()["results"][0]
    assert (row["unschedulable"], row["cordoned"]) == (True, False)
    refusal = take(a_quarter())
    assert not refusal
    assert refusal.kind == "not_now", "it counts as possible"


def test_a_token_is_shown_once_and_ends_with_a_revocation(root, signing_keys):
    cluster = a_cluster()

    issued = root.post(f"{API}/clusters/{cluster.pk}/token", {"scope": "agent"}, content_type=JSON)

    assert issued.status_code == 201
    assert issued["Cache-Control"] == "no-store"
    token = issued.json()["token"]
    assert tokens.verify(token, at=clock.now()).scope == "agent"
    assert root.post(f"{API}/clusters/{cluster.pk}/revoke").status_code == 204
    cluster.refresh_from_db()
    assert cluster.token_epoch == 2
    bad = root.post(f"{API}/clusters/{cluster.pk}/token", {"scope": "root"}, content_type=JSON)
    assert bad.status_code == 400


def test_without_a_signing_key_a_token_is_unavailable_and_says_what_to_do(root, gshare, tmp_path):
    cluster = a_cluster()
    gshare(signing_key_dir=tmp_path / "nothing")

    response = root.post(f"{API}/clusters/{cluster.pk}/token", {"scope": "operator"}, content_type=JSON)

    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert "bootstrap" in response.json()["remedy"]
    assert not AuditEntry.objects.filter(act="cluster.issue_token").exists()


def test_a_refused_sweep_is_shown_to_who_runs_the_metal_and_confirmed_by_its_number(root):
    cluster = a_cluster()
    path = f"{API}/clusters/{cluster.pk}"
    nothing = root.post(f"{path}/sweep", {"would_end": 1}, content_type=JSON)
    assert (nothing.status_code, nothing.json()["code"]) == (409, "conflict")
    services.hold_sweep(cluster_id=cluster.pk, ends=7, listed=9, at=clock.now())

    shown = root.get(path).json()["sweep"]

    assert (shown["would_end"], shown["listed"], shown["confirmed"]) == (7, 9, 0)
    assert shown["held_since"] is not None
    assert root.post(f"{path}/sweep", {"would_end": 6}, content_type=JSON).status_code == 409
    assert root.post(f"{path}/sweep", {}, content_type=JSON).json()["code"] == "invalid"
    confirmed = root.post(f"{path}/sweep", {"would_end": 7}, content_type=JSON)
    assert (confirmed.status_code, confirmed.json()["sweep"]["confirmed"]) == (200, 7)
    entry = AuditEntry.objects.get(act="cluster.confirm_sweep")
    assert entry.after == {"ends": 7, "listed": 9}
    member = as_(a_user(a_group()))
    assert "sweep" not in member.get(path).json()


def test_a_cluster_is_removed_only_when_nothing_is_on_it(root):
    cluster = a_cluster("north")
    a_node(cluster, cards=[{}])
    run = uuid7()
    take(a_quarter(), run_id=run)

    refused = root.delete(f"{API}/clusters/{cluster.pk}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")
    assert refused.json()["facts"]["sessions"] == 1

    release(run)
    assert root.delete(f"{API}/clusters/{cluster.pk}").status_code == 204
    assert root.get(f"{API}/clusters/{cluster.pk}").status_code == 404
    assert not Node.objects.filter(retired_at=None).exists()
    again = root.post(f"{API}/clusters", {"name": "north"}, content_type=JSON)
    assert again.status_code == 201


def test_a_document_keeps_its_cluster(root):
    cluster = a_cluster()
    want(cluster, a_spec(uuid7()))

    assert root.delete(f"{API}/clusters/{cluster.pk}").status_code == 409


def test_whether_a_cluster_answers_is_told_by_its_beats(root):
    lost, connected = a_cluster(state="lost"), a_cluster()

    assert root.post(f"{API}/clusters/{lost.pk}/test").json()["reachable"] is False
    assert root.post(f"{API}/clusters/{connected.pk}/test").json()["reachable"] is True


def test_a_cluster_that_we_write_to_is_asked_and_what_keeps_us_from_it_is_named(root):
    kube = a_cluster(kind="kube", kubeconfig="main", state="connected")

    answer = root.post(f"{API}/clusters/{kube.pk}/test").json()

    assert answer["reachable"] is False
    assert answer["problem"].startswith("there is no kubeconfig 'main'")


# Pools ----------------------------------------------------------------------------------------------------------------


def test_a_pool_takes_nodes_and_gives_them_back_to_the_shared_one(root):
    cluster = a_cluster()
    one, two = a_node(cluster, "one", cards=[{}]), a_node(cluster, "two", cards=[{}])
    home = one.pool

    made = root.post(
        f"{API}/pools", {"cluster": str(cluster.pk), "name": "team", "nodes": [str(one.pk)]}, content_type=JSON
    ).json()
    assert made["nodes"] == [str(one.pk)]
    refused = root.delete(f"{API}/pools/{made['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")

    moved = root.patch(f"{API}/pools/{made['id']}", {"nodes": [str(two.pk)], "name": "squad"}, content_type=JSON)
    assert (moved.json()["name"], moved.json()["nodes"]) == ("squad", [str(two.pk)])
    one.refresh_from_db()
    assert one.pool == home

    root.patch(f"{API}/pools/{made['id']}", {"nodes": []}, content_type=JSON)
    assert root.delete(f"{API}/pools/{made['id']}").status_code == 204
    assert root.delete(f"{API}/pools/{home.pk}").status_code == 409


def test_a_node_of_another_cluster_does_not_come_into_a_pool(root):
    cluster, foreign = a_cluster(), a_node(a_cluster(), cards=[{}])

    response = root.post(
        f"{API}/pools", {"cluster": str(cluster.pk), "name": "team", "nodes": [str(foreign.pk)]}, content_type=JSON
    )

    assert response.status_code == 404
    assert not Pool.objects.filter(name="team").exists()


def test_grants_are_given_shown_to_whom_they_name_and_taken_back(root, group):
    cluster, stranger = a_cluster(), a_group()
    pool = a_pool(cluster, "team")
    member = as_(a_user(group))
    assert "team" not in names(member, "/pools")

    made = root.post(f"{API}/pools/{pool.pk}/grants", {"group": str(group.pk)}, content_type=JSON)
    root.post(f"{API}/pools/{pool.pk}/grants", {"group": str(stranger.pk)}, content_type=JSON)

    assert made.status_code == 201
    assert "team" in names(member, "/pools")
    seen = member.get(f"{API}/pools/{pool.pk}/grants").json()["results"]
    assert [row["group"] for row in seen] == [str(group.pk)]
    assert root.post(f"{API}/pools/{pool.pk}/grants", {"group": str(group.pk)}, content_type=JSON).status_code == 409
    assert root.delete(f"{API}/pools/{pool.pk}/grants/{made.json()['id']}").status_code == 204
    assert "team" not in names(member, "/pools")


def test_an_organisations_administrator_passes_its_own_pools_on_to_its_own_groups(root, group):
    pool = a_pool(a_cluster(), "theirs")
    admin, foreign = as_(an_org_admin(group.organisation)), a_group()
    path = f"{API}/pools/{pool.pk}/grants"
    assert admin.post(path, {"group": str(group.pk)}, content_type=JSON).status_code == 404

    root.post(path, {"organisation": str(group.organisation_id)}, content_type=JSON)

    given = admin.post(path, {"group": str(group.pk)}, content_type=JSON)
    assert given.status_code == 201
    assert admin.post(path, {"group": str(foreign.pk)}, content_type=JSON).status_code in (403, 404)
    assert admin.post(path, {"organisation": str(foreign.organisation_id)}, content_type=JSON).status_code in (403, 404)
    assert admin.delete(f"{path}/{given.json()['id']}").status_code == 204


def test_a_shared_pool_takes_no_grant(root, group):
    pool = Pool.objects.get(cluster=a_cluster())

    response = root.post(f"{API}/pools/{pool.pk}/grants", {"group": str(group.pk)}, content_type=JSON)

    assert response.status_code == 400


def test_every_act_on_the_metal_leaves_a_trace(root):
    made = root.post(f"{API}/clusters", {"name": "north"}, content_type=JSON).json()
    root.patch(f"{API}/clusters/{made['id']}", {"name": "south"}, content_type=JSON)
    root.post(f"{API}/clusters/{made['id']}/revoke")
    services.remove_cluster(by=None, cluster_id=made["id"])

    acts = list(AuditEntry.objects.filter(target_id=made["id"]).order_by("id").values_list("act", flat=True))
    assert acts == ["cluster.register", "cluster.change", "cluster.revoke_tokens", "cluster.remove"]
    assert Cluster.objects.get(pk=made["id"]).removed_at is not None
