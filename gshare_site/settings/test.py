"""Settings of the test suite: the same, with a fixed configuration, quick hashing and the test run's private services.

The addresses of PostgreSQL and Valkey are put in by tests/conftest.py before the first connection. A developer's own
settings do not change what the tests see; those that steer the run (which server, which binaries) are kept in `GIVEN`.
"""

import atexit
import os
import shutil
import tempfile

GIVEN = {name: value for name, value in os.environ.items() if name.startswith("GSHARE_")}
for _name in GIVEN:
    del os.environ[_name]
os.environ["GSHARE_ENV_FILE"] = os.devnull
os.environ["GSHARE_HOME"] = _home = tempfile.mkdtemp(prefix="gst-home-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ["GSHARE_LOG_LEVEL"] = "WARNING"
os.environ["GSHARE_SECRET_KEY"] = "tests-only-" + "0" * 40

from gshare_site.services import RedisUrls  # noqa: E402 -- the environment above must be set first
from gshare_site.settings.base import *  # noqa: E402 -- the environment above must be set first

GALLERY = True
ALLOWED_HOSTS = ["localhost", "testserver"]
REDIS = RedisUrls(client="redis://127.0.0.1:1/0", broker="memory://")
DATABASES["default"]["OPTIONS"].pop("pool", None)
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
WHITENOISE_AUTOREFRESH = True
