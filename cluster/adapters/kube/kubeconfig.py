"""Reading a kubeconfig that somebody else wrote: what it may say, and nothing more.

Guarantees: only an address, an authority and a credential come out of it; reading it runs no program, opens no file and no
connection. An error names the field, never what stands in it, and no exception with the text hangs behind it.
Refuses, in any entry, used or not: `exec`, `auth-provider`, paths of files, `insecure-skip-tls-verify`, proxies,
impersonation, passwords, addresses that are not https, YAML aliases, and every field that is not known here.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import yaml

from cluster.adapters.kube.addresses import is_refused, literal
from cluster.port import Rejected

LARGEST = 1 << 20
_TOP = {"apiVersion", "kind", "preferences", "extensions", "clusters", "contexts", "users", "current-context"}
_CLUSTER = {"server", "certificate-authority-data", "tls-server-name", "disable-compression", "extensions"}
_CONTEXT = {"cluster", "user", "namespace", "extensions"}
_USER = {"token", "client-certificate-data", "client-key-data", "extensions"}
# Named in an error, because their names are Kubernetes' own; any other name might be somebody's secret.
_REFUSED = {
    "exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "certificate-authority", "proxy-url",
    "insecure-skip-tls-verify", "as", "as-uid", "as-groups", "as-user-extra", "username", "password",
}  # fmt: skip
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")


@dataclass(frozen=True, slots=True)
class Target:
    """Where an API server is and how to speak to it. `authority`: PEM; without one the machine's own are believed."""

    server: str
    authority: str = field(default="", repr=False)
    server_name: str = ""
    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


class _Loader(yaml.SafeLoader):
    """Plain data without aliases: a small text that stands for a huge one is refused."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def read_kubeconfig(text: str, *, allow_local: bool = False) -> Target:
    """What the current context of a kubeconfig names. Raises Rejected, naming the field."""
    document = _parsed(text)
    _known(document, _TOP, "")
    clusters = _entries(document, "clusters", "cluster", _CLUSTER)
    users = _entries(document, "users", "user", _USER)
    contexts = _entries(document, "contexts", "context", _CONTEXT)
    context = _chosen(contexts, document.get("current-context"), "current-context")
    where, cluster = _chosen(clusters, context[1].get("cluster"), f"{context[0]}.cluster")
    who, user = _chosen(users, context[1].get("user"), f"{context[0]}.user")
    target = Target(
        server=_server(cluster, where, allow_local=allow_local),
        authority=_pem(cluster, "certificate-authority-data", where),
        server_name=_text(cluster, "tls-server-name", where),
        token=_token(user, who),
        certificate=_pem(user, "client-certificate-data", who),
        key=_pem(user, "client-key-data", who),
    )
    if bool(target.certificate) != bool(target.key):
        raise _refuse(who, "client-certificate-data and client-key-data belong together")
    if not target.token and not target.certificate:
        raise _refuse(who, "a token or a client certificate is needed")
    return target


def _parsed(text: str) -> Mapping[str, Any]:
    if len(text.encode()) > LARGEST:
        raise Rejected("kubeconfig: too large")
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader that reads even less)
    except (yaml.YAMLError, ValueError, RecursionError):
        # The parser's own words quote the text.
        raise Rejected("kubeconfig: not readable as YAML") from None
    if not isinstance(document, Mapping):
        raise Rejected("kubeconfig: not an object")
    return document


def _entries(
    document: Mapping[str, Any], plural: str, singular: str, known: set[str]
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The named entries of a list, each with where it stands; all are checked, whether used or not."""
    listed = document.get(plural) or []
    if not isinstance(listed, list):
        raise _refuse(plural, "not a list")
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for index, row in enumerate(listed):
        where = f"{plural}[{index}]"
        if not isinstance(row, Mapping):
            raise _refuse(where, "not an object")
        _known(row, {"name", singular}, where)
        body = row.get(singular) or {}
        if not isinstance(body, Mapping):
            raise _refuse(f"{where}.{singular}", "not an object")
        _known(body, known, f"{where}.{singular}")
        found.setdefault(_text(row, "name", where), (f"{where}.{singular}", body))
    return found


def _known(body: Mapping[Any, Any], known: set[str], where: str) -> None:
    prefix = f"{where}." if where else ""
    for name, value in body.items():
        if name in known or (name == "insecure-skip-tls-verify" and value is False):
            continue
        if name in _REFUSED:
            raise _refuse(f"{prefix}{name}", "not allowed")
        raise _refuse(where or "document", "has a field that is not known here")


def _chosen(
    entries: Mapping[str, tuple[str, Mapping[str, Any]]], name: object, where: str
) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(name, str) or name not in entries:
        raise _refuse(where, "names no entry")
    return entries[name]


def _text(body: Mapping[str, Any], name: str, where: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or not value.isprintable():
        raise _refuse(f"{where}.{name}", "not a plain text")
    return value


def _server(cluster: Mapping[str, Any], where: str, *, allow_local: bool) -> str:
    where, server = f"{where}.server", _text(cluster, "server", where)
    try:
        url = urlsplit(server)
        port = url.port
    except ValueError:
        raise _refuse(where, "not an address") from None
    if url.scheme != "https":
        raise _refuse(where, "https is needed")
    if (
        not url.hostname
        or url.username is not None
        or url.password is not None
        or url.query
        or url.fragment
        or port == 0
    ):
        raise _refuse(where, "not an address: https://host:port/path")
    address = literal(url.hostname)
    if address is not None and is_refused(address, allow_local=allow_local):
        raise _refuse(where, "this address is not allowed")
    return server.rstrip("/")


def _token(user: Mapping[str, Any], where: str) -> str:
    token = user.get("token", "")
    if token != "" and (not isinstance(token, str) or not _TOKEN.fullmatch(token)):
        raise _refuse(f"{where}.token", "not a token")
    return str(token)


def _pem(body: Mapping[str, Any], name: str, where: str) -> str:
    """Text of a PEM that stands in a kubeconfig as base64."""
    try:
        text = base64.b64decode(_text(body, name, where).replace("\n", ""), validate=True).decode("ascii")
        if name == "certificate-authority-data" and text:
            ssl.create_default_context(cadata=text)
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError):
        raise _refuse(f"{where}.{name}", "not a PEM in base64") from None
    if text and "-----BEGIN " not in text:
        raise _refuse(f"{where}.{name}", "not a PEM in base64")
    return text


def _refuse(where: str, why: str) -> Rejected:
    return Rejected(f"kubeconfig: {where}: {why}")
