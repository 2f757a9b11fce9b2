"""Names, labels and words that control plane and operator share, and the token that both compute."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from enum import StrEnum
from uuid import UUID

CONTRACT_VERSION = 1
ACCEPTED_VERSIONS = frozenset({CONTRACT_VERSION, CONTRACT_VERSION - 1} - {0})

API_GROUP = "gshare.io"
API_VERSION = f"{API_GROUP}/v1"
KIND_SESSION = "GShareSession"
KIND_MODE_CHANGE = "GpuModeChange"
PLURAL_SESSIONS = "gsharesessions"
PLURAL_MODE_CHANGES = "gpumodechanges"
FIELD_MANAGER = "gshare-control-plane"
# Keeps a session's resource until its operator says that nothing of it runs any more.
FINALIZER = f"{API_GROUP}/operator"

NAMESPACE_SYSTEM = "gshare-system"
NAMESPACE_SESSIONS = "gshare-sessions"
NAMESPACE_INFRA = "gshare-infra"

LABEL_SESSION = f"{API_GROUP}/session"
LABEL_RUN = f"{API_GROUP}/run"
LABEL_GROUP = f"{API_GROUP}/group"
LABEL_ORGANISATION = f"{API_GROUP}/organisation"

HEADER_STALE = "X-GShare-Stale"
TOKEN_AUDIENCE = "gshare-internal"  # noqa: S105 (a name, not a secret)
MESSAGE_BYTES = 2048

SESSION_PATTERN = re.compile(r"s-([0-9a-f]{32})")
MODE_CHANGE_PATTERN = re.compile(r"m-([0-9a-f]{32})")


def session_name(session: UUID) -> str:
    """The name of everything that belongs to a session: ``s-`` and its 32 hex digits; never reused."""
    return f"s-{session.hex}"


def session_of_name(name: str) -> UUID:
    """The session that a name made by `session_name` belongs to. Raises ValueError for any other name."""
    match = SESSION_PATTERN.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a session's name")
    return UUID(hex=match[1])


def mode_change_name(change: UUID) -> str:
    """The name of a mode change's resource: ``m-`` and its 32 hex digits; never reused."""
    return f"m-{change.hex}"


def mode_change_of_name(name: str) -> UUID:
    """The mode change that a name made by `mode_change_name` belongs to. Raises ValueError for any other name."""
    match = MODE_CHANGE_PATTERN.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a mode change's name")
    return UUID(hex=match[1])


def claim_name(volume: UUID) -> str:
    """The name of a volume's storage claim: ``vol-`` and its 32 hex digits."""
    return f"vol-{volume.hex}"


def access_secret_name(session: UUID) -> str:
    """The name of the secret that keeps a session's app token."""
    return f"{session_name(session)}-access"


def app_token(cluster_key: bytes, session: UUID, run: int) -> str:
    """The secret that a run's applications demand: HMAC-SHA256(cluster key, session ‖ run) in hex, 64 digits.

    The message is the session's canonical text, a full stop and the run in decimal. Both sides compute it, so it
    crosses no wire; another run has another token, so an old tab opens nothing.
    """
    return hmac.new(cluster_key, f"{session}.{run}".encode(), hashlib.sha256).hexdigest()


class Desired(StrEnum):
    """What the control plane wants of a run."""

    RUNNING = "Running"
    PAUSED = "Paused"
    YIELDED = "Yielded"
    STOPPED = "Stopped"


class Phase(StrEnum):
    """What an operator reports of a run."""

    STARTING = "starting"
    PULLING = "pulling"
    RUNNING = "running"
    YIELDED = "yielded"
    RESTORED = "restored"
    TERMINATING = "terminating"  # still alive, changes nothing
    EXITED = "exited"  # the program ended by itself, without an error
    FAILED = "failed"
    GONE = "gone"  # nothing of the run exists and the operator will make none


class Reason(StrEnum):
    """Why a run failed or is gone; `REASONS_OF` says which belongs where."""

    IMAGE_PULL_FAILED = "image_pull_failed"
    CRASH_LOOP = "crash_loop"
    CLAIM_MISMATCH = "claim_mismatch"
    NODE_LOCK = "node_lock"
    NODE_GONE = "node_gone"
    MOUNT_FAILED = "mount_failed"  # a volume cannot be mounted as it must be, such as read-only
    STOPPED = "stopped"
    VANISHED = "vanished"
    EVICTED = "evicted"
    DISK_EXCEEDED = "disk_exceeded"
    DRAINED = "drained"
    NODE_LOST = "node_lost"
    CLUSTER_STOPPED = "cluster_stopped"


REASONS_OF: Mapping[Phase, frozenset[Reason]] = {
    Phase.FAILED: frozenset(
        {
            Reason.IMAGE_PULL_FAILED,
            Reason.CRASH_LOOP,
            Reason.CLAIM_MISMATCH,
            Reason.NODE_LOCK,
            Reason.NODE_GONE,
            Reason.MOUNT_FAILED,
        }
    ),
    Phase.GONE: frozenset(
        {
            Reason.STOPPED,
            Reason.VANISHED,
            Reason.EVICTED,
            Reason.DISK_EXCEEDED,
            Reason.DRAINED,
            Reason.NODE_LOST,
            Reason.CLUSTER_STOPPED,
        }
    ),
}


class ResourcePhase(StrEnum):
    """`status.phase` of the custom resource, as `kubectl get gss` shows it."""

    PENDING = "Pending"
    PULLING = "Pulling"
    STARTING = "Starting"
    RUNNING = "Running"
    YIELDING = "Yielding"
    YIELDED = "Yielded"
    RESUMING = "Resuming"
    TERMINATING = "Terminating"
    GONE = "Gone"
    FAILED = "Failed"


class ModeChangePhase(StrEnum):
    """`status.phase` of a mode change. `Done` and `Failed` are final; the control plane waits for inventory all the same.

    Until `Applying` nothing on the node has been changed, and a change may be withdrawn.
    """

    PENDING = "Pending"
    DRAINING = "Draining"
    APPLYING = "Applying"
    VERIFYING = "Verifying"
    DONE = "Done"
    FAILED = "Failed"


def accepted_version(version: int) -> int:
    """The version itself when it is N or N-1. Raises ValueError for any other."""
    if version not in ACCEPTED_VERSIONS:
        raise ValueError(f"contract version {version} is not one of {sorted(ACCEPTED_VERSIONS)}")
    return version
