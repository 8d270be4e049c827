"""SRV records from the name servers of resolv.conf, through dnspython: the standard library cannot query them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuwatch.core.errors import SourceUnreachable

if TYPE_CHECKING:
    import dns.asyncresolver
    import dns.name

RESOLV_CONF = "/etc/resolv.conf"
MAX_SERVERS = 3
QUERY_S = 2.0
"""Time for one query to one name server."""
TRIES = 2


class NoSuchName(SourceUnreachable):
    """The name servers answered that the name, or its record, does not exist."""


def read_resolver(path: str = RESOLV_CONF) -> dns.asyncresolver.Resolver:
    """The resolver of a machine. Raises SourceUnreachable if it has no name server."""
    # Imported on first use: few configurations have SRV names, and every command loads the collectors.
    import dns.asyncresolver
    import dns.name
    import dns.resolver

    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.domain = dns.name.root  # the machine's own domain is searched only if resolv.conf has it
    try:
        resolver.read_resolv_conf(path)
    except dns.resolver.NoResolverConfiguration:
        raise SourceUnreachable(f"{path}: cannot be read, or has no nameserver") from None
    resolver.nameservers = list(resolver.nameservers)[:MAX_SERVERS]
    return resolver


async def lookup(name: str, resolver: dns.asyncresolver.Resolver) -> list[tuple[str, int]]:
    """(host, port) of each SRV record of a name, by priority. Raises SourceUnreachable, NoSuchName if there is none."""
    import dns.exception
    import dns.resolver

    lifetime_s = QUERY_S * TRIES * len(resolver.nameservers)
    resolver.timeout = QUERY_S
    for full_name in candidates(name, resolver):
        try:
            answer = await resolver.resolve(full_name, "SRV", lifetime=lifetime_s)
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            continue
        except dns.resolver.LifetimeTimeout:
            servers = ", ".join(map(str, resolver.nameservers))
            raise SourceUnreachable(f"name server {servers} gave no answer within {lifetime_s:g} s") from None
        except (dns.exception.DNSException, OSError) as error:
            raise SourceUnreachable(f"name server: {error}") from error
        found = sorted((record.priority, record.target.to_text(omit_final_dot=True), record.port) for record in answer)
        if hosts := [(host, port) for _, host, port in found if host != "." and port]:
            return hosts
    raise NoSuchName(f"there is no SRV record {name}; check the name")


def candidates(name: str, resolver: dns.asyncresolver.Resolver) -> list[dns.name.Name]:
    """The full names that a name may stand for, in the order they are queried. Raises SourceUnreachable."""
    import dns.exception
    import dns.name

    try:
        if not name.isascii():
            raise dns.exception.SyntaxError  # no automatic IDNA: certificates and configurations have ASCII names
        own = dns.name.from_text(name, origin=None)
        if own.is_absolute():
            return [own]
        searched = [
            own.concatenate(domain) for domain in resolver.search or [resolver.domain] if domain != dns.name.root
        ]
        exact = own.concatenate(dns.name.root)
    except dns.exception.DNSException:
        raise SourceUnreachable(f"{name[:100]!r} is not a DNS name") from None
    dots = 1 if resolver.ndots is None else resolver.ndots
    return [exact, *searched] if name.count(".") >= dots else [*searched, exact]
