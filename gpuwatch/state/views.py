"""Saved views: addresses of pages with their filters, by person."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from gpuwatch.core.errors import UsageError
from gpuwatch.state.core import State

VIEWS_MAX = 100
"""Views of one person."""
NAME_MAX, ADDRESS_MAX = 80, 2000

_view = sa.Table(
    "saved_view",
    sa.MetaData(),
    sa.Column("owner", sa.String(200), primary_key=True),
    sa.Column("name", sa.String(NAME_MAX), primary_key=True),
    sa.Column("address", sa.Text),
    sa.Column("saved_us", sa.BigInteger),
)


@dataclass(frozen=True)
class View:
    """A page with its filters, under a name that its owner chose."""

    name: str
    address: str
    saved_us: int


class Views:
    """The saved views of a state. Every method is one short transaction and raises StoreError as State does."""

    def __init__(self, state: State) -> None:
        self._state = state

    def of(self, owner: str) -> list[View]:
        """The views of a person, by name."""
        query = sa.select(_view.c.name, _view.c.address, _view.c.saved_us).where(_view.c.owner == owner)
        with self._state.transaction(write=False) as connection:
            return sorted((View(*row) for row in connection.execute(query)), key=lambda view: view.name.casefold())

    def save(self, owner: str, view: View) -> bool:
        """Saves a view under its name, in place of one with that name; whether it is a new one.

        Raises UsageError for one view too many.
        """
        mine = _view.c.owner == owner
        with self._state.transaction(write=True) as connection:
            names = set(connection.scalars(sa.select(_view.c.name).where(mine)))
            if view.name not in names and len(names) >= VIEWS_MAX:
                raise UsageError(f"{VIEWS_MAX} views are saved already: delete one first")
            connection.execute(sa.delete(_view).where(mine, _view.c.name == view.name))
            values = {"owner": owner, "name": view.name, "address": view.address, "saved_us": view.saved_us}
            connection.execute(sa.insert(_view).values(values))
        return view.name not in names

    def delete(self, owner: str, name: str) -> bool:
        """Deletes a view; whether there was one."""
        with self._state.transaction(write=True) as connection:
            return bool(
                connection.execute(sa.delete(_view).where(_view.c.owner == owner, _view.c.name == name)).rowcount
            )
