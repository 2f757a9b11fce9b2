"""The operator's environment, read once. Refuses a start with the name of what is missing, malformed or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from cluster.operator.substrates.local.users import SessionUsers
from gshare_core.contract import NAMESPACE_SESSIONS, NAMESPACE_SYSTEM

_PREFIX = "GSHARE_OPERATOR_"
NVML = Path("nvml")


class ConfigError(ValueError):
    """A variable is missing or wrong; the message names it."""


@dataclass(frozen=True, slots=True)
class Config:
    """What each variable means is in docs/internals/operator.md."""

    state: Path
    internal_url: str
    token_file: Path
    sessions: Path
    cards_file: Path | None
    session_users: SessionUsers
    session_python: Path | None
    ttyd: Path | None
    code_server: Path | None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Config:
        """The configuration in these variables. Raises `ConfigError`."""
        given = {name: value for name, value in environment.items() if value}
        _refuse_unknown(given, _LOCAL)
        state = _folder(given, "GSHARE_OPERATOR_STATE")
        return cls(
            state=state,
            internal_url=_url(given, "GSHARE_INTERNAL_URL"),
            token_file=_folder(given, "GSHARE_OPERATOR_TOKEN_FILE"),
            sessions=_path(given, "GSHARE_OPERATOR_SESSIONS") or state / "data",
            cards_file=_cards(given, "GSHARE_OPERATOR_CARDS_FILE"),
            session_users=_users(given, "GSHARE_OPERATOR_SESSION_USERS"),
            session_python=_program(given, "GSHARE_SESSION_PYTHON"),
            ttyd=_program(given, "GSHARE_TTYD"),
            code_server=_program(given, "GSHARE_CODE_SERVER"),
        )


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """What the operator needs to know of its cluster; `kubeconfig` None inside of it."""

    internal_url: str
    console_url: str
    token_file: Path
    namespace: str
    system_namespace: str
    kubeconfig: Path | None
    scheduler: str
    token_secret: str
    hami_namespace: str
    mig_image: str


_LOCAL = ("STATE", "TOKEN_FILE", "SUBSTRATE", "SESSIONS", "CARDS_FILE", "SESSION_USERS")
_KUBERNETES = (
    "TOKEN_FILE",
    "SUBSTRATE",
    "NAMESPACE",
    "SYSTEM_NAMESPACE",
    "KUBECONFIG",
    "SCHEDULER",
    "CONSOLE_URL",
    "TOKEN_SECRET",
    "HAMI_NAMESPACE",
    "MIG_IMAGE",
)


def is_for_kubernetes(environment: Mapping[str, str]) -> bool:
    """Which kind of cluster the operator is for. Raises `ConfigError` for one that it does not know."""
    kind = environment.get("GSHARE_OPERATOR_SUBSTRATE") or "local"
    if kind not in {"local", "kubernetes"}:
        raise ConfigError(f"GSHARE_OPERATOR_SUBSTRATE: local or kubernetes is needed, not {kind!r}")
    return kind == "kubernetes"


def kube_config_of(environment: Mapping[str, str]) -> KubeConfig:
    """The configuration of an operator for Kubernetes. Raises `ConfigError`."""
    given = {name: value for name, value in environment.items() if value}
    _refuse_unknown(given, _KUBERNETES)
    kubeconfig = _path(given, "GSHARE_OPERATOR_KUBECONFIG")
    if kubeconfig is not None and not kubeconfig.is_file():
        raise ConfigError(f"GSHARE_OPERATOR_KUBECONFIG: there is no file {kubeconfig}")
    return KubeConfig(
        internal_url=_url(given, "GSHARE_INTERNAL_URL"),
        console_url=_url(given, "GSHARE_OPERATOR_CONSOLE_URL"),
        token_file=_folder(given, "GSHARE_OPERATOR_TOKEN_FILE"),
        namespace=given.get("GSHARE_OPERATOR_NAMESPACE", NAMESPACE_SESSIONS),
        system_namespace=given.get("GSHARE_OPERATOR_SYSTEM_NAMESPACE", NAMESPACE_SYSTEM),
        kubeconfig=kubeconfig,
        scheduler=given.get("GSHARE_OPERATOR_SCHEDULER", "hami-scheduler"),
        token_secret=given.get("GSHARE_OPERATOR_TOKEN_SECRET", ""),
        hami_namespace=given.get("GSHARE_OPERATOR_HAMI_NAMESPACE", "kube-system"),
        mig_image=given.get("GSHARE_OPERATOR_MIG_IMAGE", ""),
    )


def _refuse_unknown(given: Mapping[str, str], names: tuple[str, ...]) -> None:
    known = {_PREFIX + name for name in names}
    unknown = sorted(name for name in given if name.startswith(_PREFIX) and name not in known)
    if unknown:
        raise ConfigError(f"{unknown[0]}: there is no such variable; known are {', '.join(sorted(known))}")


def _path(given: Mapping[str, str], name: str) -> Path | None:
    value = given.get(name)
    if value is None:
        return None
    path = Path(value)
    if not path.is_absolute():
        raise ConfigError(f"{name}: an absolute path is needed, not {value!r}")
    return path


def _folder(given: Mapping[str, str], name: str) -> Path:
    path = _path(given, name)
    if path is None:
        raise ConfigError(f"{name} is missing")
    return path


def _program(given: Mapping[str, str], name: str) -> Path | None:
    path = _path(given, name)
    if path is not None and not path.is_file():
        raise ConfigError(f"{name}: there is no program {path}")
    return path


def _cards(given: Mapping[str, str], name: str) -> Path | None:
    if given.get(name) == str(NVML):
        return NVML
    path = _path(given, name)
    if path is not None and not path.is_file():
        raise ConfigError(f"{name}: there is no file {path}")
    return path


def _users(given: Mapping[str, str], name: str) -> SessionUsers:
    value = given.get(name, SessionUsers.AUTO.value)
    try:
        return SessionUsers(value)
    except ValueError as error:
        raise ConfigError(f"{name}: one of {', '.join(SessionUsers)} is needed, not {value!r}") from error


def _url(given: Mapping[str, str], name: str) -> str:
    value = given.get(name)
    if value is None:
        raise ConfigError(f"{name} is missing")
    try:
        url = httpx.URL(value)
    except httpx.InvalidURL as error:
        raise ConfigError(f"{name}: {value!r} is not an address") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ConfigError(f"{name}: an address such as http://127.0.0.1:8001 is needed, not {value!r}")
    return value
