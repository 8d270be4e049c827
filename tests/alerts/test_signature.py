"""Signed webhooks: what Standard Webhooks expects, what the page tells receivers to do, and what must not pass."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
from pathlib import Path

import pytest

from gpuwatch.alerts.changes import enqueue
from gpuwatch.alerts.delivery.signature import TOLERANCE_S, headers, is_secret, sign, verify
from gpuwatch.core.clock import SECOND_US
from gpuwatch.state import State
from tests.worlds.alerts import T0_US, Clock, add_channel, deliverer, finding, hook, several
from tests.worlds.patience import PATIENCE_S

PAGE = Path(__file__).parents[2] / "docs/act/alerts.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
NOW_S = T0_US // SECOND_US


def test_the_vector_of_standard_webhooks_is_met() -> None:
    """Id, time, body and signature as their libraries have them in their tests."""
    signed = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, BODY)

    assert "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" == signed


@pytest.mark.parametrize(
    ("changed", "body", "seconds", "expected"),
    [
        pytest.param({}, BODY + b" ", 0, False, id="another body"),
        pytest.param({"webhook-id": "msg_other"}, BODY, 0, False, id="another id"),
        pytest.param({"webhook-timestamp": str(NOW_S + 1)}, BODY, 0, False, id="another time"),
        pytest.param({"webhook-timestamp": "now"}, BODY, 0, False, id="a time that is none"),
        pytest.param({"webhook-signature": ""}, BODY, 0, False, id="no signature"),
        pytest.param({"webhook-signature": "v1,ä"}, BODY, 0, False, id="a signature that is none"),
        pytest.param({}, BODY, TOLERANCE_S + 1, False, id="a recording"),
        pytest.param({}, BODY, TOLERANCE_S, True, id="as it was sent"),
    ],
)
def test_only_what_was_signed_lately_passes(changed: dict[str, str], body: bytes, seconds: int, expected: bool) -> None:
    found = headers(SECRET, "ops|f1|opened|1|high", BODY, NOW_S) | changed

    assert expected is verify(SECRET, found, body, NOW_S + seconds)


def test_another_secret_does_not_pass() -> None:
    assert False is verify("another secret!!!", headers(SECRET, "k", BODY, NOW_S), BODY, NOW_S)


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        pytest.param("short", False, id="too short"),
        pytest.param("whsec_not base64 at all", False, id="base64 that is none"),
        pytest.param("whsec_AAAAAAAAAAAAAAAA", False, id="base64 of too few bytes"),
        pytest.param("tab\there and some more", False, id="what cannot be printed"),
        pytest.param(SECRET, True, id="base64"),
        pytest.param("sixteen letters!", True, id="any words"),
    ],
)
def test_a_secret_can_sign(secret: str, expected: bool) -> None:
    assert expected is is_secret(secret)


def test_a_receiver_that_does_what_the_page_says_knows_our_messages(tmp_path: Path) -> None:
    """The example of docs/act/alerts.md is run as it stands, against messages as they arrive; a retry has the same id."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "receiver.py").write_text(example)
    result = runpy.run_path(str(tmp_path / "receiver.py"))
    clock = Clock()

    async def story() -> None:
        with State.open(tmp_path) as state:
            async with hook(500, 200) as receiver:
                add_channel(state, receiver.url, kind="webhook", signing_secret=SECRET, authorization="Bearer abc")
                enqueue(state, [finding()], clock())
                sender = deliverer(state, clock)
                await sender.deliver_due()
                clock.forward(1000)
                await sender.deliver_due()

                first, second = receiver.requests
                assert ["Bearer abc"] * 2 == [one.headers["authorization"] for one in receiver.requests]
                assert first.headers["webhook-id"] == second.headers["webhook-id"]
                assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
                now_s = clock() // SECOND_US
                assert json.loads(second.body) == result["received"](SECRET, second.headers, second.body, now_s)
                for body, at_s in ((second.body + b" ", now_s), (second.body, now_s + 3600)):
                    with pytest.raises(ValueError, match="signature"):
                        result["received"](SECRET, second.headers, body, at_s)

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_the_page_names_every_field_of_every_body(tmp_path: Path) -> None:
    from gpuwatch.alerts.channels import webhook
    from gpuwatch.alerts.record import Alert

    alerts = [Alert("opened", "k", "2026-11-02T00:00:00Z", one.as_dict()) for one in several(2)]
    bodies = [
        webhook.payload(alerts[0], "https://g.example"),
        webhook.digest(alerts, "https://g.example", key="k"),
        webhook.test("ops", None, key="k"),
    ]
    text = PAGE.read_text("utf-8")

    assert [] == sorted({name for body in bodies for name in body if f"| `{name}` |" not in text})
