"""Compiled searches beside plain ones, line by line."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from search.reference import hashed_evaluator, puct
from search.test_puct import wander

BATCH = 8


@functools.cache
def trees(search, game):
    """`(keys, positions, knobs) -> Tree`, compiled once."""
    evaluate = hashed_evaluator(game)

    def run(keys, positions, knobs):
        return search.think(game, evaluate, 1.0, keys, positions, knobs.greedy())[1]

    return jax.jit(run)


def row_of(tree, row):
    return jax.tree.map(lambda leaf: leaf[row] if np.ndim(leaf) else leaf, tree)


def check_lines(search, game, choose, knobs, *, count, most_moves):
    """All lines are those of the plain search by `choose`, but for at most 2 % of close calls."""
    positions, margins = wander(game, count, most_moves), []
    for start in range(0, count, BATCH):
        batch = row_of(positions, jnp.arange(start, start + BATCH) % count)
        keys = jax.random.split(jax.random.key(start), BATCH)
        tree = jax.device_get(trees(search, game)(keys, batch, knobs))
        for row in range(min(BATCH, count - start)):
            own = jax.tree.map(float, row_of(knobs, row))
            position = row_of(batch, row)
            found = puct(
                game, 1.0, position, own, search.simulations, search.max_depth, choose=choose
            )
            margin = first_margin(row_of(tree, row), *found)
            if margin < math.inf:
                margins.append(margin)
    assert len(margins) <= max(1, count // 50), margins
    assert all(margin < 1e-5 for margin in margins), margins


def first_margin(tree, nodes, lines):
    """How close the first call was that a tree decided in another way; infinite if none was."""
    for number, line in enumerate(lines):
        if (tree.parent[number + 1], tree.slot[number + 1]) != (line.parent, line.slot):
            return line.margin
    width = len(nodes[0].labels)
    assert tree.visits[0, :width].tolist() == nodes[0].visits
    np.testing.assert_allclose(tree.total[0, :width], nodes[0].total, rtol=1e-5, atol=2e-4)
    return math.inf
