"""A remote-write sender as Prometheus is one: a fleet's series in shards, a connection each, the next request after the ack."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from bench.remote_write import FIELD_COUNT, GPUS, series_bytes
from bench.remote_write import field as protobuf
from gpuwatch.core.fields import FIELDS

NAMES = [known.name for known in FIELDS if known.column and not known.divisor > 1][:FIELD_COUNT]
MODEL = "NVIDIA H100 80GB HBM3"
WAIT_S = 70.0
"""A little longer than the service itself waits for its disk."""
SNAPPY = pa.Codec("snappy")


@dataclass
class Sent:
    """What came of the requests of one run."""

    samples: int = 0
    seconds: list[float] = field(default_factory=list)
    """From the first byte of each request that was taken to its answer."""
    refused: dict[int, int] = field(default_factory=dict)
    """Requests by status, where it is not 2xx."""


def labels(node: int, gpu: int, name: str, pod: str) -> dict[str, str]:
    """The labels that Prometheus gives a series of dcgm-exporter: 11 and the name."""
    return {
        "__name__": name,
        "DCGM_FI_DRIVER_VERSION": "595.58.03",
        "Hostname": f"push-node-{node:04d}",
        "UUID": f"GPU-7c4e07f6-3a86-4340-{node:04x}-25f2a83cdc{gpu:02d}",
        "device": f"nvidia{gpu}",
        "exported_namespace": "research",
        "exported_pod": pod,
        "gpu": str(gpu),
        "instance": f"push-node-{node:04d}:9400",
        "job": "dcgm-exporter",
        "modelName": MODEL,
        "pci_bus_id": f"00000000:{gpu:02d}:07.0",
    }


def fleet_series(nodes: int) -> list[bytes]:
    """The encoded labels of every series of `nodes` nodes, an exporter's together."""
    return [
        series_bytes(labels(node, gpu, name, f"pretrain-worker-{node * GPUS + gpu}"), [])
        for node in range(nodes)
        for name in NAMES
        for gpu in range(GPUS)
    ]


def body(series: Sequence[bytes], times_ms: Sequence[int], dice: random.Random) -> bytes:
    """A compressed request: one reading of each series at each time, a sample a TimeSeries, as Prometheus sends them."""
    parts = []
    for at_ms in times_ms:
        stamp = b"\x10" + _varint(at_ms)
        for encoded in series:
            sample = b"\x09" + struct.pack("<d", round(dice.random(), 3)) + stamp
            content = encoded + b"\x12" + bytes((len(sample),)) + sample
            parts.append(protobuf(1, content))
    return bytes(SNAPPY.compress(b"".join(parts), asbytes=True))


def request(address: str, content: bytes) -> bytes:
    """The bytes of a POST to http://HOST:PORT/PATH."""
    host, _, path = address.removeprefix("http://").partition("/")
    head = (
        f"POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n"
        f"X-Prometheus-Remote-Write-Version: 0.1.0\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def send_all(address: str, shards: Sequence[Sequence[bytes]], samples_a_body: int) -> Sent:
    """Posts the bodies of each shard in order over a connection of its own, all shards at once."""
    sent = Sent()

    async def shard(bodies: Sequence[bytes]) -> None:
        connection = await Connection.open(address)
        for content in bodies:
            await connection.post(content, samples_a_body, sent)
        connection.close()

    await asyncio.gather(*(shard(bodies) for bodies in shards))
    return sent


class Connection:
    """One kept-alive connection."""

    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address, self._reader, self._writer = address, reader, writer

    @classmethod
    async def open(cls, address: str) -> Connection:
        """Connects to the host of an address."""
        host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
        return cls(address, *await asyncio.open_connection(host, int(port)))

    async def post(self, content: bytes, samples: int, sent: Sent) -> None:
        """Posts one body and waits for the answer, which is counted in `sent`."""
        start = time.perf_counter()
        self._writer.write(request(self._address, content))
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), WAIT_S)
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
        if length:
            await self._reader.readexactly(length)
        status = int(lines[0].split(" ")[1])
        if status // 100 == 2:
            sent.seconds.append(time.perf_counter() - start)
            sent.samples += samples
        else:
            sent.refused[status] = sent.refused.get(status, 0) + 1

    def close(self) -> None:
        """Ends it."""
        self._writer.close()


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
