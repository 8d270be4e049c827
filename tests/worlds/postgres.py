"""A real PostgreSQL server for the tests of the state: one a worker, with a database from a template for each state."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest

from gpuwatch.state import FILE, State
from gpuwatch.state.copying import fill
from gpuwatch.state.server import Server
from tests.worlds.patience import PATIENCE_S, wait_until

PACKAGE = "postgresql"
SERVER_USERS = ("postgres", "nobody")
"""The server refuses to run as root: it gets the first of these that there is."""
USER, PASSWORD = "gpuwatch", "s3cret/@x9tail"
TEMPLATE = "template_state"
QUICK = ("fsync=off", "full_page_writes=off", "autovacuum=off", "max_connections=60")
"""Nothing here must survive a crash of the machine."""


class Postgres:
    """A running server. Over the socket it trusts everybody; over TCP it wants the password."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.programs = folder, programs
        self._names = count()
        self._child: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])

    def url(self, database: str) -> str:
        """The URL of a database over the socket."""
        return f"postgresql+psycopg://{USER}@/{database}?host={self.folder}&port={self.port}"

    def tcp_url(self, database: str, password: str = "") -> str:
        """The URL of a database over TCP, with a percent-encoded password or without."""
        return f"postgresql+psycopg://{USER}{':' if password else ''}{password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        settings = [part for one in QUICK for part in ("-c", one)]
        with (self.folder / "log").open("ab") as log:
            self._child = subprocess.Popen(
                (self.programs / "postgres", "-D", self.folder / "data", "-k", self.folder, "-p", str(self.port))
                + ("-c", "listen_addresses=127.0.0.1", *settings),
                stdout=log,
                stderr=log,
                **_other_user(),
            )
        ready = (self.programs / "pg_isready", "-q", "-h", self.folder, "-p", str(self.port))
        wait_until(lambda: not subprocess.run(ready, check=False, timeout=PATIENCE_S).returncode, "PostgreSQL answers")

    def stop(self) -> None:
        """Ends the server at once, as a crash of it would."""
        if self._child is not None:
            self._child.send_signal(signal.SIGQUIT)
            self._child.wait(PATIENCE_S)
            self._child = None

    def sql(self, statement: str, database: str = "postgres") -> list[Any]:
        """The rows of one statement, outside of a transaction."""
        import psycopg

        url = self.url(database).replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def new(self, empty: bool = False) -> str:
        """The name of a new database: empty, or with an empty state that has an id of its own."""
        name = f"state_{next(self._names)}"
        self.sql(f"create database {name}" + ("" if empty else f" template {TEMPLATE}"))
        if not empty:
            self.sql(f"update setting set value = '{uuid4().hex}' where name = 'state_id'", name)
        return name


def programs() -> Path | None:
    """The folder of the newest PostgreSQL server of this machine."""
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    return max(folders, key=lambda path: int(path.parts[-2]), default=None)


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """A server in a folder of its own. Skips the test where there is none."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install 'gpuwatch[postgres]'")
    found = programs()
    if found is None:
        pytest.skip(f"no PostgreSQL: apt-get install {PACKAGE}")
    with TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        user = _other_user()
        if user:
            folder.chmod(0o755)
            for path in (folder, secret):
                shutil.chown(path, user["user"])
        subprocess.run(
            (found / "initdb", "-D", folder / "data", "-U", USER, "--no-sync", "-E", "UTF8", "--locale=C")
            + ("--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}"),
            check=True,
            capture_output=True,
            **user,
        )
        server = Postgres(folder, found)
        server.start()
        try:
            server.sql(f"create database {TEMPLATE}")
            State.open(server.url(TEMPLATE)).close()
            yield server
        finally:
            server.stop()


def on_server(patch: pytest.MonkeyPatch, server: Postgres) -> dict[Path, str]:
    """Keeps the state of every directory, and every one in memory, on a server. Returns the URLs by directory.

    A directory that has a state in a file, such as the copy of a template, gets a copy of it there.
    """
    places: dict[Path, str] = {}
    on_disk = State.open.__func__  # type: ignore[attr-defined]

    def opened(cls: Any, where: Any, create: bool = True) -> State:
        if isinstance(where, Server) or ("://" in str(where) and str(where) != "sqlite://"):
            return on_disk(cls, where, create)
        if str(where) == "sqlite://":
            return on_disk(cls, server.url(server.new()), create)
        place = Path(where).resolve()
        if place not in places:
            if not create and not (place / FILE).exists():
                return on_disk(cls, where, create)
            place.mkdir(parents=True, exist_ok=True)
            url = server.url(server.new())
            if (place / FILE).exists():
                with on_disk(cls, place) as saved, on_disk(cls, url) as state:
                    fill(saved, state)
            places[place] = url
        return on_disk(cls, places[place], create)

    patch.setattr(State, "open", classmethod(opened))
    return places


def _other_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    name = next(user for user in SERVER_USERS if user in known)
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}
