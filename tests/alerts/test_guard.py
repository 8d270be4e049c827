"""Where a channel may send: public addresses over https, and what the operator named."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from gpuwatch.alerts.delivery.destination_guard import AddressRefused, Gate, Guard, is_public
from gpuwatch.core.errors import UsageError


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("8.8.8.8", True, id="public IPv4"),
        pytest.param("2606:4700::6810:1", True, id="public IPv6"),
        pytest.param("64:ff9b::808:808", True, id="NAT64 of a public address, as DNS64 gives it"),
        pytest.param("127.0.0.1", False, id="loopback"),
        pytest.param("127.1.2.3", False, id="all of loopback"),
        pytest.param("0.0.0.0", False, id="this host"),
        pytest.param("10.1.2.3", False, id="private 10"),
        pytest.param("172.16.0.1", False, id="private 172.16"),
        pytest.param("192.168.1.1", False, id="private 192.168"),
        pytest.param("169.254.169.254", False, id="link-local: cloud metadata"),
        pytest.param("168.63.129.16", False, id="a public number that is a cloud's own wire server"),
        pytest.param("100.64.0.1", False, id="carrier NAT"),
        pytest.param("192.0.0.192", False, id="protocol assignments"),
        pytest.param("198.18.0.1", False, id="benchmarks"),
        pytest.param("224.0.0.1", False, id="multicast"),
        pytest.param("240.0.0.1", False, id="reserved"),
        pytest.param("255.255.255.255", False, id="broadcast"),
        pytest.param("::1", False, id="IPv6 loopback"),
        pytest.param("::", False, id="IPv6 this host"),
        pytest.param("::ffff:127.0.0.1", False, id="mapped loopback"),
        pytest.param("::ffff:8.8.8.8", True, id="mapped public address"),
        pytest.param("::127.0.0.1", False, id="IPv4-compatible loopback"),
        pytest.param("64:ff9b::7f00:1", False, id="NAT64 of loopback"),
        pytest.param("64:ff9b:1::7f00:1", False, id="local NAT64"),
        pytest.param("2002:7f00:1::", False, id="6to4 of loopback"),
        pytest.param("2001:0:7f00:1::1", False, id="Teredo with a private server"),
        pytest.param("fe80::1", False, id="IPv6 link-local"),
        pytest.param("fec0::1", False, id="IPv6 site-local"),
        pytest.param("fd00:ec2::254", False, id="unique local: cloud metadata"),
        pytest.param("ff02::1", False, id="IPv6 multicast"),
        pytest.param("2001:db8::1", False, id="documentation"),
    ],
)
def test_only_the_internet_is_public(address: str, expected: bool) -> None:
    assert expected == is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("https://hooks.slack.com/services/T/B/x", id="a Slack webhook"),
        pytest.param("https://example.com:8443/x?token=1", id="another port and a query"),
        pytest.param("https://8.8.8.8/x", id="a public address"),
        pytest.param("http://relay.corp/x", id="plain http to a host that is named"),
        pytest.param("http://10.1.2.3/x", id="plain http into a network that is named"),
        pytest.param("https://relay.corp./x", id="the same host with its final dot"),
    ],
)
def test_a_usable_address_is_accepted(url: str) -> None:
    assert Guard.of(["relay.corp", "10.1.0.0/16"]).check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://hooks.slack.com/services/x", id="plain http"),
        pytest.param("https://localhost/x", id="localhost"),
        pytest.param("https://a.localhost/x", id="below localhost"),
        pytest.param("https://127.0.0.1/x", id="loopback"),
        pytest.param("https://[::1]/x", id="IPv6 loopback"),
        pytest.param("https://[::ffff:10.0.0.1]/x", id="mapped private address"),
        pytest.param("https://user:secret@example.com/x", id="a user in it"),
        pytest.param("https://relay.corp\\@evil.example/x", id="a backslash that parsers disagree on"),
        pytest.param("https://exa mple.com/x", id="a space"),
        pytest.param("https://example.com/x\r\nX: y", id="a line end"),
        pytest.param("https://exämple.com/x", id="another alphabet"),
        pytest.param("https://example.com:0/x", id="port 0"),
        pytest.param("https://example.com:99999/x", id="port too large"),
        pytest.param("file:///etc/passwd", id="a file"),
        pytest.param("//example.com/x", id="no scheme"),
        pytest.param("", id="nothing"),
        pytest.param("https://example.com/" + "x" * 2000, id="too long"),
    ],
)
def test_an_unusable_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        Guard.of(["relay.corp"]).check_url(url)

    assert not url or url not in str(raised.value)


def test_a_wrong_entry_is_named() -> None:
    with pytest.raises(UsageError, match="10.0.0.0/99"):
        Guard.of(["10.0.0.0/99"])


def test_the_address_that_is_connected_to_decides() -> None:
    """Not the name, not an earlier look-up: the gate opens the very socket."""
    gate = Gate(Guard(), "hooks.slack.com")
    with pytest.raises(AddressRefused):
        gate.socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443)))
    with pytest.raises(AddressRefused):
        gate.socket((socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", 443, 0, 2)))
    gate.socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 443))).close()

    assert (1, ["127.0.0.1", "fe80::1%eth0"]) == (gate.opened, gate.refused)


def test_a_named_host_may_be_anywhere_and_nobody_else() -> None:
    guard = Guard.of(["relay.corp", "10.1.0.0/16"])

    assert [True, False, False, True, False] == [
        guard.permits("relay.corp", "192.168.0.9"),
        guard.permits("relay.corp.evil.example", "192.168.0.9"),
        guard.permits("other.corp", "192.168.0.9"),
        guard.permits("other.corp", "10.1.255.1"),
        guard.permits("other.corp", "10.2.0.1"),
    ]
