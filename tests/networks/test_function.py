"""A function of one position, or a table, judges positions as a network would."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.pgx_games import pgx_game
from azchess.games.toy import Heap, subtraction
from azchess.networks.evaluator import prior
from azchess.networks.function import function_evaluator

GAME = subtraction(9, 3)
HEAPS = Heap(stones=jnp.arange(10), ply=jnp.arange(10) % 2)
MOVES = jax.vmap(GAME.moves)(HEAPS)
KEYS = jax.random.split(jax.random.key(0), 10)


@pytest.mark.fast
def test_a_table_is_looked_up_at_every_position():
    table = GAME.worth(jnp.arange(10)).astype(jnp.float32) * 0.5
    evaluate = function_evaluator(GAME, lambda table, heap: (0.0, table[heap.stones]))
    evaluation = jax.jit(evaluate)(table, KEYS, HEAPS, MOVES)
    np.testing.assert_allclose(evaluation.value, table)
    np.testing.assert_allclose(evaluation.wdl.sum(axis=-1), 1)
    np.testing.assert_allclose(evaluation.wdl[0], [0, 0.5, 0.5])
    np.testing.assert_allclose(evaluation.wdl[1], [0.5, 0.5, 0])
    np.testing.assert_allclose(prior(evaluation, MOVES)[2], [0.5, 0.5, 0])
    assert not evaluation.moves_left.any()
    doubled = jax.jit(evaluate)(2 * table, KEYS, HEAPS, MOVES)
    np.testing.assert_allclose(doubled.value, 2 * table)


@pytest.mark.fast
def test_logits_are_given_by_label_and_read_in_the_order_of_the_moves():
    game = pgx_game("tic_tac_toe")
    start = game.init(jax.random.key(0))
    positions = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), start, game.step(start, jnp.int32(4))
    )
    moves = jax.vmap(game.moves)(positions)
    # Slots need not stand in the order of labels.
    turned = type(moves)(labels=moves.labels[:, ::-1], count=moves.count)
    wdl = jnp.array([0.2, 0.3, 0.5])
    evaluate = function_evaluator(game, lambda scale, position: (scale * jnp.arange(9.0), wdl))
    for given in (moves, turned):
        evaluation = evaluate(2.0, KEYS[:2], positions, given)
        legal = np.asarray(given.legal)
        wanted = 2.0 * np.asarray(given.labels)
        np.testing.assert_allclose(np.asarray(evaluation.logits)[legal], wanted[legal])
        np.testing.assert_allclose(evaluation.value, -0.3, rtol=1e-6)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (0.0, r"must be \(logits, worth\)"),
        ((0.0, 0.0, 0.0), r"must be \(logits, worth\)"),
        ((jnp.zeros(2), 0.0), r"logits of shape \(2,\) .* must be \(\) or \(3,\)"),
        ((0.0, jnp.zeros(2)), r"a worth of \(2,\)"),
        ((jnp.zeros((1, 3)), 0.0), r"logits of shape \(1, 3\)"),
    ],
)
def test_answers_of_the_wrong_shape_are_named(answer, says):
    evaluate = function_evaluator(GAME, lambda params, position: answer)
    with pytest.raises(ValueError, match=says):
        evaluate(None, KEYS, HEAPS, MOVES)
