"""The HTTP application: `POST /predict`, `GET /health`, `GET /metrics`.

What is wrong with a request is answered with status 422 and a sentence, `{"error": "…"}`; nothing of how the program
works ever leaves it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.export import CompiledEnsemble
from nu_ensembles.serving.batching import Batcher
from nu_ensembles.serving.measurements import Measurements
from nu_ensembles.serving.requests import rows_of_request

LARGEST_BODY = 16 << 20
# Up to so many rows of concurrent requests a program is compiled before the first request.
WARM_ROWS = 64
_LOG = logging.getLogger("nu_ensembles.serving")


def make_application(compiled: CompiledEnsemble) -> Any:
    """The ASGI application of an ensemble.

    Args:
      compiled: `ensemble.compile(…)`; its outputs are those of every answer.
    """
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.requests import Request
        from starlette.responses import JSONResponse, PlainTextResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError("Serving a model", "serve") from error

    batcher, measured = Batcher(compiled), Measurements()
    classes = [
        str(each) if not isinstance(each, str | int | float) else each for each in compiled.ensemble.classes.tolist()
    ]

    async def predict(request: Request) -> Response:
        begun = time.perf_counter()
        status, content = await answered(request)
        measured.add(status, time.perf_counter() - begun)
        return Response(content, status, media_type="application/json")

    async def answered(request: Request) -> tuple[int, bytes]:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_BODY:
                return 413, error_json(
                    f"The request is larger than {LARGEST_BODY >> 20} MiB; send fewer rows at a time."
                )
        try:
            found = await batcher.answer(rows_of_request(compiled, bytes(body)))
        except InputError as error:
            return 422, error_json(str(error))
        except Exception:
            _LOG.exception("a request could not be answered")
            return 500, error_json("The request could not be answered; the server's log says why.")
        answer = {name: value.tolist() for name, value in found.items()}
        if "probabilities" in found:
            answer["predictions"] = [classes[at] for at in found["probabilities"].argmax(axis=1)]
        return 200, json.dumps({"classes": classes, **answer}).encode()

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "members": compiled.ensemble.n_members, "classes": classes})

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(measured.text(batcher.n_batches, batcher.n_rows))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        sentence = "There is POST /predict, GET /health and GET /metrics; nothing else."
        return JSONResponse({"error": sentence}, error.status_code, headers=error.headers)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        batcher.close()

    routes = [
        Route("/predict", predict, methods=["POST"]),
        Route("/health", health, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: refused}, lifespan=lifespan)


def error_json(sentence: str) -> bytes:
    return json.dumps({"error": sentence}).encode()
