"""Settings of the internal listener: no browser, no cookies, no pages; any Host."""

from gshare_site.settings.base import *

ROOT_URLCONF = "gshare_site.urls_internal"
ALLOWED_HOSTS = ["*"]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "gshare_site.observability.RequestMetrics",
]
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024  # an inventory of some thousand cards
