"""Sets of squares as 64 bits, seen from the mover, in two 32-bit words.

Square `8 * file + rank` (a1 = 0, a2 = 1, ..., h8 = 63) is bit `square % 32` of word
`square // 32`, so each byte is one file and word 0 holds the files a to d.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, UInt32

FULL = np.uint32(0xFFFFFFFF)
EVERY_FILE = 0x01010101


class Bits(NamedTuple):
    """A set of squares, or an array of such sets; `&`, `|`, `^` and `~` are set operations."""

    lo: UInt32[Array, "*b"]
    """Files a to d."""
    hi: UInt32[Array, "*b"]
    """Files e to h."""

    def __and__(self, other: "Bits") -> "Bits":
        return Bits(self.lo & other.lo, self.hi & other.hi)

    def __or__(self, other: "Bits") -> "Bits":
        return Bits(self.lo | other.lo, self.hi | other.hi)

    def __xor__(self, other: "Bits") -> "Bits":
        return Bits(self.lo ^ other.lo, self.hi ^ other.hi)

    def __invert__(self) -> "Bits":
        return Bits(~self.lo, ~self.hi)

    def where(self, condition: Bool[Array | np.ndarray, "*c"] | bool) -> "Bits":
        """These squares where the condition holds, none elsewhere."""
        zero = jnp.uint32(0)
        return Bits(jnp.where(condition, self.lo, zero), jnp.where(condition, self.hi, zero))

    @property
    def any(self) -> Bool[Array, "*b"]:
        """True where the set has a square."""
        return (self.lo | self.hi) != 0

    @property
    def size(self) -> Int[Array, "*b"]:
        """How many squares the set has."""
        return (lax.population_count(self.lo) + lax.population_count(self.hi)).astype(jnp.int32)


def rank(number: int) -> Bits:
    """The eight squares of a rank, 1 being the mover's first, as constants."""
    word = jnp.uint32(EVERY_FILE << (number - 1))
    return Bits(word, word)


def at(square: Int[Array, "*b"]) -> Bits:
    """The set of one square; the empty set for numbers outside 0 to 63."""
    index = square.astype(jnp.uint32)
    bit = jnp.uint32(1) << (index & 31)
    zero = jnp.uint32(0)
    return Bits(jnp.where(index < 32, bit, zero), jnp.where((index >> 5) == 1, bit, zero))


def span(
    one: UInt32[Array | np.ndarray, "*a"], other: UInt32[Array | np.ndarray, "*b"]
) -> UInt32[Array | np.ndarray, "*c"]:
    """From one file to another, both among them, as bits."""
    return ((2 * one - 1) ^ (2 * other - 1)) | one | other


def first_rank(sets: Bits) -> UInt32[Array, "*b"]:
    """The files of the squares on the first rank, the a-file as the lowest bit."""
    # The product brings bits 0, 8, 16 and 24 side by side to the top, without a carry.
    lo, hi = (((word & EVERY_FILE) * 0x01020408 >> 24) & 0xF for word in sets)
    return lo | (hi << 4)


def on_first_rank(files: UInt32[Array, "*b"]) -> Bits:
    """The squares of the first rank on these files, the way back."""
    return Bits(*((word & 0xF) * 0x00204081 & EVERY_FILE for word in (files, files >> 4)))


def union(sets: Bits) -> Bits:
    """The squares that any set along the last axis holds."""
    return Bits(*(halve(word, lax.bitwise_or) for word in sets))


def common(sets: Bits) -> Bits:
    """The squares that every set along the last axis holds."""
    return Bits(*(halve(word, lax.bitwise_and) for word in sets))


def halve(
    words: UInt32[Array, "*b n"], operation: Callable[[Array, Array], Array]
) -> UInt32[Array, "*b"]:
    """Combines the words of the last axis, a power of two of them, half with half.

    XLA's own reductions are not vectorised on the CPU and take many times as long.
    """
    while (size := words.shape[-1]) > 1:
        words = operation(words[..., : size // 2], words[..., size // 2 :])
    return words[..., 0]


def shift(sets: Bits, steps: np.ndarray) -> Bits:
    """Moves every square by one step per entry of the last axis; what leaves the board is gone.

    `steps` `[*n, 2]` holds (files, ranks) between -2 and 2; the sets broadcast against `[*n]`.
    """
    files, ranks = steps[..., 0], steps[..., 1]
    stay = np.where(ranks >= 0, 0xFF << np.maximum(ranks, 0), 0xFF >> np.maximum(-ranks, 0)) & 0xFF
    stay = (stay * EVERY_FILE).astype(np.uint32)
    up, down = (np.maximum(sign * ranks, 0).astype(np.uint32) for sign in (1, -1))
    lo, hi = (((word << up) >> down) & stay for word in sets)
    right, left = (np.maximum(8 * sign * files, 0).astype(np.uint32) for sign in (1, -1))
    to_hi, to_lo = (np.where(by > 0, FULL, np.uint32(0)) for by in (right, left))
    return Bits(
        ((lo << right) >> left) | ((hi << ((32 - left) & 31)) & to_lo),
        ((hi << right) >> left) | ((lo >> ((32 - right) & 31)) & to_hi),
    )


def flip(words: UInt32[Array, "*b"]) -> UInt32[Array, "*b"]:
    """The same squares as the other player sees them: rank 1 becomes rank 8."""
    words = ((words >> 4) & 0x0F0F0F0F) | ((words & 0x0F0F0F0F) << 4)
    words = ((words >> 2) & 0x33333333) | ((words & 0x33333333) << 2)
    return ((words >> 1) & 0x55555555) | ((words & 0x55555555) << 1)
