"""The dice that a line meets on its way are thrown apart from those that judge its end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.dice import dice_game
from azchess.networks.evaluator import Evaluation
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct

GAME = dice_game(2, 4, rolls=(0.5, 0.5))
BATCH, SIMULATIONS = 64, 60


def telling_value(code):
    """A value by which a position is recognised, for its mover."""
    return 2.0 * (code >> 8).astype(np.float32) / (1 << 24) - 1.0


def evaluate(params, keys, positions, moves):
    del params, keys
    win = (telling_value(positions.code) + 1.0) / 2.0
    return Evaluation(
        logits=jnp.zeros(moves.labels.shape),
        wdl=jnp.stack([win, 0.0 * win, 1.0 - win], axis=-1),
        moves_left=0.0 * win,
    )


@pytest.mark.parametrize("leaves", [1, 4])
def test_the_throw_that_judges_a_chance_node_owes_nothing_to_the_throw_above_it(leaves):
    search = Puct(SIMULATIONS, leaves=leaves)
    keys = jax.random.split(jax.random.key(0), BATCH)
    positions = jax.vmap(GAME.init)(keys)
    think = jax.jit(
        lambda keys: search.think(GAME, evaluate, 0.0, keys, positions, SearchKnobs().greedy())[1]
    )
    tree = jax.device_get(think(keys))
    row, node, slot = np.nonzero(tree.child >= 0)
    child = tree.child[row, node, slot]
    deep = tree.chance[row, child] & (node > 0)
    row, node, child = row[deep], node[deep], child[deep]
    above = tree.slot[row, node]  # the roll that led to the move before this chance node
    positions = jax.tree.map(lambda leaf: leaf[row, child], tree.positions)
    step = jax.jit(jax.vmap(GAME.step, (0, None)))
    values = [telling_value(np.asarray(step(positions, 2 + roll).code)) for roll in (0, 1)]
    judged = np.abs(tree.value[row, child] - np.stack(values)) < 1e-6
    assert (judged.sum(axis=0) == 1).all()
    assert len(above) > 1000
    alike = (judged.argmax(axis=0) == above).mean()
    assert abs(alike - 0.5) < 4.0 * 0.5 / len(above) ** 0.5
