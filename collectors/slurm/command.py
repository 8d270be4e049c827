"""One of Slurm's commands run to its end: no shell, a deadline, and no more output than asked for."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gpuwatch.core.errors import SourceUnreachable

MAX_COMPLAINT_BYTES = 4096
READ_BYTES = 1 << 18
KILLED_S = 5.0
"""How long a killed command may keep its pipes: a child in a session of its own may outlive it."""

_DROPPED = ("SACCT_", "SCONTROL_", "SQUEUE_", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS")
"""Variables of the caller that would change what the commands print."""


def environment(inherited: Mapping[str, str], conf_file: str = "") -> dict[str, str]:
    """The variables to run with: times in UTC, words in English, task lists of arrays never cut short."""
    kept = {name: value for name, value in inherited.items() if not name.startswith(_DROPPED)}
    fixed = {"TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard", "SLURM_BITSTR_LEN": "0"}
    return kept | fixed | ({"SLURM_CONF": conf_file} if conf_file else {})


async def output_of(argv: Sequence[str], env: Mapping[str, str], timeout_s: float, max_bytes: int) -> bytes:
    """What the command prints, at most `max_bytes`.

    Raises SourceUnreachable when it is not there, fails, prints more, or runs past `timeout_s` seconds; it and its
    children are then killed.
    """
    command = os.path.basename(argv[0])
    process = await _started(command, argv, env)
    assert process.stdout is not None and process.stderr is not None
    # Both pipes are read at once: a full pipe that nobody reads would stop the command.
    printed = asyncio.ensure_future(_read(process.stdout, max_bytes, command))
    complaint = asyncio.ensure_future(_first(process.stderr, MAX_COMPLAINT_BYTES))
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(printed, complaint)
            code = await process.wait()
    except TimeoutError as error:
        raise SourceUnreachable(
            f"{command}: no answer within {timeout_s:g} s; see `scontrol ping`, or raise timeout_s in [[slurm]]"
        ) from error
    finally:
        if process.returncode is None:
            await _kill(process, printed, complaint)
    if code:
        raise SourceUnreachable(_explained(command, code, complaint.result().decode(errors="replace")))
    return printed.result()


async def _started(command: str, argv: Sequence[str], env: Mapping[str, str]) -> asyncio.subprocess.Process:
    """The running command, in a process group of its own. Raises SourceUnreachable."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # A start that is cancelled half-way would leave the command's children behind.
        with suppress(OSError):
            await _kill(await starting)
        raise
    except FileNotFoundError as error:
        raise SourceUnreachable(
            f"{command}: not found; install Slurm's client commands here or set bin_dir in [[slurm]]"
        ) from error
    except OSError as error:
        raise SourceUnreachable(f"{command}: cannot be run ({error.strerror}); check {argv[0]}") from error


async def _kill(process: asyncio.subprocess.Process, *readers: asyncio.Future[bytes]) -> None:
    """Kills a command with its children and reads its pipes to their ends: asyncio waits for those too."""
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None and process.stderr is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(KILLED_S):
            await asyncio.gather(_first(process.stdout, 0), _first(process.stderr, 0), process.wait())


async def _read(pipe: asyncio.StreamReader, max_bytes: int, command: str) -> bytes:
    pieces, size = list[bytes](), 0
    while piece := await pipe.read(READ_BYTES):
        size += len(piece)
        if size > max_bytes:
            raise SourceUnreachable(f"{command}: prints more than {max_bytes} bytes; raise max_bytes in [[slurm]]")
        pieces.append(piece)
    return b"".join(pieces)


async def _first(pipe: asyncio.StreamReader, most: int) -> bytes:
    """The first `most` bytes; the rest is read and thrown away."""
    kept = b""
    while piece := await pipe.read(READ_BYTES):
        kept += piece[: max(0, most - len(kept))]
    return kept


def _explained(command: str, code: int, complaint: str) -> str:
    line = next((line.strip() for line in complaint.splitlines() if line.strip()), f"exit status {code}")
    lower = line.lower()
    if "slurm_load" in lower or "unable to contact" in lower or "controller" in lower:
        fix = "check that slurmctld runs (`scontrol ping`) and that this host has its slurm.conf and munge key"
    elif command == "sacct" or "dbd" in lower or "accounting" in lower:
        fix = "check slurmdbd; a site without accounting sets accounting = false in [[slurm]]"
    else:
        fix = f"run `{command}` by hand as this user"
    return f"{command}: {line[:300]}; {fix}"
