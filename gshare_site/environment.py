"""The environment as typed configuration: one scan, one parse, one error type.

Guarantees: every `GSHARE_` name that is present is either a documented setting, a name another GShare process reads, or a
service link that Kubernetes injected (ignored with a log line). Anything else stops the start, named. `GSHARE_X_FILE` gives
the content of a file as `GSHARE_X`, for every setting. Values are never part of an error, only names.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError

from gshare_site.config import Config

logger = logging.getLogger(__name__)

PREFIX = "GSHARE_"
FILE_SUFFIX = "_FILE"

#: Below GSHARE_HOME: addresses and secret key of the embedded services, written by `manage.py up`.
EMBEDDED_FILE = "embedded.env"

#: Read by other processes or tools that share the environment (operator, agent, yielder, kubeconfig resolver, make).
FOREIGN_PREFIXES = ("OPERATOR_", "AGENT_", "YIELDER_", "KUBECONFIG_", "TEST_", "MAKE_")
FOREIGN_NAMES = frozenset({"HAMI_SCHEDULER"})

#: What Kubernetes injects for a Service that is named like us (`gshare-web` → GSHARE_WEB_SERVICE_HOST, …_PORT_80_TCP, …).
SERVICE_LINK_NAME = re.compile(r"(^|_)SERVICE_HOST$|(^|_)SERVICE_PORT(_|$)|(^|_)PORT_\d+_")
SERVICE_LINK_VALUE = re.compile(r"^(tcp|udp)://")


class ConfigError(Exception):
    """The environment cannot be used; the message names the variables and never shows a value."""


def is_service_link(name: str, value: str) -> bool:
    """Whether the variable (name without prefix) is a Kubernetes service link rather than one of ours."""
    return bool(SERVICE_LINK_NAME.search(name) or SERVICE_LINK_VALUE.match(value))


def load(
    environ: Mapping[str, str] | None = None, env_file: Path | None = None, fallback_file: Path | None = None
) -> Config:
    """Parse the environment, over `env_file`, over `fallback_file` (where they exist). Raises ConfigError; reads nothing else."""
    merged = _merge(os.environ if environ is None else environ, (fallback_file, env_file))
    ours = {
        name: value
        for name, value in _without_service_links(merged).items()
        if name.lower() in Config.model_fields or not (name.startswith(FOREIGN_PREFIXES) or name in FOREIGN_NAMES)
    }
    values = _read_files(ours)
    unknown = sorted(name for name in values if name.lower() not in Config.model_fields)
    if unknown:
        raise ConfigError(_describe_unknown(unknown))
    given: dict[str, Any] = {name.lower(): value for name, value in values.items() if value != ""}
    try:
        return Config(**given)
    except ValidationError as error:
        raise ConfigError(_describe_invalid(error)) from None


def require_serving(config: Config) -> None:
    """Stop a process that is about to serve without what only a deployment can choose. Raises ConfigError."""
    if not config.secret_key.get_secret_value():
        raise ConfigError(
            "GSHARE_SECRET_KEY is not set (manage.py generate_secrets makes one; `manage.py up` keeps its own)"
        )
    if not config.database_url.get_secret_value():
        raise ConfigError("GSHARE_DATABASE_URL is not set (`manage.py up` brings its own PostgreSQL)")


@cache
def config() -> Config:
    """The configuration of this process, parsed once: environment, over `.env`, over what a running `manage.py up` left.

    So `manage.py trial_balance` finds the embedded services without being told; with GSHARE_DATABASE_URL it looks nowhere else.
    """
    given = load(env_file=default_env_file())
    left = given.home / EMBEDDED_FILE
    if given.database_url.get_secret_value() or not os.access(left, os.R_OK):
        return given
    return load(env_file=default_env_file(), fallback_file=left)


def foreign_values(prefix: str) -> dict[str, str]:
    """What the environment (over `.env`) says to another process of ours, by full name: `foreign_values("OPERATOR_")`."""
    merged = _merge(os.environ, (default_env_file(),))
    return {f"{PREFIX}{name}": value for name, value in merged.items() if name.startswith(prefix) and value}


def default_env_file() -> Path:
    """Where values for this checkout are kept, unless GSHARE_ENV_FILE names another file; absent in containers."""
    return Path(os.environ.get("GSHARE_ENV_FILE") or Path(__file__).resolve().parent.parent / ".env")


def _merge(environ: Mapping[str, str], files: Iterable[Path | None]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for file in files:
        if file is not None and file.is_file():
            merged.update({name: value for name, value in dotenv_values(file).items() if value is not None})
    merged.update(environ)
    return {
        name.removeprefix(PREFIX): value
        for name, value in merged.items()
        if name.startswith(PREFIX) and name != "GSHARE_ENV_FILE"
    }


def _without_service_links(values: Mapping[str, str]) -> dict[str, str]:
    links = {name for name, value in values.items() if is_service_link(name, value)}
    for name in sorted(links):
        logger.info("ignored %s%s: a service link injected by Kubernetes", PREFIX, name)
    return {name: value for name, value in values.items() if name not in links}


def _read_files(values: Mapping[str, str]) -> dict[str, str]:
    result: dict[str, str] = {}
    for name, value in values.items():
        target = name.removesuffix(FILE_SUFFIX)
        if target == name or name.lower() in Config.model_fields or target.lower() not in Config.model_fields:
            result[name] = value
            continue
        if not value:
            continue
        if values.get(target):
            raise ConfigError(f"{PREFIX}{target} and {PREFIX}{name} are both set; set one of them")
        try:
            result[target] = Path(value).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{PREFIX}{name}: cannot read the file it names ({type(error).__name__})") from None
    return result


def _describe_unknown(names: Iterable[str]) -> str:
    known = [field.upper() for field in Config.model_fields]
    parts = []
    for name in names:
        close = get_close_matches(name.removesuffix(FILE_SUFFIX), known, n=1)
        parts.append(f"{PREFIX}{name}" + (f" (did you mean {PREFIX}{close[0]}?)" if close else ""))
    return "unknown setting " + ", ".join(parts) + "; every setting is described in .env.example"


def _describe_invalid(error: ValidationError) -> str:
    parts = []
    for fault in error.errors(include_input=False, include_url=False, include_context=False):
        field = str(fault["loc"][0]) if fault["loc"] else ""
        message = fault["msg"].removeprefix("Value error, ")
        parts.append(f"{PREFIX}{field.upper()}: {message}" if field else message)
    return "; ".join(parts)
