"""The public listener's addresses. What only clusters and operators may see is in `gshare_site.urls_internal`."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("django-admin/", admin.site.urls),
]
