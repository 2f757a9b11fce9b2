"""The public listener's addresses. What only clusters and operators may see is in `gshare_site.urls_internal`."""

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, re_path
from drf_spectacular.views import SpectacularAPIView

from accounts.views.account import account
from gshare_core.kit.problem import no_such_path
from sessions_app.views.limits import all_rows

handler400 = "gshare_site.error_pages.bad_request"
handler403 = "gshare_site.error_pages.permission_denied"
handler404 = "gshare_site.error_pages.page_not_found"
handler500 = "gshare_site.error_pages.server_error"

# What is asked most stands first: an address is compared with each before its own.
api: list[URLPattern | URLResolver] = [
    path("", include("sessions_app.api.urls")),
    path("", include("accounts.api.urls")),
    path("", include("billing.api.urls")),
    path("", include("catalog.api.urls")),
    path("", include("cluster.api.urls")),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include(api)),
    re_path(r"^api/", no_such_path),
    path("django-admin/", admin.site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
    path("account/", account, {"limit_rows": all_rows}, name="account"),
    path("", include("accounts.urls")),
    path("", include("sessions_app.views.urls")),
    path("", include("billing.views.urls")),
    path("", include("cluster.views.urls")),
]

if settings.GALLERY:
    urlpatterns.append(path("", include("gshare_site.gallery")))
