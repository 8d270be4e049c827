"""The help of every command: an example at its end, and arguments by their names."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

EXAMPLES = {
    "demo": "--no-serve",
    "scan": "--prometheus http://prometheus:9090 --days 14 --out scan",
    "serve": "--config gpuwatch.toml --data /var/lib/gpuwatch",
    "agent": "--port 9400",
    "import": "sacct sacct.txt --cluster c1 --timezone Europe/Berlin",
    "imports": "--format json",
    "backfill": "--prometheus http://prometheus:9090 --since 30d",
    "analyze": "--since 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z",
    "findings": "--open --team vision",
    "chargeback": "--window lastmonth --by team,day",
    "ledger": "--window lastweek --by team,bucket",
    "explain": "c1.alsx",
    "reconcile": "--window lastmonth",
    "doctor": "--data gpuwatch-data",
    "shapes": "--cluster c1",
    "simulate": "--out bundle --gpus 64 --days 7",
    "backup": "gpuwatch-backup",
    "samples": "gpu-samples --data gpuwatch-backup",
    "restore": "gpuwatch-backup --data gpuwatch-data",
    "repair": "--dry-run",
    "verify": "--rebuild",
    "audit": "--bundle BUNDLE --out audit",
    "audit-log": "--since 2026-11-01T00:00:00Z",
    "backtest": "idle-hoarding --window 30d",
    "reclaim": "--team vision",
    "detectors show": "--format json",
    "detectors set": "detectors.toml",
    "detectors validate": "detectors/",
    "report monthly": "--month 2026-10 --out reports",
    "report weekly": "--week 2026-W47 --out reports",
    "report recipients show": "--format json",
    "report recipients set": "recipients.toml",
    "budget show": "--team vision",
    "budget set": "budgets.toml",
    "policy show": "--format json",
    "policy set": "policies.toml",
    "policy what-if": "policies.toml --window lastmonth",
    "decide own-vs-cloud": "--window 30d --cloud-price 2.50",
    "decide spot": "--window 30d --team vision",
    "decide right-sizing": "--window 30d --team vision",
    "decide consolidate": "--cluster c1 --pool train --pool batch",
    "decide place": "--gpus 16 --model H100 --data-gb 4000@c1 --cloud name=aws,price=6.88,gpus_a_node=8",
    "decide idle-limit": "--window 30d --team vision",
    "checkpoint": "--params 70e9 --gpus 512 --write-gbps 50",
    "rates show": "--format json",
    "teams show": "--format csv",
    "teams set": "teams.csv",
    "teams add": "'label:team,*,*'",
    "rates set": "rates.csv",
    "rates fx": "fx.csv --currency EUR",
    "rates owned": "owned.toml",
    "rates spot": "spot-prices.json --cluster c1",
    "rates commitments": "--window month",
    "period close": "2026-W47",
    "period list": "--format json",
    "period show": "2026-W47 --corrections",
    "period reopen": '2026-W47 --reason "rates of pool b were wrong"',
    "period sign": '2026-W47 --name "Ada Byron, FinOps"',
    "period verify": "2026-W47",
    "lake publish": "--config gpuwatch.toml --data gpuwatch-data",
    "lake status": "--config gpuwatch.toml",
    "lake clusters": "--release old-cluster",
    "lake verify": "--config gpuwatch.toml --data gpuwatch-data",
    "lake export": "--config gpuwatch.toml --to parquet",
    "lake maintain": "--config gpuwatch.toml",
    "lake pull": "--config gpuwatch.toml --data copy",
    "lake rebuild": "--config gpuwatch.toml --data gpuwatch-data",
    "lake rebook": "--config gpuwatch.toml --data gpuwatch-data --since 2026-01-01T00:00:00Z --ray auto",
    "state copy": "postgresql+psycopg://gpuwatch@db.example.com/gpuwatch --data gpuwatch-data",
    "token create": "--scope read --team vision --expires 90d",
    "token list": "--format json",
    "token revoke": "tok-1",
}
"""Arguments by command."""


class Command(TyperCommand):
    """A command whose help shows an argument's name (`ID`) without the type that Typer puts behind it (`ID <str>`)."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        parameter: Any
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda **_: ""


def add_examples(app: typer.Typer, before: str = "") -> None:
    """Puts the example of each command below its help."""
    for command in app.registered_commands:
        name = f"{before}{command.name}"
        command.cls = Command
        if name in EXAMPLES:
            command.epilog = f"Example: gpuwatch {name} {EXAMPLES[name]}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{before}{group.name} ")
