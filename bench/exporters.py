"""A thousand exporters in one process: each answers with 8 GPUs x 25 fields that change with every scrape.

`python -m bench.exporters PORT COUNT` serves http://127.0.0.1:PORT/<n>/metrics until it is ended; GET /scrapes answers with the
instants (seconds) at which each was scraped.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

from gpuwatch.core.fields import FIELDS

GPUS, FIELD_COUNT = 8, 25
PAGES = 4
"""Variants of each exporter's page, so that values move."""
NAMES = [f.name for f in FIELDS if f.column and f.name.startswith(("DCGM_FI_DEV", "DCGM_FI_PROF"))][:FIELD_COUNT]


def page(node: int, seed: int) -> bytes:
    """The text of one exporter: GPUS x FIELD_COUNT samples, 9 labels each."""
    rng = random.Random(node * 1000 + seed)
    lines = []
    for name in NAMES:
        lines.append(f"# HELP {name} {name.lower()}\n# TYPE {name} gauge\n")
        for gpu in range(GPUS):
            value = f"{rng.random():.6f}" if "PROF" in name else str(rng.randrange(20, 90))
            lines.append(
                f'{name}{{gpu="{gpu}",UUID="GPU-{node:08x}-0000-0000-0000-{gpu:012x}",pci_bus_id="00000000:{gpu:02X}:00.0",'
                f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="node-{node:05d}",'
                f'DCGM_FI_DRIVER_VERSION="550.90.07",hpc_job="{node}"}} {value}\n'
            )
    return "".join(lines).encode()


class Exporters:
    """Answers scrapes from prepared bytes, and remembers when they came."""

    def __init__(self, count: int) -> None:
        self.scrapes: list[list[float]] = [[] for _ in range(count)]
        self._answers = [[_answer(page(node, seed)) for seed in range(PAGES)] for node in range(count)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept alive."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1]
                if path == b"/scrapes":
                    writer.write(_answer(json.dumps(self.scrapes).encode()))
                else:
                    node = int(path.split(b"/")[1])
                    self.scrapes[node].append(time.time())
                    writer.write(self._answers[node][len(self.scrapes[node]) % PAGES])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _answer(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def main(port: int, count: int) -> None:
    """Serves until it is ended."""
    server = await asyncio.start_server(Exporters(count).serve, "127.0.0.1", port, backlog=2048)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
