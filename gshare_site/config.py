"""Every setting of the control plane: name, type, default, meaning. `.env.example` is written from this file.

Guarantees: durations are timedeltas, lists are tuples, secrets do not print; a value is checked once, at the start. Nothing
here reads the environment: `gshare_site.environment` does, and refuses names that do not stand here.
"""

import ipaddress
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

from platformdirs import user_data_path
from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: Any) -> Any:
    """`90s`, `10m`, `24h`, `7d`, `1h30m` or plain seconds → timedelta; never negative."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return timedelta(seconds=float(text))
    if not re.fullmatch(r"(\d+(ms|s|m|h|d))+", text):
        raise ValueError("expected a duration such as 90s, 10m, 24h or 7d")
    return timedelta(seconds=sum(int(n) * UNITS[u] for n, u in re.findall(r"(\d+)(ms|s|m|h|d)", text)))


def format_duration(value: timedelta) -> str:
    """The shortest spelling that `parse_duration` reads back: 3600 s → 1h."""
    seconds = value.total_seconds()
    for unit in ("d", "h", "m", "s"):
        if seconds and seconds % UNITS[unit] == 0 and not (unit == "d" and seconds < 2 * UNITS["d"]):
            return f"{int(seconds // UNITS[unit])}{unit}"
    return f"{int(seconds * 1000)}ms"


def split_list(value: Any) -> Any:
    """Comma-separated text → tuple of non-empty entries."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(parse_duration), Field(ge=timedelta(0))]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_list)]


def seconds(amount: float) -> timedelta:
    return timedelta(seconds=amount)


def minutes(amount: float) -> timedelta:
    return timedelta(minutes=amount)


def setting(default: Any, description: str, **bounds: Any) -> Any:
    """A field with its meaning; the description is what `.env.example` shows."""
    return Field(default=default, description=description, **bounds)


def default_home() -> Path:
    """A folder of the user's own; root's is one that other users can pass through."""
    return Path("/var/lib/gshare") if os.geteuid() == 0 else user_data_path("gshare", appauthor=False)


