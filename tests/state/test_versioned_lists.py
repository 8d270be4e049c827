"""VersionedLists: each version is kept, a repeat changes nothing, every change is audited."""

from pathlib import Path

import pytest

from gpuwatch.core.errors import UsageError
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists

pytestmark = pytest.mark.both_engines


def test_a_version_is_kept_and_a_repeat_is_none(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        cards = VersionedLists(state)
        first, second = [{"a": "1.50"}, {"a": "2"}], [{"a": "2"}]
        assert [] == cards.rows("fx")
        assert cards.replace("fx", first, "ada", "fx.csv", 1)
        assert not cards.replace("fx", first, "bob", "again", 2)
        assert cards.replace("fx", second, "bob", "api", 3)
        assert second == cards.rows("fx")
        assert first == cards.rows("fx", 1)
        assert [(2, "bob", 3), (1, "ada", 1)] == [(v.version, v.actor, v.at_us) for v in cards.history("fx")]
        assert ["fx replaced", "fx replaced"] == [entry.what for entry in state.audit()]
        assert 0 == cards.version("policies")


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with State.open(tmp_path) as state, pytest.raises(UsageError, match="card 'nothing': unknown"):
        VersionedLists(state).rows("nothing")
