"""`/api/v1/volumes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.answers import page
from accounts.api.lists import parameters
from accounts.api.requests import me, one, valid
from accounts.standings import standing_of
from cluster import services
from cluster.api import answers, documents, serializers
from cluster.models import Volume
from cluster.visibility import visible_clusters
from cluster.volumes import held_volumes, may_manage, mount_modes, own_volumes, visible_volumes, volumes_in_scope
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit.lists import answer, page_of

if TYPE_CHECKING:
    from accounts.models import User

SCOPE = OpenApiParameter("scope", str, description="group:<id>, organisation:<id> or all, for administrators.")
DELETED = OpenApiParameter("deleted", bool, description="Those whose deletion can be taken back instead of live ones.")


@extend_schema(
    methods=["GET"],
    operation_id="list_volumes",
    parameters=[*parameters(documents.VOLUMES), SCOPE, DELETED],
    responses=page(answers.VolumeAnswer),
)
@extend_schema(
    methods=["POST"], operation_id="create_volume", request=serializers.NewVolume, responses={201: answers.VolumeAnswer}
)
@api_view(["GET", "POST"])
def volumes(request: Request) -> Response:
    """Volumes that the caller may mount, or those of a scope that he administers; make one."""
    actor = me(request)
    if request.method == "POST":
        made = services.create_volume(by=actor, wish=_wish(actor, valid(serializers.NewVolume, request)))
        return Response(_one(actor, made), status=status.HTTP_201_CREATED)
    scope = request.query_params.get("scope")
    rows = volumes_in_scope(actor, scope) if scope else own_volumes(actor.pk)
    asked = documents.volumes_asked_for(rows, request.query_params.get("deleted") in ("true", "1"))
    found = page_of(asked.select_related("owner"), documents.VOLUMES, request)
    modes, held = mount_modes(standing_of(actor.pk), found.rows), held_volumes(found.rows)

    def present(row: Volume) -> dict[str, Any]:
        return documents.volume(row, mode=modes.get(row.pk), in_use=row.pk in held)

    return Response(answer(request, found, present))


@extend_schema(methods=["GET"], operation_id="read_volume", responses=answers.VolumeAnswer)
@extend_schema(
    methods=["PATCH"], operation_id="change_volume", request=serializers.VolumeChange, responses=answers.VolumeAnswer
)
@extend_schema(methods=["DELETE"], operation_id="delete_volume", responses={204: None})
@api_view(["GET", "PATCH", "DELETE"])
def volume(request: Request, volume_id: UUID) -> Response:
    """One volume. It only grows; a deletion can be taken back for a day."""
    actor = me(request)
    found = _visible(actor, volume_id)
    if request.method == "DELETE":
        services.delete_volume(by=actor, volume_id=found.pk)
        return Response(status=status.HTTP_204_NO_CONTENT)
    if request.method == "PATCH":
        body = valid(serializers.VolumeChange, request)
        found = services.change_volume(
            by=actor, volume_id=found.pk, name=body.get("name"), size_gib=body.get("size_gib")
        )
    return Response(_one(actor, found))


@extend_schema(methods=["POST"], operation_id="restore_volume", request=None, responses=answers.VolumeAnswer)
@api_view(["POST"])
def restore(request: Request, volume_id: UUID) -> Response:
    """Take a deletion back."""
    actor = me(request)
    return Response(_one(actor, services.restore_volume(by=actor, volume_id=volume_id)))


@extend_schema(methods=["GET"], operation_id="list_volume_shares", responses=page(answers.VolumeShareAnswer))
@extend_schema(
    methods=["POST"],
    operation_id="share_volume",
    request=serializers.NewShare,
    responses={201: answers.VolumeShareAnswer},
)
@api_view(["GET", "POST"])
def shares(request: Request, volume_id: UUID) -> Response:
    """With whom a volume is shared, for who looks after it; share it."""
    actor = me(request)
    found = _visible(actor, volume_id)
    if request.method == "POST":
        body = valid(serializers.NewShare, request)
        made = services.share_volume(by=actor, volume_id=found.pk, wish=_share_wish(body))
        return Response(documents.share(made), status=status.HTTP_201_CREATED)
    if not may_manage(standing_of(actor.pk), found):
        raise DomainError("forbidden", _("Only who looks after the volume sees with whom it is shared."))
    rows = found.shares.select_related("user").order_by("created_at", "pk")
    results = [documents.share(row) for row in rows]
    return Response({"results": results, "next": None, "count": len(results), "count_is_exact": True})


@extend_schema(methods=["DELETE"], operation_id="end_volume_share", responses={204: None})
@api_view(["DELETE"])
def share(request: Request, volume_id: UUID, share_id: UUID) -> Response:
    """End a share: sessions that mount the volume by it are paused."""
    actor = me(request)
    services.end_share(by=actor, volume_id=_visible(actor, volume_id).pk, share_id=share_id)
    return Response(status=status.HTTP_204_NO_CONTENT)


@extend_schema(methods=["GET"], operation_id="list_volume_snapshots", responses={501: None})
@extend_schema(methods=["POST"], operation_id="create_volume_snapshot", request=None, responses={501: None})
@api_view(["GET", "POST"])
def snapshots(request: Request, volume_id: UUID) -> Response:
    """Snapshots do not exist yet."""
    _visible(me(request), volume_id)
    raise DomainError("not_implemented", _("Volumes have no snapshots yet."), remedy=_("Copy what you need."))


def _visible(actor: User, volume_id: UUID) -> Volume:
    return one(visible_volumes(actor).live().select_related("owner", "group").filter(pk=volume_id).first(), "volume")


def _one(actor: User, row: Volume) -> dict[str, Any]:
    mode = mount_modes(standing_of(actor.pk), [row]).get(row.pk)
    return documents.volume(row, mode=mode, in_use=row.pk in held_volumes([row]))


def _wish(actor: User, body: dict[str, Any]) -> services.VolumeWish:
    return services.VolumeWish(
        name=body["name"],
        kind=body["kind"],
        access=body["access"],
        size_gib=body["size_gib"],
        cluster_id=body["cluster"] or _only_cluster(actor),
        group_id=body["group"],
    )


def _only_cluster(actor: User) -> UUID:
    found = list(visible_clusters(actor).values_list("pk", flat=True)[:2])
    if not found:
        raise not_found("cluster")
    if len(found) > 1:
        raise invalid("cluster", _("Say on which cluster; there are several."))
    return found[0]


def _share_wish(body: dict[str, Any]) -> services.ShareWish:
    try:
        user_id = UUID(body["user"])
    except ValueError:
        return services.ShareWish(mode=body["mode"], email=body["user"], group_id=body["group"])
    return services.ShareWish(mode=body["mode"], user_id=user_id)
