"""A token of one team learns nothing of the others: two fleets that differ only in the usage of others answer it alike.

Routes and parameters come from the OpenAPI document of the application, so a new one is covered without an edit here. What
may depend on others by rules that are stored and published, and is therefore kept out of the two fleets:

- what a stored policy with a proportional or even part, or with quotas, charges red;
- the cents published when a period was closed, and those of its corrections: the bill of all adds up to its rounded total;
- ownership rules and rates, and the versions of these documents: both fleets have the same;
- a GPU that red shares with others (time-slicing): who shares it decides red's part.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest

from tests.api.test_teams_see_their_own import words_of
from tests.worlds.neighbours import CLOSED, WEEK, Neighbour, neighbour

SEED = int(os.environ.get("GPUWATCH_TEST_SEED", "7"))
"""Another number makes other fleets, and draws other requests."""
EXAMPLES = int(os.environ.get("GPUWATCH_TEST_EXAMPLES", "2"))
"""Requests of a route, drawn from all that its parameters allow; a thousand asks everything in about three minutes."""
Pair = tuple[Neighbour, Neighbour]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Two fleets in which red did the same; in the second there is a team more, and the others did something else."""
    made = neighbour(SEED, ["blue"]), neighbour(SEED, ["blue", "teal"])
    yield made
    for one in made:
        one.api.service.stop()


DAY = "2026-11-02T00:00:00Z,2026-11-03T00:00:00Z"
OWN: dict[str, list[str]] = {
    "window": [DAY, "2026-11-02T00:10:00Z,2026-11-02T03:00:00Z", CLOSED, "10d"],
    "week": [WEEK, CLOSED],
    "by": ["team", "job,gpu_model,pool", "user,queue,namespace,account,mig_profile,slice,cluster"],
    "team": ["red"],
    "user": ["ursula"],
    "cluster": ["c1"],
    "pool": ["batch"],
    "queue": ["redqueue", "cq"],
    "q": ["train", "ursula"],
    "at": ["2026-11-02T02:00:00Z"],
    "since": ["2026-11-01T00:00:00Z"],
    "state": ["open", "pending", "running"],
    "detector": ["idle-hoarding"],
    "severity": ["high", "low"],
    "rule": ["idle-hoarding"],
    "format": ["csv"],
    "name": [CLOSED],
    "policy": ["allocated", "showback", "pay-for-use"],
    "shape": ["2"],
    "job": ["9001", "9003"],
    "node": ["rednode", "mixnode"],
    "aggregate": ["team", "namespace,pod", "node", "all"],
    "step": ["1h"],
    "accumulate": ["true"],
    "filter": ['namespace:"redlab"', 'team!:"blue"'],
    "currency": ["USD"],
}
"""Values of parameters that red may well ask for."""
FOREIGN: dict[str, list[str]] = {
    "team": ["blue", "teal", "red,blue", "none-such", "__platform__"],
    "user": ["boris", "tanja"],
    "cluster": ["c9"],
    "pool": ["bluepool", "tealpool", "none-such"],
    "queue": ["bluequeue", "tealqueue"],
    "job": ["800b", "801t"],
    "node": ["bluenode", "tealnode"],
    "q": ["boris", "tanja", "blue"],
    "cursor": ["WyJ4Il0"],
    "window": ["nonsense"],
    "by": ["nothing"],
    "policy": ["share-idle", "none-such"],
    "name": ["2026-W43"],
    "rule": ["none-such"],
    "key": ["idle-hoarding-0000"],
    "charge": ["c1.none"],
    "job_id": ["none-such"],
    "shareCost": ["1000", "much"],
    "shareNamespaces": ["bluelab", "teallab", "redlab"],
    "shareLabels": ["team:blue"],
    "shareIdle": ["true", "even"],
    "shareSplit": ["weighted", "even"],
    "filter": ['namespace:"bluelab"', 'team:"teal"', "("],
    "currency": ["EUR"],
}
"""Values that name others, weigh them, or are wrong."""
WORDS = ("true", "1", "bluelab")
"""Values of a text parameter that is in neither."""


