"""Slurm: sacct, scontrol and topology.conf texts of the simulated half that Slurm runs."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

from gpuwatch.core.clock import SECOND_US
from gpuwatch.simulate.fleet import NODE_GPUS, Fleet, Node
from gpuwatch.simulate.moments import Epoch, elapsed
from gpuwatch.simulate.owners import USER_IDS
from gpuwatch.simulate.runs import Run

CPUS_A_GPU = 8
MEMORY_GB_A_GPU = 64
NODE_CPUS = 128
NODE_MEMORY_MB = 2_000_000
LEAF_NODES = 4
TIME_LIMIT_ROUND_S = 3600
EXIT_CODES = {"FAILED": "1:0", "NODE_FAIL": "1:0", "OUT_OF_MEMORY": "0:125"}
LAST_LOOK_S = 27
"""How long before the dump Slurm last evaluated a pending job."""
SACCT = (
    "JobID|JobIDRaw|Cluster|User|Account|Partition|QOS|JobName|State|ExitCode|Submit|Eligible|Start|End|Elapsed|"
    "ElapsedRaw|Reserved|Timelimit|AllocNodes|NNodes|NodeList|AllocCPUS|ReqTRES|AllocTRES|Reason|Comment"
)


def sacct(runs: Sequence[Run], epoch: Epoch, cluster: str, gres: dict[str, str]) -> str:
    """`sacct -aXP` of all Slurm runs at the window's end; `gres` is the GPU type of each partition."""
    lines = [SACCT]
    for run in runs:
        if run.scheduler != "slurm":
            continue
        held = 0 if run.start_s is None else run.held(epoch.window_s)[1] - run.start_s
        tres = _tres(run, gres[run.pool], "billing={cpus},cpu={cpus},gres/gpu:{type}={gpus},gres/gpu={gpus},mem={mem}G")
        end = "Unknown" if run.end_s is None else epoch.naive(run.end_s)
        user = run.owner.user
        state = f"CANCELLED by {USER_IDS[user]}" if run.state == "CANCELLED" else run.state
        lines.append(
            "|".join(
                (
                    run.job_id,
                    str(run.number),
                    cluster,
                    user,
                    run.owner.account,
                    run.pool,
                    "normal",
                    run.name,
                    state,
                    EXIT_CODES.get(run.state, "0:0"),
                    epoch.naive(run.submit_s),
                    epoch.naive(run.submit_s),
                    "Unknown" if run.start_s is None else epoch.naive(run.start_s),
                    end,
                    elapsed(held),
                    str(held),
                    elapsed((epoch.window_s if run.start_s is None else run.start_s) - run.submit_s),
                    elapsed(_limit(run, held)),
                    str(len(run.nodes)),
                    str(max(1, len(run.nodes))),
                    _node_list(run.nodes) if run.nodes else "None assigned",
                    str(run.gpus * CPUS_A_GPU),
                    tres,
                    tres if run.nodes else "",
                    "None" if run.start_s is not None else run.reason or "None",
                    json.dumps(dict(run.owner.labels)) if run.owner.labels else "",
                )
            )
        )
    return "\n".join(lines) + "\n"


def scontrol_jobs(runs: Sequence[Run], epoch: Epoch, gres: dict[str, str]) -> str:
    """`scontrol show job -d` at the window's end: running and pending jobs with their GPU indexes."""
    blocks = [_job_block(run, epoch, gres[run.pool]) for run in runs if run.scheduler == "slurm" and run.end_s is None]
    return "\n\n".join(blocks) + "\n" if blocks else "No jobs in the system\n"


def scontrol_nodes(fleet: Fleet, runs: Sequence[Run], epoch: Epoch) -> str:
    """`scontrol show node -d` at the window's end."""
    busy: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        if run.scheduler == "slurm" and run.start_s is not None and run.end_s is None:
            for device in run.devices:
                busy[device.node].add(device.index)
    nodes = [node for node in fleet.nodes if node.scheduler == "slurm"]
    return "\n\n".join(_node_block(node, sorted(busy[node.name]), epoch) for node in nodes) + "\n"


def topology_conf(fleet: Fleet) -> str:
    """topology.conf: leaf switches of LEAF_NODES nodes, and those that nodes name, under one spine."""
    nodes = [node for node in fleet.nodes if node.scheduler == "slurm"]
    names = [node.name for node in nodes if not node.leaf]
    leaves = {
        f"leaf{number}": names[start : start + LEAF_NODES]
        for number, start in enumerate(range(0, len(names), LEAF_NODES), start=1)
    }
    own = len(leaves)
    for leaf in dict.fromkeys(node.leaf for node in nodes if node.leaf):
        leaves[leaf_name(leaf)] = [node.name for node in nodes if node.leaf == leaf]
    lines = [f"SwitchName={name} Nodes={_node_list(members)}" for name, members in leaves.items()]
    below = ["leaf1" if own == 1 else f"leaf[1-{own}]", *list(leaves)[own:]]
    return "\n".join([*lines, f"SwitchName=spine Switches={','.join(below)}"]) + "\n"


