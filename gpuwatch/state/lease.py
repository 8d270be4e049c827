"""Leases on the state's server: one process has a name until a time of the server's clock, unless it renews it.

`epoch` rises with every process that takes a lease.
"""

from __future__ import annotations

import os
import secrets
import socket
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwatch.core.errors import NotHolder
from gpuwatch.state.server import Server
from gpuwatch.state.statements import Statements

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from gpuwatch.state.core import State

NOW = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"
_READ = f"select holder, address, volume, epoch, until_us - {NOW} as left_us from lease where name = :name"
_TAKE = (
    "insert into lease (name, holder, address, epoch, until_us)"
    f" values (:name, :holder, :address, 1, {NOW} + :length_us)"
    " on conflict (name) do update set holder = excluded.holder, address = excluded.address, epoch = lease.epoch + 1,"
    f" until_us = {NOW} + :length_us where lease.until_us <= {NOW} returning epoch, volume"
)
_OWN = "where name = :name and holder = :holder and epoch = :epoch"
_RENEW = f"update lease set until_us = {NOW} + :length_us {_OWN}"
_RAISE = f"update lease set epoch = :higher {_OWN} and epoch < :higher and until_us > {NOW}"
_NOTE = f"update lease set volume = :volume {_OWN}"
_RELEASE = f"update lease set until_us = 0 {_OWN}"


CELL = "cell "
"""How the names of the leases of cells begin."""


def cell_lease(cell: str) -> str:
    """The name of the lease of a cell."""
    return f"{CELL}{cell}"


LEAD = "lead"
"""The name of the lease of the process that does what is fleet-wide."""
_HELD = f"select count(*) as n from lease where name = :name and until_us > {NOW}"
_MINE = f"select 1 from lease where name = :name and holder = :holder and epoch = :epoch and until_us > {NOW} for share"


def is_held(state: State, name: str) -> bool:
    """Whether some process has a lease now. A state in a file has none."""
    return state.on_server and bool(state.read(_HELD, name=name)[0]["n"])


@dataclass(frozen=True)
class Fence:
    """Refuses the writing transactions of a process that has lost its lease, in the transaction itself."""

    name: str
    holder: str
    epoch: int

    def __call__(self, connection: Connection) -> None:
        """Raises NotHolder without the lease. Until the transaction ends nobody else takes it."""
        import sqlalchemy as sa

        own = {"name": self.name, "holder": self.holder, "epoch": self.epoch}
        if connection.execute(sa.text(_MINE), own).first() is None:
            raise NotHolder(f"this process no longer has the lease {self.name}: another one does its work", "")


def fenced(state: State, fence: Fence) -> State:
    """The same state, whose writing transactions on a server are refused without the lease. Close the first one alone."""
    other = copy(state)
    other._fence = fence
    return other


@dataclass(frozen=True)
class Lease:
    """A lease as the server has it now."""

    holder: str
    address: str
    volume: str | None
    """The data directory with which it was last held and ready."""
    epoch: int
    left_us: int
    """Until it ends; 0 or less: it has ended."""


@dataclass(frozen=True)
class Taken:
    """A lease that this process has taken. `volume` is that of the holder before."""

    epoch: int
    volume: str | None


class Leases:
    """One name that this process has, or waits for. Every method raises StoreError if the server does not respond."""

    def __init__(self, server: Server, name: str, address: str, length_s: float) -> None:
        self.name = name
        self.length_s = length_s
        self.holder = f"process {os.getpid()} on {socket.gethostname()} ({secrets.token_hex(4)})"
        self.address = address
        self.server = server
        self._statements = Statements(server, f"lease {name}", length_s / 3)

    def read(self) -> Lease | None:
        """Who has it, or had it last; None if nobody ever had it."""
        rows = self._statements.rows(_READ, name=self.name)
        return Lease(*rows[0]) if rows else None

    def take(self) -> Taken | None:
        """Takes the lease if nobody has it; None if somebody has."""
        rows = self._statements.rows(
            _TAKE, name=self.name, holder=self.holder, address=self.address, length_us=self._length_us
        )
        return Taken(*rows[0]) if rows else None

    def renew(self, epoch: int) -> bool:
        """Has it for another length from now on; False if somebody else has taken it."""
        return self._change(_RENEW, epoch, length_us=self._length_us)

    def higher(self, epoch: int, least: int) -> bool:
        """Gives the lease that this process has the epoch `least`; False if it has it no longer."""
        return self._change(_RAISE, epoch, higher=least)

    def note_volume(self, epoch: int, volume: str) -> bool:
        """Notes with which data directory it is held; False if this process has it no longer."""
        return self._change(_NOTE, epoch, volume=volume)

    def release(self, epoch: int) -> None:
        """Ends it now, so that a waiting process need not wait for its end."""
        self._change(_RELEASE, epoch)

    def close(self) -> None:
        """Closes the connections."""
        self._statements.close()

    @property
    def _length_us(self) -> int:
        return int(self.length_s * 1_000_000)

    def _change(self, statement: str, epoch: int, **more: object) -> bool:
        own = {"name": self.name, "holder": self.holder, "epoch": epoch}
        return bool(self._statements.changed(statement, **own, **more))
