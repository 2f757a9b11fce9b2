"""Settings of a running control plane. Tests use `gshare_site.settings.test`.

Importing a module below this package imports this one first: it reads the environment only when it is itself what Django
was told to use, so that the tests' settings come before the first look at the environment.
"""

import os

if os.environ.get("DJANGO_SETTINGS_MODULE", __name__) == __name__:
    from gshare_site.settings.base import *
