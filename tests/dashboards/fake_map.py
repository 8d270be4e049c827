"""Canned answers of the routes that draw the fleet: nodes below leaf switches, with jobs, findings and hostile names."""

from __future__ import annotations

from typing import Any

from tests.dashboards.fake_names import HOSTILE, Json

TEAMS = ["search", HOSTILE]


def node(name: str, leaf: str | None, states: str, **columns: Any) -> Json:
    """A node; `states` has a letter for each GPU: h held, f free, s stranded, x out of service, o not shown."""
    words = {"h": "held", "f": "free", "s": "stranded", "x": "out_of_service", "o": "other"}
    size = len(states)
    held = [letter == "h" for letter in states]
    return {
        "cluster": "c1",
        "node": name,
        "leaf": leaf,
        "nvlink_domain": None,
        "pool": "h100",
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "gpus": [f"GPU-{name}-{n}" for n in range(size)],
        "index": list(range(size)),
        "island": [0] * size,
        "pcie": [n // 2 for n in range(size)],
        "numa": [n // 4 for n in range(size)],
        "state": [words[letter] for letter in states],
        "team": [0 if one else None for one in held],
        "job": [0 if one else None for one in held],
        "jobs": [int(one) for one in held],
        "bucket": ["hoarded" if one else "schedulable" for one in held],
        "avoidable": [1.0 if one else 0.0 for one in held],
        "celsius": [41.5 if one else None for one in held],
        "finding": [0 if one else None for one in held],
        "fault": [None] * size,
        **columns,
    }


def fleet(nodes: list[Json] | None = None) -> Json:
    """The answer of GET /topology/map."""
    made = (
        nodes
        if nodes is not None
        else [
            node("n1", "leaf-1", "hhhhffff"),
            node("n2", "leaf-1", "hhhhssss", fault=[1] + [None] * 7),
            node(HOSTILE, None, "ffxo", index=[None, 1, 2, 3], team=[None, None, None, None]),
        ]
    )
    return {
        "at": "2026-11-21T12:00:00Z",
        "clusters": [{"cluster": "c1", "as_of": "2026-11-21T12:00:00Z"}],
        "unknown": {},
        "teams": TEAMS,
        "jobs": [
            {
                "cluster": "c1",
                "job": "4711",
                "name": "train",
                "user": "ann",
                "team": 0,
                "gpus": 8,
                "nodes": 2,
                "leaves": 1,
            },
            {
                "cluster": "c1",
                "job": f"x/{HOSTILE}",
                "name": None,
                "user": None,
                "team": 1,
                "gpus": 1,
                "nodes": 1,
                "leaves": None,
            },
        ],
        "findings": [
            {"key": "idle-1", "detector": "idle-hoarding", "title": "Idle GPUs", "severity": "high", "team": "search"},
            {
                "key": "bad-1",
                "detector": "degraded-gpu",
                "title": "GPU with errors",
                "severity": "critical",
                "team": "search",
            },
        ],
        "nodes": made,
        "more_nodes": 0,
    }


JOB: Json = {
    "cluster": "c1",
    "job": "4711",
    "at": "2026-11-20T12:00:00Z",
    "gpus": [{"gpu": f"GPU-{name}-{n}", "node": name} for name in ("n1", "n2") for n in range(4)],
    "grade": "D",
    "spans": "Spans 2 NVLink domains on 2 nodes",
    "best": {
        "words": "one NVLink domain",
        "name": "n1/nvlink-0",
        "free_gpus": 8,
        "gb_per_s": 370.8,
        "gb_per_s_now": 50.0,
        "gpus": [{"gpu": f"GPU-n1-{n}", "node": "n1"} for n in range(8)],
    },
    "why": None,
}
NODE: Json = {
    "cluster": "c1",
    "node": "n1",
    "at": "2026-11-21T12:00:00Z",
    "gpus": [{"gpu": f"GPU-n1-{n}", "nvlink": "n1/nvlink-0", "pcie": None, "numa": None} for n in range(8)],
    "network_cards": [],
    "inside": [{"kind": "leaf", "name": "leaf-1", "gb_per_s": 50.0}],
    "pairs": [
        {
            "a": f"GPU-n1-{a}",
            "b": f"GPU-n1-{b}",
            "level": "NV18" if b < 4 else "SYS",
            "gb_per_s": 370.8 if b < 4 else 22.0,
        }
        for a in range(8)
        for b in range(a + 1, 8)
    ],
    "missing": [],
}
TOUCHED: Json = {
    "cluster": "c1",
    "kind": "node",
    "name": "n1",
    "at": "2026-11-21T12:00:00Z",
    "gpus": 8,
    "nodes": 1,
    "jobs": [
        {"job": "4711", "name": "train", "team": "search", "gpus": 8, "gpus_inside": 4, "crosses": True},
        {"job": f"x/{HOSTILE}", "name": None, "team": HOSTILE, "gpus": 1, "gpus_inside": 1, "crosses": False},
    ],
    "more_jobs": 0,
}

PLAN: Json = {
    "moves": [
        {"job": "4711", "node": "n1", "gpus": 4, "preemptible": True, "to": "n2"},
        {"job": None, "node": "n1", "gpus": 1, "preemptible": False, "to": HOSTILE},
    ],
    "at_once": True,
    "places": ["n1"],
    "drained": ["n1"],
    "moved_gpus": 5,
    "exact": False,
}


def tried(pool: str, fits: bool | None, **more: Any) -> Json:
    """A pool's answer of GET /capacity/place."""
    return {
        "cluster": "c1",
        "as_of": "2026-11-21T12:00:00Z",
        "pool": pool,
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "shape": "8",
        "within": "any",
        "fits": fits,
        "free_gpus": 4,
        "places": [{"node": "n1", "leaf": "leaf-1", "gpus": [f"GPU-n1-{n}" for n in range(4, 8)]}] if fits else [],
        "left_out_nodes": 0 if fits else 1,
        "why": None if fits else "8 GPUs are free, but at most 4 on one node.",
        "plan": None,
        "reclaim": [],
        **more,
    }


IDLE = [{"node": "n1", "team": HOSTILE, "job": "4711", "finding": "idle-1", "gpus": ["GPU-n1-0", "GPU-n1-1"]}]
NO_FIT = tried("h100", False, plan=PLAN, reclaim=IDLE)
PLACED: Json = {
    "at": "2026-11-21T12:00:00Z",
    "shape": "8",
    "within": "any",
    "fits": False,
    "items": [NO_FIT, tried(HOSTILE, None)],
    "missing": [{"cluster": "c1", "what": "network", "gpus": 4, "fix": "scontrol show topology"}],
    "unknown": {},
}


def waiting(job: str | None, waits_for: str | None, **more: Any) -> Json:
    """A request of GET /capacity/pending."""
    return {
        "cluster": "c1",
        "scheduler": "slurm",
        "kind": "Job",
        "name": "train",
        "namespace": None,
        "job": job,
        "team": "search",
        "queue": "h100",
        "state": "pending",
        "reason": "Resources",
        "why": "too few free GPUs",
        "gpus": 8,
        "profile": None,
        "submitted_at": None,
        "wait_seconds": 7200.0,
        "shape": "8",
        "waits_for": waits_for,
        "start": None,
        **more,
    }


PENDING: list[Json] = [
    waiting(
        "4800", "gpus", start={"words": "It could start if 1 job with 4 GPUs moved to other nodes.", "best": NO_FIT}
    ),
    waiting(f"x/{HOSTILE}", "other", why=HOSTILE, shape=None),
    waiting(None, "unknown", why=None, reason=None, wait_seconds=None, shape=None, gpus=None),
]


def answers() -> dict[str, Json]:
    """By path below /api/v1/."""
    return {
        "topology/map": fleet(),
        "topology/job": JOB,
        "topology/node": NODE,
        "topology/touches": TOUCHED,
    }
