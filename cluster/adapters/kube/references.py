"""Where the kubeconfig that a cluster's reference names is found; its content goes to the adapter and nowhere else.

A reference is a name. It is looked up, in this order, as the file of that name in `GSHARE_KUBECONFIG_DIR`, as the variable
`GSHARE_KUBECONFIG_<NAME>` (the text, or its base64; `-` becomes `_`), and as a Secret of that name in `gshare-system` of the cluster
that the control plane itself runs in (key `kubeconfig`).
Refuses names that could leave the folder; says which reference is missing, never what is in one.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import threading
import time
from pathlib import Path

from django.conf import settings

from cluster.adapters.kube.api import Api, Limits, Refusal
from cluster.adapters.kube.kubeconfig import LARGEST, Target
from cluster.models.metal import NAME_PATTERN
from cluster.port import Rejected, Unavailable
from gshare_core.contract import NAMESPACE_SYSTEM

_SECRET_SECONDS = 60.0
_NOT_A_REFERENCE = frozenset({"dir"})  # GSHARE_KUBECONFIG_DIR is the folder

_secrets: dict[str, tuple[float, str | None]] = {}
_lock = threading.Lock()


def kubeconfig_of(name: str) -> str:
    """The text of a reference. Raises Rejected when there is none, Unavailable when it cannot be looked up."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise Rejected("kubeconfig: not the name of a reference")
    for look in (_in_folder, _in_environment, _in_own_cluster):
        text = look(name)
        if text is not None:
            return text
    raise Rejected(
        f"there is no kubeconfig {name!r}: neither in GSHARE_KUBECONFIG_DIR, nor as a variable, nor as a Secret"
    )


def _in_folder(name: str) -> str | None:
    folder = settings.GSHARE.kubeconfig_dir
    if folder is None:
        return None
    path = Path(folder) / name
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(LARGEST + 1).decode()
    except UnicodeDecodeError:
        raise Rejected(f"the kubeconfig {name!r} is no text") from None
    except OSError as error:
        raise Unavailable(f"the kubeconfig {name!r} cannot be read: {error.strerror}") from None


def _in_environment(name: str) -> str | None:
    if name in _NOT_A_REFERENCE:
        return None
    text: str | None = settings.KUBECONFIGS.get(f"GSHARE_KUBECONFIG_{name.upper().replace('-', '_')}")
    if not text or re.search(r"[:{]", text):
        return text or None
    try:
        return base64.b64decode(text, validate=False).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Rejected(f"the kubeconfig {name!r} of the environment is neither a kubeconfig nor its base64") from None


def _in_own_cluster(name: str) -> str | None:
    """Remembered for a minute, so that each call of a cluster does not cost one of our own."""
    target = own_cluster()
    if target is None:
        return None
    with _lock:
        known = _secrets.get(name)
    if known is not None and time.monotonic() - known[0] < _SECRET_SECONDS:
        return known[1]
    text = _read_secret(target, name)
    with _lock:
        _secrets[name] = (time.monotonic(), text)
    return text


def own_cluster() -> Target | None:
    """The API server of the cluster that this process runs in, as its service account; None outside one."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    folder = settings.GSHARE.kube_service_account
    if not host:
        return None
    try:
        token, authority = (folder / "token").read_text().strip(), (folder / "ca.crt").read_text()
    except OSError:
        return None
    return Target(server=f"https://{f'[{host}]' if ':' in host else host}:{port}", authority=authority, token=token)


def _read_secret(target: Target, name: str) -> str | None:
    api = Api(target, allow_local=True, limits=limits())
    try:
        secret = api.call("GET", f"/api/v1/namespaces/{NAMESPACE_SYSTEM}/secrets/{name}")
    except Refusal as error:
        if error.status == 404:
            return None
        raise Unavailable(f"the Secret {name!r} cannot be read: {error.status}") from None
    finally:
        api.close()
    data = secret.get("data") or {}
    try:
        return base64.b64decode(data["kubeconfig"], validate=True).decode()
    except (KeyError, binascii.Error, UnicodeDecodeError):
        raise Rejected(f"the Secret {name!r} has no kubeconfig in its key `kubeconfig`") from None


def limits() -> Limits:
    """The time-outs of the settings."""
    known = settings.GSHARE
    return Limits(
        connect_seconds=known.kube_connect_timeout.total_seconds(),
        read_seconds=known.kube_read_timeout.total_seconds(),
        total_seconds=known.kube_call_timeout.total_seconds(),
    )
