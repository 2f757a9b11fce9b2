"""What crosses the session proxy and what stays. No network."""

import pytest

from gshare_site.embedded.headers import is_own_cookie, request_headers, response_headers, websocket_headers

HOST = "0197f3c2-a1b2-7c4e-9d10-aabbccddeeff.localhost"


def test_the_app_never_sees_the_access_cookie() -> None:
    headers = [(b"cookie", b"a=1; __Host-gshare-access=secret; _xsrf=2"), (b"cookie", b"__Host-gshare-access=secret")]
    assert request_headers(headers, authorization=None) == [(b"cookie", b"a=1; _xsrf=2")]


def test_the_apps_credential_replaces_the_clients_own() -> None:
    headers = [(b"Authorization", b"Bearer mine"), (b"proxy-authorization", b"x"), (b"accept", b"*/*")]
    assert request_headers(headers, authorization="token t") == [(b"accept", b"*/*"), (b"authorization", b"token t")]
    assert request_headers(headers, authorization=None) == [(b"accept", b"*/*")]


def test_hop_by_hop_headers_and_those_that_connection_names_stop_here() -> None:
    headers = [
        (b"connection", b"keep-alive, X-Secret"),
        (b"x-secret", b"1"),
        (b"keep-alive", b"5"),
        (b"te", b"trailers"),
        (b"upgrade", b"h2c"),
        (b"trailer", b"x"),
        (b"x-other", b"2"),
    ]
    assert request_headers(headers, authorization=None) == [(b"x-other", b"2")]
    assert response_headers(headers, host=HOST) == [(b"x-other", b"2")]


def test_what_a_client_claims_about_proxies_and_ingresses_is_dropped() -> None:
    headers = [
        (b"x-forwarded-for", b"1"),
        (b"x-forwarded-host", b"evil"),
        (b"forwarded", b"for=1"),
        (b"x-real-ip", b"1"),
        (b"x-original-url", b"http://x/"),
    ]
    assert request_headers(headers, authorization=None) == []


def test_a_chunked_upload_is_chunked_again_and_a_measured_one_keeps_its_length() -> None:
    assert request_headers([(b"transfer-encoding", b"chunked"), (b"content-length", b"5")], authorization=None) == [
        (b"transfer-encoding", b"chunked")
    ]
    assert request_headers([(b"content-length", b"5")], authorization=None) == [(b"content-length", b"5")]
    assert request_headers([], authorization=None) == []


def test_a_websockets_handshake_is_made_anew() -> None:
    headers = [
        (b"host", b"h"),
        (b"upgrade", b"websocket"),
        (b"connection", b"Upgrade"),
        (b"sec-websocket-key", b"k"),
        (b"sec-websocket-extensions", b"permessage-deflate"),
        (b"origin", b"http://h"),
        (b"cookie", b"__Host-gshare-access=s"),
    ]
    assert websocket_headers(headers, authorization="token t") == [("origin", "http://h"), ("authorization", "token t")]


@pytest.mark.parametrize(
    "cookie",
    [
        b"a=1",
        b"a=1; Path=/lab/; HttpOnly",
        b"a=1; domain=" + HOST.encode(),
        b"a=1; Domain=." + HOST.encode().upper(),
        b"a=1; Domain=",
        b"a=Domain=localhost",
    ],
)
def test_a_cookie_for_the_sessions_own_host_passes(cookie: bytes) -> None:
    assert is_own_cookie(cookie, HOST)
    assert response_headers([(b"set-cookie", cookie)], host=HOST) == [(b"set-cookie", cookie)]


@pytest.mark.parametrize(
    "cookie",
    [
        b"a=1; Domain=localhost",
        b"a=1; domain = .localhost ; Path=/",
        b"a=1; Domain=" + HOST.encode() + b"; Domain=localhost",
        b"a=1; Domain=other.localhost",
        b"__Host-sessionid=x; Path=/; Secure",
        b"__host-gshare-access=x; Path=/; Secure",
        b" __Host-csrftoken =x; Path=/; Secure",
    ],
)
def test_a_cookie_that_reaches_further_or_takes_our_name_does_not(cookie: bytes) -> None:
    assert not is_own_cookie(cookie, HOST)
    assert response_headers([(b"Set-Cookie", cookie), (b"x", b"1")], host=HOST) == [(b"x", b"1")]


def test_an_app_cannot_order_the_browser_to_clear_a_whole_sites_cookies() -> None:
    assert response_headers([(b"Clear-Site-Data", b'"cookies"')], host=HOST) == []
