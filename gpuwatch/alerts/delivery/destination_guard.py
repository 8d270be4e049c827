"""Allowed destinations of a channel: https to public addresses, and those that the operator allows by name."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.core.errors import UsageError

MAX_URL = 2000

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?([/?][!-~]*)?"
)
"""Only the plain form: no user, no backslash, no other alphabet, so that no two parsers can read two hosts in it."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_GLOBAL_V6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = (
    ipaddress.ip_network("192.0.0.0/24"),  # protocol assignments; which of them are global differs between Pythons
    ipaddress.ip_network("192.88.99.0/24"),  # 6to4 relays
    ipaddress.ip_network("168.63.129.16/32"),  # a public number, but the wire server of an Azure machine's own cloud
)


class AddressRefused(PermissionError):
    """A connection that was not made, because its address is not public."""


@dataclass(frozen=True)
class Guard:
    """Which addresses may be connected to. `allow` names hosts, addresses and networks that need not be public."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, allow: Collection[str]) -> Guard:
        """A guard that also lets through `allow`: host names, addresses, or networks such as 10.1.0.0/16.

        Raises UsageError naming an entry that is none of these.
        """
        hosts, networks = set(), []
        for entry in allow:
            try:
                networks.append(ipaddress.ip_network(entry))
            except ValueError as error:
                if "/" in entry or not re.fullmatch(r"[A-Za-z0-9._-]+", entry):
                    raise UsageError(
                        f"allow_private: {entry!r} is no host name, address or network such as 10.1.0.0/16"
                    ) from error
                hosts.add(_plain(entry))
        return cls(frozenset(hosts), tuple(networks))

    def check_url(self, url: str) -> str:
        """The host of a URL that may be sent to. Raises UsageError, which never repeats the URL: it is a secret.

        What its name resolves to is judged when the connection is made (Gate), not here.
        """
        match = _URL.fullmatch(url) if len(url) <= MAX_URL else None
        if match is None or int(match["port"] or 1) not in range(1, 65_536):
            raise UsageError(
                f"url is not a plain https:// address of at most {MAX_URL} characters; copy it from the webhook's page"
            )
        host = _plain(match["host"])
        literal = _literal(host)
        if host in self.hosts or (literal is not None and self._named(literal)):
            return host
        if match["scheme"] != "https":
            raise UsageError("url must start with https://; plain http is for hosts named in allow_private only")
        if host == "localhost" or host.endswith(".localhost") or (literal is not None and not is_public(literal)):
            raise UsageError(
                f"url: {host} is not a public address; name it in allow_private of gpuwatch.toml to use it"
            )
        return host

    def check_host(self, host: str, encrypted: bool) -> str:
        """The name of a mail server that may be sent to. Raises UsageError; plain text is for hosts named only."""
        plain = _plain(host)
        literal = _literal(plain)
        if plain in self.hosts or (literal is not None and self._named(literal)):
            return plain
        if not encrypted:
            raise UsageError("security none is for hosts named in allow_private only; use starttls or tls")
        if literal is not None and not is_public(literal):
            raise UsageError(
                f"host: {plain} is not a public address; name it in allow_private of gpuwatch.toml to use it"
            )
        return plain

    def permits(self, host: str, address: str) -> bool:
        """Whether a connection for `host` may go to `address` (what the name resolved to)."""
        if host in self.hosts:
            return True
        literal = _literal(address)
        return literal is not None and (self._named(literal) or is_public(literal))

    def _named(self, address: _Address) -> bool:
        return any(address in network for network in self.networks)


@dataclass
class Gate:
    """Opens the sockets of one request. It sees the very address that is connected to: a name that resolves

    otherwise the second time gains nothing. `refused` keeps what was not opened, `opened` counts the rest.
    """

    guard: Guard
    host: str
    opened: int = 0
    refused: list[str] = field(default_factory=list)

    def socket(self, info: tuple[Any, ...]) -> socket.socket:
        """A socket for an entry of getaddrinfo; AddressRefused where that must not be reached."""
        family, kind, protocol, _, address = info
        if not self.guard.permits(self.host, str(address[0])):
            self.refused.append(str(address[0]))
            raise AddressRefused("the address is not public")
        self.opened += 1
        return socket.socket(family, kind, protocol)


def is_public(address: _Address) -> bool:
    """Whether an address belongs to the Internet: not loopback, private, link-local, carrier NAT, multicast, reserved.

    An IPv6 address that stands for an IPv4 one (mapped, 6to4, Teredo, NAT64) is judged by that one.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and not any(address in net for net in _NOT_PUBLIC)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in _NAT64:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    inner = [address.sixtofour, *(address.teredo or ())]
    if any(part is not None and not is_public(part) for part in inner):
        return False
    return address in _GLOBAL_V6 and (address.is_global or address.teredo is not None)


def _literal(host: str) -> _Address | None:
    """The address that a host or socket address spells, without its zone; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _plain(host: str) -> str:
    return host.lower().rstrip(".")
