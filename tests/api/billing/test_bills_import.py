"""POST /api/v1/bills: a bill is imported while the server runs, once, as the command line does it without a server."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli import run
from gpuwatch.collectors.bills import tables as bills_tables
from gpuwatch.commands import remote
from gpuwatch.imports.files import import_paths
from gpuwatch.store import lockfile
from tests.worlds.api import Api

HEADER = "BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ProviderName,ResourceId\n"


def bill(*costs: str, resource: str = "r", day: int = 2) -> str:
    days = f"2026-11-{day:02} 00:00:00,2026-11-{day + 1:02} 00:00:00"
    return HEADER + "".join(f"{cost},USD,{days},Usage,AWS,{resource}{n}\n" for n, cost in enumerate(costs))


def post(api: Api, content: str | bytes, name: str = "focus.csv", token: str | None = None, **words: Any) -> Any:
    params = {"kind": "bill-focus", "name": name, **words}
    return api.request("POST", "/api/v1/bills", token=token or api.token("admin"), params=params, content=content)


def costs(api: Api) -> list[str]:
    """Of the lines that count."""
    rows = api.service.store.sql(
        "select billed_cost from bill where file_id in (select file_id from bill_file) order by 1"
    )
    return [f"{cost.normalize():f}" for (cost,) in rows]


@pytest.mark.parametrize("scope", ["read", "ingest"])
def test_only_an_admin_imports(api: Api, scope: str) -> None:
    assert 403 == post(api, bill("1"), token=api.token(scope)).status_code


@pytest.mark.parametrize(
    ("words", "content", "field", "message"),
    [
        pytest.param({"kind": "bill-ibm"}, bill("1"), "kind", "known: bill-aws-cur, bill-azure", id="an unknown kind"),
        pytest.param({"kind": "sacct"}, bill("1"), "kind", "not a kind of bill", id="a kind that is no bill"),
        pytest.param({"name": "../focus.csv"}, bill("1"), "name", "without ..", id="a name that leads elsewhere"),
        pytest.param({"name": "/"}, bill("1"), "name", "without ..", id="no name"),
        pytest.param({"beside": "../b.csv"}, bill("1"), "beside", "without ..", id="another that leads elsewhere"),
        pytest.param({}, "", None, "focus.csv: empty", id="nothing"),
        pytest.param({}, "a,b\n1,2\n", None, "focus.csv: no column BilledCost", id="no bill"),
        pytest.param(
            {}, gzip.compress(bill("1").encode())[:-9], None, "nothing is imported", id="a file that breaks off"
        ),
    ],
)
def test_what_cannot_be_imported_is_refused(
    api: Api, words: dict[str, str], content: str | bytes, field: str | None, message: str
) -> None:
    reply = post(api, content, **words)
    error = reply.json()["error"]

    assert (400, field) == (reply.status_code, error.get("field"))
    assert message in error["message"] and "arriving" not in error["message"]
    assert ([], [(0,)]) == (costs(api), api.service.store.sql("select count(*) from import_file"))


def test_a_larger_file_is_refused_before_it_is_read(api: Api) -> None:
    token = api.token("admin")
    headers = {"Content-Length": str((1 << 30) + 1)}
    params = {"kind": "bill-focus", "name": "b"}

    assert 413 == api.request("POST", "/api/v1/bills", token=token, headers=headers, params=params).status_code


def test_a_bill_is_imported_once(api: Api) -> None:
    """As plain text, again, by another name, packed, and by the command line when the server is stopped."""
    token = api.token("admin")
    answers = [post(api, bill("1", "2.5", "x"), token=token).json() for _ in range(2)]
    names = [post(api, bill("1", "2.5", "x"), "copy.csv", token).json()["files"]]
    names += [post(api, gzip.compress(bill("1", "2.5", "x").encode()), "focus.csv.gz", token).json()["files"]]
    file = Path(api.service.directory or "") / "focus.csv"
    file.write_text(bill("1", "2.5", "x"))
    offline = import_paths(api.service.store, api.service.state, "bill-focus", [file], cluster=None, now_us=1)

    reason = "BilledCost is not a decimal number below 10^15"
    example = "BilledCost=x, resource r2, charge_type Usage"
    assert {
        "files": 1,
        "repeated": 0,
        "records": 2,
        "rejected": 1,
        "unreadable": 0,
        "examples": [{"reason": reason, "count": 1, "file": "focus.csv", "line": 4, "example": example}],
    } == answers[0]
    assert (0, 1, 0, []) == tuple(answers[1][name] for name in ("files", "repeated", "records", "examples"))
    assert ([1, 1], 1, ["1", "2.5"]) == (names, offline.repeated, costs(api))
    assert [("focus.csv", 2, 1)] == api.service.store.sql(
        "select path, records, rejected from import_file where path = 'focus.csv'"
    )
    assert [(reason, 4)] == api.service.store.sql("select reason, line from reject where path = 'focus.csv'")
    assert [] == list((Path(api.service.directory or "") / "arriving").iterdir())


def test_a_file_of_the_same_name_replaces_its_older_content_and_parts_stand_side_by_side(api: Api) -> None:
    token = api.token("admin")
    post(api, bill("1"), token=token)
    post(api, bill("3"), token=token)
    replaced = costs(api)
    for name, cost in (("a.csv", "5"), ("b.csv", "6")):
        post(api, bill(cost, resource=name), name, token, beside=["a.csv", "b.csv"])

    assert (["3"], ["5", "6"]) == (replaced, costs(api))


def test_lines_of_a_bill_that_broke_off_are_deleted_by_the_next(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """They never counted."""
    token = api.token("admin")
    monkeypatch.setattr(bills_tables, "BLOCK_BYTES", 1 << 16)
    endless = bill(*("7" for _ in range(5_000))) + '"' + "x" * (1 << 18)
    assert (400, []) == (post(api, endless, token=token).status_code, costs(api))
    kept = api.service.store.sql("select count(*) > 0 from bill")
    monkeypatch.undo()
    post(api, bill("1", day=5), "other.csv", token)

    assert ([(True,)], ["1"], [(1,)]) == (kept, costs(api), api.service.store.sql("select count(*) from bill"))


def test_the_command_line_sends_bills_to_the_server(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files and directories, with what is refused of them; a bad one among good ones is named."""
    token = api.token("admin")
    note = lockfile.Note(1, "http://localhost", "secret")
    monkeypatch.setattr(lockfile, "find", lambda directory: note)

    def sent(note: lockfile.Note, route: str, path: Path, parameters: dict[str, Any]) -> dict[str, Any]:
        words = {name: value for name, value in parameters.items() if value is not None}
        reply = api.request("POST", route, token=token, params=words, content=path.read_bytes())
        if reply.status_code != 200:
            raise remote.UsageError(reply.json()["error"]["message"])
        found: dict[str, Any] = reply.json()
        return found

    monkeypatch.setattr(remote, "send_file", sent)
    folder = tmp_path / "month"
    folder.mkdir()
    (folder / "a.csv").write_text(bill("1", "x", resource="a"))
    (folder / "b.csv").write_text(bill("2", resource="b"))
    codes = [run(["import", "bill-focus", str(folder), "--data", str(tmp_path), "--format", "csv"])]
    out, err = capsys.readouterr()
    codes += [run(["import", "bill-focus", str(folder), "--data", str(tmp_path), "--format", "csv"])]
    again = capsys.readouterr().out.splitlines()
    (folder / "c.csv").write_text("a,b\n")
    codes += [run(["import", "bill-focus", str(folder / "c.csv"), "--data", str(tmp_path)])]

    assert [0, 0, 2] == codes
    assert [
        "files,repeated,samples,records,from,to,assumed_zone,rejected,unreadable",
        "2,0,0,2,,,,1,0",
    ] == out.splitlines()
    assert f"{folder / 'a.csv'}:3: BilledCost is not a decimal number below 10^15 (once): BilledCost=x" in err
    assert ("0,2,0,0,,,,0,0", ["1", "2"]) == (again[1], costs(api))
    assert f"{folder / 'c.csv'}: no column" in capsys.readouterr().err
