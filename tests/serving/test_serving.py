"""A model over HTTP: right answers, batches of concurrent requests, and a sentence for what cannot be answered."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.problem import Standardisation
from nu_ensembles.tables import RawColumn, RawTable, TableEncoding

pytest.importorskip("starlette", reason="needs the extra serve")

from nu_ensembles.serving import make_application

Answer = tuple[int, Any]


def untrained(model: nu.Model, row_shape: tuple[int, ...], **fields: Any) -> nu.Ensemble:
    keys = jax.random.split(jax.random.key(0), 3)
    params = jax.tree.map(np.asarray, jax.vmap(lambda key: model.init(key, jnp.zeros((1, *row_shape))))(keys))
    return nu.Ensemble(model, params, {}, np.array(["no", "yes"]), row_shape, **fields)


@pytest.fixture(scope="module")
def of_numbers() -> nu.Ensemble:
    return untrained(nu.models.mlp(2, hidden=(4,)), (3,), standardisation=Standardisation(np.zeros(3), np.ones(3)))


@pytest.fixture(scope="module")
def of_a_table() -> nu.Ensemble:
    days = np.array(["2024-01-01", "2024-03-05", "NaT", "2024-02-01"], "datetime64[us]")
    table = RawTable(
        (
            RawColumn("age", "number", np.array([20.0, 30.0, np.nan, 50.0])),
            RawColumn("city", "category", np.array([0, 1, 0, 1], np.int32), ("Ulm", "Bonn")),
            RawColumn("bought", "date", days),
        )
    )
    encoding, (x,) = TableEncoding.fit(table)
    return untrained(nu.models.mlp(2, hidden=(4,)), x.shape[1:], encoding=encoding)


def send(ensemble: nu.Ensemble, *bodies: Any, path: str = "/predict", method: str = "POST") -> list[Answer]:
    """What the application answers to requests that come at once; the last is to /metrics."""
    application = make_application(ensemble.compile(("probabilities", "uncertainty")))

    async def one(body: Any, path: str, method: str) -> Answer:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        waiting = [{"type": "http.request", "body": content, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def answer(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
        await application(scope, receive, answer)
        text = b"".join(message.get("body", b"") for message in sent)
        return sent[0]["status"], text.decode() if path == "/metrics" else json.loads(text)

    async def all_of_them() -> list[Answer]:
        answers = await asyncio.gather(*(one(body, path, method) for body in bodies))
        return [*answers, await one(b"", "/metrics", "GET")]

    return asyncio.run(all_of_them())


def test_concurrent_requests_get_their_own_answers_from_common_batches(of_numbers: nu.Ensemble) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    *answers, (_, metrics) = send(of_numbers, *({"rows": [row]} for row in x.tolist()))
    assert {status for status, _ in answers} == {200}
    found = np.array([answer["probabilities"][0] for _, answer in answers])
    np.testing.assert_allclose(found, of_numbers.predict_proba(x), atol=1e-6)
    assert answers[0][1]["classes"] == ["no", "yes"]
    assert answers[0][1]["predictions"] == of_numbers.predict(x[:1]).tolist()
    assert len(answers[0][1]["uncertainty"]) == 1
    assert 'nu_ensembles_requests_total{status="200"} 40' in metrics
    assert "nu_ensembles_rows_total 40" in metrics
    batches = int(next(line for line in metrics.splitlines() if line.startswith("nu_ensembles_batches")).split()[1])
    assert batches < 40


@pytest.mark.filterwarnings("ignore:X has words")
def test_a_table_takes_objects_and_lists_and_null_for_gaps(of_a_table: nu.Ensemble) -> None:
    rows = [{"age": 31, "city": "Ulm", "bought": "2024-01-31T18:30"}, {"age": None, "city": "Rome", "bought": None}]
    (_, first), (_, second), _ = send(of_a_table, {"rows": rows}, {"rows": [list(row.values()) for row in rows]})
    table = RawTable(
        (
            RawColumn("age", "number", np.array([31.0, np.nan])),
            RawColumn("city", "category", np.array([0, 1], np.int32), ("Ulm", "Rome")),
            RawColumn("bought", "date", np.array(["2024-01-31T18:30", "NaT"], "datetime64[us]")),
        )
    )
    expected = of_a_table.predict_proba(table)
    np.testing.assert_allclose(first["probabilities"], expected, atol=1e-6)
    np.testing.assert_allclose(second["probabilities"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "The request is no JSON"),
        (b"\xff", "The request is no JSON"),
        (b"[" * 100_000, "The request is no JSON"),
        ([1, 2], 'lacks "rows"'),
        ({"rows": [[1, 2, 3]], "row": 1}, "fields that are not known"),
        ({"rows": []}, "at least one row"),
        ({"rows": [[1, 2]]}, "rows of shape (2,) where (3,) is expected"),
        ({"rows": [[1, 2, 3, 4]]}, "rows of shape (4,)"),
        ({"rows": [[1, 2, 3], [1, 2]]}, "rows of equal shape"),
        ({"rows": [[1, 2, "3"]]}, "numbers only"),
        ({"rows": [[1, 2, None]]}, "numbers only"),
        ({"rows": [[1, 2, math.nan]]}, "X contains NaN"),
        ({"rows": [[1, 2, 1e300]]}, "beyond float32's range"),
        ({"rows": [[1, 2, 10**400]]}, "rows"),
        ({"rows": [[0, 0, 0]] * 10_001}, "at most 10000"),
    ],
)
def test_a_malformed_request_gets_422_and_a_sentence(of_numbers: nu.Ensemble, body: Any, sentence: str) -> None:
    (status, answer), _ = send(of_numbers, body)
    assert status == 422
    assert sentence in answer["error"]
    assert set(answer) == {"error"}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"age": 31, "city": "Ulm"}, "Row 0 lacks the column(s) 'bought'"),
        ({"age": 31, "city": "Ulm", "bought": None, "height": 1}, "columns that the training rows had not: 'height'"),
        ({"age": "old", "city": "Ulm", "bought": None}, "The column 'age' holds 'old' in row 0"),
        ({"age": 1, "city": ["Ulm"], "bought": None}, "The column 'city' holds"),
        ({"age": 1, "city": "Ulm", "bought": "1/2/2024"}, "send a date such as '2024-01-31'"),
        ({"age": math.inf, "city": "Ulm", "bought": None}, "X contains infinity"),
        (
            {"age": math.nan, "city": "Ulm", "bought": None},
            "The column 'age' holds 'nan' in row 0; send a number or null",
        ),
        ([1, "Ulm"], "Row 0 has 2 values where 3 are expected"),
    ],
)
def test_a_malformed_row_of_a_table_gets_422_and_a_sentence(of_a_table: nu.Ensemble, row: Any, sentence: str) -> None:
    (status, answer), _ = send(of_a_table, {"rows": [row]})
    assert status == 422
    assert sentence in answer["error"]


def test_pixels_must_be_whole_numbers_of_a_byte() -> None:
    images = untrained(nu.models.mlp(2, hidden=(4,)), (2, 2), pixels=True)
    good, negative, fraction, _ = send(images, *({"rows": [[[0, 1], [2, last]]]} for last in (255, -1, 0.5)))
    assert good[0] == 200
    assert negative[0] == fraction[0] == 422
    assert "whole numbers from 0 to 255" in fraction[1]["error"]


def test_other_paths_and_methods_are_refused_in_a_sentence(of_numbers: nu.Ensemble) -> None:
    assert send(of_numbers, b"", path="/predict", method="GET")[0][0] == 405
    status, answer = send(of_numbers, b"", path="/other")[0]
    assert (status, list(answer)) == (404, ["error"])
    status, answer = send(of_numbers, b"", path="/health", method="GET")[0]
    assert (status, answer["status"], answer["members"]) == (200, "ok", 3)


def test_what_goes_wrong_inside_is_logged_and_not_told(
    of_numbers: nu.Ensemble, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Any, rows: np.ndarray) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr("nu_ensembles.export.CompiledEnsemble.answer_rows", broken)
    (status, answer), _ = send(of_numbers, {"rows": [[1, 2, 3]]})
    assert status == 500
    assert "secret" not in answer["error"]
    assert "secret" in caplog.text


@pytest.mark.slow
def test_the_command_serves_until_it_is_told_to_stop(of_numbers: nu.Ensemble, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    of_numbers.save(tmp_path / "model")
    command = [sys.executable, "-m", "nu_ensembles.cli", "serve", str(tmp_path / "model"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            assert address.startswith("http://127.0.0.1:")
            request = urllib.request.Request(f"{address}/predict", json.dumps({"rows": [[1, 2, 3]]}).encode())
            with urllib.request.urlopen(request, timeout=60) as response:
                found = json.load(response)["probabilities"]
            np.testing.assert_allclose(found, of_numbers.predict_proba(np.array([[1.0, 2.0, 3.0]])), atol=1e-6)
            server.send_signal(signal.SIGTERM)
            _, complaints = server.communicate(timeout=60)
        finally:
            server.kill()
    assert (server.returncode, complaints) == (0, "")
