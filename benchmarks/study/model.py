"""The formulas of a model: one text, worked out here and in the page."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

from benchmarks.study.study import Model

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(model: Model) -> dict[str, float]:
    """Every assumption and every result, by name.

    Raises:
        ValueError: a formula has an unknown name, or more than `Formula.text` allows.
    """
    values = {assumption.name: assumption.value for assumption in model.assumptions}
    for formula in model.formulas:
        try:
            values[formula.name] = _value(ast.parse(formula.text, mode="eval").body, values)
        except (ValueError, SyntaxError) as error:
            raise ValueError(f"{formula.name} = {formula.text}: {error}") from error
        except ZeroDivisionError:
            values[formula.name] = math.inf
    return values


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id="ceil"), args=[argument], keywords=[]):
            value = _value(argument, values)
            return float(math.ceil(value)) if math.isfinite(value) else value
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is neither a known name nor arithmetic")
