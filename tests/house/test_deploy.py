"""What is shipped to run gpuwatch: image, compose file, systemd unit, Kubernetes manifests. Read, never run."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuwatch.core.fields import by_name
from gpuwatch.core.registry import live_kinds
from gpuwatch.lake.settings import configured
from gpuwatch.quality.doctor import COUNTERS
from gpuwatch.settings import ENV_PREFIX, load_settings, table
from tests.worlds.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
USER_ID = 10001
PORT = 8765
PINNED = re.compile(r"[a-z0-9./-]+:(?!latest$)[\w][\w.-]*")
BY_DIGEST = re.compile(PINNED.pattern + "@sha256:[0-9a-f]{64}")
OTHER_TABLES = ("channel", "alerts")
"""Tables of gpuwatch.toml that are not live sources."""
INSTRUCTIONS = frozenset("FROM RUN CMD LABEL EXPOSE ENV COPY ENTRYPOINT VOLUME USER WORKDIR HEALTHCHECK".split())  # noqa: SIM905


# Image ---------------------------------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments) of the Dockerfile, continued lines joined, comments left out."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    parts = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    defaults = dict(rest.split("=", 1) for word, rest in parts if word == "ARG")
    for name, value in defaults.items():
        parts = [[word, rest.replace(f"${{{name}}}", value)] for word, rest in parts]
    return [(word, rest) for word, rest in parts if word != "ARG"]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage."""
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions():
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def last(word: str) -> str:
    """The last instruction of that name in the image that ships."""
    return [rest for name, rest in stages()[-1] if name == word][-1]


def test_the_dockerfile_is_one() -> None:
    """Only instructions that there are. Images are named by digest."""
    assert set() == {word for word, _ in instructions()} - INSTRUCTIONS
    assert [] == [rest for word, rest in instructions() if word == "FROM" and not BY_DIGEST.fullmatch(rest.split()[0])]


def test_the_image_builds_from_what_is_there() -> None:
    """Every file and folder that is copied exists, and .dockerignore lets it through."""
    copied = [rest.split()[:-1] for word, rest in stages()[0] if word == "COPY"]
    sources = {name for names in copied for name in names}
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] == "!"}

    assert set() == {name for name in sources if not (ROOT / name).exists()}
    assert sources == let_through


def test_the_image_holds_the_package_with_libraries_of_known_hashes() -> None:
    """Installed, not copied, and run from elsewhere: the checkout would shadow half of the package."""
    built = " ".join(rest for word, rest in stages()[0] if word == "RUN")

    assert 2 == len(stages())
    assert "--require-hashes --requirement requirements-image.lock" in built, "unless LOCK is another"
    assert "--no-deps --no-build-isolation ." in built
    assert ["--from=build /opt/gpuwatch /opt/gpuwatch"] == [rest for word, rest in stages()[-1] if word == "COPY"]
    assert "/data" == last("WORKDIR")


def test_the_image_runs_as_nobody_special() -> None:
    """A fixed user, its own data folder, a health check and a server by default."""
    assert f"{USER_ID}:{USER_ID}" == last("USER")
    assert '["/data"]' == last("VOLUME")
    assert str(PORT) == last("EXPOSE")
    assert '["gpuwatch"]' == last("ENTRYPOINT")
    assert '["serve", "--host", "0.0.0.0"]' == last("CMD")
    assert f"http://127.0.0.1:{PORT}/healthz" in last("HEALTHCHECK")


# Compose -------------------------------------------------------------------------------------------------------------


def compose() -> dict[str, Any]:
    """The compose file."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return found


SERVICES = sorted(compose()["services"])


def fleet() -> dict[str, Any]:
    """The compose file of a fleet with a lake."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose-lake.yml").read_text("utf-8"))
    return found


