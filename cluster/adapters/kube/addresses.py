"""Which addresses a kubeconfig may lead to.

Guarantees: the addresses that a name stands for are judged when a connection is made, not when the file is read, and the peer
that was really reached is judged again before a byte is sent, so that a name which changes its answer gains nothing.
Refuses loopback and link-local addresses (the control plane's own machine and its neighbours) unless they are allowed, and
the clouds' metadata addresses always, also when they are written as IPv4 inside IPv6.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# AWS, Azure, GCP and most others; AWS by IPv6; Alibaba; Oracle.
_METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_refused(address: Address, *, allow_local: bool) -> bool:
    """Whether a kubeconfig may not lead to this address."""
    meant = _meant(address)
    if meant in _METADATA or meant.is_multicast:
        return True
    is_local = meant.is_loopback or meant.is_link_local or meant.is_unspecified
    return is_local and not allow_local


def literal(host: str) -> Address | None:
    """The address that a host is, if it is written as one."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 address only wraps, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
