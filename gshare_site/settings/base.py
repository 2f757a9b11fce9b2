"""Django's settings, derived from the typed configuration and from nothing else.

`settings.GSHARE` is that configuration: applications read their durations and limits there (`settings.GSHARE.hold_window`).
"""

from pathlib import Path

from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _

from gshare_site.config import Config
from gshare_site.environment import config, foreign_values
from gshare_site.logs import configure_logging
from gshare_site.services import database_settings, email_settings, redis_urls

BASE_DIR = Path(__file__).resolve().parent.parent.parent

GSHARE: Config = config()

DEBUG = False
GALLERY = DEBUG  # the page that shows every component, for who builds pages
SECRET_KEY = GSHARE.secret_key.get_secret_value()
SECRET_KEY_FALLBACKS = list(GSHARE.secret_key_fallbacks)
ALLOWED_HOSTS = [GSHARE.public_host]
ROOT_URLCONF = "gshare_site.urls"
ASGI_APPLICATION = "gshare_site.asgi.application"
AUTH_USER_MODEL = "accounts.User"
SILENCED_SYSTEM_CHECKS = [
    "models.W042",  # every primary key is a UUIDv7 that its model declares
    "security.W004",  # Strict-Transport-Security is sent where the public address is https, see below
    "security.W008",  # the redirect to https belongs to the proxy that ends TLS
]

INSTALLED_APPS = [
    "accounts",
    "billing",
    "catalog",
    "cluster",
    "sessions_app",
    "gshare_site",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "django_filters",
    "django_htmx",
    "django_cotton.apps.SimpleAppConfig",
    "template_partials.apps.SimpleAppConfig",
    "django_structlog",
    "csp",
    "axes",
    "accounts.admin_config.ConsoleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "gshare_site.origins.SameOriginWrites",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "gshare_site.observability.RequestMetrics",
    "gshare_site.instants.OneInstant",
    "csp.middleware.CSPMiddleware",
    "django_permissions_policy.PermissionsPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounts.middleware.Origin",
    "accounts.middleware.PasswordChangeFirst",
    "accounts.middleware.ReadersZone",
    "django_htmx.middleware.HtmxMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

COTTON_DIR = "components"
COTTON_ISOLATE_BY_DEFAULT = True
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.template.context_processors.tz",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "gshare_core.kit.htmx.presentation",
                "sessions_app.views.shell.shell",
            ],
            "builtins": [
                "django_cotton.templatetags.cotton",
                "template_partials.templatetags.partials",
                "django.templatetags.i18n",
                "django.templatetags.static",
                "gshare_core.kit.templatetags.gshare",
            ],
            "loaders": [
                (
                    "template_partials.loader.Loader",
                    [
                        (
                            "django.template.loaders.cached.Loader",
                            [
                                "django_cotton.cotton_loader.Loader",
                                "django.template.loaders.filesystem.Loader",
                                "django.template.loaders.app_directories.Loader",
                            ],
                        )
                    ],
                )
            ],
        },
    }
]

# Data -----------------------------------------------------------------------------------------------------------------
# Kubeconfigs that the environment itself carries: GSHARE_KUBECONFIG_<NAME>. Secrets, shown nowhere.
KUBECONFIGS = foreign_values("KUBECONFIG_")
DATABASES = {"default": database_settings(GSHARE.database_url.get_secret_value(), pool_max=GSHARE.database_pool_max)}
REDIS = redis_urls(GSHARE.redis_url.get_secret_value())
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "gshare_core.kit.live_layer.LiveLayer",
        "CONFIG": {"hosts": [REDIS.client], "prefix": "gshare-live"},
    }
}
CACHES = {
    "default": {
        "BACKEND": "gshare_core.kit.shared_cache.SharedRedisCache",
        "LOCATION": REDIS.client,
        "KEY_PREFIX": "gshare",
        # Without these a Redis that hangs would hang every request; one that does not answer in time lets everybody pass.
        "OPTIONS": {"socket_timeout": 0.5, "socket_connect_timeout": 0.5},
    }
}

