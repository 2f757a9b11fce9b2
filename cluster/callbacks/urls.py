"""Addresses of the internal listener that the cluster application answers; from the root."""

from __future__ import annotations

from django.urls import path

from cluster.callbacks import views

urlpatterns = [
    path("internal/v1/token", views.renew_token, name="internal-token"),
    path("internal/v1/desired", views.desired, name="internal-desired"),
    path(".well-known/gshare-internal-jwks.json", views.jwks, name="internal-jwks"),
]
