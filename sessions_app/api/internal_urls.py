"""Paths of the internal listener that sessions receive."""

from django.urls import path

from sessions_app import access_views
from sessions_app.api import callbacks

urlpatterns = [
    path("internal/v1/sessions/<uuid:session_id>/status", callbacks.status),
    path("internal/v1/inventory", callbacks.inventory),
    path("internal/v1/agent/samples", callbacks.samples),
    path("internal/v1/access/verify", access_views.verify),  # type: ignore[arg-type]  # ASGI: the router answers it
]
