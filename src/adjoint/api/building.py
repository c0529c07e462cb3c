"""Graphs under construction: symbols, the nodes made from them, and the programs extracted from them.

A symbol is a traced value without numbers, so NumPy's functions and operators build nodes from it. Every node refers to its
operands: an unreferenced graph is freed.
"""

from __future__ import annotations

import bisect
import keyword
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.bind import Traced, depth, unwrap_fresh
from ..core.boundary import boundary
from ..core.errors import ArgumentError, DtypeError, ReadOnlyError, ShapeError, UnsupportedError, user_line
from ..core.locks import lock
from ..core.op import Op
from ..core.tree import Structure, flatten, leaf_names
from ..core.types import Type, Value, dtype_of, shape_of
from ..ir import graph as ir
from ..ir import text
from ..ir.graph import Equation, Literal
from ..staging.stage import Stage
from .graph import Program

_RESERVED = re.compile(r"[vc][0-9]+|nan|inf")


# -- nodes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class GraphNode:
    """The origin of a value: an op and its operands; a name, for a symbol; or a number, for a constant."""

    first: int  # the number of its first result; later nodes have higher ones
    types: tuple[Type, ...]
    line: str
    op: Op | None = None
    inputs: tuple[Port | Literal, ...] = ()
    params: dict[str, Any] | None = None
    name: str = ""
    constant: Literal | None = None


class Port(NamedTuple):
    """One result of a node."""

    node: GraphNode
    type: Type
    place: int = 0  # among the results

    @property
    def number(self) -> int:
        return self.node.first + self.place

    @property
    def label(self) -> str:
        return self.node.name or f"v{self.number}"

    def __repr__(self) -> str:
        node = self.node
        if node.constant is not None:
            shown = text.show_value(node.constant.value.item()) if not self.type.shape else "…"
            return f"<constant {shown}: {self.type!r}>"
        if node.op is None:
            return f"<symbol {node.name}: {self.type!r}>"
        return f"<node {self.label} = {node.op.name}: {self.type!r}>"


def _is_array(operand: Port | Literal) -> bool:
    """Whether a 0-d operand is an array, which can be written to, and not a scalar."""
    while isinstance(operand, Port) and operand.node.op is not None:
        kind = operand.node.op.no_axes
        if kind != "same":
            return kind == "array"
        operand = operand.node.inputs[0]
    return False


