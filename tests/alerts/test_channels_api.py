"""Channels through the API and in gpuwatch.toml: the same fields, no secret shown, and links that change nothing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.service.after_pass import configured
from tests.worlds.alerts import SLACK_URL
from tests.worlds.api import Api, open_api

pytestmark = pytest.mark.both_engines

PAGE = Path(__file__).parents[2] / "docs/act/alerts.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOK: dict[str, Any] = {
    "name": "hook",
    "kind": "webhook",
    "url": SLACK_URL,
    "signing_secret": SECRET,
    "authorization": "Bearer VerySecretToken",
    "severity_min": "low",
    "severity_max": "high",
    "rules": ["idle-hoarding"],
    "clusters": ["c1"],
    "group_by": ["rule", "team"],
    "throttle_minutes": 60,
    "quiet_hours": "22:00-07:00",
    "quiet_days": ["sun"],
    "holidays": ["12-25"],
    "timezone": "Europe/Berlin",
    "urgent": "high",
    "template_subject": "$what: $subject",
}
MANAGER: dict[str, Any] = {
    "name": "am",
    "kind": "alertmanager",
    "url": "https://am.example",
    "labels": {"env": "prod"},
    "resolve_minutes": 10,
}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    opened = open_api(tmp_path)
    yield opened
    opened.service.stop()


def put(api: Api, *items: dict[str, Any]) -> Any:
    """The answer to PUT."""
    return api.request("PUT", "/api/v1/channels", json={"items": list(items)})


def test_what_is_put_is_shown_without_its_secrets(api: Api) -> None:
    answer = put(api, HOOK, MANAGER)
    assert 200 == answer.status_code
    am, hook = answer.json()["items"]

    secret = {"url", "signing_secret", "authorization"}
    assert {k: v for k, v in HOOK.items() if k not in secret} | {"group_by": ["team", "rule"]} == {
        name: hook[name] for name in HOOK if name not in secret
    }
    assert {k: v for k, v in MANAGER.items() if k != "url"} == {name: am[name] for name in MANAGER if name != "url"}
    assert (True, True, False) == (hook["signing_secret_set"], hook["authorization_set"], am["authorization_set"])
    assert [] == [word for word in (SECRET, SECRET[6:], "VerySecret", "SecretSecret") if word in answer.text]


def test_what_is_shown_may_be_put_again(api: Api) -> None:
    items = put(api, HOOK, MANAGER).json()["items"]

    assert items == put(api, *items).json()["items"]


def test_a_wrong_field_is_named_and_nothing_changes(api: Api) -> None:
    put(api, HOOK)
    answer = put(api, HOOK | {"quiet_hours": "late"}, MANAGER | {"labels": {"severity": "x"}})

    assert 4 == answer.status_code // 100
    assert [True, True] == [word in answer.json()["error"]["message"] for word in ("quiet_hours must", "labels must")]
    assert ["hook"] == [item["name"] for item in api.get("/api/v1/channels").json()["items"]]
    assert SECRET not in answer.text


def test_following_a_link_changes_nothing(api: Api) -> None:
    """Mail scanners and previews follow every link."""
    before = len(api.service.state.audit())
    for action in ("ack", "snooze", "exempt"):
        assert 405 == api.get(f"/api/v1/findings/f1/{action}").status_code
        api.get(f"/api/v1/findings/f1?action={action}")

    assert before == len(api.service.state.audit())


def test_every_example_of_the_page_is_right(tmp_path: Path) -> None:
    """As it stands in gpuwatch.toml, with files that hold the secrets."""
    secrets = {"url": SLACK_URL, "password": "x"}
    blocks = re.findall(r"^ *```toml\n(.*?)^ *```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    seen = 0
    for block in blocks:
        tables = tomllib.loads(block)
        if "template_subject" in tables:
            tables = {"channel": [{"name": "words", "url": SLACK_URL, **tables}]}
        for table in tables.get("channel", []):
            for name, value in secrets.items():
                if f"{name}_file" in table:
                    path = tmp_path / name
                    path.write_text(value)
                    table[f"{name}_file"] = str(path)
        seen += len(configured(tables).channels)

    assert (7, 8) == (len(blocks), seen)
