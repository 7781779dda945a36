"""Every rule computes what PyTorch computes, and has its derivative."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.models.torch_import.rules import RULES
from nu_ensembles.models.torch_import.rules_elementwise import BINARY, UNARY

torch = pytest.importorskip("torch")


@dataclasses.dataclass
class Call:
    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


CASES: list[Call] = []


def case(names: str, *arguments: Any, **options: Any) -> None:
    """A call of operations "a.b c.d" with the same arguments."""
    for name in names.split():
        CASES.append(Call(f"aten.{name if '.' in name else f'{name}.default'}", arguments, options))


def numbers(*shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def between(low: float, high: float, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(1).uniform(low, high, shape).astype(np.float32))


def whole(high: int, *shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, high, shape))


A, B, C = numbers(3, 4), numbers(3, 4, seed=1), numbers(4, seed=2)
# What lies at a kink, and beside it.
KINKS = torch.tensor([-4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 7.0])
IMAGES = numbers(2, 3, 7, 6)
MASK = numbers(3, 4, seed=3) > 0

for unary in UNARY:
    if unary in ("bitwise_not", "logical_not"):
        case(unary, MASK)
    elif unary == "acosh":
        case(unary, between(1.1, 2.0, 3, 4))
    elif unary in ("isfinite", "isinf", "isnan"):
        case(unary, torch.tensor([1.0, np.inf, -np.inf, np.nan]))
    elif unary in (
        "relu",
        "abs",
        "sign",
        "sgn",
        "silu",
        "sigmoid",
        "tanh",
        "selu",
        "mish",
        "log_sigmoid",
        "neg",
        "square",
    ):
        case(unary, KINKS)
    else:
        case(unary, between(0.1, 0.9, 3, 4))
for binary in BINARY:
    if binary.startswith("bitwise"):
        case(f"{binary}.Tensor", whole(8, 3, 4), whole(8, 4))
        case(f"{binary}.Scalar", whole(8, 3, 4), 5)
    else:
        case(f"{binary}.Tensor", A, C)
        case(f"{binary}.Scalar", A, 0.7)
        case(f"{binary}.Tensor", whole(5, 3, 4), 1 + whole(5, 4, seed=1))
case("atan2 logaddexp maximum minimum", A, B)
case("maximum minimum", KINKS, torch.zeros(12))
case("logical_and logical_or logical_xor", MASK, A > 0.3)
case("floor_divide", whole(9, 3, 4), torch.tensor([2, 3, -2, 5]))
case("add.Tensor sub.Tensor rsub.Tensor", A, C, alpha=2)
case("add.Scalar sub.Scalar rsub.Scalar", A, 2, 3)
case("add.Tensor", whole(5, 3), 2.5)
case("div.Tensor", A, C)
case("div.Tensor", whole(5, 3), torch.tensor(2))
case("div.Scalar", A, 3)
for mode in ("floor", "trunc", None):
    case("div.Tensor_mode", A, C, rounding_mode=mode)
    case("div.Scalar_mode", whole(9, 4) - 4, 2, rounding_mode=mode)
case("pow.Tensor_Scalar", A, 2.0)
case("pow.Tensor_Scalar", A.abs(), 0.5)
case("pow.Tensor_Scalar", torch.tensor([0.0, 1.0]), 3)
case("pow.Tensor_Tensor", A.abs(), C)
case("pow.Scalar", 2, A)
case("addcmul addcdiv", A, B, C, value=0.5)
case("lerp.Tensor", A, B, C)
case("lerp.Scalar", A, B, 0.3)
case("where.self", MASK, A, C)
case("where.ScalarSelf", MASK, 2.0, A)
case("where.ScalarOther", MASK, A, 2.0)
case("where.Scalar", MASK, 1.0, 2.0)
case("masked_fill.Scalar", A, MASK, -1.5)
case("masked_fill.Tensor", A, MASK, torch.tensor(2.0))
case("clamp", KINKS, -1.0, 2.0)
case("clamp", KINKS, max=0.5)
case("clamp.Tensor", A, B - 1, B + 1)
case("clamp_min clamp_max", KINKS, 0.5)
case("clamp_min.Tensor clamp_max.Tensor", A, B)
case("nan_to_num", torch.tensor([1.0, np.nan, np.inf]), 0.5, 9.0)
case("hardtanh", KINKS, 0.0, 6.0)
case("hardtanh relu6 hardsigmoid hardswish leaky_relu elu celu softplus softshrink hardshrink gelu", KINKS)
case("leaky_relu elu celu softplus", KINKS, 0.3)
case("gelu", KINKS, approximate="tanh")
case("threshold", KINKS, 0.5, -2.0)
case("prelu", numbers(2, 3, 4), between(0, 1, 3))
case("prelu", numbers(2, 3), torch.tensor([0.3]))
case("_prelu_kernel", numbers(2, 3, 4), between(0, 1, 1, 3, 1))
case("glu", numbers(3, 6), 1)
case("softmax.int log_softmax.int", A, 1)
case("softmax.int", A, 0, dtype=torch.float32)
case("_softmax _log_softmax", A, -1, False)
case("_safe_softmax", torch.tensor([[0.5, -np.inf, 1.0], [-np.inf, -np.inf, -np.inf]]), -1)

case("fmax fmin hypot", A, B)

# Shapes
case("view reshape _unsafe_view view_copy", A, [2, -1])
case("flatten.using_ints", IMAGES, 1)
case("flatten.using_ints", IMAGES, 0, 2)
case("unflatten.int", A, 1, [2, -1])
case("alias clone contiguous lift_fresh lift_fresh_copy positive", A)
case("detach", A)
case("detach_copy", A)
case("_to_copy", whole(4, 3), dtype=torch.float32)
case("_to_copy", A, dtype=torch.int64)
case("to.dtype", A, torch.bool)
case("to.dtype_layout", whole(4, 3), dtype=torch.float32, layout=torch.strided)
case("to.device", whole(4, 3), torch.device("cpu"), torch.float32)
case("type_as", whole(4, 3), A)
case("copy", A, C)
case("expand expand_copy", numbers(3, 1), [2, -1, 4])
case("expand_as", C, A)
case("permute", IMAGES, [0, 2, -1, 1])
case("transpose.int", IMAGES, 1, -1)
case("t numpy_T", A)
case("unsqueeze", A, -1)
case("unsqueeze", A, 1)
case("squeeze", numbers(1, 3, 1))
case("squeeze.dim", numbers(1, 3, 1), 1)
case("squeeze.dim", numbers(1, 3, 1), -1)
case("squeeze.dims", numbers(1, 3, 1), [0, 1])
case("select.int", A, 1, -1)
case("slice.Tensor", A, 1, 1, 2**63 - 1, 2)
case("slice.Tensor", A, 1, -3, -1)
case("slice.Tensor", A)
case("narrow", A, 1, 1, 2)
case("select_scatter", A, numbers(3), 1, 2)
case("slice_scatter", A, numbers(3, 2), 1, 0, 4, 2)
case("slice_scatter", A, B, 1, 0, 2**63 - 1)
case("split.Tensor", numbers(7, 2), 3)
case("split.sizes split_with_sizes split_with_sizes_copy", numbers(7, 2), [3, 4])
case("chunk", numbers(2, 7), 3, 1)
case("tensor_split.sections", numbers(7, 2), 3)
case("unbind.int", A, 1)
case("cat concat", [A, B, torch.zeros(0)], 0)
case("stack", [A, B], 1)
case("repeat tile", A, [2, 1, 2])
case("repeat_interleave.self_int", A, 2, 1)
case("roll", A, [1, -2], [0, 1])
case("roll", A, [3])
case("flip", A, [0, 1])
case("rot90", A, 1, [0, 1])
case("diagonal", A)
case("tril triu", A, 1)
case("meshgrid.indexing", [numbers(3), C], indexing="xy")
case("meshgrid", [numbers(3), C])
case("unfold", numbers(2, 7), 1, 3, 2)
case("pixel_shuffle", numbers(2, 8, 3, 2), 2)
case("pixel_unshuffle", numbers(2, 2, 4, 6), 2)
case("channel_shuffle native_channel_shuffle", numbers(2, 6, 3, 3), 3)
case("view_as_real", torch.complex(A, B))
case("view_as_complex", numbers(3, 2))

# Sizes, and tensors made of them
case("arange", 5)
case("arange", 5, dtype=torch.float32)
case("arange.start", 1, 4.5)
case("tril_indices triu_indices", 3, 4, 1)
case("arange.start_step", 1, 9, 3)
case("linspace", 0, 1, 5)
case("full", [2, 3], 2)
case("full", [2, 3], 0.5)
case("zeros ones", [2, 3])
case("zeros ones", [2], dtype=torch.int64)
case("eye", 3)
case("eye.m", 3, 4)
case("scalar_tensor", 2.5)
case("full_like", A, 3)
case("fill.Scalar", A, 3)
case("fill.Tensor", A, torch.tensor(2.0))
case("zeros_like ones_like zero", A)
case("new_zeros new_ones", A, [2])
case("new_full", A, [2], 1.5)

# Sums, means, extremes, orders
case("sum mean prod var std var_mean std_mean max min any all argmax argmin", A)
case("sum", MASK)
case("sum.dim_IntList mean.dim var.dim std.dim var_mean.dim std_mean.dim", IMAGES, [1, -1], keepdim=True)
case("sum.dim_IntList", A, [])
case("var.correction std.correction var_mean.correction std_mean.correction", A, [1], correction=0)
case("var.dim", A, [1], False)
case("prod.dim_int", A, 1)
for order in (0, 1, 2, 3, np.inf, -np.inf):
    case("linalg_vector_norm", A, order, [1])
case("linalg_vector_norm", torch.zeros(2, 3), 2, [1])
case("norm.ScalarOpt_dim", A, 2, [1], True)
case("norm.Scalar", A, 2)
case("norm.ScalarOpt_dim_dtype", A, 2, [1], False, dtype=torch.float32)
case("logsumexp amax amin", A, [1])
case("amax amin", torch.zeros(2, 3), [1], True)
case("max.dim min.dim", torch.tensor([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]]), 1)
case("max.dim min.dim", A, 0, True)
case("argmax argmin", A, 1, True)
case("any.dim all.dim", MASK, 1)
case("any.dims all.dims", MASK, [0, 1])
case("cumsum cumprod", A, 1)
case("sort", A, 1, True)
case("sort.stable", A, stable=True, dim=1, descending=True)
case("argsort", A)
case("argsort.stable", torch.tensor([2, 1, 2, 1]), stable=True)
case("topk", A, 2, 1)
case("topk", A, 2, 1, False)
case("kthvalue", A, 2, 1)
case("median.dim", A, 1, True)
case("median.dim", A, 0)
case("cummax cummin logcumsumexp", numbers(3, 6), 1)
case("cummax cummin", torch.tensor([1.0, 3.0, 3.0, 2.0]), 0)
case("_cdist_forward", numbers(2, 3, 4), numbers(2, 5, 4, seed=1), 2.0, None)
case("_cdist_forward", A, A[:2], 2.0, None)
case("cdist", A, B, 1.0)
case("one_hot", whole(4, 5), 4)

# Looking up and writing
case("embedding", A, whole(3, 2, 5))
case("embedding", A, whole(3, 2, 5), 1)
case("index.Tensor _unsafe_index.Tensor", A, [None, whole(4, 5)])
case("index.Tensor", IMAGES, [None, None, whole(7, 2, 1), whole(6, 3)])
case("index_put _unsafe_index_put", A, [whole(3, 2), torch.tensor([0, 3])], numbers(2))
case("index_put", A, [torch.tensor([1, 1])], numbers(2, 4), True)
case("index_put", A, [MASK], torch.tensor(0.5))
case("index_select", A, 1, whole(4, 5))
case("gather", A, 1, whole(4, 2, 3))
case("take_along_dim", A, whole(4, 3, 2), 1)
case("scatter.src", A, 1, torch.tensor([[0, 2], [3, 1]]), numbers(2, 2, seed=5))
case("scatter.value", A, 1, torch.tensor([[0, 2], [3, 1]]), 0.5)
case("scatter_add", A, 1, torch.tensor([[0, 0], [3, 1]]), numbers(2, 2, seed=5))
case("as_strided", A, [2, 3], [2, 1], 1)
case("constant_pad_nd", A, [1, 2, 0, 1], 0.5)
case("constant_pad_nd", A, [-1, 2])
for padding in ("constant", "reflect", "replicate", "circular"):
    case("pad", IMAGES, [1, 2, 2, 0], padding)
case("reflection_pad1d replication_pad1d", A, [1, 2])
case("reflection_pad2d replication_pad2d", IMAGES, [1, 2, 0, 3])
case("reflection_pad3d replication_pad3d", IMAGES, [1, 2, 0, 3, 1, 1])
case("im2col", IMAGES, [3, 2], [1, 2], [1, 0], [2, 1])
case("col2im", numbers(2, 18, 16), [7, 6], [3, 2], [1, 2], [1, 0], [2, 1])

# Products
case("linear", A, numbers(5, 4), numbers(5))
case("linear", numbers(2, 3, 4), numbers(5, 4))
case("matmul mm", A, numbers(4, 2))
case("matmul bmm", numbers(2, 3, 4), numbers(2, 4, 5))
case("mv", A, C)
case("dot vdot", C, numbers(4, seed=3))
case("addmm", numbers(2), A, numbers(4, 2), beta=0.5, alpha=2)
case("addmv", numbers(3), A, C)
case("baddbmm", numbers(2, 3, 5), numbers(2, 3, 4), numbers(2, 4, 5), beta=2)
case("einsum", "bi,ij->bj", [A, numbers(4, 2)])
case("outer ger", numbers(3), C)
case("bilinear", A, B, numbers(2, 4, 4), numbers(2))
QUERY, KEY, VALUE = numbers(2, 4, 3, 5), numbers(2, 4, 6, 5, seed=1), numbers(2, 4, 6, 7, seed=2)
case("scaled_dot_product_attention", QUERY, KEY, VALUE)
case("scaled_dot_product_attention", QUERY, KEY, VALUE, is_causal=True, scale=0.2)
case("scaled_dot_product_attention", QUERY, KEY, VALUE, numbers(3, 6))
case("scaled_dot_product_attention", QUERY, KEY, VALUE, (numbers(3, 6) > 0) | torch.eye(3, 6, dtype=torch.bool))
case("scaled_dot_product_attention", QUERY, KEY[:, :2], VALUE[:, :2], enable_gqa=True)

# Convolutions and pooling
case("conv1d", numbers(2, 4, 9), numbers(6, 2, 3), numbers(6), [2], [1], [2], 2)
case("conv2d", IMAGES, numbers(4, 3, 3, 3), numbers(4), [2, 1], [1, 0])
case("conv2d", IMAGES, numbers(6, 1, 3, 3), None, [1], [1], [1], 3)
case("conv2d", IMAGES, numbers(4, 3, 3, 2), None, [1, 1], [1, 1], [2, 2])
case("conv2d.padding", IMAGES, numbers(4, 3, 2, 4), numbers(4), padding="same")
case("conv2d.padding", IMAGES, numbers(4, 3, 2, 3), padding="valid", dilation=[2])
case("conv1d.padding", numbers(2, 4, 9), numbers(6, 4, 4), padding="same")
case("conv3d", numbers(2, 3, 4, 5, 6), numbers(4, 3, 2, 3, 2), numbers(4), [1, 2, 1], [0, 1, 1])
case("conv3d.padding", numbers(2, 3, 4, 5, 6), numbers(4, 3, 2, 3, 2), padding="same")
case("conv_transpose1d", numbers(2, 4, 5), numbers(4, 3, 3), numbers(6), [2], [1], [1], 2)
case("conv_transpose2d.input", IMAGES, numbers(3, 4, 3, 2), numbers(4), [2, 3], [1, 0], [1, 2], 1, [2, 1])
case("conv_transpose3d.input", numbers(2, 3, 3, 4, 3), numbers(3, 2, 2, 2, 3), None, [2, 1, 1])
case("convolution", IMAGES, numbers(4, 3, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
case("convolution", IMAGES, numbers(3, 4, 3, 3), numbers(4), [2, 2], [1, 1], [1, 1], True, [1, 1], 1)
for ceil_mode in (False, True):
    case("max_pool2d", IMAGES, [3, 2], [2, 2], [1, 0], 1, ceil_mode)
    case("max_pool2d", IMAGES, [2, 2], [3, 3], [0, 0], 2, ceil_mode)
    case("avg_pool2d", IMAGES, [3, 2], [2, 2], [1, 1], ceil_mode)
    case("avg_pool2d", IMAGES, [3, 2], [2, 2], [1, 1], ceil_mode, False)
    case("avg_pool1d", numbers(2, 3, 8), [3], [2], [1], ceil_mode)
    case("max_pool1d", numbers(2, 3, 8), [3], [2], [1], 1, ceil_mode)
case("max_pool2d", IMAGES, [2, 2])
case("max_pool2d", torch.zeros(1, 1, 4, 4), [2, 2])
case("avg_pool2d", IMAGES, [2, 2], divisor_override=3)
case("max_pool3d avg_pool3d", numbers(2, 3, 4, 5, 6), [2, 2, 3], [2, 1, 2])
case("adaptive_avg_pool1d adaptive_max_pool1d", numbers(2, 3, 7), [3])
case("adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d", IMAGES, [3, 4])
case("adaptive_avg_pool2d adaptive_max_pool2d", IMAGES, [1, 1])
case("adaptive_avg_pool2d", IMAGES, [7, 9])
case("adaptive_avg_pool3d _adaptive_avg_pool3d adaptive_max_pool3d", numbers(2, 3, 4, 5, 6), [2, 3, 2])

# Normalisation
WEIGHT, BIAS, MEAN, VARIANCE = numbers(3), numbers(3, seed=1), numbers(3, seed=2), between(0.5, 2, 3)
case("_native_batch_norm_legit_functional", IMAGES, WEIGHT, BIAS, MEAN, VARIANCE, True, 0.1, 1e-5)
case("_native_batch_norm_legit_functional", IMAGES, WEIGHT, BIAS, MEAN, VARIANCE, False, 0.1, 1e-5)
case("_native_batch_norm_legit_functional", numbers(4, 3), None, None, MEAN, VARIANCE, True, 0.3, 1e-3)
case("_native_batch_norm_legit_no_training", IMAGES, WEIGHT, BIAS, MEAN, VARIANCE, 0.1, 1e-5)
case("_native_batch_norm_legit.no_stats", IMAGES, WEIGHT, None, True, 0.1, 1e-5)
case("layer_norm", IMAGES, [7, 6], numbers(7, 6), numbers(7, 6))
case("layer_norm", A, [4])
case("native_layer_norm", A, [4], C, None, 1e-3)
case("rms_norm", A, [4], C)
case("group_norm", numbers(2, 6, 5), 3, numbers(6), numbers(6))
case("native_group_norm", numbers(2, 6, 5), numbers(6), None, 2, 6, 5, 2, 1e-5)
case("instance_norm", IMAGES, WEIGHT, BIAS, None, None, True, 0.1, 1e-5, False)
case("instance_norm", IMAGES, WEIGHT, BIAS, MEAN, VARIANCE, False, 0.1, 1e-5, False)
case("_weight_norm", numbers(3, 4, 2), numbers(3, 1, 1), 0)
case("cosine_similarity", A, B, 1)

# Fourier transforms and complex numbers
COMPLEX = torch.complex(numbers(2, 4, 3), numbers(2, 4, 3, seed=1))
for scaling in (0, 1, 2):
    case("_fft_r2c", numbers(2, 4, 6), [1, 2], scaling, True)
    case("_fft_r2c", numbers(2, 4, 6), [2], scaling, False)
    case("_fft_c2c", COMPLEX, [1, 2], scaling, True)
    case("_fft_c2c", COMPLEX, [1], scaling, False)
    case("_fft_c2r", COMPLEX, [1, 2], scaling, 4)
    case("_fft_c2r", COMPLEX, [2], scaling, 5)
case("complex polar", A.abs(), B)
case("real imag abs angle conj _conj _conj_copy conj_physical", COMPLEX)
case("view_as_real_copy", COMPLEX)
case("view_as_complex_copy", numbers(3, 4, 2))

# Linear algebra
SQUARE = numbers(2, 3, 3) + 3 * torch.eye(3)
DEFINITE = SQUARE @ SQUARE.mT
case("linalg_inv_ex _linalg_det _linalg_slogdet linalg_matrix_exp linalg_qr", SQUARE)
case("linalg_qr", numbers(4, 3))
case("_linalg_solve_ex", SQUARE, numbers(2, 3, 2))
case("_linalg_solve_ex", SQUARE, numbers(2, 3))
case("_linalg_solve_ex", SQUARE, numbers(2, 4, 3), left=False)
for upper in (False, True):
    case("linalg_solve_triangular", SQUARE, numbers(2, 3, 4), upper=upper)
    case("linalg_solve_triangular", SQUARE, numbers(2, 4, 3), upper=upper, left=False, unitriangular=True)
    case("linalg_cholesky_ex", DEFINITE, upper=upper)

# What is put together where indices say
WORDS, STARTS = whole(6, 9), torch.tensor([0, 3, 3, 5])
for mode in (0, 1, 2):
    case("_embedding_bag", numbers(6, 3), WORDS, STARTS, False, mode)
    case("_embedding_bag", numbers(6, 3), WORDS, STARTS, False, mode, False, None, True, 2)
case("_embedding_bag", numbers(6, 3), WORDS, STARTS, False, 0, False, numbers(9))
case("_embedding_bag_forward_only", numbers(6, 3), WORDS, STARTS)
for how in ("sum", "mean", "amax", "amin"):
    for self_too in (True, False):
        case("scatter_reduce.two", A, 1, whole(4, 3, 5), numbers(3, 5, seed=4), how, include_self=self_too)
case("scatter_reduce.two", torch.zeros(3), 0, torch.tensor([0, 0, 1]), torch.tensor([0.0, 2.0, 2.0]), "amax")
case("scatter_reduce.two", A, 1, torch.tensor([[0, 0], [1, 2], [3, 3]]), B[:, :2], "mean", include_self=False)
case("masked_scatter", A, MASK, B)
case("index_copy", A, 1, torch.tensor([3, 0]), B[:, :2])
for right in (False, True):
    case("searchsorted.Tensor", torch.arange(4.0), torch.tensor([[0.0, 0.5], [3.0, 9.0]]), right=right)
    case("searchsorted.Tensor", A.sort(1).values, A[:, :2], right=right)
    case("bucketize.Tensor", torch.tensor([0.0, 0.5]), torch.arange(3.0), right=right)
case("searchsorted.Scalar", torch.arange(4.0), 1.5)
case("bucketize.Scalar", 1.5, torch.arange(4.0))

# Resizing
for kind in ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d"):
    n_axes = int(kind[-2])
    images = numbers(2, 3, *(5, 4, 3)[:n_axes])
    for corners in (False, True):
        case(f"upsample_{kind}.vec", images, [8, 3, 4][:n_axes], corners, None)
    case(f"upsample_{kind}.vec", images, None, False, [1.7, 2.0, 1.5][:n_axes])
    case(f"upsample_{kind}", images, [8, 3, 4][:n_axes], False)
for n_axes in (1, 2, 3):
    images = numbers(2, 3, *(5, 4, 3)[:n_axes])
    case(f"upsample_nearest{n_axes}d.vec", images, [8, 8, 2][:n_axes], None)
    case(f"upsample_nearest{n_axes}d.vec", images, None, [2.0, 1.6, 0.7][:n_axes])
    case(f"_upsample_nearest_exact{n_axes}d.vec", images, [8, 6, 2][:n_axes], None)
    case(f"upsample_nearest{n_axes}d", images, [8, 8, 2][:n_axes])
for size in ([3, 9], [11, 2]):
    case("_upsample_bilinear2d_aa.vec _upsample_bicubic2d_aa.vec", numbers(2, 3, 7, 6), size, False, None)
    case("_upsample_bilinear2d_aa.vec", numbers(2, 3, 7, 6), size, True, None)
for interpolation in (0, 1):
    for outside in (0, 1):
        for corners in (False, True):
            case("grid_sampler", IMAGES, 1.2 * numbers(2, 4, 3, 2).tanh(), interpolation, outside, corners)
case("grid_sampler_2d", IMAGES, numbers(2, 4, 3, 2).tanh(), 0, 0, False)


# Recurrent layers
def cells(n_weights: int, n_in: int, n_hidden: int, layers: int, both_ways: bool) -> list[Any]:
    """Weights of a stack of cells with so many gates, as PyTorch lists them."""
    directions, found = 1 + both_ways, []
    for layer in range(layers):
        entering = n_hidden * directions if layer else n_in
        for _ in range(directions):
            rows = n_weights * n_hidden
            found += [numbers(rows, entering), numbers(rows, n_hidden), numbers(rows), numbers(rows, seed=1)]
    return found


for both_ways in (False, True):
    state = numbers(2 * (1 + both_ways), 3, 5)
    rest = (True, 2, 0.0, True, both_ways, True)
    case("lstm.input", numbers(3, 6, 4), [state, state.flip(0)], cells(4, 4, 5, 2, both_ways), *rest)
    case("gru.input", numbers(3, 6, 4), state, cells(3, 4, 5, 2, both_ways), *rest)
    case("rnn_tanh.input rnn_relu.input", numbers(3, 6, 4), state, cells(1, 4, 5, 2, both_ways), *rest)
PROJECTED = [numbers(20, 4), numbers(20, 2), numbers(20), numbers(20), numbers(2, 5)]
case("lstm.input", numbers(6, 3, 4), [numbers(1, 3, 2), numbers(1, 3, 5)], PROJECTED, True, 1, 0.0, True, False, False)

# What is drawn, where nothing is random
case("native_dropout", A, 0.3, False)
case("dropout", A, 0.3, False)
RANDOM = """bernoulli.default bernoulli.p rand.default rand_like.default randn.default randn_like.default
uniform.default normal_functional.default exponential.default randperm.default randint.low"""
# PyTorch has no derivative of these, or none with respect to buffers.
VALUES_ONLY = {
    "lift_fresh",
    "detach_copy",
    "copy",
    "native_channel_shuffle",
    "_embedding_bag_forward_only",
    "view_as_real_copy",
    "view_as_complex_copy",
    "_cdist_forward",
    "_conj",
    "_conj_copy",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "instance_norm",
}
# Results that hold nothing, or are sizes.
WITHOUT = """_assert_async.msg _assert_scalar.default _assert_tensor_metadata.default sym_constrain_range.default
sym_constrain_range_for_size.default sym_size.int size.int sym_numel.default empty.memory_format empty_like.default
new_empty.default empty_strided.default max_pool2d_with_indices.default max_pool3d_with_indices.default split.default"""


@pytest.fixture(scope="module", autouse=True)
def the_many_small_programs_are_forgotten() -> Iterator[None]:
    yield
    jax.clear_caches()


def tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [each for part in value for each in tensors(part)] if isinstance(value, (list, tuple)) else []


def in_jax(value: Any, arrays: Any) -> Any:
    """An argument as a rule gets it: tensors are taken, in order, from the arrays."""
    if isinstance(value, torch.Tensor):
        return next(arrays)
    if isinstance(value, torch.dtype):
        return jax.dtypes.canonicalize_dtype(str(value).removeprefix("torch."))
    if isinstance(value, (list, tuple)):
        return [in_jax(each, arrays) for each in value]
    return None if isinstance(value, (torch.device, torch.layout)) else value


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def filled(value: Any, given: Iterator[Any]) -> Any:
    """The arguments with other tensors in the places of theirs."""
    if isinstance(value, torch.Tensor):
        return next(given)
    return type(value)(filled(each, given) for each in value) if isinstance(value, (list, tuple)) else value


def operation(name: str) -> Callable[..., Any]:
    _, packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


@pytest.mark.parametrize("call", CASES, ids=[call.name.removeprefix("aten.") for call in CASES])
def test_a_rule_computes_what_pytorch_computes_and_its_derivative(call: Call) -> None:
    rule, derived = RULES[call.name], call.name.split(".")[1] not in VALUES_ONLY
    given = [each.detach().clone() for each in tensors(call.arguments)]
    for each in given:
        each.requires_grad_(derived and each.is_floating_point())
    expected = as_list(operation(call.name)(*filled(call.arguments, iter(given)), **call.options))

    def compute(*arrays: Any) -> dict[int, Any]:
        options = {name: in_jax(value, None) for name, value in call.options.items() if name != "layout"}
        found = rule.compute(*in_jax(call.arguments, iter(arrays)), **options, **({"key": None} if rule.draws else {}))
        return {i: each for i, each in enumerate(as_list(found)) if each is not None}

    arrays = [jnp.asarray(each.detach().numpy()) for each in given]
    at = [i for i, each in enumerate(given) if each.requires_grad]
    random = np.random.default_rng(0)
    weights = [random.normal(size=tuple(each.shape)).astype(np.float32) for each in expected]

    @jax.jit
    def both(arrays: list[Any]) -> tuple[dict[int, Any], list[Any]]:
        def loss(chosen: list[Any]) -> tuple[Any, Any]:
            found = compute(*(chosen[at.index(i)] if i in at else array for i, array in enumerate(arrays)))
            total = sum(jnp.sum(y.real * weights[i]) for i, y in found.items() if expected[i].requires_grad)
            return total + 0.0, found

        gradients, found = jax.grad(loss, has_aux=True)([arrays[i] for i in at])
        return found, gradients

    found, gradients = both(arrays)
    assert found
    for i, y in found.items():
        want = expected[i].detach().resolve_conj().numpy()
        np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-5)
        assert y.dtype == jax.dtypes.canonicalize_dtype(want.dtype)
    summed = [i for i in found if expected[i].requires_grad]
    if summed:
        torch.stack([(expected[i].real * torch.from_numpy(weights[i])).sum() for i in summed]).sum().backward()
    for i, gradient in zip(at, gradients, strict=True):
        want = given[i].grad
        want = np.zeros_like(gradient) if want is None else want.numpy(force=True)
        np.testing.assert_allclose(gradient, want, rtol=1e-4, atol=1e-4)


def test_every_rule_of_an_aten_operation_is_tried() -> None:
    tried = {call.name for call in CASES} | {f"aten.{name}" for name in (RANDOM + " " + WITHOUT).split()}
    assert {name for name in RULES if name.startswith("aten.")} - tried == set()


def test_every_name_is_one_of_an_operation() -> None:
    for name in RULES:
        if name.startswith("aten."):
            operation(name)


@pytest.mark.parametrize("name", ["native_dropout.default", "dropout.default"])
def test_dropout_keeps_its_share_and_the_sum(name: str) -> None:
    y = as_list(RULES[f"aten.{name}"].compute(jnp.ones((200, 50)), 0.3, True, key=jax.random.key(0)))[0]
    kept = np.asarray(y) != 0
    assert abs(kept.mean() - 0.7) < 0.02
    assert abs(float(y.mean()) - 1) < 0.03
    np.testing.assert_allclose(np.asarray(y)[kept], 1 / 0.7, rtol=0.01)


@pytest.mark.parametrize(
    ("name", "arguments", "mean"),
    [
        ("bernoulli.p", (jnp.zeros(4000), 0.3), 0.3),
        ("bernoulli.default", (jnp.full(4000, 0.3),), 0.3),
        ("rand.default", ([4000],), 0.5),
        ("rand_like.default", (jnp.zeros(4000),), 0.5),
        ("randn.default", ([4000],), 0.0),
        ("randn_like.default", (jnp.zeros(4000),), 0.0),
        ("uniform.default", (jnp.zeros(4000), 1.0, 3.0), 2.0),
        ("normal_functional.default", (jnp.zeros(4000), 2.0, 1.0), 2.0),
        ("exponential.default", (jnp.zeros(4000), 2.0), 0.5),
        ("randint.low", (0, 11, [4000]), 5.0),
        ("randperm.default", (4001,), 2000.0),
    ],
)
def test_what_is_drawn_has_its_mean_and_without_a_key_is_that_mean(name: str, arguments: Any, mean: float) -> None:
    rule = RULES[f"aten.{name}"].compute
    drawn = np.asarray(rule(*arguments, key=jax.random.key(1)))
    assert abs(drawn.mean() - mean) < 0.15
    assert len(np.unique(drawn)) > 1
    np.testing.assert_allclose(np.asarray(rule(*arguments, key=None)).mean(), mean, rtol=1e-5)
