"""The internal listener's addresses; `access/verify` never gets here (see asgi_internal)."""

from django.urls import URLPattern, URLResolver, include, path

from gshare_site import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("", include("cluster.callbacks.urls")),
    path("", include("sessions_app.api.internal_urls")),
]
