"""A real Slurm cluster on this machine: munge, MariaDB, slurmdbd, slurmctld, slurmrestd, nodes with pretended GPUs.

Everything listens on loopback with its own folders and ports; what was started is stopped by its process id. Needs root,
since Slurm's daemons change users, and Debian's packages; else the test is skipped and the skip says what is missing.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.worlds.patience import FACTOR, PATIENCE_S, wait_until

PACKAGES = {
    "munged": "munge",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "mariadb": "mariadb-client",
    "slurmdbd": "slurmdbd",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sacctmgr": "slurm-client",
    "slurmrestd": "slurmrestd",
}
REST_USER = "games"
"""slurmrestd must not be Slurm's own user; this one is on every Debian."""
ASK_S = 0.1
"""Pause between two questions to a daemon, each of which starts a command."""
NODES = 2
GPUS_A_NODE = 4


@dataclass
class Slurm:
    """A running cluster. Commands find it through `env`."""

    name: str
    folder: Path
    env: dict[str, str]
    children: list[subprocess.Popen[bytes]]
    controller: subprocess.Popen[bytes] | None = None
    rest: subprocess.Popen[bytes] | None = None

    @property
    def rest_socket(self) -> Path:
        """Where slurmrestd listens."""
        return self.folder / "rest" / "slurmrestd.sock"

    def start_rest(self) -> subprocess.Popen[bytes]:
        """Starts slurmrestd, which takes whoever may write to its socket for its own user."""
        self.rest_socket.parent.mkdir(exist_ok=True)
        shutil.chown(self.rest_socket.parent, REST_USER)
        self.rest_socket.unlink(missing_ok=True)
        child = self.spawn(
            *("slurmrestd", "-a", "rest_auth/local", "-s", "openapi/v0.0.38,openapi/dbv0.0.38"),
            f"unix:{self.rest_socket}",
            user=REST_USER,
        )
        self.until("slurmrestd listens", self.rest_socket.exists)
        return child

    def start_controller(self) -> subprocess.Popen[bytes]:
        """Starts slurmctld and waits until it answers."""
        child = self.spawn("slurmctld", "-D")
        self.until("slurmctld answers", lambda: self.answers("scontrol", "ping"))
        return child

    def spawn(self, *command: str, user: str | None = None) -> subprocess.Popen[bytes]:
        """Starts a daemon, stopped with the cluster."""
        log = (self.folder / "log" / f"{'-'.join(command[:1] + command[2:])}.out".replace("/", "_")).open("ab")
        child = subprocess.Popen(
            command,
            env=self.env,
            cwd=self.folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        self.children.append(child)
        return child

    def stop(self, child: subprocess.Popen[bytes]) -> None:
        """Ends a daemon, by its process id."""
        _stop(child)
        self.children.remove(child)

    def answers(self, *command: str) -> bool:
        """Whether a command succeeds, and does not say that its daemon is down."""
        done = subprocess.run(
            command, check=False, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_S
        )
        return done.returncode == 0 and "DOWN" not in done.stdout

    @property
    def conf_file(self) -> Path:
        return self.folder / "slurm.conf"

    def run(self, *command: str) -> str:
        """What a command prints; fails the test with its complaint when it fails."""
        done = subprocess.run(
            command, check=False, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout.strip()

    def submit(self, *options: str, wrap: str) -> str:
        """Number of a new batch job."""
        return self.run("sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={wrap}").partition(";")[0]

    def until_released(self, name: str) -> str:
        """The script of a job that runs until `release(name)`: on a slow machine too, nobody comes too late to see it run."""
        return f"until [ -e {self.folder}/released-{name} ]; do sleep 0.2; done"

    def release(self, name: str) -> None:
        """Lets the jobs of that name end."""
        (self.folder / f"released-{name}").touch()

    def clear(self) -> None:
        """Cancels every job and waits for their ends: a job's own daemon outlives the others."""
        self.run("scancel", "--user=root")
        self.until("no job is left", lambda: not self.run("squeue", "--noheader"))

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits for a condition; fails the test with `what` when it does not come."""
        wait_until(holds, what, poll_s=ASK_S)


def missing() -> str:
    """Why no cluster can be started here, empty when one can."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    absent = sorted({package for program, package in PACKAGES.items() if not shutil.which(program)})
    return f"apt-get install {' '.join(absent)}" if absent else ""


@contextmanager
def slurm_cluster() -> Iterator[Slurm]:
    """Starts a cluster in a folder of its own, and stops it. Skips the test where that cannot be done."""
    if why := missing():
        pytest.skip(f"no Slurm: {why}")
    # pytest's folders are closed to other users, and the daemons run as some.
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        children: list[subprocess.Popen[bytes]] = []
        try:
            slurm = _start(folder, children)
            try:
                yield slurm
            finally:
                slurm.clear()
        finally:
            for child in reversed(children):
                _stop(child)


def _start(folder: Path, children: list[subprocess.Popen[bytes]]) -> Slurm:
    host = socket.gethostname().partition(".")[0]
    ports = _free_ports(3 + NODES)
    for name in ("state", "spool", "log", "devices"):
        (folder / name).mkdir()
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "TZ": "UTC"}
    slurm = Slurm("gpuwatchtest", folder, env, children)
    munge_socket = _munge(folder, children)
    _database(folder, ports[0], children)
    _configure(slurm, host, munge_socket, ports)

    slurm.spawn("slurmdbd", "-D")
    slurm.until("slurmdbd answers", lambda: slurm.answers("sacctmgr", "-n", "show", "cluster"))
    for what in (
        ["cluster", slurm.name],
        ["account", "vision"],
        ["user", "root", "account=vision"],
    ):
        slurm.run("sacctmgr", "-i", "add", *what)
    slurm.controller = slurm.start_controller()  # it tells slurmdbd of the GPUs that a QOS may limit
    limits = ["grptres=gres/gpu=6", "maxtresperuser=gres/gpu:h100=5"]
    slurm.run("sacctmgr", "-i", "add", "qos", "urgent", "priority=100", "preempt=normal", *limits)
    slurm.run("sacctmgr", "-i", "modify", "user", "root", "set", "qos=normal,urgent")
    for number in range(1, NODES + 1):
        slurm.spawn("slurmd", "-D", "-N", f"gpu{number}")
    slurm.until(
        "all nodes are idle",
        lambda: slurm.run("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle"] * NODES,
    )
    return slurm


def _configure(slurm: Slurm, host: str, munge_socket: Path, ports: Sequence[int]) -> None:
    folder, (database, dbd, ctld, *slurmds) = slurm.folder, ports
    for number in range(GPUS_A_NODE):
        # The null device stands for a GPU: Slurm only looks whether the file is there.
        os.mknod(folder / "devices" / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    dbd_conf = folder / "slurmdbd.conf"
    dbd_conf.write_text(
        f"AuthType=auth/munge\nAuthInfo=socket={munge_socket}\nDbdHost=localhost\nDbdAddr=127.0.0.1\nDbdPort={dbd}\n"
        "SlurmUser=root\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n"
        f"StoragePort={database}\nStorageUser=slurm\nStoragePass=slurm\nStorageLoc=slurm_acct\n"
        f"LogFile={folder}/log/slurmdbd.log\nPidFile={folder}/state/slurmdbd.pid\n"
    )
    dbd_conf.chmod(0o600)
    nodes = "\n".join(
        f"NodeName=gpu{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=64000 "
        f"Gres=gpu:h100:{GPUS_A_NODE} State=UNKNOWN"
        for number, port in enumerate(slurmds, start=1)
    )
    slurm.conf_file.write_text(
        f"""ClusterName={slurm.name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge_socket}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/state/slurmctld.pid
SlurmdPidFile={folder}/state/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
MinJobAge=300
KillWait=1
MessageTimeout={round(5 * FACTOR)}
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={munge_socket}
AccountingStorageEnforce=associations,limits,qos
PreemptType=preempt/qos
PreemptMode=CANCEL
AccountingStorageTRES=gres/gpu,gres/gpu:h100
SlurmdParameters=config_overrides
{nodes}
PartitionName=batch Nodes=gpu[1-{NODES}] Default=YES MaxTime=INFINITE State=UP
"""
    )
    (folder / "gres.conf").write_text(
        f"AutoDetect=off\nNodeName=gpu[1-{NODES}] Name=gpu Type=h100 "
        f"File={folder}/devices/nvidia[0-{GPUS_A_NODE - 1}]\n"
    )


def _munge(folder: Path, children: list[subprocess.Popen[bytes]]) -> Path:
    """A munge daemon of its own: key, socket and log in the folder."""
    own = folder / "munge"
    own.mkdir()
    key = own / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    for path in (own, key):
        shutil.chown(path, "munge", "munge")
    own.chmod(0o755)
    socket_path = own / "munge.socket"
    command = [
        *("munged", "--foreground", f"--key-file={key}", f"--socket={socket_path}", f"--log-file={own}/munged.log"),
        *(f"--pid-file={own}/munged.pid", f"--seed-file={own}/munged.seed"),
    ]
    children.append(subprocess.Popen(command, user="munge", group="munge", start_new_session=True, extra_groups=[]))
    wait_until(socket_path.exists, "munged listens")
    return socket_path


def _database(folder: Path, port: int, children: list[subprocess.Popen[bytes]]) -> None:
    data = folder / "mysql"
    data.mkdir()
    shutil.chown(data, "mysql", "mysql")
    # The server's own user writes its temporary files, and may not write where ours go.
    settings = {**os.environ, "TMPDIR": str(data)}
    install = ["mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={data}", "--skip-test-db"]
    subprocess.run(
        [*install, "--auth-root-authentication-method=socket"],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
        env=settings,
    )
    socket_path = data / "m.sock"
    command = [
        *("mariadbd", "--no-defaults", "--user=mysql", f"--datadir={data}", f"--socket={socket_path}"),
        *(f"--port={port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=256M"),
        *("--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0"),
    ]
    log = (folder / "log" / "mariadbd.out").open("wb")
    children.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=settings))
    client = ["mariadb", "--no-defaults", f"--socket={socket_path}", "--user=root"]
    setup = (
        "create database slurm_acct; create user slurm@localhost identified by 'slurm'; "
        "create user slurm@'127.0.0.1' identified by 'slurm'; "
        "grant all on slurm_acct.* to slurm@localhost; grant all on slurm_acct.* to slurm@'127.0.0.1';"
    )
    wait_until(
        lambda: (
            subprocess.run([*client, "-e", "select 1"], check=False, capture_output=True, timeout=PATIENCE_S).returncode
            == 0
        ),
        "MariaDB answers",
    )
    subprocess.run([*client, "-e", setup], check=True, capture_output=True, timeout=PATIENCE_S)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Ends a daemon that was started here, by its process id."""
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(PATIENCE_S)


def _free_ports(count: int) -> list[int]:
    """Ports nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
