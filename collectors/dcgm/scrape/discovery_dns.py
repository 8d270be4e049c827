"""Targets behind a DNS name: every address of a headless service, or every SRV record."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpuwatch.collectors.dcgm.scrape.config import url_of
from gpuwatch.collectors.dcgm.scrape.discovery import FoundTarget, OwnThread
from gpuwatch.collectors.dcgm.scrape.discovery_srv import lookup, read_resolver
from gpuwatch.core.errors import SourceUnreachable

if TYPE_CHECKING:
    import dns.asyncresolver

MAX_TARGETS = 20_000


class Addresses:
    """A and AAAA records of the host of an address, each a target on the same port and path."""

    def __init__(self, address: str) -> None:
        """Raises ValueError for an invalid address."""
        self.shown = f"dns {address}"
        self._parts = urlsplit(url_of(address))
        self._aside = OwnThread()

    async def find(self) -> tuple[Sequence[FoundTarget], Sequence[str]]:
        """The current addresses of the name."""
        host, port = self._parts.hostname or "", self._parts.port
        try:
            found = await self._aside.call(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            raise SourceUnreachable(f"{host}: {error.strerror or error}; check the name") from error
        addresses = sorted({str(each[4][0]) for each in found})[:MAX_TARGETS]
        return [FoundTarget(self._url(f"[{address}]" if ":" in address else address)) for address in addresses], []

    def _url(self, host: str) -> str:
        return self._parts._replace(netloc=f"{host}:{self._parts.port}").geturl()


class Records:
    """SRV records of a name such as _metrics._tcp.dcgm-exporter.gpu-operator.svc.cluster.local."""

    def __init__(self, name: str, resolver: Callable[[], dns.asyncresolver.Resolver] = read_resolver) -> None:
        """`name` may have a scheme before it and a path after it."""
        self.shown = f"dns {name}"
        scheme, mark, rest = name.rpartition("://")
        self._scheme = f"{scheme}{mark}" or "http://"
        self._name, slash, path = rest.partition("/")
        self._path = f"{slash}{path}"
        self._resolver = resolver

    async def find(self) -> tuple[Sequence[FoundTarget], Sequence[str]]:
        """The current hosts and ports of the name."""
        found = await lookup(self._name, self._resolver())
        return [FoundTarget(f"{self._scheme}{host}:{port}{self._path}") for host, port in dict.fromkeys(found)][
            :MAX_TARGETS
        ], []


def finder_of(name: str) -> Addresses | Records:
    """The finder for a name: SRV records if its first label begins with _. Raises ValueError."""
    return Records(name) if name.rpartition("://")[2].startswith("_") else Addresses(name)
