"""How long a compiled function takes, to run and to compile."""

import time
from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache


def seconds(function: Callable[..., Any], *arguments: Any, repeats: int = 25) -> float:
    """Median seconds of a call that has been made once before."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - began)
    return sorted(times)[repeats // 2]


def race(
    sides: dict[str, Callable[..., Any]], *arguments: Any, rounds: dict[str, int] | int = 3
) -> dict[str, float]:
    """Median seconds of compiled functions that are called in turn, so many times each."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    wanted = {name: rounds if isinstance(rounds, int) else rounds[name] for name in sides}
    for number in range(max(wanted.values())):
        for name, function in sides.items():
            if number < wanted[name]:
                began = time.perf_counter()
                jax.block_until_ready(function(*arguments))
                times[name].append(time.perf_counter() - began)
    return {name: sorted(taken)[len(taken) // 2] for name, taken in times.items()}


def compile_anew(function: Any, *arguments: Any) -> tuple[float, Any]:
    """Compiles a jitted function with XLA's cache off: the seconds that takes, and the result."""
    before = jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()  # jax asks only once whether there is a cache
    try:
        began = time.perf_counter()
        compiled = function.lower(*arguments).compile()
        return time.perf_counter() - began, compiled
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        compilation_cache.reset_cache()


def device_bytes(compiled: Any) -> int:
    """Bytes of device memory that a call of a compiled function takes besides its arguments."""
    memory = compiled.memory_analysis()
    used = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return used - memory.alias_size_in_bytes
