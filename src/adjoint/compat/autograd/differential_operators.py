"""grad, jacobian and the rest, with autograd's signatures: `operator(fun, argnum=0)(*args, **kwargs)`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

from ...api.arguments import name_of
from ...core.code import signature_of
from ...core.tree import flatten, map_leaves
from ...core.types import dtype_of, shape_of
from .core import like
from .core import make_jvp as _make_jvp
from .core import make_vjp as _make_vjp
from .wrap_util import unary_to_nary

Function = Callable[..., Any]

checkpoint = ad.checkpoint
make_vjp = unary_to_nary(_make_vjp)
make_jvp = unary_to_nary(_make_jvp)


def _as_scalar(y: Any) -> Any:
    """autograd takes an array with one element for a scalar."""
    shape = shape_of(y)
    return np.reshape(y, ()) if shape and all(n == 1 for n in shape) else y


@unary_to_nary
def grad(fun: Function, x: Any) -> Any:
    """The gradient of a function with a scalar result."""
    return ad.grad(lambda x: _as_scalar(fun(x)))(x)


@unary_to_nary
def value_and_grad(fun: Function, x: Any) -> Any:
    """The value and the gradient of a function with a scalar result."""
    shapes = []

    def scalar(x: Any) -> Any:
        y = fun(x)
        shapes.append(shape_of(y))
        return _as_scalar(y)

    value, gradient = ad.value_and_grad(scalar)(x)
    return (np.reshape(value, shapes[0]) if shapes[0] else value), gradient


@unary_to_nary
def grad_and_aux(fun: Function, x: Any) -> Any:
    """The gradient of the first result of a function, and its second result."""

    def scalar(x: Any) -> Any:
        y, aux = fun(x)
        return _as_scalar(y), aux

    return ad.grad(scalar, has_aux=True)(x)


@unary_to_nary
def elementwise_grad(fun: Function, x: Any) -> Any:
    """The derivative of a function that acts per element: the sum of each column of the Jacobian."""
    return ad.elementwise_grad(fun)(x)


@unary_to_nary
def deriv(fun: Function, x: Any) -> Any:
    """The derivative of a function of one number, by forward mode."""
    return ad.jvp(fun, (x,), (map_leaves(lambda part: np.ones(shape_of(part), dtype_of(part))[()], x),))[1]


@unary_to_nary
def jacobian(fun: Function, x: Any) -> Any:
    """The Jacobian. Its shape is that of the result, then that of the argument."""
    return ad.jacobian(fun)(x)


@unary_to_nary
def hessian(fun: Function, x: Any) -> Any:
    """The second derivatives. Their shape is that of the result, then twice that of the argument."""
    return ad.jacfwd(ad.jacobian(fun))(x)


@unary_to_nary
def holomorphic_grad(fun: Function, x: Any) -> Any:
    """The complex derivative of a holomorphic function: the gradient of its real part is it."""
    if not any(dtype_of(part).kind == "c" for part in flatten(x)[0]):
        warnings.warn("Input to holomorphic_grad is not complex", stacklevel=3)
    return ad.grad(lambda x: np.real(_as_scalar(fun(x))))(x)


def grad_named(fun: Function, argname: str) -> Function:
    """The gradient with respect to an argument given by name; it may be passed by position or by name."""
    names = list(signature_of(fun).parameters)
    if argname not in names:
        raise ValueError(f"{name_of(fun)} has no argument {argname!r}; it has {', '.join(names)}")

    def gradient(*args: Any, **kwargs: Any) -> Any:
        if argname not in kwargs:
            return grad(fun, names.index(argname))(*args, **kwargs)
        others = {key: value for key, value in kwargs.items() if key != argname}
        return grad(lambda x: fun(*args, **{argname: x}, **others))(kwargs[argname])

    return gradient


def multigrad_dict(fun: Function) -> Function:
    """The gradients with respect to all arguments, as a dict by name. Defaults count as arguments."""
    signature = signature_of(fun)

    def gradients(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def on_dict(values: dict[str, Any]) -> Any:
            given = inspect.BoundArguments(signature, values)  # type: ignore[arg-type]
            return fun(*given.args, **given.kwargs)

        return grad(on_dict)(dict(bound.arguments))  # type: ignore[no-any-return]

    return gradients


# -- products with a Jacobian or a Hessian ------------------------------------------------------------------------------


@unary_to_nary
def make_jvp_reversemode(fun: Function, x: Any) -> Function:
    """The Jacobian-vector product at a point, as a function; fun runs once, in reverse mode."""
    _, push = ad.linearize(fun, x)
    return lambda v: push(like(v, x))


@unary_to_nary
def make_hvp(fun: Function, x: Any) -> tuple[Function, Any]:
    """The Hessian-vector product at a point, as a function, and the gradient there."""
    return _make_vjp(grad(fun), x)


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """The Hessian times a tensor: called with the arguments of fun and the tensor, last."""

    def product(*args_and_tensor: Any, **kwargs: Any) -> Any:
        *args, tensor = args_and_tensor
        return make_jvp(grad(fun, argnum), argnum)(*args, **kwargs)(tensor)[1]

    return product


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """A tensor times the Jacobian: called with the arguments of fun and the tensor, last."""

    def product(*args_and_tensor: Any, **kwargs: Any) -> Any:
        *args, tensor = args_and_tensor
        weighted = lambda *args, **kwargs: np.tensordot(tensor, fun(*args, **kwargs), axes=np.ndim(tensor))
        return jacobian(weighted, argnum)(*args, **kwargs)

    return product


hessian_vector_product = hessian_tensor_product
vector_jacobian_product = tensor_jacobian_product


def _half_square(y: Any) -> Any:
    return 0.5 * np.sum(y**2, axis=-1)


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: int = 0) -> Function:
    """Products with the generalised Gauss-Newton matrix of g∘f, JᵀHJ with J of f and H of g, at a point."""

    def at_point(*args: Any, **kwargs: Any) -> Function:
        pull, y = make_vjp(f, f_argnum)(*args, **kwargs)
        hessian_product, _ = _make_vjp(grad(g), y)
        push = make_jvp_reversemode(f, f_argnum)(*args, **kwargs)
        return lambda v: pull(hessian_product(push(v)))

    return at_point


__all__ = [
    "checkpoint",
    "deriv",
    "elementwise_grad",
    "grad",
    "grad_and_aux",
    "grad_named",
    "hessian",
    "hessian_tensor_product",
    "hessian_vector_product",
    "holomorphic_grad",
    "jacobian",
    "make_ggnvp",
    "make_hvp",
    "make_jvp",
    "make_jvp_reversemode",
    "make_vjp",
    "multigrad_dict",
    "tensor_jacobian_product",
    "value_and_grad",
    "vector_jacobian_product",
]
