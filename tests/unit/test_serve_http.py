"""What whoever asks a service over HTTP gets: answers, refusals, and never a traceback."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from types import SimpleNamespace

import httpx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.data.preprocess import Preprocessor
from colonnade.errors import RequestError
from colonnade.job.ids import Ids
from colonnade.predict.batch import IdRows
from colonnade.predict.request import ROWS_MAX, Scored
from colonnade.predict.rows import PartyRows
from colonnade.serve import app as app_file
from colonnade.serve.app import BODY_BYTES_MAX, application
from colonnade.serve.asked import BodyError, IdReader, choose_model, read_body
from colonnade.serve.live import WAITING_MAX, Live, Ticket
from colonnade.serve.metrics import Metrics
from colonnade.serve.service import Offer, Service
from colonnade.serve.token import read_token
from tests.loop import run

RUN = "4f" * 16
OTHER = "ab" * 16
IDS = pa.array(["c1", "c2", "c3"])


class FakeParties:
    me, peers = "bank", ("telco", "shop")

    def __init__(self):
        self.gone, self.late = (), ()

    def away(self):
        return self.gone

    def owing(self):
        return self.late

    def connected_since(self, peer):
        return None if peer in self.gone else 0.0


def head(task="binary", run=RUN, types=()):
    card = SimpleNamespace(task=task, classes=("no", "yes"), run=run, types=dict(types))
    return SimpleNamespace(
        card=card, probabilities=lambda scores: np.stack([1 - scores[:, 0], scores[:, 0]], axis=1)
    )


class House:
    """A service whose other parties are played by `answer`: None leaves a request unanswered."""

    def __init__(
        self, answer=None, token=None, deadline_ms=40, task="binary", fitted=None, types=()
    ):
        self.parties, self.asked, self.told = FakeParties(), [], []
        self.answer = answer
        index = IdRows(PartyRows(3, {}, IDS), Ids())
        self.live = Live(lambda: index, now=lambda: 0, world_now=lambda: 0)
        self.live.bind(self._play)
        heads = {f"{run[:12]}-1": head(task, run, types) for run in (RUN, OTHER)}
        offer = Offer("credit", heads, dict.fromkeys(heads, fitted), IdReader(("id",), Ids()),
                      deadline_ms * 10**6)  # fmt: skip
        metrics = Metrics(self.parties.peers, {RUN[:12]: RUN}, self.parties.away,
                          lambda: self.live.waiting)  # fmt: skip
        self.service = Service(offer, self.live, self.parties, metrics)
        self.app = application(self.service, token, self.told.append)

    def _play(self):
        asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self):
        if self.answer is None or (request := self.live.take()) is None:
            return
        self.asked.append(request)
        request.deliver(self.answer(request))

    def ask(self, body, **more):
        return self.call("POST", "/predict", body, **more)

    def call(self, method, path, body=None, **more):
        async def whole():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url="http://bank") as client:
                if isinstance(body, dict | list):
                    return await client.request(method, path, json=body, **more)
                return await client.request(method, path, content=body, **more)

        return run(whole())


def scored(request):
    scores = np.where(request.own[:, None] < 0, np.nan, request.own[:, None] / 4)
    return Scored(scores, {"bank": request.own < 0} if (request.own < 0).any() else {})


def test_rows_come_back_in_order_with_class_names_and_who_lacks_them():
    reply = House(scored).ask({"ids": ["c3", "nobody", "c1"]})
    assert reply.status_code == 200
    assert reply.json() == {
        "model": {"run": RUN, "version": f"{RUN[:12]}-1"},
        "missing": "null",
        "rows": [
            {"id": "c3", "prediction": "no", "probabilities": {"no": 0.5, "yes": 0.5},
             "missing": None},
            {"id": "nobody", "prediction": None, "probabilities": None, "missing": ["bank"]},
            {"id": "c1", "prediction": "no", "probabilities": {"no": 1.0, "yes": 0.0},
             "missing": None},
        ],
    }  # fmt: skip


def test_a_mean_is_a_choice_that_the_answer_records():
    house = House(lambda request: Scored(np.ones((1, 1)), {"telco": np.array([True])}))
    reply = house.ask({"ids": ["c1"], "missing": "mean"}).json()
    assert house.asked[0].mean and reply["missing"] == "mean"
    assert reply["rows"][0]["imputed"] == "mean" and reply["rows"][0]["missing"] == ["telco"]
    assert reply["rows"][0]["prediction"] == "yes"


def test_a_number_is_predicted_where_the_task_is_one():
    row = House(lambda request: Scored(np.array([[2.5]])), task="regression").ask({"ids": ["c1"]})
    assert row.json()["rows"] == [{"id": "c1", "prediction": 2.5, "missing": None}]


def test_another_version_is_chosen_by_its_name_or_run():
    house = House(scored)
    for name in (f"{OTHER[:12]}-1", OTHER, OTHER[:6]):
        reply = house.ask({"ids": ["c1"], "model": name})
        assert reply.json()["model"]["run"] == OTHER
    assert house.ask({"ids": ["c1"], "model": "zz"}).status_code == 422


def test_late_parties_are_named_when_the_time_is_up():
    house = House(deadline_ms=20)
    house.parties.gone = ("telco",)
    reply = house.ask({"ids": ["c1"]})
    assert reply.status_code == 504 and reply.json()["late"] == ["telco"]
    assert house.live.waiting == 0
    house.parties.gone, house.parties.late = (), ("shop",)
    reply = house.ask({"ids": ["c1"], "deadline_ms": 3})
    assert reply.json()["late"] == ["shop"] and "within 3 ms" in reply.json()["error"]
    house.parties.late = ()
    assert house.ask({"ids": ["c1"]}).json()["late"] == ["bank"]


@pytest.mark.parametrize(
    ("why", "status"),
    [("policy.predict_rows_per_minute is 3: …", 429), ("policy.predict_rows_max is 3", 403)],
)
def test_a_party_that_declines_is_named_with_its_reason(why, status):
    reply = House(lambda request: Scored(np.ones((1, 1)), declined={"telco": why})).ask(
        {"ids": ["c1"]}
    )
    assert reply.status_code == status and reply.json()["declined"] == {"telco": why}
    assert ("retry-after" in reply.headers) == (status == 429)


def test_a_full_queue_is_said_at_once():
    house = House()
    for _ in range(WAITING_MAX):
        house.live._interrupt = lambda: None
        house.live.put(Ticket(["c1"], "v", False, 0, lambda scored: None))
    reply = house.ask({"ids": ["c1"]})
    assert reply.status_code == 503 and reply.headers["retry-after"] == "1"


WRONG = [
    b"", b"{", b"[]", b"null", b'"c1"', b"\xff\xfe", b'{"ids": []}', b'{"ids": "c1"}',
    b'{"id": ["c1"]}', b'{"ids": [null]}', b'{"ids": [1.5]}', b'{"ids": [{}]}', b'{"ids": [""]}',
    b'{"ids": ["c1"], "rows": [{}]}', b'{"rows": [{"id": "c1"}]}', b'{"ids": [["c1", "c2"]]}',
    b'{"ids": ["c1"], "deadline_ms": 0}', b'{"ids": ["c1"], "deadline_ms": 1e400}',
    b'{"ids": ["c1"], "missing": "zero"}', b'{"ids": ["\\ud800"]}',
    b'{"ids": [' + b"[" * 100_000, json.dumps({"ids": ["c1"] * (ROWS_MAX + 1)}).encode(),
    json.dumps({"ids": ["x" * 2000]}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG, ids=[repr(body[:30]) for body in WRONG])
def test_a_wrong_body_is_one_sentence(body):
    house = House(scored)
    reply = house.ask(body, headers={"content-type": "application/json"})
    assert reply.status_code == 422, reply.text
    sentence = reply.json()["error"]
    assert sentence and "\n" not in sentence and "Traceback" not in sentence and not house.told


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=50).map(lambda text: text.encode("utf-8")))
def test_no_body_makes_a_mistake_of_ours(body):
    house = House(scored)
    reply = house.ask(body, headers={"content-type": "application/json"})
    assert reply.status_code in (200, 422) and not house.told


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=20) | st.integers(), min_size=1, max_size=5))
def test_any_id_is_answered_for_or_refused(ids):
    house = House(scored)
    reply = house.ask(json.dumps({"ids": ids}).encode(),
                      headers={"content-type": "application/json"})  # fmt: skip
    assert reply.status_code in (200, 422) and not house.told
    if reply.status_code == 200:
        assert [row["id"] for row in reply.json()["rows"]] == ids


@given(st.text(min_size=1, max_size=8))
def test_the_short_way_for_ids_is_the_rule(text):
    reader = IdReader(("id",), Ids())
    try:
        slow = reader._by_rule([[text]])
    except BodyError:
        slow = None
    try:
        quick = reader.texts([text])
    except BodyError:
        quick = None
    assert quick == slow


def test_large_and_slow_bodies_are_refused(monkeypatch):
    house = House(scored)
    headers = {"content-type": "application/json"}
    claimed = house.ask(b"{}", headers=headers | {"content-length": str(BODY_BYTES_MAX + 1)})
    assert claimed.status_code == 413

    async def endless():
        while True:
            yield b" " * 2**20

    assert house.ask(endless(), headers=headers).status_code == 413

    async def never():
        yield b"{"
        await asyncio.sleep(60)

    monkeypatch.setattr(app_file, "BODY_S", 0.05)
    assert house.ask(never(), headers=headers).status_code == 408
    monkeypatch.setattr(app_file, "BODIES_BYTES_MAX", 10)
    assert house.ask(b" " * 11, headers=headers).status_code == 503
    assert house.service is not None and not house.told


def test_only_json_is_taken_and_only_by_post():
    house = House(scored)
    reply = house.ask(b'{"ids": ["c1"]}', headers={"content-type": "text/plain"})
    assert reply.status_code == 415
    assert house.call("GET", "/predict").status_code == 405
    assert house.call("POST", "/health").status_code == 405
    assert house.call("GET", "/nothing").json()["error"].startswith("there is nothing here")


def test_our_own_mistake_shows_no_traceback():
    house = House(scored)
    house.service._predict = lambda content: 1 / 0
    reply = house.ask({"ids": ["c1"]})
    assert reply.status_code == 500 and "Zero" not in reply.text
    assert house.told == ["a request over HTTP failed here: ZeroDivisionError"]


def test_health_says_who_is_there():
    house = House()
    reply = house.call("GET", "/health")
    assert reply.status_code == 200 and reply.json()["parties"]["telco"]["connected"]
    house.parties.gone = ("telco",)
    reply = house.call("GET", "/health")
    assert reply.status_code == 503 and reply.json()["status"] == "waiting"
    assert reply.json()["parties"]["telco"] == {"connected": False, "since": None}
    assert [model["run"] for model in reply.json()["models"]] == [RUN, OTHER]


def test_metrics_are_prometheus_text():
    from prometheus_client.parser import text_string_to_metric_families

    house = House(scored)
    house.ask({"ids": ["c1", "nobody"]})
    house.ask(b"{", headers={"content-type": "application/json"})
    text = house.call("GET", "/metrics").text
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["colonnade_requests_total", "200"] == 1
    assert found["colonnade_requests_total", "422"] == 1
    assert found["colonnade_rows_total",] == 2
    assert found["colonnade_rows_lacking_total", "bank"] == 1
    assert found["colonnade_party_connected", "telco"] == 1


def test_the_page_needs_no_other_host():
    house = House()
    for path in ("/", "/docs"):
        reply = house.call("GET", path)
        assert reply.status_code == 200 and "http://" not in reply.text
        assert "https://" not in reply.text and "src=" not in reply.text
        assert "default-src 'none'" in reply.headers["content-security-policy"]
    document = house.call("GET", "/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {"/predict", "/health", "/metrics", "/openapi.json"}


def test_a_token_is_asked_for_where_there_is_one():
    house = House(scored, token=b"0123456789abcdef")
    assert house.ask({"ids": ["c1"]}).status_code == 401
    for path in ("/metrics", "/docs", "/openapi.json", "/"):
        assert house.call("GET", path).status_code == 401
    wrong = {"authorization": "Bearer 0123456789abcdeg"}
    assert house.ask({"ids": ["c1"]}, headers=wrong).status_code == 401
    right = {"authorization": "Bearer 0123456789abcdef"}
    assert house.ask({"ids": ["c1"]}, headers=right).status_code == 200
    # Whoever watches over the process need not know the token, and learns no name.
    assert house.call("GET", "/health").json() == {"status": "serving"}
    assert "parties" in house.call("GET", "/health", headers=right).json()


def test_a_token_that_others_can_read_is_refused(tmp_path):
    file = tmp_path / "token"
    with pytest.raises(RequestError, match="cannot be read"):
        read_token(file)
    file.write_text("0123456789abcdef")
    file.chmod(0o640)
    with pytest.raises(RequestError, match="chmod 600"):
        read_token(file)
    file.chmod(0o600)
    assert read_token(file) == b"0123456789abcdef"
    file.write_text("short")
    with pytest.raises(RequestError, match="holds no token"):
        read_token(file)


def test_rows_with_their_own_columns_are_encoded_as_in_the_training():
    table = pa.table({"age": [20.0, 40.0], "plan": ["a", "b"]})
    fitted = Preprocessor.fit(table, np.array([0, 1]))
    house = House(scored, fitted=fitted)
    reply = house.ask({"rows": [{"id": "c1", "age": 20, "plan": "b"}]})
    assert reply.status_code == 200, reply.text
    expected = fitted.transform(pa.table({"age": [20.0], "plan": ["b"]}))
    assert np.array_equal(house.asked[0].features, expected)
    for row, word in [
        ({"id": "c1", "age": 20}, "has no 'plan'"),
        ({"id": "c1", "age": 20, "plan": "a", "agf": 1}, "no column 'agf'"),
        ({"age": 20, "plan": "a"}, "has no 'id'"),
        ({"id": None, "age": 20, "plan": "a"}, "the id of a row"),
        ({"id": True, "age": 20, "plan": "a"}, "the id of a row"),
        ({"id": "c1", "age": "many", "plan": "a"}, "'age'"),
    ]:
        reply = house.ask({"rows": [row]})
        assert reply.status_code == 422 and word in reply.json()["error"], reply.text
    mixed = [{"id": "c1", "age": 1, "plan": "a"}, {"id": "c2", "age": "x", "plan": "a"}]
    assert house.ask({"rows": mixed}).status_code == 422 and not house.told


def test_models_and_bodies_are_checked():
    assert choose_model(None, ["a-1", "b-2"]) == "a-1"
    with pytest.raises(BodyError, match="no one model"):
        choose_model("abcd", ["abcdef-1", "abcdef-2"])
    assert read_body(b'{"ids":["c1"],"deadline_ms":5}').deadline_ms == 5


def test_a_party_that_was_too_slow_is_late():
    why = "the time of the question was up before telco came to it"
    house = House(lambda request: Scored(np.ones((1, 1)), declined={"telco": why}))
    reply = house.ask({"ids": ["c1"]})
    assert reply.status_code == 504 and reply.json()["late"] == ["telco"]


def test_rows_have_the_types_of_the_training():
    moments = [datetime(2024, 1, day) for day in (1, 2, 3)]
    table = pa.table({"since": moments, "plan": ["a", "b", "a"]})
    fitted = Preprocessor.fit(table, np.array([0, 1, 2]), treat={"since": "date"}, auto=True)
    types = {"since": "timestamp[us]", "plan": "string"}
    house = House(scored, fitted=fitted, types=types)
    reply = house.ask({"rows": [{"id": "c1", "since": "2024-01-02", "plan": "b"}]})
    assert reply.status_code == 200, reply.text
    assert np.array_equal(house.asked[0].features, fitted.transform(table)[1:2])
    for row, word in [
        ({"id": "c1", "since": "soon", "plan": "b"}, "values"),
        ({"id": "c1", "since": "2024-01-02", "plan": 1}, "was string in training"),
    ]:
        reply = house.ask({"rows": [row]})
        assert reply.status_code == 422 and word in reply.json()["error"], reply.text