@dataclass(frozen=True)
class Request:
    """One request, with a body where its method has one."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None

    @property
    def url(self) -> str:
        return self.path + (f"?{urlencode(self.query)}" if self.query else "")

    def send(self, to: Neighbour) -> httpx.Response:
        more: dict[str, Any] = {} if self.method == "GET" else {"json": self.body}
        return to.api.request(self.method, self.url, token=to.token, **more)


def values(parameter: dict[str, Any], ids: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """(values to ask for, values that name others or are wrong) of a parameter of the OpenAPI document."""
    name, schema = parameter["name"], parameter["schema"]
    kinds = schema.get("anyOf", [schema])
    listed = [str(value) for kind in kinds for value in kind.get("enum", ())]
    if listed:
        return listed, ["none-such"]
    types = {kind.get("type") for kind in kinds}
    if "boolean" in types:
        return ["true", "false"], ["maybe"]
    if "integer" in types:
        low = next((kind["minimum"] for kind in kinds if "minimum" in kind), 0)
        return [str(low), str(low + 1)], ["-1"]
    if name in ids:
        return ids[name][:1], [*ids[name][1:], *FOREIGN.get(name, ())]
    found = OWN.get(name, []), FOREIGN.get(name, [])
    return found if any(found) else ([], list(WORDS))


def requests(method: str, path: str, operation: dict[str, Any], ids: dict[str, list[str]]) -> list[Request]:
    """Requests of one operation: each value of each parameter is in one of them, with defaults for the others."""
    parameters = [p for p in operation.get("parameters", ()) if p["in"] in ("query", "path")]
    options = {p["name"]: values(p, ids) for p in parameters}
    always = {p["name"] for p in parameters if p.get("required")} | {"window", "week", "aggregate"}
    either = {"week", "window"} <= options.keys()  # a report is of one of them
    always -= {"window"} if either else set()
    base = {name: (own or foreign)[0] for name, (own, foreign) in options.items() if name in always}
    chosen = [base]
    for name, (own, foreign) in options.items():
        rest = {key: value for key, value in base.items() if not (either and name == "window" and key == "week")}
        chosen += [rest | {name: value} for value in own + foreign if base.get(name) != value]
    made = []
    for words in chosen:
        filled = path
        for name in [p["name"] for p in parameters if p["in"] == "path"]:
            filled = filled.replace(f"{{{name}}}", quote(words[name], safe="/"))
        query = tuple((p["name"], words[p["name"]]) for p in parameters if p["in"] == "query" and p["name"] in words)
        made += [Request(method.upper(), filled, query, body) for body in bodies(path, method, ids)]
    return made


def bodies(path: str, method: str, ids: dict[str, list[str]]) -> list[Any]:
    """The bodies to send: those listed, with keys of findings, or an empty object."""
    if method == "get":
        return [None]
    keys = {OWN_KEY: ids["key"][0], FOREIGN_KEY: ids["key"][-1]}
    return [
        {**body, "keys": [keys[key] for key in body["keys"]]} if "keys" in body else body
        for body in BODIES.get(path, [{}])
    ]


USEFUL = [
    f"GET /api/v1/{name}"
    for name in (
        "chargeback", "ledger", "slices", "mig/gpus", "jobs", "jobs/{job_id}", "findings", "findings/{key}", "reclaim", "queues",
        "workloads", "fleet", "budgets", "periods", "periods/{name}", "reports/weekly", "charges/{charge}/explain",
        "inbox", "decisions/spot", "decisions/right-sizing", "detectors", "policies", "rates", "teams",
        "topology/map", "topology/job", "topology/node", "capacity/pending",
    )
] + ["GET /allocation", "POST /api/v1/policies/what-if", "POST /api/v1/detectors/{rule}/backtest"]  # fmt: skip
"""Routes that a bound token is answered."""
POLICY = {"name": "p", "valid_from": "2026-11-01"}
SHARED = {"name": "support", "amount": "1000", "per": "day", "currency": "USD"}
DOCUMENTS: list[Any] = [
    {"policies": [POLICY | more]}
    for more in (
        {"basis": "used"},
        {"discounts": [{"queue": "batch", "factor": "0.5"}]},
        {"shared": [SHARED | {"split": "proportional", "teams": ["red", "blue"]}]},
        {"shared": [SHARED | {"split": "proportional", "teams": ["red"]}]},
        {"shared": [SHARED | {"split": "even"}]},
        {"shared": [SHARED | {"split": "even", "teams": ["red", "teal"]}]},
        {"shared": [SHARED | {"split": "fixed", "percentages": {"red": 30, "blue": 70}}]},
        {"shared": [SHARED | {"split": "fixed", "percentages": {"red": 100}}]},
        {"payers": {"idle": "proportional"}},
        {"payers": {"unused": {"payer": "even", "scope": ["cluster"]}}, "basis": "effective"},
        {"payers": {"idle": "quota_holder"}, "quotas": [{"team": "red", "gpus": "8"}]},
        {"quotas": [{"team": "red", "gpus": "8", "pool": "bluepool"}]},
        {"quotas": [{"team": "red", "gpus": "8", "pool": "tealpool"}]},
        {"quotas": [{"team": "teal", "gpus": "8"}]},
        {"payers": {"lost_work": "platform"}, "minimum_billing_seconds": 3600},
        {"preset": "share-idle"},
        {"preset": "none-such"},
        {"mig_share_method": "memory"},
    )
]
OWN_KEY, FOREIGN_KEY = "own key", "foreign key"
"""Stand for the keys of a finding of red and of another team in a body."""
BODIES: dict[str, list[Any]] = {
    "/api/v1/views/{name}": [{"address": "/ui/teams?window=7d"}],
    "/api/v1/policies/what-if": DOCUMENTS,
    "/api/v1/charges/{charge}/what-if": DOCUMENTS,
    "/api/v1/detectors/{rule}/backtest": [
        {"window": DAY},
        {"window": DAY, "thresholds": {"idle_hours_min": 1}},
        {"window": DAY, "cluster": "c9"},
        {"window": DAY, "preset": "strict"},
    ],
    "/api/v1/findings/{key}/{action}": [
        {"reason": "x"},
        {"reason": "x", "verdict": "true_positive"},
        {"assignee": "ursula"},
    ],
    "/api/v1/inbox/actions": [
        {"keys": [OWN_KEY], "action": "assign", "assignee": "ursula"},
        {"keys": [OWN_KEY, FOREIGN_KEY], "action": "ack", "reason": "x"},
        {"keys": [FOREIGN_KEY], "action": "judge", "verdict": "false_positive"},
    ],
}


def known_ids(pair: Pair) -> dict[str, list[str]]:
    """Ids of red, and then of the others of either fleet, as an admin sees them."""
    found: dict[str, list[str]] = {}
    for one in pair:
        secret = one.api.service.local_secret
        for name, route, field in (
            ("key", "findings", "key"),
            ("charge", f"chargeback?window={WEEK}&by=team,job", "charge"),
            ("charge", f"chargeback?window={CLOSED}", "charge"),
            ("job_id", f"jobs?window={WEEK}", "id"),
        ):
            items = one.api.get(f"/api/v1/{route}", token=secret).json()["items"]
            items.sort(key=lambda item: item["team"] != "red")
            found.setdefault(name, []).extend(str(item[field]) for item in items)
    return {name: list(dict.fromkeys(listed)) for name, listed in found.items()}


def content(response: httpx.Response) -> Any:
    """What an answer has, in a form that two answers can be compared in."""
    kind = response.headers.get("content-type", "")
    if kind.startswith("application/json"):
        return response.json()
    if kind.startswith("application/zip"):
        with zipfile.ZipFile(io.BytesIO(response.content)) as file:
            return {name: file.read(name) for name in file.namelist() if name.endswith((".csv", ".json", ".html"))}
    if kind.startswith("application/pdf"):
        return len(response.content)
    return words_of(response.content, kind)


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key, "absent"), other.get(key, "absent"), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, parts in enumerate(zip(one, other, strict=True)):
            yield from differences(*parts, f"{path}[{place}]")
    elif one != other:
        yield f"{path}: {str(one)[:80]} / {str(other)[:80]}"


def compared(pair: Pair, request: Request) -> tuple[int, list[str]]:
    """The status, and how the answers of the two fleets to one request differ: status, headers and content."""
    one, other = (request.send(to) for to in pair)
    found = list(differences(one.status_code, other.status_code, "status"))
    binary = one.headers.get("content-type", "").startswith(("application/zip", "application/vnd"))
    left_out = {"content-length"} if binary else set()
    found += differences(*({k: v for k, v in each.headers.items() if k not in left_out} for each in (one, other)))
    found += differences(content(one), content(other))
    return one.status_code, [f"{request.method} {request.url} {request.body or ''} {each}" for each in found]


def operations(pair: Pair) -> list[tuple[str, str, dict[str, Any]]]:
    """(method, path, operation) of everything that the application has."""
    paths = pair[0].api.app.openapi()["paths"]
    return [(method, path, operation) for path, methods in paths.items() for method, operation in methods.items()]


def test_an_answer_does_not_change_with_the_usage_of_others(pair: Pair) -> None:
    """Every route of the OpenAPI document, with values of its parameters that name red, others, or nothing."""
    ids, draw = known_ids(pair), Random(SEED)
    leaks: list[str] = []
    answered: dict[str, set[int]] = {}
    for method, path, operation in operations(pair):
        base, *more = requests(method, path, operation, ids)
        status, found = compared(pair, base)
        statuses = answered.setdefault(f"{method.upper()} {path}", {status})
        leaks += found
        # What a route refuses as a whole is not asked again with every value.
        for request in draw.sample(more, min(EXAMPLES if status != 403 else 1, len(more))):
            status, found = compared(pair, request)
            statuses.add(status)
            leaks += found

    assert [] == leaks
    assert [] == [name for name, statuses in answered.items() if not statuses & {200, 201, 204, 403}], (
        "add values to OWN"
    )
    assert {} == {name: answered[name] for name in USEFUL if 200 not in answered[name]}


def test_the_fleets_differ_for_those_who_see_them(pair: Pair) -> None:
    """So there is something that could leak."""
    names = "chargeback jobs ledger?by=team budgets queues workloads reclaim findings fleet"
    for path in names.split():
        mark = "&" if "?" in path else "?"
        query = f"{mark}window={DAY}" if path.split("?")[0] in ("chargeback", "jobs", "ledger", "findings") else ""
        one, other = (each.api.get(f"/api/v1/{path}{query}", token=each.api.service.local_secret) for each in pair)

        assert (200, 200) == (one.status_code, other.status_code)
        assert one.json() != other.json(), path
