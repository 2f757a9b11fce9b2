"""Connections to one API server, by the official client, with everything that it would do by itself taken away.

Guarantees: each connection is made only to an address that is allowed, judged before and after connecting; certificates are
verified; no proxy of the environment, no redirect and no retry; private keys lie on disk for the moment of their being read
only, readable by nobody else.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import urllib3
from kubernetes.client import ApiClient, Configuration
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool
from urllib3.exceptions import NameResolutionError
from urllib3.util.retry import Retry

from cluster.adapters.kube.addresses import is_refused
from cluster.adapters.kube.kubeconfig import Target
from cluster.port import Rejected

_POOL = 8
_NO_RETRY = Retry(total=False, redirect=False, raise_on_redirect=False)


def api_client(target: Target, *, allow_local: bool) -> ApiClient:
    """The official client for a target. Raises Rejected when its certificates do not fit together; connects to nothing."""
    api = ApiClient(Configuration(host=target.server))
    if target.token:
        api.set_default_header("Authorization", f"Bearer {target.token}")
    api.user_agent = "gshare"
    named: dict[str, Any] = {}
    if target.server_name:
        named = {"server_hostname": target.server_name, "assert_hostname": target.server_name}
    pools = urllib3.PoolManager(num_pools=1, maxsize=_POOL, retries=_NO_RETRY, ssl_context=_context(target), **named)
    pools.pool_classes_by_scheme = {"https": _pool_class(allow_local)}
    api.rest_client.pool_manager = pools
    return api


def _pool_class(allow_local: bool) -> type[HTTPSConnectionPool]:
    class Connection(HTTPSConnection):
        """Connects to addresses that are allowed only."""

        def _new_conn(self) -> socket.socket:
            try:
                found = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
            except socket.gaierror as error:
                raise NameResolutionError(self.host, self, error) from error
            for *_kind, address in found:
                _judge(str(address[0]), allow_local=allow_local)
            connected: socket.socket = super()._new_conn()
            try:
                # The name may have another answer by now.
                _judge(str(connected.getpeername()[0]), allow_local=allow_local)
            except BaseException:
                connected.close()
                raise
            return connected

    class Pool(HTTPSConnectionPool):
        ConnectionCls = Connection

    return Pool


def _judge(address: str, *, allow_local: bool) -> None:
    if is_refused(ip_address(address.partition("%")[0]), allow_local=allow_local):
        raise Rejected("kubeconfig: server: leads to an address that is not allowed")


def _context(target: Target) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=target.authority or None)
    # Strict profiles, on by default in newer Pythons, refuse the certificates of many a cluster; what is verified stays.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if target.certificate:
        _load_pair(context, target)
    return context


def _load_pair(context: ssl.SSLContext, target: Target) -> None:
    """Python reads client certificates from files only."""
    handle, name = tempfile.mkstemp(prefix="gshare-", suffix=".pem")  # mode 0600
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(target.key.strip() + "\n" + target.certificate.strip() + "\n")

        def no_password(*_: Any) -> str:
            # Without this a key with a password would ask at the terminal, for ever.
            raise Rejected("kubeconfig: client-key-data: a key without a password is needed")

        context.load_cert_chain(path, password=no_password)
    except (ssl.SSLError, ValueError):
        raise Rejected("kubeconfig: client-certificate-data: does not fit client-key-data") from None
    finally:
        path.unlink(missing_ok=True)
