"""What to do about a live source that is silent or fails: by its kind, its name and its last error."""

from __future__ import annotations

import re
import shlex

from gpuwatch.quality.status import SourceStatus

CONFIGURATION = "gpuwatch.toml"
"""Kind of the entry that stands for a configuration which could not be taken over."""
FIXES = {
    "dcgm": "Check that dcgm-exporter runs there and answers: curl -s {url}",
    "prometheus": "Check the URL and its credentials in gpuwatch.toml: curl -s '{url}/api/v1/query?query=up'",
    "remote-write": "Check the sender's log and its remote_write url: it ends in /api/v1/write",
    "events": "Check what posts to /api/v1/events",
    "otlp": "Check the exporter of the collector: its metrics_endpoint ends in /api/v1/otlp/v1/metrics",
    "ray": "Check that the head's dashboard answers: curl -s {url}/api/version",
    "yunikorn": "Check that the scheduler's REST service answers: curl -s {url}/ws/v1/partitions",
    "slurm": "Check on this host, as the user of gpuwatch: scontrol ping; sacct -X -n -S now-1hour; with url: that "
    "slurmrestd runs and the token is not expired",
    "kubernetes": "Check that the API server answers: curl -sk {url}/version",
    CONFIGURATION: "Correct gpuwatch.toml, then: gpuwatch serve --check --config gpuwatch.toml\n"
    "and let the server read it again: kill -HUP PID (or systemctl reload gpuwatch)",
}
"""What to look at when a live source of a kind is silent; its address stands in its name."""
ANY_FIX = "Check its table in gpuwatch.toml, and that what it names answers"
REFUSED = re.compile(r": 40[13]\b")
"""In an error of Kubernetes: the account is not known, or may not."""
SLURMRESTD = re.compile(r"slurmrestd (\S*?)(?:/slurm/\S*|/slurmdb/\S*|/openapi\S*)?:(?: |$)")
"""The address, or the socket's path, in an error of slurmrestd; empty where it tells only what was asked."""
DISCOVERY = re.compile(r"dcgm discovery (\d+)")


def source_fix(source: SourceStatus) -> str:
    """What to look at, with the command to paste; the error need not be there."""
    error = source.error or ""
    address = next((word for word in source.name.split() if "://" in word), "URL")
    if source.kind == "dcgm" and (table := DISCOVERY.fullmatch(source.name)):
        return f"Check file_sd, dns or kubernetes of [[dcgm]] table {table[1]} in gpuwatch.toml: they find its targets"
    if source.kind == "slurm" and error.startswith("slurmrestd"):
        return f"Check that slurmrestd answers and the token is not expired: {_slurmrestd(error)}"
    if source.kind == "kubernetes" and REFUSED.search(error):
        return "Check the rights of its service account: kubectl auth can-i list pods --all-namespaces"
    return FIXES.get(source.kind, ANY_FIX).replace("{url}", address)


def _slurmrestd(error: str) -> str:
    """A request to the slurmrestd of an error."""
    found = SLURMRESTD.match(error)
    where = found[1] if found else ""
    curl = 'curl -s -H "X-SLURM-USER-TOKEN: $SLURM_JWT"'
    if where.startswith(("/", "unix://")):
        return f"{curl} --unix-socket {shlex.quote(where.removeprefix('unix://'))} http://localhost/openapi/v3"
    if where.startswith("https://"):
        curl = curl.replace("-s", "-sk", 1)
    return f"{curl} {shlex.quote(where) if '://' in where else 'URL'}/openapi/v3"