class Place(BaseSettings):
    """Where the control plane is, and where it finds its services."""

    public_url: str = setting("", "Address of the console as browsers see it. Default: http://localhost:<GSHARE_PORT>.")
    sessions_domain: str = setting(
        "",
        "Domain below which every session has its own host, <session>.<domain>. In production another registrable domain"
        " than the console's. Default: localhost.",
    )
    port: int = setting(8000, "Port of the public listener of the embedded default.", ge=1, le=65534)
    bind: str = setting("127.0.0.1", "Address the public listener binds to in the embedded default.")
    internal_bind: str = setting("", "host:port of the internal listener. Default: 127.0.0.1 and GSHARE_PORT + 1.")
    internal_url: str = setting(
        "", "How clusters reach the internal listener. Default: http:// and GSHARE_INTERNAL_BIND."
    )
    trusted_proxies: Names = setting(
        (),
        "Addresses or networks of the proxies in front whose X-Forwarded-For and -Proto are believed, comma separated.",
    )
    time_zone: str = setting("UTC", "IANA zone of monthly grants, and of people who chose none.")
    home: Path = Field(
        default_factory=default_home,
        description="Folder of the embedded default: database, keys, sessions, logs. Default: ~/.local/share/gshare, for root"
        " /var/lib/gshare (root's sessions run as other users and must reach their folders).",
    )
    database_url: SecretStr = setting(
        SecretStr(""), "postgresql://user:password@host:port/name of the serving role. Empty: the embedded PostgreSQL."
    )
    migration_database_url: SecretStr = setting(
        SecretStr(""),
        "The same database for the role that owns and migrates the tables. Only migrate_all and grant use it.",
    )
    redis_url: SecretStr = setting(SecretStr(""), "redis://… or unix:///… of Redis or Valkey. Empty: the embedded one.")
    database_pool_max: int = setting(
        16, "Most connections one web process keeps to PostgreSQL; 0: no pool.", ge=0, le=1000
    )
    admissions_max: int = setting(
        4,
        "Creates and resumes one web process works on at a time, at most half of its connections; the others wait without"
        " a connection.",
        ge=1,
        le=1000,
    )
    admission_patience: Duration = setting(
        seconds(45), "They wait for so long, then 503: less than proxies in front wait for an answer (often 60 s)."
    )
    web_processes: int = setting(1, "Web processes of the embedded default; they share one socket.", ge=1, le=32)
    worker_concurrency: int = setting(2, "Processes of the embedded worker.", ge=1, le=64)
    static_root: Path | None = setting(
        None,
        "Folder of collected static files (manage.py collectstatic), served under hashed names that browsers keep for ever."
        " Empty: served as they were built in the checkout.",
    )
    session_python: Path | None = setting(
        None, "Python interpreter with JupyterLab for local sessions. Default: the environment that `make setup` makes."
    )
    ttyd: Path | None = setting(
        None, "ttyd binary for local terminals. Default: the one in that environment, else on PATH."
    )
    code_server: Path | None = setting(None, "code-server binary for local sessions. Default: on PATH; not needed.")
    log_format: Literal["console", "json"] = setting("console", "How log lines look.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = setting("INFO", "Least level that is logged.")


class Identity(BaseSettings):
    """Secrets, signing in, the first administrator."""

    secret_key: SecretStr = setting(
        SecretStr(""), "Signs cookies and links; 32 characters or more. The embedded default makes one."
    )
    secret_key_fallbacks: Names = setting((), "Former secret keys that are still accepted, comma separated.")
    signing_key_dir: Path | None = setting(
        None, "Folder of the private keys for cluster tokens. Default: $GSHARE_HOME/keys."
    )
    bootstrap_admin_email: str = setting("", "E-mail of the first super administrator, read by `manage.py bootstrap`.")
    bootstrap_admin_password: SecretStr = setting(SecretStr(""), "Its password, 12 characters or more.")
    initial_password_ttl: Duration = setting(timedelta(days=7), "How long an initial password can be used.")
    password_reset_ttl: Duration = setting(timedelta(hours=1), "How long a password reset link can be used.")
    login_attempts_max: int = setting(5, "Failed sign-ins of one e-mail from one address before a lock.", ge=1)
    login_lock: Duration = setting(minutes(15), "How long such a lock lasts.")
    console_session_ttl: Duration = setting(timedelta(days=14), "How long a sign-in lasts without use.")
    email_url: SecretStr = setting(
        SecretStr(""), "smtp://user:password@host:port (smtps:// for TLS). Empty: mails are logged."
    )
    email_from: str = setting("GShare <gshare@localhost>", "Sender of mails.")
    rest_throttle: str = setting("600/min", "Requests to the REST interface one person may make.")


class Lifecycle(BaseSettings):
    """Deadlines of the session's life (every transient state has one)."""

    start_timeout: Duration = setting(minutes(10), "Longest `starting`, image pull apart.")
    pull_timeout: Duration = setting(minutes(30), "Longest image pull; it is not billed.")
    end_timeout: Duration = setting(
        minutes(3), "Longest `pausing` and `stopping` before force (on a Ready node) or orphaning."
    )
    yield_base: Duration = setting(seconds(30), "Longest `yielding` and `resuming`, the moving of memory apart.")
    yield_rate: int = setting(500, "GPU memory is expected to move to the host at so many MB/s.", ge=1)
    restore_rate: int = setting(1000, "… and back at so many.", ge=1)
    auto_resume_retry: Duration = setting(
        minutes(1), "A session that resumes by itself and cannot yet is tried again after so long."
    )
    auto_resume_pause: Duration = setting(minutes(10), "Least time between two resumes of a session by itself.")
    stop_grace: Duration = setting(seconds(120), "What a session's processes get between being asked and being killed.")
    start_attempts_max: int = setting(3, "A start that ended without fault of the image is tried so often.", ge=1)
    vanish_window: Duration = setting(minutes(10), "A session that vanishes twice within this has failed.")
    refusals_ttl: Duration = setting(timedelta(days=30), "How long refused attempts are kept.")
    idempotency_ttl: Duration = setting(timedelta(hours=24), "How long an Idempotency-Key is remembered.")
    placement_retries: int = setting(3, "Conflicting placements are tried again so often before queueing.", ge=0)
    queue_sweep_period: Duration = setting(seconds(10), "How often the queue is swept without a hint.")
    reconcile_period: Duration = setting(seconds(10), "How often the reconciling sweep runs.")
    intent_settle: Duration = setting(
        minutes(5), "An intent closes only on a pass that finds nothing this long after the change that made it."
    )


class Line(BaseSettings):
    """The queue: who comes first, and when a place is kept."""

    reserve_after: Duration = setting(
        minutes(10), "A head that has waited so long gets a place kept, which only drains towards it."
    )
    min_runtime: Duration = setting(
        minutes(10), "A preemptible session is asked to make room for a higher priority only when it has run so long."
    )
    preempt_again_after: Duration = setting(
        timedelta(hours=1), "The same session makes room for the same person's sessions again only after so long."
    )
    outlook_period: Duration = setting(seconds(30), "How often the estimates of those in line are made anew.")
    use_half_life: Duration = setting(timedelta(days=7), "Card hours count half after so long, for the place in line.")
    use_period: Duration = setting(minutes(10), "How often recent use is taken in.")
    use_penalty_own: Duration = setting(seconds(60), "How much later an hour of a card of one's own puts one in line.")
    use_penalty_group: Duration = setting(seconds(5), "The same for an hour of one's group.")
    use_penalty_max: Duration = setting(minutes(60), "How much later recent use puts somebody in line at most.")


class Money(BaseSettings):
    """Holds, metering, prices."""

    hold_window: Duration = setting(minutes(60), "A hold is the estimate for this long.")
    grace: Duration = setting(minutes(10), "The last part of a hold that could not be topped up: the warning period.")
    low_balance: Duration = setting(
        timedelta(hours=2), "Who runs something is told when his credits last for less than this."
    )
    meter_period: Duration = setting(seconds(60), "How often due charges, top-ups and pauses are looked for.")
    refill_period: Duration = setting(minutes(5), "How often monthly grants that are due are looked for.")
    meter_batch: int = setting(1000, "Runs charged in one transaction.", ge=1)
    trial_period: Duration = setting(
        minutes(10), "How often the trial balance compares what came after the last one that agreed."
    )
    trial_full_period: Duration = setting(timedelta(days=7), "How often the trial balance reads the whole ledger.")


class Clusters(BaseSettings):
    """Callbacks, tokens, silence."""

    cluster_suspect_after: Duration = setting(seconds(90), "A cluster without a beat for so long is suspect.")
    cluster_lost_after: Duration = setting(minutes(5), "… and lost: its sessions go to `lost`.")
    node_lost_after: Duration = setting(minutes(5), "A node that is not Ready for so long is lost.")
    drift_settle: Duration = setting(
        minutes(5),
        "How long pods, HAMi and claims may disagree about a card before it is alarmed; starts take a moment.",
    )
    deliver_period: Duration = setting(
        seconds(5), "How often documents that no hint handed over go to the clusters that do not fetch them."
    )
    mode_period: Duration = setting(
        seconds(5), "How often changes of cards between HAMi's core and MIG are looked after."
    )
    mode_empty_within: Duration = setting(
        timedelta(hours=1),
        "A card that shall be cut another way has to be empty within so long, or the change has failed.",
    )
    mode_answer_within: Duration = setting(
        minutes(10), "An operator that has said nothing of a mode change for so long is asked no more: it is withdrawn."
    )
    mode_done_within: Duration = setting(
        minutes(60), "A mode change that the operator has begun has to be done within so long, or it has failed."
    )
    sweep_period: Duration = setting(seconds(30), "How often what clusters have is compared with what is wanted.")
    sweep_settle: Duration = setting(
        seconds(60), "A run that is not listed is asked for again when its document is older than this."
    )
    sweep_absurd_percent: int = setting(
        20,
        "The sweep refuses to end more of what a cluster runs than this percentage, unless an administrator confirms."
        " Up to two ends that the database itself knows of are always believed.",
        ge=0,
        le=100,
    )
    heartbeat_period: Duration = setting(seconds(10), "The internal listener stamps so often that it listens.")
    clock_tolerance: Duration = setting(
        seconds(1), "Callbacks whose sent_at differs by more are shifted by the difference."
    )
    cluster_token_ttl: Duration = setting(timedelta(hours=24), "How long a cluster token is valid.")
    cluster_token_renewal_max: Duration = setting(timedelta(days=30), "How long one issue can be renewed.")
    cluster_token_leeway: Duration = setting(seconds(60), "Difference of clocks under which tokens verify.")
    signing_key_overlap: Duration = setting(timedelta(days=2), "How long a rotated key is still published.")
    volume_undo: Duration = setting(timedelta(hours=24), "How long the deletion of a volume can be taken back.")
    desired_wait_max: Duration = setting(seconds(30), "Longest long poll for desired documents.")
    fleet_reread_period: Duration = setting(minutes(5), "How often followers of the fleet re-read everything.")
    kubeconfig_dir: Path | None = setting(None, "Folder in which kubeconfig references are looked up by name.")
    kube_service_account: Path = setting(
        Path("/var/run/secrets/kubernetes.io/serviceaccount"),
        "Token and authority of the control plane in the cluster that it runs in, for kubeconfigs kept there as Secrets.",
    )
    kube_local_addresses: bool = setting(
        False,
        "Whether kubeconfigs may lead to loopback and link-local addresses (never to a cloud's metadata address).",
    )
    kube_connect_timeout: Duration = setting(seconds(3), "How long connecting to a Kubernetes API server may take.")
    kube_read_timeout: Duration = setting(
        seconds(10), "How long such a server may be silent in the middle of an answer."
    )
    kube_call_timeout: Duration = setting(seconds(30), "How long a whole answer may take.")
    kube_circuit_failures: int = setting(
        3, "After so many calls in a row without an answer a cluster is left alone.", ge=1
    )
    kube_circuit_pause: Duration = setting(seconds(5), "… for so long, doubled each time that it still does not answer")
    kube_circuit_pause_max: Duration = setting(seconds(60), "… up to this.")


class Access(BaseSettings):
    """Reaching a running session, and live pages."""

    access_link_ttl: Duration = setting(seconds(60), "How long a one-time link can be redeemed.")
    access_cookie_ttl: Duration = setting(timedelta(hours=1), "How long a session's access cookie lasts without use.")
    access_cookie_max: Duration = setting(timedelta(hours=12), "… and at most.")
    access_recheck: Duration = setting(seconds(2), "Open websockets of a session are asked for again so often.")
    access_cache_ttl: Duration = setting(seconds(2), "How long an answer of `verify` may be reused.")
    admin_open_ttl: Duration = setting(minutes(10), "How long an administrator's opening of somebody's session lasts.")
    admin_open_enabled: bool = setting(True, "Whether administrators may open other people's sessions at all.")
    live_ping_period: Duration = setting(seconds(20), "Heartbeat of live websockets.")
    live_recheck_period: Duration = setting(seconds(60), "How often a live subscription's right is checked again.")
    live_coalesce: Duration = setting(seconds(1), "Pushes of one topic are merged within this.")


class Config(Place, Identity, Lifecycle, Line, Money, Clusters, Access):
    """All of it, with the defaults that follow from other settings filled in."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, validate_default=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `environment.load` hands over: nothing is read behind its scan."""
        return (init_settings,)

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, values: dict[str, Any]) -> dict[str, Any]:
        port = str(values.get("port", 8000))
        internal_port = int(port) + 1 if port.isdecimal() else 8001
        values.setdefault("public_url", f"http://localhost:{port}")
        values.setdefault("sessions_domain", "localhost")
        values.setdefault("internal_bind", f"127.0.0.1:{internal_port}")
        values.setdefault("internal_url", f"http://{values['internal_bind']}")
        return values

    @field_validator(
        "home",
        "static_root",
        "session_python",
        "ttyd",
        "code_server",
        "signing_key_dir",
        "kubeconfig_dir",
        "kube_service_account",
    )
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value is not None else None

    @field_validator("public_url", "internal_url")
    @classmethod
    def _is_origin(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise ValueError("expected an address such as https://gshare.example, without a path")
        return value.rstrip("/")

    @field_validator("internal_bind")
    @classmethod
    def _is_bind(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("expected host:port")
        return value

    @field_validator("sessions_domain")
    @classmethod
    def _is_domain(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?", value):
            raise ValueError("expected a domain name such as sessions.example, without scheme and port")
        return value

    @field_validator("time_zone")
    @classmethod
    def _is_zone(cls, value: str) -> str:
        if value not in available_timezones():
            raise ValueError("expected an IANA time zone such as Europe/Berlin")
        return str(ZoneInfo(value))

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            ipaddress.ip_network(entry, strict=False)
        return value

    @field_validator("secret_key")
    @classmethod
    def _is_long(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value()) < 32:
            raise ValueError("expected at least 32 characters")
        return value

    @property
    def admissions_abreast(self) -> int:
        """Creates and resumes at a time in one web process: whatever is asked for, pages keep half of the connections."""
        most = max(1, self.database_pool_max // 2) if self.database_pool_max else self.admissions_max
        return min(self.admissions_max, most)

    @property
    def public_host(self) -> str:
        """Host of the console without port."""
        return urlsplit(self.public_url).hostname or ""

    @property
    def public_scheme(self) -> str:
        return urlsplit(self.public_url).scheme

    @property
    def sessions_netloc(self) -> str:
        """Sessions domain with the console's port where that is not the scheme's own."""
        port = urlsplit(self.public_url).port
        return f"{self.sessions_domain}:{port}" if port else self.sessions_domain

    def session_origin(self, session_id: str) -> str:
        """Origin of one session: http://<id>.localhost:8000 embedded, https://<id>.<sessions domain> in production."""
        return f"{self.public_scheme}://{session_id}.{self.sessions_netloc}"

    @property
    def keys_path(self) -> Path:
        return self.signing_key_dir or self.home / "keys"
