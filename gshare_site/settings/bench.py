"""Settings of the web process of `bench pages`: those of a running control plane, with a measure around every request."""

from gshare_site.settings.base import *
from gshare_site.settings.base import MIDDLEWARE

MIDDLEWARE = ["gshare_site.benches.page_server.Measured", *MIDDLEWARE]
