"""Trap 56: a kubeconfig cannot run a program, read a file, reach the metadata address or echo itself in an error."""

from __future__ import annotations

import base64
import copy
import ipaddress
import json

import pytest
import yaml

from cluster.adapters.kube.addresses import is_refused
from cluster.adapters.kube.connection import api_client
from cluster.adapters.kube.kubeconfig import Target, read_kubeconfig
from cluster.port import Rejected

SECRET = "hunter2-do-not-echo"


def whole():
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "x"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://kube.example:6443"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
    }


def spoilt(where: str, value: object) -> str:
    """The kubeconfig with the value at `cluster`, `user`, `context` or the top."""
    document = whole()
    part, _, name = where.rpartition(".")
    target = document if not part else document[f"{part}s"][0][part]
    target[name] = value
    return yaml.safe_dump(document)


def test_what_is_needed_comes_out_and_the_rest_does_not():
    read = read_kubeconfig(yaml.safe_dump(whole()))

    assert read == Target(server="https://kube.example:6443", token=SECRET)
    assert SECRET not in repr(read)


def test_json_is_read_too():
    assert read_kubeconfig(json.dumps(whole())).server == "https://kube.example:6443"


REFUSED = {
    "a program": ("user.exec", {"command": "/bin/sh", "args": [SECRET]}, "users[0].user.exec"),
    "a plug-in": ("user.auth-provider", {"name": SECRET}, "users[0].user.auth-provider"),
    "a token in a file": ("user.tokenFile", f"/{SECRET}", "users[0].user.tokenFile"),
    "a certificate in a file": ("user.client-certificate", f"/{SECRET}", "users[0].user.client-certificate"),
    "a key in a file": ("user.client-key", f"/{SECRET}", "users[0].user.client-key"),
    "an authority in a file": ("cluster.certificate-authority", f"/{SECRET}", "clusters[0].cluster.certificate-authority"),
    "no verification": ("cluster.insecure-skip-tls-verify", True, "clusters[0].cluster.insecure-skip-tls-verify"),
    "no verification, as text": (
        "cluster.insecure-skip-tls-verify", "true", "clusters[0].cluster.insecure-skip-tls-verify"),
    "a proxy": ("cluster.proxy-url", f"http://{SECRET}", "clusters[0].cluster.proxy-url"),
    "somebody else's identity": ("user.as", SECRET, "users[0].user.as"),
    "a password": ("user.password", SECRET, "users[0].user.password"),
    "a field that nobody knows": (f"user.{SECRET}", "x", "users[0].user"),
    "plain http": ("cluster.server", f"http://{SECRET}.example", "clusters[0].cluster.server"),
    "another scheme": ("cluster.server", f"file:///{SECRET}", "clusters[0].cluster.server"),
    "a user in the address": ("cluster.server", f"https://{SECRET}@kube.example", "clusters[0].cluster.server"),
    "a query in the address": ("cluster.server", f"https://kube.example/?{SECRET}", "clusters[0].cluster.server"),
    "no address": ("cluster.server", "", "clusters[0].cluster.server"),
    "a port that is none": ("cluster.server", f"https://kube.example:{SECRET}", "clusters[0].cluster.server"),
    "loopback": ("cluster.server", "https://127.0.0.1:6443", "clusters[0].cluster.server"),
    "loopback in IPv6": ("cluster.server", "https://[::1]:6443", "clusters[0].cluster.server"),
    "loopback in IPv4 in IPv6": ("cluster.server", "https://[::ffff:127.0.0.1]", "clusters[0].cluster.server"),
    "every address": ("cluster.server", "https://0.0.0.0", "clusters[0].cluster.server"),
    "the metadata address": ("cluster.server", "https://169.254.169.254", "clusters[0].cluster.server"),
    "link-local in IPv6": ("cluster.server", "https://[fe80::1]", "clusters[0].cluster.server"),
    "an authority that is none": ("cluster.certificate-authority-data", SECRET, "certificate-authority-data"),
    "an authority that is a text": (
        "cluster.certificate-authority-data", base64.b64encode(SECRET.encode()).decode(), "certificate-authority-data"),
    "a certificate without a key": (
        "user.client-certificate-data", base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode(), "users[0].user"),
    "a token of two lines": ("user.token", f"{SECRET}\r\nX-Other: 1", "users[0].user.token"),
    "a token that is a number": ("user.token", 7, "users[0].user.token"),
    "no credential": ("user.token", "", "users[0].user"),
    "a context that is nowhere": ("current-context", SECRET, "current-context"),
    "a cluster that is nowhere": ("context.cluster", SECRET, "contexts[0].context.cluster"),
    "users that are no list": ("users", SECRET, "users"),
    "an unknown field at the top": (SECRET, "x", "document"),
}  # fmt: skip


@pytest.mark.parametrize(("where", "value", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_what_it_must_not_say_is_refused_with_the_field_and_never_the_value(where, value, named):
    with pytest.raises(Rejected) as refused:
        read_kubeconfig(spoilt(where, value))

    assert named in str(refused.value)
    assert SECRET not in str(refused.value)
    assert (refused.value.__cause__ is None and refused.value.__suppress_context__) or refused.value.__context__ is None


def test_an_entry_that_is_not_used_is_read_as_strictly():
    document = whole()
    document["users"].append({"name": "other", "user": {"exec": {"command": "sh"}}})

    with pytest.raises(Rejected, match=r"users\[1\]\.user\.exec: not allowed"):
        read_kubeconfig(yaml.safe_dump(document))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        f"token: [{SECRET}",
        "!!python/object/apply:os.system ['true']",
        "a: &x [1]\nb: *x",
        "- \x00",
        "x" * (2 << 20),
    ],
    ids=["nothing", "a list", "broken", "broken with a secret", "a program", "aliases", "NUL", "huge"],
)
def test_what_is_no_kubeconfig_is_refused_without_a_word_of_it(text):
    with pytest.raises(Rejected, match="kubeconfig: ") as refused:
        read_kubeconfig(text)
    assert SECRET not in str(refused.value)


def test_a_key_that_does_not_fit_is_refused_without_a_word_of_it():
    pem = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"
    target = Target(server="https://kube.example", certificate=pem, key=pem)

    with pytest.raises(Rejected, match="client-certificate-data") as refused:
        api_client(target, allow_local=False)
    assert SECRET not in str(refused.value)


def test_loopback_is_for_who_allows_it_and_the_metadata_address_for_nobody():
    local = copy.deepcopy(whole())
    local["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:6443/"
    assert read_kubeconfig(yaml.safe_dump(local), allow_local=True).server == "https://127.0.0.1:6443"

    for address in (
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[fd00:ec2::254]",
        "100.100.100.200",
    ):
        local["clusters"][0]["cluster"]["server"] = f"https://{address}"
        with pytest.raises(Rejected):
            read_kubeconfig(yaml.safe_dump(local), allow_local=True)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "203.0.113.9", "2001:db8::1", "fd12:3456::1"])
def test_private_and_public_addresses_are_where_clusters_are(address):
    assert not is_refused(ipaddress.ip_address(address), allow_local=False)