def leaf_name(leaf: str) -> str:
    """The switch of nodes that name a leaf of their own."""
    return f"leaf-{leaf}"


def squeue(runs: Sequence[Run], epoch: Epoch, cluster: str, gres: dict[str, str]) -> str:
    """`squeue --json --states=PENDING`: pending jobs with Slurm's reasons."""
    jobs = [_waiting(run, epoch, cluster, gres[run.pool]) for run in runs if run.scheduler == "slurm" and run.reason]
    meta = {"Slurm": {"release": "22.05.8", "version": {"major": 22, "micro": 8, "minor": 5}}}
    return json.dumps({"meta": meta, "errors": [], "jobs": jobs}, indent=1, sort_keys=True) + "\n"


def _waiting(run: Run, epoch: Epoch, cluster: str, gres: str) -> dict[str, object]:
    submitted = epoch.us(run.submit_s) // SECOND_US
    return {
        "job_id": run.number,
        "array_job_id": 0,
        "name": run.name,
        "cluster": cluster,
        "partition": run.pool,
        "account": run.owner.account,
        "user_name": run.owner.user,
        "user_id": USER_IDS[run.owner.user],
        "qos": "normal",
        "job_state": "PENDING",
        "state_reason": run.reason,
        "priority": run.priority,
        "submit_time": submitted,
        "eligible_time": submitted,
        "start_time": 0,
        "end_time": 0,
        "node_count": max(1, run.gpus // NODE_GPUS),
        "nodes": "",
        "tres_req_str": _tres(run, gres, "cpu={cpus},mem={mem}G,billing={cpus},gres/gpu={gpus},gres/gpu:{type}={gpus}"),
        "tres_alloc_str": "",
        "time_limit": 24 * 60,
        "restart_cnt": run.restarts,
        "last_sched_evaluation": epoch.us(epoch.window_s - LAST_LOOK_S) // SECOND_US,
    }


def index_ranges(indexes: Sequence[int]) -> str:
    """`0-3,6`: sorted indexes as Slurm prints them."""
    runs = []
    for _, group in groupby(enumerate(indexes), key=lambda pair: pair[1] - pair[0]):
        members = [index for _, index in group]
        runs.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ",".join(runs)


def _tres(run: Run, gres: str, pattern: str) -> str:
    head = pattern.format(cpus=run.gpus * CPUS_A_GPU, type=gres, gpus=run.gpus, mem=run.gpus * MEMORY_GB_A_GPU)
    return f"{head},node={max(1, len(run.nodes) or run.gpus // NODE_GPUS)}"


def _limit(run: Run, held: int) -> int:
    """Time limit in seconds: whole minutes, just reached where the job was ended for it."""
    if run.state == "TIMEOUT":
        return held // 60 * 60
    return (held // TIME_LIMIT_ROUND_S + 2) * TIME_LIMIT_ROUND_S


def _node_list(names: Sequence[str]) -> str:
    """`gpu-h100-[01,03]`: names that differ in their last number share one bracket."""
    stems: dict[str, list[str]] = defaultdict(list)
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)", name)
        stems[match[1] if match else name].append(match[2] if match else "")
    parts = [stem + (tails[0] if len(tails) == 1 else f"[{','.join(tails)}]") for stem, tails in stems.items()]
    return ",".join(parts)


def _job_block(run: Run, epoch: Epoch, gres: str) -> str:
    user, uid = run.owner.user, USER_IDS[run.owner.user]
    start = run.start_s
    held = 0 if start is None else epoch.window_s - start
    array = f" ArrayJobId={run.array[0]} ArrayTaskId={run.array[1]}" if run.array else ""
    lines = [
        f"JobId={run.number}{array} JobName={run.name}",
        f"   UserId={user}({uid}) GroupId={user}({uid}) MCS_label=N/A",
        f"   Priority={run.priority} Nice=0 Account={run.owner.account} QOS=normal",
        f"   JobState={run.state} Reason={'None' if start is not None else run.reason or 'Resources'} Dependency=(null)",
        f"   Requeue=1 Restarts={run.restarts} BatchFlag=1 Reboot=0 ExitCode=0:0",
        f"   RunTime={elapsed(held)} TimeLimit={elapsed(_limit(run, held))} TimeMin=N/A",
        f"   SubmitTime={epoch.naive(run.submit_s)} EligibleTime={epoch.naive(run.submit_s)}",
        f"   AccrueTime={epoch.naive(run.submit_s)}",
    ]
    if start is None:
        lines.append("   StartTime=Unknown EndTime=Unknown Deadline=N/A")
        looked = epoch.naive(max(run.submit_s, epoch.window_s - LAST_LOOK_S))
        lines.append(f"   SuspendTime=None SecsPreSuspend=0 LastSchedEval={looked} Scheduler=Main")
    else:
        lines.append(f"   StartTime={epoch.naive(start)} EndTime={epoch.naive(start + _limit(run, held))} Deadline=N/A")
    lines += [
        f"   Partition={run.pool} AllocNode:Sid=login01:4242",
        "   ReqNodeList=(null) ExcNodeList=(null)",
        f"   NodeList={_node_list(run.nodes) if run.nodes else '(null)'}",
    ]
    if run.nodes:
        lines.append(f"   BatchHost={run.nodes[0]}")
    cpus = run.gpus * CPUS_A_GPU
    tres = _tres(run, gres, "cpu={cpus},mem={mem}G,gres/gpu={gpus},gres/gpu:{type}={gpus},billing={cpus}")
    lines += [
        f"   NumNodes={max(1, len(run.nodes))} NumCPUs={cpus} NumTasks=1 CPUs/Task={cpus} ReqB:S:C:T=0:0:*:*",
        f"   TRES={tres}",
    ]
    if run.nodes:
        lines.append(f"   JOB_GRES=gpu:{gres}:{run.gpus}")
    for node in run.nodes:
        indexes = sorted({device.index for device in run.devices if device.node == node})
        memory = len(indexes) * MEMORY_GB_A_GPU * 1024
        lines.append(
            f"     Nodes={node} CPU_IDs=0-{len(indexes) * CPUS_A_GPU - 1} Mem={memory} "
            f"GRES=gpu:{gres}:{len(indexes)}(IDX:{index_ranges(indexes)})"
        )
    per_node = (
        run.gpus if len(run.nodes) < 2 else max(len({d.index for d in run.devices if d.node == n}) for n in run.nodes)
    )
    lines += ["   Command=(null)", "   WorkDir=/home/" + user, f"   TresPerNode=gres:gpu:{gres}:{per_node}"]
    return "\n".join(lines) + "\n"


def _node_block(node: Node, busy: list[int], epoch: Epoch) -> str:
    gres, count, used = node.model.gres, node.gpu_count, len(busy)
    state = "IDLE" if not busy else "ALLOCATED" if used == count else "MIXED"
    if node.outage:
        state = "DOWN" if node.outage.down else f"{state}+DRAIN"
    shown = index_ranges(busy) if busy else "N/A"
    tres = f"gres/gpu={count},gres/gpu:{gres}={count}"
    allocated = (
        f"cpu={used * CPUS_A_GPU},mem={used * MEMORY_GB_A_GPU}G,gres/gpu={used},gres/gpu:{gres}={used}" if used else ""
    )
    return (
        "\n".join(
            (
                f"NodeName={node.name} Arch=x86_64 CoresPerSocket=64 ",
                f"   CPUAlloc={used * CPUS_A_GPU} CPUEfctv={NODE_CPUS} CPUTot={NODE_CPUS} CPULoad={used * 2.4:.2f}",
                "   AvailableFeatures=(null)",
                "   ActiveFeatures=(null)",
                f"   Gres=gpu:{gres}:{count}",
                "   GresDrain=N/A",
                f"   GresUsed=gpu:{gres}:{used}(IDX:{shown})",
                f"   NodeAddr={node.name} NodeHostName={node.name} Version=22.05.8",
                "   OS=Linux 6.1.0-generic",
                f"   RealMemory={NODE_MEMORY_MB} AllocMem={used * MEMORY_GB_A_GPU * 1024} FreeMem=400000 Sockets=2 Boards=1",
                f"   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
                f"   Partitions={node.pool} ",
                f"   BootTime={epoch.naive(0)} SlurmdStartTime={epoch.naive(0)}",
                f"   LastBusyTime={epoch.naive(epoch.window_s)}",
                f"   CfgTRES=cpu={NODE_CPUS},mem={NODE_MEMORY_MB}M,billing={NODE_CPUS},{tres}",
                f"   AllocTRES={allocated}",
                "   CapWatts=n/a",
                "   CurrentWatts=0 AveWatts=0",
                "   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
                *(
                    (f"   Reason={node.outage.reason} [root@{epoch.naive(node.outage.since_s)}]",)
                    if node.outage
                    else ()
                ),
            )
        )
        + "\n"
    )
