"""The list of legal moves is the same on every kind of device, and made in parallel there."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame
from azchess.games.chess.movement import NUM_WORDS, by_index, by_sums

SLOTS = 218


@pytest.mark.fast
def test_both_ways_to_find_the_word_of_a_slot_agree():
    random = np.random.default_rng(0)
    counts = random.integers(0, 4, (50, NUM_WORDS)) * random.integers(0, 2, (50, NUM_WORDS))
    ends = jnp.asarray(counts.cumsum(axis=1), jnp.int32)
    columns = list(jnp.asarray(random.integers(0, 2**32, (2, 50, NUM_WORDS), np.uint32)))
    terms = [jnp.asarray(random.integers(-(2**20), 2**20, NUM_WORDS, np.int32))]
    slot = jnp.arange(SLOTS)
    one, other = (
        jax.jit(jax.vmap(find, (None, 0, 0, None)))(slot, ends, columns, terms)
        for find in (by_index, by_sums)
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.fast
def test_on_a_tpu_no_lookup_and_no_scatter_is_made_per_slot():
    game = ChessGame(num_slots=SLOTS)

    def ply(positions, labels):
        after = jax.vmap(game.step)(positions, labels)
        moves = jax.vmap(game.moves)(after)
        return after, moves, jax.vmap(game.status)(after, moves)

    positions = jax.eval_shape(jax.vmap(game.init), jax.random.split(jax.random.key(0), 16))
    labels = jax.ShapeDtypeStruct((16,), jnp.int32)
    traced = jax.jit(ply).trace(positions, labels)
    counts = {}
    for platform in ("cpu", "tpu"):
        lines = traced.lower(lowering_platforms=(platform,)).as_text().splitlines()
        lookups = [line for line in lines if re.search(r"stablehlo\.\w*(gather|scatter)", line)]
        counts[platform] = sum(f"16x{SLOTS}x" in line for line in lookups), len(lookups)
    assert counts["cpu"][0] > 0  # the test sees lookups where there are some
    assert counts["tpu"] == (0, 1)  # one per position: how far the move leads
