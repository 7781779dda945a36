"""Gradients of dense layers as the two factors that they are a product of.

The weight gradient of a dense layer sums outer products over a batch: of what came in, and of what came back. Where an
update multiplies them itself (`fused_update.py`), a gradient as large as the layer is never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jax.extend.core.primitives import dot_general_p, transpose_p


class Factors(NamedTuple):
    """The gradient `[R, M, N]` of a dense layer's kernels, the sum of `left[r, b, m] * right[r, b, n]` over b.

    left, right: `[R, B, M]` and `[R, B, N]`, what came in and what came back, in either order.
    came_back: `[R, M or N]`, the latter summed over the batch, which is finite only if all of it is.
    """

    left: Array
    right: Array
    came_back: Array


def is_factors(leaf: Any) -> bool:
    return isinstance(leaf, Factors)


class _Factor(NamedTuple):
    """A variable with axes R, B and another.

    summed: the place of B, 1 or 2; residual: whether it comes from the forward pass.
    """

    variable: Var
    summed: int
    residual: bool

    @property
    def shape(self) -> Any:
        """As `[R, B, n]`."""
        return jax.eval_shape(self.of, self.variable.aval)

    def of(self, value: Array) -> Array:
        return value if self.summed == 1 else value.swapaxes(1, 2)


def in_factors(pull_back: Callable[[Array], Any], cotangent: Array, suit: Callable[[Any, Any], bool]) -> Any:
    """The gradients `pull_back(cotangent)`, where some leaves are `Factors` instead of their product.

    Only a gradient that is one product can be: a kernel that the loss uses twice has a sum of two.

    Args:
      pull_back: of `jax.vjp`, of all lanes at once.
      suit: tells from the shapes of `left` and `right` which leaves shall be factors.
    """
    closed, shapes = jax.make_jaxpr(pull_back, return_shape=True)(cotangent)
    made_by = {made: equation for equation in closed.jaxpr.eqns for made in equation.outvars}
    wanted: list[list[Any]] = []  # of each leaf: two factors, or the variable that holds it
    for gradient in closed.jaxpr.outvars:
        factors = _factors_of(made_by, gradient)
        wanted.append(factors if factors and suit(*(each.shape for each in factors)) else [gradient])
    variables = [each.variable if isinstance(each, _Factor) else each for leaf in wanted for each in leaf]
    # What nobody wants any more, the products, is left out when this is compiled.
    values = iter(jaxpr_as_fun(ClosedJaxpr(closed.jaxpr.replace(outvars=variables), closed.consts))(cotangent))
    leaves = [_joined(leaf, values) if len(leaf) == 2 else next(values) for leaf in wanted]
    return jax.tree.unflatten(jax.tree.structure(shapes), leaves)


def _joined(factors: list[_Factor], values: Iterator[Array]) -> Factors:
    left, right = (each.of(value) for each, value in zip(factors, values, strict=False))
    return Factors(left, right, jnp.sum(right if factors[0].residual else left, axis=1))


def _factors_of(made_by: dict[Any, JaxprEqn], gradient: Any) -> list[_Factor]:
    """A gradient's factors, left and right, if it is a product of a residual and what came back; none if not."""
    product, turned = None if isinstance(gradient, Literal) else made_by.get(gradient), False
    if product is not None and product.primitive is transpose_p and product.params["permutation"] == (0, 2, 1):
        product, turned = made_by.get(product.invars[0]), True
    if product is None or product.primitive is not dot_general_p or not _is_plain(product):
        return []
    variables: list[Any] = product.invars
    summed, _ = product.params["dimension_numbers"]
    factors = [_Factor(each, axes[0], each not in made_by) for each, axes in zip(variables, summed, strict=True)]
    if factors[0].residual == factors[1].residual:
        return []
    return factors[::-1] if turned else factors


def _is_plain(product: JaxprEqn) -> bool:
    """Whether it has lanes, one summed axis and another each, and no other precision than the usual one."""
    (summed, lanes), precision = product.params["dimension_numbers"], product.params["precision"]
    usual = precision is None or set(precision) == {lax.Precision.DEFAULT}
    shapes: list[Any] = [factor.aval for factor in product.invars]
    three = all(shape.ndim == 3 for shape in shapes) and not any(isinstance(each, Literal) for each in product.invars)
    return usual and three and lanes == ((0,), (0,)) and all(len(axes) == 1 for axes in summed)
