"""An ensemble as an ONNX model: its inputs, what encodes and scales them, the members, the calibrated mean."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from onnx import checker, helper

from nu_ensembles.errors import InputError
from nu_ensembles.export.answer import answers
from nu_ensembles.export.inputs import Input, inputs_of, is_mixed, used_encoders
from nu_ensembles.export.onnx_graph import OnnxGraph, Operand, onnx_dtype
from nu_ensembles.export.onnx_writer import write
from nu_ensembles.export.preprocessing import days_and_milliseconds, level_rows, network_rows, row_of_level
from nu_ensembles.models import uses_convolution
from nu_ensembles.tables.encoders import CategoryEncoder

# Protocol buffers end at two gigabytes.
LARGEST = (1 << 31) - 1


def onnx_bytes(ensemble: Any, outputs: Sequence[str], metadata: dict[str, str]) -> bytes:
    """The serialised model.

    Raises:
      InputError: the network has operations that cannot be written, or is too large.
    """
    inputs = inputs_of(ensemble, "onnx")
    (rows,) = export.symbolic_shape("rows")
    graph = OnnxGraph(rows, inputs[0].name)
    x = _network_rows(graph, ensemble, inputs, rows)
    found = _answers(graph, ensemble, x, outputs, rows)
    if graph.missing:
        raise InputError(
            f"ONNX cannot hold this network: there is no rule for {', '.join(sorted(graph.missing))}; export it with "
            "format='stablehlo', which holds any network."
        )
    infos = [_info(each.name, onnx_dtype(_stored_dtype(each)), (rows, *each.shape)) for each in inputs]
    given = []
    for name, operand in found.items():
        operand = graph.full(operand)
        graph.nodes.append(helper.make_node("Identity", [graph.name(operand)], [name]))
        given.append(_info(name, onnx_dtype(operand.dtype), operand.shape))
    size = sum(array.nbytes for _, array in graph.constants.values())
    if size > LARGEST:
        raise InputError(
            f"The ensemble's weights take {size / 1e9:.1f} GB, and an ONNX file holds two; export fewer members, or "
            "format='stablehlo'."
        )
    model = graph.model(infos, given, metadata)
    checker.check_model(model)
    return model.SerializeToString()


def _stored_dtype(each: Input) -> Any:
    return np.dtype(object) if each.dtype == "str" else np.dtype(each.dtype)


def _info(name: str, dtype: int, shape: Sequence[Any]) -> Any:
    return helper.make_tensor_value_info(name, dtype, [size if isinstance(size, int) else "rows" for size in shape])


def _network_rows(graph: OnnxGraph, ensemble: Any, inputs: Sequence[Input], rows: Any) -> Operand:
    encoders = {each.name: each for each in used_encoders(ensemble)} if is_mixed(ensemble) else {}
    given: dict[str, Operand] = {}
    for each in inputs:
        shape = (rows, *each.shape)
        operand = Operand(each.name, shape, shape, _stored_dtype(each))
        if each.kind == "text":
            operand = _coded(graph, encoders[each.name], operand)
        elif each.kind == "date":
            operand = _written(graph, days_and_milliseconds, {"date": operand})["found"]
        given[each.name] = operand
    return _written(graph, lambda **inputs: network_rows(ensemble, inputs), given)["found"]


def _written(graph: OnnxGraph, program: Any, given: dict[str, Operand]) -> dict[str, Operand]:
    """A program of preprocessing, traced with 64 bits."""
    with jax.enable_x64(True):
        names = list(given)
        shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in given.values()]
        if program is days_and_milliseconds:
            closed = jax.make_jaxpr(program)(*shapes)
        else:
            closed = jax.make_jaxpr(lambda *values: program(**dict(zip(names, values, strict=True))))(*shapes)
        return {"found": write(graph, closed, list(given.values()))[0]}


def _coded(graph: OnnxGraph, encoder: Any, text: Operand) -> Operand:
    """Text as numbers of rows of `level_rows`, or as places in the order; "" is a gap."""
    if isinstance(encoder, CategoryEncoder):
        rows = row_of_level(encoder)
        last = len(level_rows(encoder)) - 1
        rows.setdefault("", last - 1)
        keys, values, options = list(rows), list(rows.values()), {"default_int64": last}
        options |= {"keys_strings": keys, "values_int64s": values}
        return graph.new("LabelEncoder", [text], text.shape, np.int64, domain="ai.onnx.ml", **options)
    places = [float(at) for at in range(len(encoder.order))]
    options = {"keys_strings": list(encoder.order), "values_floats": places, "default_float": float("nan")}
    return graph.new("LabelEncoder", [text], text.shape, np.float32, domain="ai.onnx.ml", **options)


def _answers(graph: OnnxGraph, ensemble: Any, x: Operand, outputs: Sequence[str], rows: Any) -> dict[str, Operand]:
    # Products of all members at once are few nodes; of convolutions there are none for many kernels.
    one_by_one = uses_convolution(ensemble.model, (1, *ensemble.row_shape))
    names: list[str] = []

    def program(x: Any) -> list[Any]:
        found = answers(ensemble, ensemble.params, ensemble.model_state, x, outputs, one_by_one)
        names[:] = found
        return list(found.values())

    closed = jax.make_jaxpr(program)(jax.ShapeDtypeStruct((rows, *ensemble.row_shape), jnp.dtype(x.dtype)))
    return dict(zip(names, write(graph, closed, [x]), strict=True))


def run_onnx(model: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by onnxruntime, on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    found: Any = session.run(names, inputs)
    return dict(zip(names, found, strict=True))
