"""Paths below `/api/v1/` that this room answers."""

from __future__ import annotations

from django.urls import path

from cluster.api import metal, volumes

urlpatterns = [
    path("clusters", metal.clusters),
    path("clusters/<uuid:cluster_id>", metal.cluster),
    path("clusters/<uuid:cluster_id>/test", metal.probe),
    path("clusters/<uuid:cluster_id>/token", metal.token),
    path("clusters/<uuid:cluster_id>/revoke", metal.revoke),
    path("clusters/<uuid:cluster_id>/sweep", metal.confirm_sweep),
    path("clusters/<uuid:cluster_id>/nodes", metal.nodes),
    path("clusters/<uuid:cluster_id>/cards", metal.cards),
    path("nodes/<uuid:node_id>/cordon", metal.cordon),
    path("nodes/<uuid:node_id>/uncordon", metal.uncordon),
    path("nodes/<uuid:node_id>/drain", metal.drain),
    path("cards/<uuid:card_id>/mode", metal.mode),
    path("pools", metal.pools),
    path("pools/<uuid:pool_id>", metal.pool),
    path("pools/<uuid:pool_id>/grants", metal.grants),
    path("pools/<uuid:pool_id>/grants/<uuid:grant_id>", metal.grant),
    path("volumes", volumes.volumes),
    path("volumes/<uuid:volume_id>", volumes.volume),
    path("volumes/<uuid:volume_id>/restore", volumes.restore),
    path("volumes/<uuid:volume_id>/shares", volumes.shares),
    path("volumes/<uuid:volume_id>/shares/<uuid:share_id>", volumes.share),
    path("volumes/<uuid:volume_id>/snapshots", volumes.snapshots),
]
