"""Addresses of PostgreSQL, Redis and the mail server in the spelling each library wants.

Pure: text in, settings out; a malformed address raises ConfigError that names the variable and not the value.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gshare_site.environment import ConfigError

APPLICATION_NAME = "gshare"


def database_settings(url: str, *, pool_max: int = 0, variable: str = "GSHARE_DATABASE_URL") -> dict[str, Any]:
    """Django's entry for a postgresql:// address; `pool_max` > 0 keeps a pool of that size.

    The statements that everything runs (`gshare_core.kit.rows`) are prepared at their third use on a connection;
    `?prepare_threshold=off` for a pooler that cannot pass them through.
    Without an address (a command that needs none) the entry is that of libpq's defaults.
    """
    parts = urlsplit(url or f"postgresql:///{APPLICATION_NAME}")
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigError(f"{variable}: expected postgresql://user:password@host:port/name")
    try:
        port = parts.port
    except ValueError:
        raise ConfigError(f"{variable}: the port is not a number") from None
    query = dict(parse_qsl(parts.query))
    prepared_after = _prepare_threshold(query.pop("prepare_threshold", "2"), variable)
    options: dict[str, Any] = {
        "application_name": APPLICATION_NAME,
        "prepare_threshold": prepared_after,
        "options": "-c idle_in_transaction_session_timeout=60s",
        **{name: value for name, value in query.items() if name not in ("host", "port")},
    }
    if pool_max and url:
        options["pool"] = {"min_size": 1, "max_size": pool_max, "timeout": 15, "max_idle": 120}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.get("host") or unquote(parts.hostname or ""),
        "PORT": query.get("port") or (str(port) if port else ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": "pool" in options,
        "OPTIONS": options,
        "ATOMIC_REQUESTS": False,
    }


def _prepare_threshold(text: str, variable: str) -> int | None:
    """After how many uses on a connection a statement is prepared; None for a pooler that cannot pass it through."""
    if text == "off":
        return None
    if not text.isdecimal():
        raise ConfigError(f"{variable}: prepare_threshold is a number of uses, or off")
    return int(text)


@dataclass(frozen=True)
class RedisUrls:
    """One server, spelled for redis-py and Channels (`client`) and for Celery (`broker`)."""

    client: str
    broker: str


def redis_urls(url: str) -> RedisUrls:
    """`redis://`, `rediss://` or `unix:///path` → both spellings. '' gives the usual port of this machine."""
    url = url or "redis://127.0.0.1:6379/0"
    scheme = urlsplit(url).scheme
    if scheme == "unix":
        return RedisUrls(client=url, broker="redis+socket" + url.removeprefix("unix"))
    if scheme not in ("redis", "rediss"):
        raise ConfigError("GSHARE_REDIS_URL: expected redis://, rediss:// or unix://")
    return RedisUrls(client=url, broker=url)


@dataclass(frozen=True)
class MailServer:
    host: str = ""
    port: int = 25
    user: str = ""
    password: str = ""
    tls: bool = False


def email_settings(url: str) -> tuple[str, MailServer]:
    """Django's backend and the server; '' writes mails to the log."""
    if not url:
        return "django.core.mail.backends.console.EmailBackend", MailServer()
    parts = urlsplit(url)
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        raise ConfigError("GSHARE_EMAIL_URL: expected smtp://user:password@host:port")
    tls = parts.scheme == "smtps"
    server = MailServer(
        host=parts.hostname,
        port=parts.port or (465 if tls else 25),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        tls=tls,
    )
    return "django.core.mail.backends.smtp.EmailBackend", server
