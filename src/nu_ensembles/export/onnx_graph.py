"""An ONNX graph as it grows: nodes, constants by their content, and operands that are broadcast only when they must be.

JAX writes every broadcast out; ONNX's arithmetic broadcasts by itself, as NumPy's does. An `Operand` therefore has the
shape that JAX gives it and the one that it is held in, where axes of equal values have length one.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

# Of the standard, and of its classical models (LabelEncoder); onnxruntime has both since 1.15.
OPSET, ML_OPSET, IR_VERSION = 18, 3, 9


@dataclasses.dataclass(frozen=True, eq=False)
class Operand:
    """A tensor of the graph, or a constant.

    Attributes:
      value: its name, or the constant's array, which has the shape `held`.
      shape: as JAX has it; sizes may hang on the number of rows.
      held: as the graph has it; 1 where `shape` may have more.
    """

    value: str | np.ndarray
    shape: tuple[Any, ...]
    held: tuple[Any, ...]
    dtype: np.dtype

    @property
    def is_constant(self) -> bool:
        return isinstance(self.value, np.ndarray)

    @property
    def array(self) -> np.ndarray:
        """The constant in full."""
        assert isinstance(self.value, np.ndarray)
        return np.broadcast_to(self.value, self.shape)


class OnnxGraph:
    """Nodes in the order of their computation.

    Args:
      rows: the symbolic number of rows, in the shapes of operands.
      rows_of: name of an input whose first axis has that length.

    Attributes:
      missing: operations that could not be written.
    """

    def __init__(self, rows: Any, rows_of: str) -> None:
        self.rows, self.rows_of = rows, rows_of
        self.nodes: list[Any] = []
        self.constants: dict[Any, tuple[str, np.ndarray]] = {}
        self.missing: set[str] = set()
        self._n_rows = ""

    def constant(self, array: np.ndarray) -> str:
        """The name of a constant; equal ones are kept once."""
        array = np.ascontiguousarray(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = (f"constant {len(self.constants)}", array)
        return self.constants[key][0]

    def name(self, operand: Operand) -> str:
        return self.constant(operand.value) if isinstance(operand.value, np.ndarray) else operand.value

    def add(self, kind: str, inputs: Sequence[Operand | str | np.ndarray], n_outputs: int = 1, **options: Any) -> Any:
        """Adds a node and returns the name of its output, or of its outputs."""
        names = [
            self.name(each)
            if isinstance(each, Operand)
            else self.constant(each)
            if isinstance(each, np.ndarray)
            else each
            for each in inputs
        ]
        outputs = [f"{kind} {len(self.nodes)}{f'.{at}' if at else ''}" for at in range(n_outputs)]
        self.nodes.append(helper.make_node(kind, names, outputs, name=outputs[0], **options))
        return outputs[0] if n_outputs == 1 else outputs

    def new(
        self, kind: str, inputs: Sequence[Any], shape: tuple[Any, ...], dtype: Any, held: Any = None, **options: Any
    ) -> Operand:
        """The operand that a new node gives."""
        value = self.add(kind, inputs, **options)
        return Operand(value, shape, shape if held is None else held, np.dtype(dtype))

    def full(self, operand: Operand) -> Operand:
        """The operand held in its whole shape."""
        if all(_same(a, b) for a, b in zip(operand.held, operand.shape, strict=True)):
            return operand
        if operand.is_constant and all(isinstance(size, int) for size in operand.shape):
            return Operand(operand.array, operand.shape, operand.shape, operand.dtype)
        return self.new("Expand", [operand, self.sizes(operand.shape)], operand.shape, operand.dtype)

    def sizes(self, shape: tuple[Any, ...]) -> str:
        """A shape as a tensor, for nodes that take one."""
        if all(isinstance(size, int) for size in shape):
            return self.constant(np.array(shape, np.int64))
        parts = [self._size(size) for size in shape]
        return self.add("Concat", parts, axis=0) if len(parts) > 1 else parts[0]

    def _size(self, size: Any) -> str:
        if isinstance(size, int):
            return self.constant(np.array([size], np.int64))
        if not self._n_rows:
            self._n_rows = self.add("Shape", [self.rows_of], start=0, end=1)
        times = size // self.rows
        if not (isinstance(times, int) and _same(size, times * self.rows)):
            self.missing.add(f"a size of {size}")
            return self.constant(np.ones(1, np.int64))
        return self._n_rows if times == 1 else self.add("Mul", [self._n_rows, np.array([times], np.int64)])

    def reshaped(self, operand: Operand, shape: tuple[Any, ...]) -> Operand:
        """The same values in the same order; what hangs on the number of rows is left to the runtime."""
        operand = self.full(operand)
        if len(shape) == len(operand.shape) and all(_same(a, b) for a, b in zip(shape, operand.shape, strict=True)):
            return operand
        if operand.is_constant:
            return Operand(operand.array.reshape(shape), shape, shape, operand.dtype)
        open_sizes = [size for size in shape if not isinstance(size, int)]
        if len(open_sizes) > 1:
            target: Any = self.sizes(shape)
        else:
            target = np.array([size if isinstance(size, int) else -1 for size in shape], np.int64)
        return self.new("Reshape", [operand, target], shape, operand.dtype)

    def transposed(self, operand: Operand, order: Sequence[int]) -> Operand:
        """With its axes in another order."""
        order = list(order)
        if order == sorted(order):
            return operand
        shape, held = (tuple(each[at] for at in order) for each in (operand.shape, operand.held))
        if isinstance(operand.value, np.ndarray):
            return Operand(operand.value.transpose(order), shape, held, operand.dtype)
        return self.new("Transpose", [operand], shape, operand.dtype, held, perm=order)

    def model(self, inputs: Sequence[Any], outputs: Sequence[Any], metadata: dict[str, str]) -> Any:
        """The finished model.

        Args:
          inputs, outputs: value infos of `helper.make_tensor_value_info`.
        """
        stored = [numpy_helper.from_array(array, name) for name, array in self.constants.values()]
        graph = helper.make_graph(self.nodes, "nu-ensemble", list(inputs), list(outputs), stored)
        sets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=IR_VERSION, producer_name="nu-ensembles")
        helper.set_model_props(model, metadata)
        return model


def _same(a: Any, b: Any) -> bool:
    return a is b or bool(a == b)


def onnx_dtype(dtype: Any) -> int:
    """ONNX's number of a dtype."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if np.dtype(dtype).kind != "O" else onnx.TensorProto.STRING
