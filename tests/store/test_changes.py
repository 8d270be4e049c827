"""What a statement reads and writes, by its words."""

from __future__ import annotations

import pytest

from gpuwatch.store.changes import Changes


@pytest.mark.parametrize(
    ("text", "read", "written"),
    [
        pytest.param("select * from run r join day using (x)", {"run", "day"}, set(), id="a question"),
        pytest.param("-- run\nselect 1", set(), set(), id="a comment names nothing"),
        pytest.param("INSERT INTO run SELECT * FROM day", {"run", "day"}, {"run"}, id="an insert"),
        pytest.param("with a as (select 1) insert into run from a", {"run"}, {"run"}, id="a target that is not first"),
        pytest.param("create or replace temp table x as from run", {"run"}, set(), id="a temporary table"),
        pytest.param("insert into x select * from run", {"run"}, set(), id="into a temporary table"),
        pytest.param('delete from "day" where y', {"day"}, {"day"}, id="a quoted name"),
        pytest.param("from query_table($name)", {"run", "day"}, set(), id="a name that is a parameter"),
        pytest.param("alter table run add column z", {"run"}, {"run"}, id="a changed table"),
    ],
)
def test_tables_of_a_statement(text: str, read: set[str], written: set[str]) -> None:
    changes = Changes()
    changes.learn(["run", "day"])

    assert read == changes.read_by(text)
    if not text.lower().startswith(("select", "from", "--")):
        assert written == changes.written_by(text)
