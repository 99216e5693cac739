# What is used here of numba, which ships no types: a compiled function is called as the function that was written.
from collections.abc import Callable
from typing import Literal, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., object])

def njit(
    *,
    cache: bool = ...,
    nogil: bool = ...,
    fastmath: bool = ...,
    boundscheck: bool = ...,
    inline: Literal["always", "never"] = ...,
) -> Callable[[_Function], _Function]: ...
