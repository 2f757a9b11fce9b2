"""Addresses of the pages of the metal."""

from django.urls import path

from cluster.views import admin_clusters

urlpatterns = [
    path("admin/clusters/", admin_clusters.clusters, name="admin_clusters"),
    path("admin/clusters/<uuid:cluster_id>/", admin_clusters.cluster, name="admin_cluster"),
    path("admin/nodes/<uuid:node_id>/<slug:verb>/", admin_clusters.act, name="admin_node_act"),
]
