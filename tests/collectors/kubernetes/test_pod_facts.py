"""The host name that the labels of a pod's rows record: the name of a Slurm or Ray node in the pod."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.pod_facts import HOSTNAME_LABEL, MAX_LABELS, kept_labels

SLINKY = "nodeset.slinky.slurm.net"
WORKER = {f"{SLINKY}/pod-name": "worker-0"}
BY_LABEL = {f"{SLINKY}/pod-hostname": "slinky-0"}
DAEMON_SET = WORKER | {f"{SLINKY}/scaling-mode": "DaemonSet"}
ON_HOST = {"hostNetwork": True, "nodeName": "k1.lab.example"}

HOSTS: dict[str, tuple[str | None, dict[str, Any], dict[str, str]]] = {
    "a pod without a host name has its own name": (None, {}, {}),
    "a pod's host name is that of its spec": ("trainer-0", {"hostname": "trainer-0"}, {}),
    "a host name equal to the pod's name is not recorded": (None, {"hostname": "worker-0"}, {}),
    "a pod on its host's network is not the machine": (None, ON_HOST, {}),
    "Slinky names the host in the spec": ("slinky-0", {"hostname": "slinky-0"}, WORKER),
    "Slinky names the host in a label": ("slinky-0", {}, BY_LABEL),
    "a Slinky pod on its host's network is the machine": ("k1.lab.example", ON_HOST | {"hostname": "x"}, WORKER),
    "in DaemonSet mode it is the machine's short name": ("k1", {"nodeName": "k1.lab.example"}, DAEMON_SET),
    "in DaemonSet mode the spec comes first": ("k1-gpu", ON_HOST | {"hostname": "k1-gpu"}, DAEMON_SET),
}


@pytest.mark.parametrize(("expected", "spec", "labels"), HOSTS.values(), ids=HOSTS)
def test_the_host_name(expected: str | None, spec: dict[str, Any], labels: dict[str, str]) -> None:
    found = kept_labels({"metadata": {"name": "worker-0", "labels": labels}, "spec": spec})

    assert labels | ({HOSTNAME_LABEL: expected} if expected else {}) == found


def test_many_labels_do_not_hide_that_a_pod_is_slinkys() -> None:
    many = {f"a{i:03}": "" for i in range(MAX_LABELS + 9)}
    found = kept_labels({"metadata": {"name": "worker-0", "labels": many | WORKER}, "spec": {"hostname": "slinky-0"}})

    assert WORKER | {HOSTNAME_LABEL: "slinky-0"} == {k: v for k, v in found.items() if k not in many}