def test_a_fleet_has_a_cell_replicas_and_a_lead() -> None:
    """From one image with the lake's libraries, all with the same PostgreSQL and bucket, none of which are in the file."""
    services = fleet()["services"]
    roles = {name: service["command"][-1] for name, service in services.items()}

    assert {"cell": "cell", "replica-1": "api", "replica-2": "api", "lead": "lead"} == roles
    assert {f"gpuwatch-lake:{VERSION}"} == {service["image"] for service in services.values()}
    assert {("..", "requirements-lake.lock")} == {
        (service["build"]["context"], service["build"]["args"]["LOCK"]) for service in services.values()
    }
    assert {"./secrets/lake.env"} == {service["env_file"] for service in services.values()}
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert [] == [port for port in ports if not port.startswith("127.0.0.1:")] and 3 == len(set(ports))
    for name, service in services.items():
        assert (["ALL"], True, [f"{name}:/data"]) == (service["cap_drop"], service["read_only"], service["volumes"])
        assert name in fleet()["volumes"]


def test_the_settings_of_a_fleet_are_those_of_the_documentation() -> None:
    """Each process understands what the file and lake.env, as docs/operate/lake.md shows it, give it."""
    text = (ROOT / "docs/operate/lake.md").read_text("utf-8")
    (shown,) = re.findall(r"```ini\n# deploy/secrets/lake.env\n(.*?)```", text, re.DOTALL)
    given = dict(line.split("=", 1) for line in shown.splitlines())
    for service in fleet()["services"].values():
        environ = {**given, **service["environment"]}
        settings, lake = load_settings(None, environ), configured({}, environ)
        assert settings.state_url is not None and settings.memory_limit == "2GB"
        assert lake is not None and (lake.keys(), lake.password()) == (("ACCESS", "SECRET", ""), "PASSWORD")
        if "cell" in service["command"]:
            lake.need_cell()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_and_bounded(name: str) -> None:
    """Images of others by digest, no more privileges than it needs, nothing published beyond this machine."""
    service = compose()["services"][name]

    assert (PINNED if service["image"].startswith("gpuwatch") else BY_DIGEST).fullmatch(service["image"])
    assert ["ALL"] == service["cap_drop"]
    assert ("dcgm-exporter" == name and ["SYS_ADMIN"] or []) == service.get("cap_add", [])
    assert not service.get("privileged", False)
    assert [] == [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")]


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_refers_to_exists(name: str) -> None:
    """Volumes, secrets, other services, files and the build folder."""
    whole = compose()
    service = whole["services"][name]
    mounts = [mount.split(":")[0] for mount in service.get("volumes", [])]
    files = [mount for mount in mounts if mount.startswith(".")]

    assert set() == {m for m in mounts if not m.startswith(".")} - set(whole["volumes"])
    assert [] == [mount for mount in files if not (ROOT / mount).is_file()]
    assert set() == set(service.get("secrets", [])) - set(whole["secrets"])
    assert set() == set(service.get("depends_on", {})) - set(whole["services"])
    assert (ROOT / service.get("build", ".") / "Dockerfile").is_file()


def test_compose_builds_this_version() -> None:
    """The tag of our image is the version of the package."""
    ours = {s["image"] for s in compose()["services"].values() if "build" in s}

    assert {f"gpuwatch:{VERSION}"} == ours


def test_profiles_are_those_of_the_documentation() -> None:
    """No profile is needed for the service itself."""
    profiles = {name: service.get("profiles", []) for name, service in compose()["services"].items()}

    assert {"gpuwatch": [], "prometheus": [], "dcgm-exporter": ["gpu"], "demo": ["demo"]} == profiles


def test_environment_variables_are_settings() -> None:
    """A misspelt one would do nothing."""
    known = {f"{ENV_PREFIX}{name.upper()}" for name, _, _ in table()} | {f"{ENV_PREFIX}DATA"}
    used = {name for service in compose()["services"].values() for name in service.get("environment", {})}

    assert set() == used - known


def commands() -> list[list[str]]:
    """Command lines of gpuwatch in what is shipped."""
    services = [*compose()["services"].values(), *fleet()["services"].values()]
    lines = [service["command"] for service in services if "build" in service]
    pods = [doc["spec"].get("template", doc)["spec"] for _, doc in manifests() if doc["kind"] in ("StatefulSet", "Pod")]
    lines += [container["args"] for pod in pods for container in pod["containers"] if "args" in container]
    return [*lines, unit()["Service"]["ExecStart"][-1].split()[1:]]


def test_command_lines_are_understood() -> None:
    """Every command and option that is shipped exists."""
    from typer.main import get_command

    from gpuwatch.cli import app

    known: dict[str, Any] = getattr(get_command(app), "commands", {})
    for line in commands():
        assert line[0] in known
        options = {name for parameter in known[line[0]].params for name in parameter.opts}
        assert set() == {word for word in line[1:] if word.startswith("--")} - options


# Prometheus and counters ---------------------------------------------------------------------------------------------


def test_prometheus_sends_what_gpuwatch_takes(tmp_path: Path) -> None:
    """To the route of remote-write, with a token from a file; promtool agrees where it is installed."""
    text = (DEPLOY / "prometheus.yml").read_text("utf-8")
    config = yaml.safe_load(text)

    assert [f"http://gpuwatch:{PORT}/api/v1/write?cluster=main"] == [w["url"] for w in config["remote_write"]]
    assert ["/run/secrets/ingest_token"] == [w["authorization"]["credentials_file"] for w in config["remote_write"]]
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: its own check of deploy/prometheus.yml is left out")
    token, checked = tmp_path / "token", tmp_path / "prometheus.yml"
    token.write_text("secret")
    checked.write_text(text.replace("/run/secrets/ingest_token", str(token)), "utf-8")
    answer = subprocess.run(
        [promtool, "check", "config", checked], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (0, "") == (answer.returncode, answer.stderr)


def test_counters_are_those_that_are_read() -> None:
    """Every line is a field that is stored, and none that doctor asks for is missing."""
    lines = [line for line in (DEPLOY / "dcgm-counters.csv").read_text("utf-8").splitlines() if line[0] != "#"]
    fields = [by_name(line.split(",")[0]) for line in lines]

    assert [] == [line for line, field in zip(lines, fields, strict=True) if field is None or field.column is None]
    assert set() == set(COUNTERS.values()) - set(lines)
    assert len(lines) == len({line.split(",")[0] for line in lines})


# systemd -------------------------------------------------------------------------------------------------------------


class _Repeats(dict[str, Any]):
    """Collects the values of a key that stands several times, as systemd does."""

    def __setitem__(self, key: str, value: Any) -> None:
        old = self.get(key)
        super().__setitem__(key, old + value if isinstance(old, list) and isinstance(value, list) else value)


def unit(name: str = "gpuwatch") -> dict[str, dict[str, list[str]]]:
    """Sections of a unit, each key with all its values."""
    parser = configparser.RawConfigParser(dict_type=_Repeats, strict=False, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((DEPLOY / f"{name}.service").read_text("utf-8"))
    return {name: {key: value.split("\n") for key, value in parser.items(name)} for name in parser.sections()}


def test_the_unit_is_locked_down() -> None:
    """Its own user, one folder to write to, no new privileges, bounded memory, loopback by default."""
    service = unit()["Service"]
    wanted = {
        "User": "gpuwatch",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "CapabilityBoundingSet": "",
        "StateDirectory": "gpuwatch",
        "Restart": "on-failure",
        "ExecReload": "/bin/kill -HUP $MAINPID",
    }

    assert wanted == {name: service[name][-1] for name in wanted}
    assert re.fullmatch(r"\d+G", service["MemoryMax"][-1])
    assert "--host 127.0.0.1" in service["ExecStart"][-1]
    assert f"GPUWATCH_DATA=/var/lib/{service['StateDirectory'][-1]}" in service["Environment"]


def test_the_agent_s_unit_has_the_gpus_and_nothing_else() -> None:
    """It writes nowhere, and only the driver's devices are open to it."""
    service = unit("gpuwatch-agent")["Service"]
    wanted = {"User": "gpuwatch", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "DevicePolicy": "closed",
              "CapabilityBoundingSet": "", "Restart": "always"}  # fmt: skip

    assert wanted == {name: service[name][-1] for name in wanted}
    assert set() == set(service) & {"StateDirectory", "ReadWritePaths", "PrivateDevices"}
    assert [] == [rule for rule in service["DeviceAllow"] if not rule.startswith("char-nvidia")]
    assert "/gpuwatch agent --host ${GPUWATCH_AGENT_HOST} --port ${GPUWATCH_AGENT_PORT}" in service["ExecStart"][-1]


@pytest.mark.parametrize("name", ["gpuwatch", "gpuwatch-agent"])
def test_systemd_takes_the_unit(tmp_path: Path, name: str) -> None:
    """With a program and a user that this machine has, since it looks for them; and finds it well confined."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed: its own check of the units is left out")
    text = (DEPLOY / f"{name}.service").read_text("utf-8")
    text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text)
    text = re.sub(r"(User|Group)=gpuwatch", r"\1=daemon", text)
    path = tmp_path / f"{name}.service"
    path.write_text(text, "utf-8")

    verified = subprocess.run(
        [analyze, "verify", "--man=no", path], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if "Failed to" in verified.stderr and f"{name}.service" not in verified.stderr:
        pytest.skip(f"systemd-analyze cannot work here: {verified.stderr.strip()[:200]}")
    assert [] == [line for line in verified.stderr.splitlines() if "gpuwatch" in line]
    security = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=30", "--no-pager", path],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert 0 == security.returncode, security.stdout[-500:]


# Kubernetes ----------------------------------------------------------------------------------------------------------


def manifests() -> list[tuple[str, dict[str, Any]]]:
    """(file, object) of every document."""
    paths = sorted((DEPLOY / "kubernetes").rglob("*.yaml"))
    return [
        (str(path.relative_to(DEPLOY)), document)
        for path in paths
        for document in yaml.safe_load_all(path.read_text("utf-8"))
    ]


def applied(kind: str) -> dict[str, Any]:
    """The one object of that kind among those that are applied together."""
    found: list[dict[str, Any]] = [o for file, o in manifests() if file.count("/") == 1 and o["kind"] == kind]
    assert 1 == len(found)
    return found[0]


def pods() -> dict[str, dict[str, Any]]:
    """Pod specs by kind."""
    return {
        document["kind"]: document["spec"].get("template", document)["spec"]
        for _, document in manifests()
        if document["kind"] in ("StatefulSet", "Pod")
    }


def test_everything_is_in_the_namespace() -> None:
    """With a version, a kind and a label to find it by."""
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    objects = [o for _, o in manifests()]

    assert [] == [o["kind"] for o in objects if not {"apiVersion", "kind", "metadata"} <= set(o)]
    assert {"gpuwatch"} == {o["metadata"]["labels"]["app.kubernetes.io/name"] for o in objects}
    assert {"gpuwatch"} == {o["metadata"]["namespace"] for o in objects if o["kind"] not in cluster_wide}


def test_it_may_only_look() -> None:
    """Pods, nodes and events, and no verb that changes anything; bound to its own account alone."""
    rules = applied("ClusterRole")["rules"]

    assert {"pods", "nodes", "events"} == {name for rule in rules for name in rule["resources"]}
    assert {"get", "list", "watch"} == {verb for rule in rules for verb in rule["verbs"]}
    assert [] == [rule for rule in rules if set(rule) - {"apiGroups", "resources", "verbs"}]
    assert [("ServiceAccount", "gpuwatch", "gpuwatch")] == [
        (s["kind"], s["namespace"], s["name"]) for s in applied("ClusterRoleBinding")["subjects"]
    ]


@pytest.mark.parametrize("kind", sorted(pods()))
def test_pods_meet_the_restricted_standard(kind: str) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/"""
    pod = pods()[kind]
    kinds_of_volumes = {name for volume in pod["volumes"] for name in volume} - {"name"}

    assert pod["securityContext"]["runAsNonRoot"]
    assert USER_ID == pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"]
    assert "RuntimeDefault" == pod["securityContext"]["seccompProfile"]["type"]
    assert set() == set(pod) & {"hostNetwork", "hostPID", "hostIPC"}
    assert set() == kinds_of_volumes - {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}
    for container in pod["containers"]:
        assert PINNED.fullmatch(container["image"])
        assert container["image"].endswith(f"/gpuwatch:{VERSION}")
        assert {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        } == (container["securityContext"])
        assert {"cpu", "memory"} == set(container["resources"]["limits"]) == set(container["resources"]["requests"])
        assert set() == {mount["name"] for mount in container["volumeMounts"]} - {v["name"] for v in pod["volumes"]}


def test_one_pod_owns_the_data() -> None:
    """A second process could not open it."""
    assert 1 == applied("StatefulSet")["spec"]["replicas"]
    assert ["ReadWriteOnce"] == applied("PersistentVolumeClaim")["spec"]["accessModes"]
    claims = {kind: [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if v["name"] == "data"]
              for kind, pod in pods().items()}  # fmt: skip
    assert {"StatefulSet": ["gpuwatch-data"], "Pod": ["gpuwatch-data"]} == claims


def test_probes_ask_the_right_routes() -> None:
    """A late source must not restart the pod: liveness is the process, readiness the store."""
    container = pods()["StatefulSet"]["containers"][0]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}

    assert {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"} == paths
    assert [("http", PORT)] == [(port["name"], port["containerPort"]) for port in container["ports"]]


def test_selectors_find_the_service_alone() -> None:
    """Service, StatefulSet and its pods agree; the console pod gets no traffic."""
    template = applied("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    console = next(o for _, o in manifests() if o["kind"] == "Pod")["metadata"]["labels"]

    assert (
        template == applied("Service")["spec"]["selector"] == applied("StatefulSet")["spec"]["selector"]["matchLabels"]
    )
    assert template != console
    assert "gpuwatch" == applied("StatefulSet")["spec"]["serviceName"] == applied("Service")["metadata"]["name"]


def test_traffic_is_named() -> None:
    """What is not listed is refused, in both directions."""
    spec = applied("NetworkPolicy")["spec"]

    assert ["Ingress", "Egress"] == spec["policyTypes"]
    assert [PORT] == [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
    assert [] == [rule for rule in spec["ingress"] if not rule.get("from")]
    assert [] == [rule for rule in spec["egress"] if not rule.get("ports")]


def test_documented_sources_and_receivers_can_be_reached() -> None:
    """The ports in the examples of the docs: slurmrestd, Ray, YuniKorn, Alertmanager, mail, Prometheus, exporters."""
    egress = {port["port"] for rule in applied("NetworkPolicy")["spec"]["egress"] for port in rule["ports"]}
    pages = [*(ROOT / "docs/connect").glob("*.md"), ROOT / "docs/act/alerts.md"]
    texts = [page.read_text("utf-8") for page in pages]
    addresses = {int(port) for text in texts for port in re.findall(r'url = "https?://[a-z.-]+:(\d+)', text)}

    assert addresses >= {6820, 8265, 9080, 9090, 9093}
    assert {443, 465, 587, 9400} | addresses - {PORT} <= egress


def test_the_settings_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table and name in the ConfigMap is known, and so is each live source in it."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    data = applied("ConfigMap")["data"]
    path = tmp_path / "gpuwatch.toml"
    path.write_text(data["gpuwatch.toml"], "utf-8")
    kinds = live_kinds()
    tables = {name: value for name, value in tomllib.loads(data["gpuwatch.toml"]).items() if name in kinds}
    problems: list[str] = []

    settings = load_settings(path, {}, (*kinds, *OTHER_TABLES))
    for name, given in tables.items():
        kinds[name].configure(given if isinstance(given, list) else [given], problems)

    assert "/data/reports" == settings.report_directory
    assert {"kubernetes"} == set(tables)
    # The account's files are there in a pod only.
    assert [] == [problem for problem in problems if "serviceaccount" not in problem]


def test_no_secret_is_shipped() -> None:
    """The example names the keys; their values are empty."""
    secrets = [document for _, document in manifests() if document["kind"] == "Secret"]

    assert [""] == [value for secret in secrets for value in secret.get("stringData", {}).values()]
    assert [] == [secret for secret in secrets if secret.get("data")]
    assert [".gitignore"] == [path.name for path in (DEPLOY / "secrets").iterdir() if path.name != "ingest-token"]


def test_the_guide_says_what_was_not_run() -> None:
    """Nobody may take these files for proven where they are not."""
    assert "have never been run" in (ROOT / "docs/operate/deploy.md").read_text("utf-8")
