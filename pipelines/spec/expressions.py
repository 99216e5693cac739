"""What a derived column is made of: a small language, read with Python's own parser and held to a list of what it may
say. Sums, differences, products, ratios, a few functions, columns by name; nothing else is code, so nothing runs.

    fare + tip + tolls        round(tip / fare, 3)        concat(city, ", ", state)
    minutes(dropoff - pickup)        year(seen)        column("Trip Total") - tip

Numbers with declared decimals, whole numbers and their sums, differences and products are exact. A ratio is a double.
Null in any operand is null, and so is a ratio by zero. The difference of two moments is a number of seconds.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

MOST_LETTERS = 500
MOST_PIECES = 200
FUNCTIONS: dict[str, tuple[int, int]] = {
    "abs": (1, 1), "round": (1, 2), "min": (2, 20), "max": (2, 20), "concat": (2, 20), "column": (1, 1),
    "year": (1, 1), "month": (1, 1), "day": (1, 1), "hour": (1, 1), "weekday": (1, 1),
    "minutes": (1, 1), "hours": (1, 1), "days": (1, 1),
}  # fmt: skip
"""By name, the least and the most operands. weekday: Monday is 1. minutes, hours, days: of a number of seconds."""
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


@dataclass(frozen=True)
class Expression:
    """Checked when it is made: ValueError says what it may not say."""

    text: str

    def __post_init__(self) -> None:
        _check(self.tree)

    @cached_property
    def tree(self) -> ast.expr:
        if len(self.text) > MOST_LETTERS:
            raise ValueError(f"an expression has at most {MOST_LETTERS} letters")
        try:
            return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"{self.text[:80]!r} is no expression such as `fare + tip`") from None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns it is made of, each once."""
        functions = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        found = [node for node in ast.walk(self.tree) if id(node) not in functions]
        named = [name for node in found if (name := column_named(node)) is not None]
        return tuple(dict.fromkeys(named))


def column_named(node: ast.AST) -> str | None:
    """The column that a piece names, by itself or as column("..."), if it names one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "column":
        operand = node.args[0]
        return operand.value if isinstance(operand, ast.Constant) and isinstance(operand.value, str) else None
    return None


def _check(tree: ast.expr) -> None:
    if sum(1 for _ in ast.walk(tree)) > MOST_PIECES:
        raise ValueError(f"an expression has at most {MOST_PIECES} pieces")
    _check_piece(tree)


def _check_piece(node: ast.expr) -> None:
    match node:
        case ast.Name():
            return
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=str()):
            return
        case ast.Constant(value=int() | float() as number):
            if not abs(number) <= 1e15:
                raise ValueError("a number in an expression is at most 1e15")
            return
        case ast.BinOp() if isinstance(node.op, _OPERATORS):
            _check_piece(node.left)
            _check_piece(node.right)
            return
        case ast.UnaryOp() if isinstance(node.op, ast.USub):
            _check_piece(node.operand)
            return
        case ast.Call() if isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords:
            least, most = FUNCTIONS[node.func.id]
            if not least <= len(node.args) <= most:
                raise ValueError(f"{node.func.id} takes {least} to {most} operands" if most > least else
                                 f"{node.func.id} takes {least} operand")  # fmt: skip
            if node.func.id == "column" and column_named(node) is None:
                raise ValueError('column("...") names a column in quotes')
            if node.func.id == "round" and len(node.args) == 2 and _places(node.args[1]) is None:
                raise ValueError("round(x, n) rounds to n decimals, from 0 to 12")
            for operand in node.args if node.func.id != "column" else ():
                _check_piece(operand)
            return
    raise ValueError(f"an expression has + - * /, numbers, texts, columns and {', '.join(FUNCTIONS)}; nothing else")


def _places(node: ast.expr) -> int | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if type(value) is int and 0 <= value <= 12 else None
