"""What may be served, and where, is decided before anything starts."""

import socket

import pytest

from gshare_site.embedded.listeners import ListenError, open_listener, refuse_plain_http


def test_plain_http_on_localhost_is_served() -> None:
    refusal = refuse_plain_http(bind="127.0.0.1", public_url="http://localhost:8000", trusted_proxies=())
    assert refusal is None


@pytest.mark.parametrize("bind", ["0.0.0.0", "192.168.1.5", "::"])
def test_plain_http_for_the_network_is_refused_with_the_reason(bind: str) -> None:
    with pytest.raises(ListenError, match=r"GSHARE_BIND=.*plain http is bound to 127\.0\.0\.1 only"):
        refuse_plain_http(bind=bind, public_url="http://localhost:8000", trusted_proxies=())


def test_a_public_address_in_plain_http_is_refused_with_the_reason() -> None:
    with pytest.raises(ListenError, match=r"GSHARE_PUBLIC_URL=.*plain http is served at localhost only"):
        refuse_plain_http(bind="127.0.0.1", public_url="http://gshare.example", trusted_proxies=())


def test_https_for_the_network_needs_the_proxy_named() -> None:
    with pytest.raises(ListenError, match="GSHARE_TRUSTED_PROXIES"):
        refuse_plain_http(bind="0.0.0.0", public_url="https://gshare.example", trusted_proxies=())
    refuse_plain_http(bind="0.0.0.0", public_url="https://gshare.example", trusted_proxies=("10.0.0.0/8",))


def test_a_busy_port_is_named_together_with_its_user_and_the_setting() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(
            ListenError, match=rf"port {port} on 127\.0\.0\.1 is already in use.*set GSHARE_PORT"
        ) as caught:
            open_listener("127.0.0.1", port, "GSHARE_PORT")
    assert "process" in str(caught.value)
