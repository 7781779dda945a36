"""`nu-ensembles serve`: a model over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nu_ensembles.cli.options import FLAG


def serve(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    members: Annotated[bool, FLAG] = False,
    uncertainty: Annotated[bool, FLAG] = False,
    network: str | None = None,
) -> None:
    """Serve a model over HTTP until Ctrl-C (needs the extra serve).

    POST /predict takes {"rows": [[...], ...]}, or objects by column name where the training data had names, and gives
    the classes, their probabilities and the predictions. GET /health says that it runs, GET /metrics counts.

    ```
    nu-ensembles serve model
    curl -d '{"rows": [[5.1, 3.5, 1.4, 0.2]]}' http://127.0.0.1:8000/predict
    nu-ensembles serve model --host 0.0.0.0 --port 80 --uncertainty
    nu-ensembles serve model --network train.py:model
    ```

    Args:
      model: Folder that fit has written.
      host: Address to listen on; by default only this machine can ask.
      port: To listen on; 0 takes a free one and prints it.
      members: Give each member's probabilities, too.
      uncertainty: Give how much the members disagree about a row, too, in nats.
      network: FILE.py:NAME, the network where it is none of the built-in ones: a Model, such as nu.models.from_torch
        gives, or a function that returns one. The file is run for it.
    """
    import jax

    # This process only answers; without a thread for every call a row costs 40 µs less.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    from nu_ensembles import serving
    from nu_ensembles.cli.own_network import own_network
    from nu_ensembles.ensemble import Ensemble

    wanted = {"probabilities": True, "members": members, "uncertainty": uncertainty}
    outputs = [name for name, asked in wanted.items() if asked]
    ensemble = Ensemble.load(model, own_network(network))
    serving.serve(ensemble, host, port, outputs, lambda address: print(f"{model} answers at {address}", flush=True))
