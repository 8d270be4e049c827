"""Fixes for a live source that is silent or fails, by its kind, name and last error."""

from __future__ import annotations

import re
import shlex

from gpuwatch.quality.status import SourceStatus

CONFIGURATION = "gpuwatch.toml"
"""Kind of the entry for a configuration that could not be applied."""
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
    "and reload the server: kill -HUP PID (or systemctl reload gpuwatch)",
}
"""What to check when a live source of a kind is silent. `{url}` is the address in its name."""
ANY_FIX = "Check its table in gpuwatch.toml, and that the address in it answers"
REFUSED = re.compile(r": 40[13]\b")
"""In a Kubernetes error: the account is unknown or lacks a right."""
SLURMRESTD = re.compile(r"slurmrestd (\S*?)(?:/slurm/\S*|/slurmdb/\S*|/openapi\S*)?:(?: |$)")
"""The address or socket path in a slurmrestd error; empty if the error names only the request."""
DISCOVERY = re.compile(r"dcgm discovery (\d+)")


def source_fix(source: SourceStatus) -> str:
    """What to check, with a command to paste. Works without an error too."""
    error = source.error or ""
    address = next((word for word in source.name.split() if "://" in word), "URL")
    if source.kind == "dcgm" and (table := DISCOVERY.fullmatch(source.name)):
        return f"Check file_sd, dns or kubernetes of [[dcgm]] table {table[1]} in gpuwatch.toml: which find its targets"
    if source.kind == "slurm" and error.startswith("slurmrestd"):
        return f"Check that slurmrestd answers and the token is not expired: {_slurmrestd(error)}"
    if source.kind == "kubernetes" and REFUSED.search(error):
        return "Check the rights of its service account: kubectl auth can-i list pods --all-namespaces"
    return FIXES.get(source.kind, ANY_FIX).replace("{url}", address)


def _slurmrestd(error: str) -> str:
    """A curl command for the slurmrestd named in an error."""
    found = SLURMRESTD.match(error)
    where = found[1] if found else ""
    curl = 'curl -s -H "X-SLURM-USER-TOKEN: $SLURM_JWT"'
    if where.startswith(("/", "unix://")):
        return f"{curl} --unix-socket {shlex.quote(where.removeprefix('unix://'))} http://localhost/openapi/v3"
    if where.startswith("https://"):
        curl = curl.replace("-s", "-sk", 1)
    return f"{curl} {shlex.quote(where) if '://' in where else 'URL'}/openapi/v3"
