"""Networks of torchvision and timm, with weights drawn at random, compute in JAX what they compute in PyTorch.

Predictions in float32; and in float64 a loss in training without dropout, its gradient by every parameter, and the
batch statistics after it. In float32 the last bit of an activation near 0 decides whether ReLU lets a gradient pass, in
PyTorch as here, so that deep networks could be compared to three digits; in float64 it is seven.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.models import join_variables, split_variables

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow
N_CLASSES, ROWS = 5, 4
# Compiling takes longer than computing here.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def of_torchvision(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        need("torchvision")
        from torchvision import models  # pyright: ignore[reportMissingImports]

        return models.get_model(name, weights=None, num_classes=N_CLASSES, **options)

    return make


def slim(make: Callable[[], Any], width: int = 64) -> Callable[[], Any]:
    """With narrow layers behind the convolutions, whose float64 gradients would take gigabytes."""

    def made() -> Any:
        network = make()
        first, *_, last = (at for at, layer in enumerate(network.classifier) if isinstance(layer, torch.nn.Linear))
        for at, layer in enumerate(network.classifier):
            if isinstance(layer, torch.nn.Linear):
                n_in = layer.in_features if at == first else width
                network.classifier[at] = torch.nn.Linear(n_in, N_CLASSES if at == last else width)
        return network

    return made


def of_timm(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        need("torchvision")
        need("timm")
        import timm  # pyright: ignore[reportMissingImports]

        return timm.create_model(name, num_classes=N_CLASSES, **options)

    return make


def need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (pip install --no-deps {package})")
    if package == "torchvision":
        _compiled_operators()


def _compiled_operators() -> None:
    """torchvision's wheels are for PyTorch with CUDA; its import without misses operators that no network here has."""
    if not hasattr(torch.ops.torchvision, "nms"):
        with_names = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            with_names.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        KEPT.append(with_names)


KEPT: list[Any] = []

# name -> what makes it, the side of its images
ZOO: dict[str, tuple[Callable[[], Any], int]] = {
    "alexnet": (slim(of_torchvision("alexnet")), 64),
    "vgg11_bn": (slim(of_torchvision("vgg11_bn")), 32),
    "squeezenet": (of_torchvision("squeezenet1_1"), 64),
    "resnet18": (of_torchvision("resnet18"), 32),
    "densenet121": (of_torchvision("densenet121"), 64),
    "googlenet": (of_torchvision("googlenet", init_weights=False), 64),
    "mobilenet_v2": (of_torchvision("mobilenet_v2"), 64),
    "mobilenet_v3": (of_torchvision("mobilenet_v3_small"), 64),
    "shufflenet_v2": (of_torchvision("shufflenet_v2_x0_5"), 64),
    "efficientnet_b0": (of_torchvision("efficientnet_b0"), 64),
    "regnet_y": (of_torchvision("regnet_y_400mf"), 64),
    "convnext": (of_torchvision("convnext_tiny"), 32),
    "swin": (of_torchvision("swin_t"), 64),
    "swin_v2": (of_torchvision("swin_v2_t"), 64),
    "vit": (of_torchvision("vit_b_16", image_size=32), 32),
    "timm resnet18": (of_timm("resnet18"), 32),
    "timm vit": (of_timm("vit_tiny_patch16_224", img_size=32, drop_path_rate=0.1), 32),
    "timm mixer": (of_timm("mixer_s32_224", img_size=64), 64),
    "timm convnext": (of_timm("convnext_atto"), 64),
    "timm efficientnet": (of_timm("tf_efficientnet_b0"), 64),  # with uneven SAME padding
    "timm mobilenet": (of_timm("mobilenetv3_small_050"), 64),
    "timm deit": (of_timm("deit_tiny_patch16_224", img_size=32), 32),
    "timm ghostnet": (of_timm("ghostnet_100"), 64),
    "timm pvt": (of_timm("pvt_v2_b0"), 64),
    "timm levit": (of_timm("levit_128s"), 224),
    "timm xcit": (of_timm("xcit_nano_12_p16_224"), 64),
}


@pytest.fixture(params=list(ZOO))
def network(request: pytest.FixtureRequest) -> Any:
    make, side = ZOO[request.param]
    torch.manual_seed(0)
    network = make()
    for parameter in network.parameters():
        # Where networks begin with zeros nothing could be seen of what lies before.
        if parameter.ndim <= 1 or not parameter.any():
            parameter.data += 0.1 * torch.randn_like(parameter)
    for module in network.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    network.side = side
    return network


def without_dropout(network: Any) -> Any:
    network = copy.deepcopy(network).train()
    for module in network.modules():
        kind = type(module).__name__
        if kind.startswith("Dropout") or kind == "StochasticDepth":
            module.p = 0.0
        elif kind == "DropPath":
            module.drop_prob = 0.0
        elif kind == "MultiheadAttention":
            module.dropout = 0.0
        elif isinstance(getattr(module, "drop_rate", None), float):  # some of timm's call dropout as a function
            module.drop_rate = 0.0
    return network


def logits_of(output: Any) -> Any:
    return output.logits if hasattr(output, "logits") else output


def agree(found: Any, expected: Any, tolerance: float, what: str) -> None:
    """To a share of the largest number."""
    expected = expected.detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max(), err_msg=what)


def test_predictions_gradients_and_batch_statistics_are_those_of_pytorch(network: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3, network.side, network.side))
    weights = rng.normal(size=(ROWS, N_CLASSES))
    predictions_agree(network, x.astype(np.float32))
    with jax.enable_x64(True):
        training_agrees(network.double(), x, weights)


def predictions_agree(network: Any, x: np.ndarray) -> None:
    model = nu.models.from_torch(network, (2, *x.shape[1:]), same_start=True)
    variables = model.init(jax.random.key(0), jnp.asarray(x))
    predict = jax.jit(model.apply, compiler_options=QUICKLY)
    with torch.no_grad():
        agree(predict(variables, x), logits_of(network.eval()(torch.from_numpy(x))), 1e-5, "predictions")


def training_agrees(network: Any, x: np.ndarray, weights: np.ndarray) -> None:
    """That a loss has the same gradients, and leaves the same statistics."""
    model = nu.models.from_torch(network, torch.zeros(2, *x.shape[1:], dtype=torch.float64), same_start=True)
    params, state = split_variables(model.init(jax.random.key(0), jnp.asarray(x)))

    @functools.partial(jax.jit, compiler_options=QUICKLY)
    def gradient(params: Any) -> tuple[Any, Any]:
        def loss(params: Any) -> tuple[Any, Any]:
            output = model.apply(join_variables(params, state), x, key=None, train=True)
            logits, new_state = output if state else (output, {})
            return jnp.sum(logits * weights), new_state

        return jax.grad(loss, has_aux=True)(params)

    training = without_dropout(network)
    (logits_of(training(torch.from_numpy(x))) * torch.from_numpy(weights)).sum().backward()
    gradients, new_state = gradient(params)
    largest = max(float(each.grad.abs().max()) for each in training.parameters() if each.grad is not None)
    for name, parameter in training.named_parameters():
        expected = 0.0 if parameter.grad is None else parameter.grad.numpy()
        np.testing.assert_allclose(gradients["params"][name], expected, rtol=0, atol=1e-7 * largest, err_msg=name)
    for name, buffer in training.named_buffers():
        if name in new_state.get("buffers", {}):
            agree(new_state["buffers"][name], buffer, 1e-7, name)
