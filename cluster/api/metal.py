"""`/api/v1/clusters`, `/nodes`, `/pools`: for who runs the metal; who uses it sees names and states."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import listed, parameters
from accounts.api.requests import me, one, valid
from accounts.permissions import Act, may
from cluster import services
from cluster.adapters import examine, port_of
from cluster.api import answers, documents, serializers
from cluster.domain.preflight.findings import Finding
from cluster.models import Cluster, Node, Pool
from cluster.port import PortError
from cluster.visibility import grants_by_pool, visible_clusters, visible_grants, visible_pools
from gshare_core.kit import clock
from gshare_core.kit.lists import answer, page_of

if TYPE_CHECKING:
    from accounts.models import User


# Clusters ------------------------------------------------------------------------------------------------------------


@extend_schema(
    methods=["GET"],
    operation_id="list_clusters",
    parameters=parameters(documents.CLUSTERS),
    responses=page(answers.ClusterAnswer),
)
@extend_schema(
    methods=["POST"],
    operation_id="register_cluster",
    request=serializers.NewCluster,
    responses={201: answers.ClusterAnswer},
)
@api_view(["GET", "POST"])
def clusters(request: Request) -> Response:
    """Clusters that the caller may use; register one."""
    actor = me(request)
    if request.method == "POST":
        body = valid(serializers.NewCluster, request)
        kubeconfig = body["kubeconfig"] or ""
        made = services.register_cluster(
            by=actor,
            name=body["name"],
            kind=Cluster.Kind.KUBE if kubeconfig else Cluster.Kind.LOCAL,
            kubeconfig=kubeconfig,
            storage_classes=body["storage_classes"],
        )
        return Response(documents.cluster(made, whole=True), status=status.HTTP_201_CREATED)
    whole = actor.is_super_admin
    return listed(request, visible_clusters(actor), documents.CLUSTERS, lambda row: documents.cluster(row, whole=whole))


@extend_schema(methods=["GET"], operation_id="read_cluster", responses=answers.ClusterAnswer)
@extend_schema(
    methods=["PATCH"], operation_id="change_cluster", request=serializers.ClusterChange, responses=answers.ClusterAnswer
)
@extend_schema(methods=["DELETE"], operation_id="remove_cluster", responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def cluster(request: Request, cluster_id: UUID) -> Response:
    """One cluster; it is removed only when nothing is on it."""
    actor = me(request)
    found = _visible(actor, cluster_id)
    if request.method == "DELETE":
        services.remove_cluster(by=actor, cluster_id=found.pk)
        return Response(status=status.HTTP_204_NO_CONTENT)
    if request.method == "PATCH":
        body = valid(serializers.ClusterChange, request)
        found = services.change_cluster(by=actor, cluster_id=found.pk, fields=body)
    return Response(documents.cluster(found, whole=actor.is_super_admin))


@extend_schema(methods=["POST"], operation_id="test_cluster", request=None, responses=answers.ExaminedAnswer)
@api_view(["POST"])
def probe(request: Request, cluster_id: UUID) -> Response:
    """Whether the cluster can be reached, and what keeps sessions from running there.

    By its beats; one that we write to is asked now, and its findings say in words what is missing and what to do.
    """
    actor = me(request)
    found = _visible(actor, cluster_id)
    may(actor, Act.MANAGE_CLUSTERS).require()
    problem, findings = _examined(found)
    is_asked = found.kind == Cluster.Kind.KUBE
    return Response(
        {
            "reachable": problem is None if is_asked else found.state == Cluster.State.CONNECTED,
            "problem": problem,
            "state": found.state,
            "last_beat_at": documents.time(found.last_beat_at),
            "findings": [documents.finding(each) for each in findings],
        }
    )


def _examined(found: Cluster) -> tuple[str | None, tuple[Finding, ...]]:
    """What keeps us from writing to it, in an operator's words (never what a kubeconfig says), and what else is wrong."""
    try:
        port_of(found).observe()
        return None, examine(found, now=clock.now())
    except PortError as error:
        return str(error), ()


@extend_schema(
    methods=["POST"],
    operation_id="issue_cluster_token",
    request=serializers.TokenWish,
    responses={201: answers.TokenAnswer},
)
@api_view(["POST"])
def token(request: Request, cluster_id: UUID) -> Response:
    """A first token for one of the cluster's programs, shown this once."""
    actor = me(request)
    body = valid(serializers.TokenWish, request)
    issued = services.issue_cluster_token(by=actor, cluster_id=_visible(actor, cluster_id).pk, scope=body["scope"])
    return Response(issued.as_dict(), status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})