class OpenStage(Stage):
    """The trace of an open graph. `aux` of a value is its port."""

    __slots__ = ("owner",)
    has_function = False
    has_identity = True  # a symbol is the key of its feed

    def __init__(self, owner: Graph) -> None:
        super().__init__("graph")
        self.level = 0.75  # below every transform, so that grad and vmap of functions work on symbols
        self.owner = owner

    def operand(self, x: Value) -> Any:
        x = unwrap_fresh(x)
        if not isinstance(x, Traced):
            return Literal(x.copy() if isinstance(x, np.ndarray) else x)  # later writes do not affect the graph
        if x.by is self:
            return x.aux if x.aux.node.constant is None else x.aux.node.constant
        if x.by.ended:
            raise x.by.leaked()
        if isinstance(x.by, OpenStage):
            raise ArgumentError(f"{x!r} belongs to another graph; both operands must be built in one")
        raise UnsupportedError(
            f"a value traced by {x.by.name} is used with a symbol, which would freeze it as a constant of the graph"
        )

    def process(self, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        inputs = tuple([self.operand(a) for a in args])
        types = self.infer(op, inputs, [o.type for o in inputs], params)
        results = self.owner._add(GraphNode(self.owner._count(len(types)), types, user_line(), op, inputs, params))
        return results if op.many else results[0]

    def is_array(self, x: Traced) -> bool:
        return x.aux.type.shape != () or _is_array(x.aux)

    def show(self, x: Traced) -> str:
        return repr(x.aux)

    def concrete(self, x: Traced, what: str) -> Any:
        raise UnsupportedError(
            f"{what} {x!r} is not known: a graph is built before it has numbers. Use np.where to choose between values and "
            "NumPy functions instead of math's, or run the graph first"
        )

    def adopt(self, x: Traced, new: Any) -> None:
        if x.aux.node.op is None:
            raise ReadOnlyError(f"{x!r} was written to in place, but it is an input; compute a new value from it")
        super().adopt(x, new)


# -- the graph --------------------------------------------------------------------------------------------------


class Graph:
    """A graph under construction: inside `with Graph() as g:` the symbols belong to g.

    >>> with Graph() as g:
    ...     x = g.symbols("x")
    ...     y = np.sin(x) * 2.0
    >>> g.run(y, {"x": 0.0})
    np.float64(0.0)
    >>> g
    <Graph: 1 symbol, 2 nodes>
    """

    def __init__(self, name: str = "graph") -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ArgumentError(f"the name of a graph is a word, not {name!r}")
        self.name = name
        self._trace = OpenStage(self)
        self._next = 0
        self._lock = lock()
        self._symbols: dict[str, Traced] = {}
        self._nodes: list[GraphNode] | None = []  # None: not kept, they live as long as they are referenced
        self._tokens: list[Any] = []
        self._programs: dict[Any, Program] = {}

    # Declaring

    @boundary
    def symbols(self, names: str | Iterable[str], *, shape: Any = (), dtype: Any = float) -> Any:
        """Declare inputs: one for one name, else a tuple, as for `ad.symbols`."""
        single = isinstance(names, str) and not re.search(r"[\s,]", names.strip())
        if isinstance(names, str):
            words = re.split(r"[\s,]+", names.strip(" \t\n,"))
        else:
            words = list(names) if isinstance(names, Iterable) else [names]
        type_ = Type(_shape(shape), _dtype(dtype))
        for word in words:
            self._check_name(word)
        if len(set(words)) < len(words):
            raise ArgumentError(f"the symbol {max(words, key=words.count)!r} is declared twice")
        made = tuple(self._symbol(word, type_) for word in words)
        return made[0] if single else made

    def _check_name(self, name: Any) -> None:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
            raise ArgumentError(f"{name!r} is not a name for a symbol; use letters, digits and underscores, as for a variable")
        if _RESERVED.fullmatch(name):
            raise ArgumentError(f"{name!r} is not a name for a symbol: values of graphs are named like this; choose another")
        if self._nodes is not None and name in self._symbols:
            raise ArgumentError(f"the graph already has a symbol {name!r}, declared in {self._symbols[name].aux.node.line}")

    def _symbol(self, name: str, type_: Type) -> Traced:
        (symbol,) = self._add(GraphNode(self._count(1), (type_,), user_line(), name=name))
        if self._nodes is not None:
            self._symbols[name] = symbol
        return symbol

    def _count(self, results: int) -> int:
        with self._lock:
            first = self._next
            self._next += results
        return first

    def _add(self, node: GraphNode) -> tuple[Traced, ...]:
        if self._nodes is not None:
            self._nodes.append(node)
        return tuple([Traced(self._trace, None, Port(node, t, i)) for i, t in enumerate(node.types)])

    def _constant(self, value: Any) -> Traced:
        literal = Literal(np.array(value))
        return self._add(GraphNode(self._count(1), (literal.type,), user_line(), constant=literal))[0]

    # Building inside

    def __enter__(self) -> Graph:
        self._tokens.append((current_graph.set(self), depth.set(depth.get() + 1)))
        return self

    def __exit__(self, *exc: object) -> None:
        current, inside = self._tokens.pop()
        depth.reset(inside)
        current_graph.reset(current)

    # Running

    @boundary
    def run(self, fetches: Any, feeds: Any = None, *, workers: int | None = None) -> Any:
        """The values of the fetched nodes: one, or a list, tuple or dict of them.

        `feeds` maps symbols, or their names, to values. Feeds that the fetched nodes do not need are checked and ignored.
        """
        leaves, structure = flatten(fetches)
        labels = leaf_names("fetches", structure)
        wanted = [self._find(x, label) for x, label in zip(leaves, labels, strict=True)]
        fed = self._feeds({} if feeds is None else feeds)
        key = (tuple(port.number for port in wanted), tuple(fed))
        if key not in self._programs:
            ports = [port for port, _ in fed.values()]
            self._programs[key] = cut(ports, wanted, self.name, "feeds", structure)
        results = self._programs[key]._evaluate([value for _, value in fed.values()], workers)
        return structure.unflatten(results)

    def _feeds(self, feeds: Any) -> dict[int, tuple[Port, Value]]:
        if not isinstance(feeds, dict):
            raise ArgumentError(f"feeds is a dict from symbols or names to values, not {type(feeds).__name__}")
        fed: dict[int, tuple[Port, Value]] = {}
        for key, value in feeds.items():
            port = self._find(key, f"the feed {key!r}")
            if port.node.constant is not None:
                raise ArgumentError(f"{port!r} cannot be fed: it is a constant")
            if port.number in fed:
                raise ArgumentError(f"{port.label!r} is fed twice, by name and by symbol")
            fed[port.number] = port, checked_feed(value, port.type, f"the feed of {port.label!r}")
        return fed

    def _find(self, x: Any, what: str) -> Port:
        """The port of a symbol, or of its name."""
        if not isinstance(x, str):
            return self._port(x, what)
        if x in self._symbols:
            return self._symbols[x].aux
        if self._nodes and re.fullmatch("v[0-9]+", x) and int(x[1:]) < self._next:
            node = self._nodes[bisect.bisect_right(self._nodes, int(x[1:]), key=lambda node: node.first) - 1]
            index = int(x[1:]) - node.first
            if node.op is not None:
                return Port(node, node.types[index], index)
        raise ArgumentError(f"the graph has no symbol {x!r}{naming(self._symbols)}")

    def _port(self, x: Any, what: str) -> Port:
        x = unwrap_fresh(x)
        if not isinstance(x, Traced):
            raise ArgumentError(f"{what} is {type(x).__name__} {x!r:.40}, not a symbol")
        if not isinstance(x.by, OpenStage):
            raise ArgumentError(f"{what} is a value traced by {x.by.name}, not a symbol")
        if x.by is not self._trace:
            raise ArgumentError(f"{what} is {x!r}, a foreign symbol: it belongs to another graph")
        return x.aux

    def label(self, x: Traced) -> str:
        """The name of a symbol or a node of this graph."""
        return self._port(x, "what is named").label

    @boundary
    def program(self, inputs: Any, outputs: Any, *, name: str | None = None) -> Program:
        """The part of the graph that computes the outputs from the inputs; `inputs=None`: all symbols that are needed."""
        ports = None if inputs is None else inputs_of(self, inputs, "program")
        wanted, structure = outputs_of(self, outputs, "program")
        return cut(ports, wanted, name or self.name, "inputs", structure)

    def __str__(self) -> str:
        if self._nodes is None:
            return repr(self)
        read = {o.number for node in self._nodes for o in node.inputs if isinstance(o, Port)}
        made = [node for node in self._nodes if node.op is not None]
        ends = [n for node in made for n in range(node.first, node.first + len(node.types)) if n not in read]
        whole = ir.Graph(
            self.name,
            tuple(self._symbols),
            tuple(s.aux.type for s in self._symbols.values()),
            tuple(_equation(node, lambda port: port.number, node.first) for node in made),
            tuple(ends),
        )
        return text.show(whole, {s.aux.number: name for name, s in self._symbols.items()})

    def __repr__(self) -> str:
        if self._nodes is None:
            return "<Graph: the default one>"
        nodes = sum(node.op is not None for node in self._nodes)
        count = len(self._symbols)
        return f"<Graph: {count} symbol{'s' * (count != 1)}, {nodes} node{'s' * (nodes != 1)}>"


_DEFAULT = Graph()
_DEFAULT._nodes = None
current_graph: ContextVar[Graph] = ContextVar("adjoint_graph", default=_DEFAULT)


def naming(names: Iterable[str], lead: str = "; it has") -> str:
    listed = ", ".join(names)
    return f"{lead} {listed}" if listed else ""


def _shape(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        raise ShapeError(f"the shape of a symbol is an integer or a tuple of them, not {shape!r}") from None
    if any(n < 0 for n in sizes):
        raise ShapeError(f"the shape of a symbol has no negative sizes, got {shape!r}")
    return sizes


def _dtype(dtype: Any) -> np.dtype[Any]:
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise DtypeError(f"{dtype!r} is not a dtype") from None
    if found.kind not in "biufc" or dtype is None:
        raise DtypeError(f"a symbol holds numbers, not {dtype!r}")
    return found


_KINDS = {bool: 0, int: 1, float: 2, complex: 3}
_RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def checked_feed(value: Any, wanted: Type, what: str) -> Value:
    """A value for a symbol, of exactly its type; a Python number is converted where nothing is lost."""
    value = unwrap_fresh(value)
    kind = _KINDS.get(type(value))
    if kind is not None and not wanted.shape and kind <= _RANKS[wanted.dtype.kind]:
        try:
            return wanted.dtype.type(value)
        except OverflowError:
            raise DtypeError(f"{what} is {value!r}, which {wanted.dtype} cannot hold") from None
    if not isinstance(value, (np.ndarray, np.generic, Traced, *_KINDS)):
        raise ArgumentError(f"{what} is {type(value).__name__}, expected an array of type {wanted!r}")
    if shape_of(value) != wanted.shape:
        raise ShapeError(f"{what} has shape {shape_of(value)}, expected {wanted.shape}")
    if dtype_of(value) != wanted.dtype:
        raise DtypeError(f"{what} has dtype {dtype_of(value)}, expected {wanted.dtype}")
    return value


# -- cutting a program out --------------------------------------------------------------------------------------


def graph_of(x: Any, what: str) -> Graph:
    x = unwrap_fresh(x)
    if isinstance(x, Traced) and isinstance(x.by, OpenStage):
        return x.by.owner
    found = f"a value traced by {x.by.name}" if isinstance(x, Traced) else f"{type(x).__name__} {x!r:.40}"
    raise ArgumentError(f"{what} is {found}, not a symbol")


def listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]


def inputs_of(graph: Graph, inputs: Any, what: str) -> list[Port]:
    """The ports of the inputs, distinct and with distinct names."""
    ports: dict[str, Port] = {}
    for i, x in enumerate(listed(inputs)):
        port = graph._port(x, f"input {i} of {what}")
        if port.node.constant is not None:
            raise ArgumentError(f"input {i} of {what} is {port!r}, which cannot be fed")
        other = ports.setdefault(port.label, port)
        if other.number != port.number:
            raise ArgumentError(
                f"two different symbols named {port.label!r} are among the inputs of {what}, declared in "
                f"{other.node.line} and {port.node.line}"
            )
        if len(ports) == i:
            raise ArgumentError(f"{port.label!r} is twice among the inputs of {what}")
    return list(ports.values())


def outputs_of(graph: Graph, outputs: Any, what: str) -> tuple[list[Port], Structure]:
    leaves, structure = flatten(outputs)
    if not leaves:
        raise ArgumentError(f"{what} needs at least one output")
    labels = leaf_names("outputs", structure)
    return [graph._port(x, f"{label} of {what}") for x, label in zip(leaves, labels, strict=True)], structure


def reached(ends: Iterable[Port], stop: Callable[[Port], bool]) -> tuple[list[GraphNode], set[int]]:
    """The nodes that the ends depend on, in the order they were built, and all their numbers; `stop` ends a path."""
    nodes: dict[int, GraphNode] = {}
    met: set[int] = set()
    stack = list(ends)
    while stack:
        port = stack.pop()
        met.add(port.number)
        if port.node.first not in nodes and port.node.constant is None and not stop(port):
            nodes[port.node.first] = port.node
            for o in port.node.inputs:
                if isinstance(o, Port):
                    if o.number >= port.node.first:  # operands are older than their node
                        raise ArgumentError(f"{port!r} depends on {o!r}, which is not older: the graph has a cycle")
                    stack.append(o)
    return [nodes[n] for n in sorted(nodes)], met


def cut(inputs: list[Port] | None, outputs: Sequence[Port], name: str, where: str, structure: Structure) -> Program:
    """The program that computes the outputs from the inputs, without dead code."""
    given = {port.number for port in inputs or ()}
    nodes, _ = reached(outputs, lambda port: port.number in given)
    free = [node for node in nodes if node.op is None]
    if inputs is None:
        inputs = [Port(node, node.types[0]) for node in free]
    elif free:
        names = " and ".join(repr(node.name) for node in free)
        raise ArgumentError(
            f"an output depends on {names} (declared in {free[0].line}), which is not among the {where}"
            f"{naming((p.label for p in inputs), ': these are')}"
        )
    numbers = {port.number: i for i, port in enumerate(inputs)}
    equations = []
    count = len(inputs)
    for node in nodes:
        if node.op is not None:
            equations.append(_equation(node, lambda port: numbers[port.number], count))
            for place in range(len(node.types)):
                numbers.setdefault(node.first + place, count + place)  # a result that is an input stays an input
            count += len(node.types)

    def operand(port: Port) -> ir.Operand:
        return numbers[port.number] if port.node.constant is None else port.node.constant

    arguments: tuple[Any, ...] = tuple([0.0] * len(inputs))
    return Program(
        name,
        _input_names(inputs),
        tuple(port.type for port in inputs),
        tuple(equations),
        tuple(map(operand, outputs)),
        flatten((arguments, {}))[1],
        structure,
    )


def _equation(node: GraphNode, number_of: Callable[[Port], int], first: int) -> Equation:
    inputs = tuple([o if isinstance(o, Literal) else number_of(o) for o in node.inputs])
    outputs = tuple(range(first, first + len(node.types)))
    return Equation(node.op, inputs, node.params or {}, outputs, node.types, node.line)  # type: ignore[arg-type]


def _input_names(ports: Sequence[Port]) -> tuple[str, ...]:
    names: list[str] = []
    for port in ports:
        name = port.node.name or f"{port.node.op.name}_{port.number}"  # type: ignore[union-attr]
        while name in names:
            name += "_"
        names.append(name)
    return tuple(names)
