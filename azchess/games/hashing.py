"""Numbers that look random and are the same for the same moves: the dice of hashed game trees."""

import jax.numpy as jnp
from jaxtyping import Array, Float, UInt32


def draw(code: UInt32[Array, "*b"], salt: UInt32[Array, "*s"]) -> UInt32[Array, "*c"]:
    """A number that looks random, the same for the same input (murmur3's finaliser)."""
    code = (code ^ (salt * jnp.uint32(0x9E3779B9))) + jnp.uint32(0x7F4A7C15)
    code = (code ^ (code >> 16)) * jnp.uint32(0x85EBCA6B)
    code = (code ^ (code >> 13)) * jnp.uint32(0xC2B2AE35)
    return code ^ (code >> 16)


def share(code: UInt32[Array, "*s"]) -> Float[Array, "*s"]:
    """A number in [0, 1)."""
    return (code >> 8).astype(jnp.float32) / (1 << 24)


def bits(code: UInt32[Array, "*s"]) -> Float[Array, "*s 32"]:
    """The bits of a number as 0 and 1, the lowest first, for a network to see."""
    return ((code[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1).astype(jnp.float32)