@extend_schema(methods=["POST"], operation_id="revoke_cluster_tokens", request=None, responses={204: None})
@api_view(["POST"])
def revoke(request: Request, cluster_id: UUID) -> Response:
    """End every token of the cluster at once."""
    actor = me(request)
    services.revoke_tokens(by=actor, cluster_id=_visible(actor, cluster_id).pk)
    return Response(status=status.HTTP_204_NO_CONTENT)


@extend_schema(
    methods=["POST"],
    operation_id="confirm_cluster_sweep",
    request=serializers.SweepWish,
    responses=answers.ClusterAnswer,
)
@api_view(["POST"])
def confirm_sweep(request: Request, cluster_id: UUID) -> Response:
    """Say that the sweep shall end as many pods as it refuses to; the next pass does."""
    actor = me(request)
    ends = valid(serializers.SweepWish, request)["would_end"]
    found = services.confirm_sweep(by=actor, cluster_id=_visible(actor, cluster_id).pk, ends=ends)
    return Response(documents.cluster(found, whole=True))


@extend_schema(
    methods=["GET"],
    operation_id="list_nodes",
    parameters=parameters(documents.NODES),
    responses=page(answers.NodeAnswer),
)
@api_view(["GET"])
def nodes(request: Request, cluster_id: UUID) -> Response:
    """The cluster's nodes."""
    found = _managed(me(request), cluster_id)
    return listed(request, documents.nodes().filter(cluster=found), documents.NODES, documents.node)


@extend_schema(
    methods=["GET"],
    operation_id="list_cards",
    parameters=parameters(documents.CARDS),
    responses=page(answers.CardAnswer),
)
@api_view(["GET"])
def cards(request: Request, cluster_id: UUID) -> Response:
    """The cluster's cards, with what claims and foreign pods use of them."""
    found = _managed(me(request), cluster_id)
    return listed(request, documents.cards().filter(node__cluster=found), documents.CARDS, documents.card)


@extend_schema(methods=["POST"], operation_id="cordon_node", request=None, responses=answers.NodeAnswer)
@api_view(["POST"])
def cordon(request: Request, node_id: UUID) -> Response:
    """Place nothing new on a node."""
    return _cordoned(request, node_id, cordoned=True)


@extend_schema(methods=["POST"], operation_id="uncordon_node", request=None, responses=answers.NodeAnswer)
@api_view(["POST"])
def uncordon(request: Request, node_id: UUID) -> Response:
    """Use a node again."""
    return _cordoned(request, node_id, cordoned=False)


@extend_schema(
    methods=["POST"],
    operation_id="drain_node",
    request=serializers.DrainWish,
    responses={202: answers.NodeAnswer},
)
@api_view(["POST"])
def drain(request: Request, node_id: UUID) -> Response:
    """Have everything leave a node, to start elsewhere or to be stopped; it goes on until the node is empty or used again."""
    actor = me(request)
    may(actor, Act.MANAGE_CLUSTERS).require()
    body = valid(serializers.DrainWish, request)
    services.drain_node(by=actor, node_id=node_id, mode=body["mode"], reason=body["reason"])
    return Response(_node(node_id), status=status.HTTP_202_ACCEPTED)


@extend_schema(
    methods=["PUT"],
    operation_id="change_card_mode",
    request=serializers.ModeWish,
    responses={200: answers.CardAnswer, 202: answers.CardAnswer},
)
@api_view(["PUT"])
def mode(request: Request, card_id: UUID) -> Response:
    """Have a card, and with it all cards of its node, cut by MIG or shared again: 202 while that is under way.

    Nothing new is placed on them until inventory shows it done. Asking for what they have calls off what has not begun.
    """
    actor = me(request)
    may(actor, Act.MANAGE_CLUSTERS).require()
    body = valid(serializers.ModeWish, request)
    wish = services.ModeWish(body["mode"], body["whole_node"], body["drain"] or "", body["reason"])
    change = services.change_mode(by=actor, card_id=card_id, wish=wish)
    answered = documents.card(one(documents.cards().filter(pk=card_id).first(), "card"))
    return Response(answered, status=status.HTTP_202_ACCEPTED if change is not None else status.HTTP_200_OK)


def _cordoned(request: Request, node_id: UUID, *, cordoned: bool) -> Response:
    actor = me(request)
    may(actor, Act.MANAGE_CLUSTERS).require()
    services.cordon_node(by=actor, node_id=node_id, cordoned=cordoned)
    return Response(_node(node_id))


def _node(node_id: UUID) -> dict[str, object]:
    return documents.node(one(documents.nodes().filter(pk=node_id).first(), "node"))


def _visible(actor: User, cluster_id: UUID) -> Cluster:
    return one(visible_clusters(actor).filter(pk=cluster_id).first(), "cluster")


