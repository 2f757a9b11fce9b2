"""The console's addresses by name, with nothing behind them: enough to render every page from samples."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from gshare_site.gallery import urlpatterns as gallery


def nothing(request: HttpRequest, **kwargs: object) -> HttpResponse:
    """Stands behind every address."""
    return HttpResponse()


urlpatterns = [
    path("", nothing, name="dashboard"),
    path("login/", nothing, name="login"),
    path("logout/", nothing, name="logout"),
    path("password/", nothing, name="password_change"),
    path("sessions/", nothing, name="session_list"),
    path("sessions/new/", nothing, name="session_new"),
    path("sessions/bulk/", nothing, name="session_bulk"),
    path("sessions/<str:pk>/", nothing, name="session_detail"),
    path("sessions/<str:pk>/", nothing, name="session"),
    path("sessions/<str:pk>/logs/", nothing, name="session_logs"),
    path("sessions/<str:pk>/open/", nothing, name="session_open"),
    path("sessions/<str:pk>/<slug:act>/", nothing, name="session_act"),
    path("queue/", nothing, name="queue"),
    path("wallet/", nothing, name="wallet"),
    path("wallet/request/", nothing, name="wallet_request"),
    path("volumes/", nothing, name="volume_list"),
    path("volumes/<str:pk>/resize/", nothing, name="volume_resize"),
    path("volumes/<str:pk>/shares/", nothing, name="volume_shares"),
    path("volumes/<str:pk>/shares/<str:share>/end/", nothing, name="volume_share_end"),
    path("volumes/<str:pk>/delete/", nothing, name="volume_delete"),
    path("volumes/<str:pk>/restore/", nothing, name="volume_restore"),
    path("notifications/", nothing, name="notifications"),
    path("account/", nothing, name="account"),
    path("account/theme/", nothing, name="theme"),
    path("account/sign-out-everywhere/", nothing, name="sign_out_everywhere"),
    path("i18n/", include("django.conf.urls.i18n")),
    *gallery,
]