# Identity and browser security ----------------------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "accounts.backends.AccountBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {"NAME": "accounts.password_rules.PlainPasswordValidator"},
]
PASSWORD_RESET_TIMEOUT = int(GSHARE.password_reset_ttl.total_seconds())
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

SESSION_ENGINE = "accounts.session_store"
SESSION_COOKIE_NAME = "__Host-sessionid"
SESSION_COOKIE_SECURE = True
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = int(GSHARE.console_session_ttl.total_seconds())
CSRF_COOKIE_NAME = "__Host-csrftoken"
CSRF_COOKIE_SECURE = True
CSRF_COOKIE_HTTPONLY = False
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_TRUSTED_ORIGINS = [GSHARE.public_url]
LANGUAGE_COOKIE_SECURE = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "gshare_core.kit.htmx.csrf_failure"
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if GSHARE.public_scheme == "https" else 0
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF, GSHARE.session_origin("*")],  # opening an application is a form that redirects there
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
        "manifest-src": [SELF],
    }
}
PERMISSIONS_POLICY: dict[str, list[str]] = {
    feature: []
    for feature in (
        "accelerometer",
        "browsing-topics",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "usb",
        "xr-spatial-tracking",
    )
}

AXES_FAILURE_LIMIT = GSHARE.login_attempts_max
AXES_COOLOFF_TIME = GSHARE.login_lock
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
AXES_DISABLE_ACCESS_LOG = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # else whoever keeps knocking keeps the owner out for ever
AXES_IPWARE_PROXY_COUNT = 0  # the ASGI edge has already put the believed address into REMOTE_ADDR
AXES_IPWARE_META_PRECEDENCE_ORDER = ["REMOTE_ADDR"]

EMAIL_BACKEND, EMAIL = email_settings(GSHARE.email_url.get_secret_value())
EMAIL_HOST, EMAIL_PORT = EMAIL.host, EMAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = EMAIL.user, EMAIL.password
EMAIL_USE_SSL = EMAIL.tls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = GSHARE.email_from

# REST -----------------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["accounts.api.authentication.ConsoleSession"],
    "EXCEPTION_HANDLER": "gshare_core.kit.problem.exception_handler",
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_THROTTLE_CLASSES": ["accounts.api.authentication.PersonalThrottle"],
    "DEFAULT_THROTTLE_RATES": {"user": GSHARE.rest_throttle},
    "COERCE_DECIMAL_TO_STRING": True,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "GShare",
    "DESCRIPTION": "Many people on one GPU: sessions, credits, limits, clusters.",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SERVE_AUTHENTICATION": ["accounts.api.authentication.ConsoleSession"],
    "ENUM_NAME_OVERRIDES": {
        "GroupRole": "accounts.api.serializers.GROUP_ROLE_CHOICES",
        "Role": "accounts.api.serializers.ROLE_CHOICES",
        "BudgetMode": "billing.models.BudgetMode",
        "SessionState": "sessions_app.api.answers.STATES",
        "SessionMode": "sessions_app.models.Mode",
        "PauseMode": "sessions_app.models.PauseMode",
        "AppName": "sessions_app.api.answers.APPS",
        "ClusterState": "cluster.models.Cluster.State",
        "ClusterKind": "cluster.models.Cluster.Kind",
        "CardMode": "cluster.models.Card.Mode",
        "MountMode": "sessions_app.api.answers.MOUNT_MODES",
        "ShareMode": "cluster.models.VolumeShare.Mode",
        "VolumeKind": "cluster.models.Volume.Kind",
        "VolumeAccess": "cluster.models.Volume.Access",
        "TransferKind": "billing.models.TransferKind",
    },
}

# Language, time, files ------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("ko", _("Korean"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [("dist", BASE_DIR / "static" / "dist")]
STATIC_ROOT = GSHARE.static_root
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if GSHARE.static_root
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = GSHARE.static_root is None
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440

# Logs -----------------------------------------------------------------------------------------------------------------
LOGGING_CONFIG = None
configure_logging(level=GSHARE.log_level, log_format=GSHARE.log_format)
