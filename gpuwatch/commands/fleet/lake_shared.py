"""What the commands of `gpuwatch lake` share: the settings of the lake, a connection to it, and the lease of the cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.commands.shared import environment
from gpuwatch.core.errors import StoreError

if TYPE_CHECKING:
    from gpuwatch.lake.connection import Lake
    from gpuwatch.lake.settings import LakeSettings
    from gpuwatch.settings import Settings


def lake_settings(config: Path | None, cell: bool = True) -> LakeSettings:
    """Those of the lake. Raises UsageError without, and without the name of a cell where one is needed."""
    from gpuwatch.core.config_file import read_file
    from gpuwatch.lake.settings import needed

    return needed(read_file(config), environment(), cell)


def check_lease(settings: LakeSettings, own: Settings) -> None:
    """Raises StoreError while a server holds the cell with another directory: it publishes by itself."""
    from gpuwatch.state.lease import Leases, cell_lease
    from gpuwatch.state.server import Server

    server = Server.of(own)
    if server is None:
        return
    leases = Leases(server, cell_lease(settings.cell), "", settings.lease_s)
    try:
        found = leases.read()
    finally:
        leases.close()
    if found is not None and found.left_us > 0:
        raise StoreError(
            f"cell {settings.cell} is held by {found.holder} at {found.address}, which publishes it; stop that one first"
        )


@contextmanager
def opened_lake(settings: LakeSettings, create: bool = False) -> Iterator[Lake]:
    """A connection for the block; with `create`, a lake that does not exist yet is made."""
    from gpuwatch.lake.connection import Lake

    with Lake.open(settings, create=create) as lake:
        yield lake