def _managed(actor: User, cluster_id: UUID) -> Cluster:
    found = _visible(actor, cluster_id)
    may(actor, Act.MANAGE_CLUSTERS).require()
    return found


# Pools ---------------------------------------------------------------------------------------------------------------


@extend_schema(
    methods=["GET"],
    operation_id="list_pools",
    parameters=parameters(documents.POOLS),
    responses=page(answers.PoolAnswer),
)
@extend_schema(
    methods=["POST"], operation_id="create_pool", request=serializers.NewPool, responses={201: answers.PoolAnswer}
)
@api_view(["GET", "POST"])
def pools(request: Request) -> Response:
    """Pools that the caller may use; make one."""
    actor = me(request)
    if request.method == "POST":
        body = valid(serializers.NewPool, request)
        made = services.create_pool(
            by=actor,
            cluster_id=body["cluster"],
            name=body["name"],
            is_shared=body["shared"],
            node_ids=body["nodes"],
        )
        return Response(_pool(actor, made), status=status.HTTP_201_CREATED)
    rows = page_of(visible_pools(actor), documents.POOLS, request)
    grants = grants_by_pool(actor, [row.pk for row in rows.rows])
    standing_in = _nodes_of(actor, [row.pk for row in rows.rows])
    return Response(
        answer(
            request,
            rows,
            lambda row: documents.pool(row, grants.get(row.pk, []), standing_in.get(row.pk, [])),
        )
    )


@extend_schema(methods=["GET"], operation_id="read_pool", responses=answers.PoolAnswer)
@extend_schema(
    methods=["PATCH"], operation_id="change_pool", request=serializers.PoolChange, responses=answers.PoolAnswer
)
@extend_schema(methods=["DELETE"], operation_id="delete_pool", responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def pool(request: Request, pool_id: UUID) -> Response:
    """One pool."""
    actor = me(request)
    found = one(visible_pools(actor).filter(pk=pool_id).first(), "pool")
    if request.method == "DELETE":
        services.delete_pool(by=actor, pool_id=found.pk)
        return Response(status=status.HTTP_204_NO_CONTENT)
    if request.method == "PATCH":
        body = valid(serializers.PoolChange, request)
        found = services.change_pool(by=actor, pool_id=found.pk, name=body.get("name"), node_ids=body.get("nodes"))
    return Response(_pool(actor, found))


@extend_schema(methods=["GET"], operation_id="list_pool_grants", responses=page(answers.PoolGrantAnswer))
@extend_schema(
    methods=["POST"], operation_id="grant_pool", request=serializers.NewGrant, responses={201: answers.PoolGrantAnswer}
)
@api_view(["GET", "POST"])
def grants(request: Request, pool_id: UUID) -> Response:
    """To whom a dedicated pool is open, as far as the caller sees them; open it to somebody."""
    actor = me(request)
    found = one(visible_pools(actor).filter(pk=pool_id).first(), "pool")
    if request.method == "POST":
        body = valid(serializers.NewGrant, request)
        made = services.grant_pool(
            by=actor, pool_id=found.pk, organisation_id=body["organisation"], group_id=body["group"]
        )
        return Response(documents.grant(made), status=status.HTTP_201_CREATED)
    results = [documents.grant(row) for row in visible_grants(actor).filter(pool=found).order_by("pk")]
    return Response({"results": results, "next": None, "count": len(results), "count_is_exact": True})


@extend_schema(methods=["DELETE"], operation_id="revoke_pool", responses={204: None})
@api_view(["DELETE"])
def grant(request: Request, pool_id: UUID, grant_id: UUID) -> Response:
    """Take a grant back."""
    actor = me(request)
    found = one(visible_grants(actor).filter(pk=grant_id, pool_id=pool_id).first(), "grant")
    services.revoke_pool(by=actor, grant_id=found.pk)
    return Response(status=status.HTTP_204_NO_CONTENT)


def _pool(actor: User, row: Pool) -> dict[str, object]:
    return documents.pool(
        row, grants_by_pool(actor, [row.pk]).get(row.pk, []), _nodes_of(actor, [row.pk]).get(row.pk, [])
    )


def _nodes_of(actor: User, pool_ids: list[UUID]) -> dict[UUID, list[str]]:
    """The nodes that stand in pools, for who runs the metal; nobody else sees machines."""
    found: dict[UUID, list[str]] = {}
    rows: QuerySet[Node] = Node.objects.filter(pool_id__in=pool_ids, retired_at=None)
    if not actor.is_super_admin:
        return found
    for pool_id, node_id in rows.order_by("name").values_list("pool_id", "pk"):
        found.setdefault(pool_id, []).append(str(node_id))
    return found
