"""SRV records by asking the name servers of resolv.conf: the standard library has no question for them."""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.core.errors import SourceUnreachable

RESOLV_CONF = "/etc/resolv.conf"
SRV, INTERNET = 33, 1
PORT = 53
MAX_SERVERS, MAX_SEARCH = 3, 6
MAX_ANSWERS = 20_000
MAX_JUMPS = 64
ASK_S = 2.0
TRIES = 2
_TRUNCATED, _ANSWER, _RECURSE = 0x0200, 0x8000, 0x0100
_NO_SUCH_NAME = 3
_HEADER = struct.Struct(">6H")


@dataclass(frozen=True)
class Resolver:
    """Name servers, and domains that a short name is looked for in."""

    servers: tuple[tuple[str, int], ...]
    search: tuple[str, ...] = ()
    dots: int = 1
    """Names with at least so many dots are first asked for as they are."""


class NoSuchName(SourceUnreachable):
    """The name server knows that there is none."""


def read_resolver(path: str = RESOLV_CONF) -> Resolver:
    """The resolver of a machine. Raises SourceUnreachable when it names no server."""
    servers: list[tuple[str, int]] = []
    search: tuple[str, ...] = ()
    dots = 1
    try:
        lines = Path(path).read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise SourceUnreachable(f"{path}: {error.strerror}") from error
    for line in lines:
        word, *rest = line.partition("#")[0].split() or [""]
        if word == "nameserver" and rest:
            servers.append((rest[0], PORT))
        elif word in ("search", "domain"):
            search = tuple(domain.strip(".") for domain in rest[:MAX_SEARCH])
        elif word == "options":
            given = [option[6:] for option in rest if option.startswith("ndots:")]
            dots = int(given[-1]) if given and given[-1].isdigit() else dots
    if not servers:
        raise SourceUnreachable(f"{path}: names no nameserver")
    return Resolver(tuple(servers[:MAX_SERVERS]), search, dots)


async def lookup(name: str, resolver: Resolver) -> list[tuple[str, int]]:
    """(host, port) of each SRV record of a name, in their order. Raises SourceUnreachable, NoSuchName where there is none."""
    for full in candidates(name, resolver):
        try:
            return await _asked(full, resolver)
        except NoSuchName:
            continue
    raise NoSuchName(f"there is no SRV record {name}; check the name")


def candidates(name: str, resolver: Resolver) -> list[str]:
    """The full names that a name may stand for, in the order they are asked for."""
    if name.endswith("."):
        return [name.rstrip(".")]
    longer = [f"{name}.{domain}" for domain in resolver.search if domain]
    return [name, *longer] if name.count(".") >= resolver.dots else [*longer, name]


async def _asked(name: str, resolver: Resolver) -> list[tuple[str, int]]:
    problem = ""
    for _ in range(TRIES):
        for server in resolver.servers:
            number = secrets.randbelow(1 << 16)
            question = query(name, number)
            try:
                async with asyncio.timeout(ASK_S):
                    answer = await _by_datagram(server, question, number)
                    if _HEADER.unpack_from(answer)[1] & _TRUNCATED:
                        answer = await _by_stream(server, question)
                return records(answer, number)
            except NoSuchName:
                raise
            except TimeoutError:
                problem = f"name server {server[0]} gave no answer within {ASK_S:g} s"
            except (OSError, SourceUnreachable, asyncio.IncompleteReadError) as error:
                problem = f"name server {server[0]}: {error}"
    raise SourceUnreachable(problem)


def query(name: str, number: int) -> bytes:
    """A question for the SRV records of a full name. Raises SourceUnreachable for what is no name."""
    try:
        labels = [label.encode("ascii") for label in name.split(".")]
    except UnicodeEncodeError:
        labels = [b""]
    if not all(0 < len(label) < 64 for label in labels) or len(name) > 253:
        raise SourceUnreachable(f"{name[:100]!r} is no DNS name")
    encoded = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    return _HEADER.pack(number, _RECURSE, 1, 0, 0, 0) + encoded + struct.pack(">2H", SRV, INTERNET)


def records(answer: bytes, number: int) -> list[tuple[str, int]]:
    """(host, port) of the SRV records of an answer. Raises SourceUnreachable for one that is none, NoSuchName where it
    has none.
    """
    try:
        found = list(_records(answer, number))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise SourceUnreachable("answers with what is no DNS message") from error
    if not found:
        raise NoSuchName("there is no such record")
    return [(host, port) for _, host, port in sorted(found)]


def _records(answer: bytes, number: int) -> Iterator[tuple[int, str, int]]:
    own, flags, questions, answers, _, _ = _HEADER.unpack_from(answer)
    if own != number or not flags & _ANSWER:
        raise SourceUnreachable("answers another question")
    if (code := flags & 0xF) == _NO_SUCH_NAME:
        raise NoSuchName("there is no such name")
    if code:
        raise SourceUnreachable(f"refuses to answer (code {code})")
    at = _HEADER.size
    for _ in range(min(questions, 1)):
        at = _name(answer, at)[1] + 4
    for _ in range(min(answers, MAX_ANSWERS)):
        _, at = _name(answer, at)
        kind, _, _, length = struct.unpack_from(">2HIH", answer, at)
        at += 10
        if kind == SRV:
            priority, _, port = struct.unpack_from(">3H", answer, at)
            host = _name(answer, at + 6)[0]
            if host and port:
                yield priority, host, port
        at += length


def _name(message: bytes, at: int) -> tuple[str, int]:
    """A name, and the place after it. What it points to must lie before it."""
    labels: list[str] = []
    after = 0
    for _ in range(MAX_JUMPS):
        length = message[at]
        if length >= 0xC0:
            after = after or at + 2
            to = (length & 0x3F) << 8 | message[at + 1]
            if to >= at:
                raise IndexError("points ahead")
            at = to
        elif length == 0:
            return ".".join(labels), after or at + 1
        else:
            label = message[at + 1 : at + 1 + length]
            if len(label) < length:
                raise IndexError("a name that is cut")
            labels.append(label.decode("ascii"))
            at += 1 + length
    raise IndexError("a name without end")


class _Datagrams(asyncio.DatagramProtocol):
    """Takes the first datagram that answers a question."""

    def __init__(self, number: int) -> None:
        self._number = number.to_bytes(2, "big")
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: object) -> None:
        if data[:2] == self._number and len(data) >= _HEADER.size and not self.answer.done():
            self.answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)


async def _by_datagram(server: tuple[str, int], question: bytes, number: int) -> bytes:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(lambda: _Datagrams(number), remote_addr=server)
    try:
        transport.sendto(question)
        return await protocol.answer
    finally:
        transport.close()


async def _by_stream(server: tuple[str, int], question: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*server)
    try:
        writer.write(struct.pack(">H", len(question)) + question)
        (length,) = struct.unpack(">H", await reader.readexactly(2))
        return await reader.readexactly(length)
    finally:
        writer.close()
