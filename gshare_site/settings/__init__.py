"""Settings of a running control plane. Tests use `gshare_site.settings.test`."""

from gshare_site.settings.base import *
