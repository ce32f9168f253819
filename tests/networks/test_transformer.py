"""The network answers for moves wherever they stand in the list, and keeps positions apart."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, records_from_fens
from azchess.games.pgx_games import pgx_game
from azchess.networks.evaluator import apply_network, network_evaluator, prior, uniform_evaluator
from azchess.networks.transformer import TransformerConfig, num_parameters, relative_offsets

CHESS = ChessGame(num_slots=64, memory=4)
CONFIG = TransformerConfig(layers=2, width=16, heads=2, summary=2)
FENS = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r1bqkb1r/pppp1ppp/2n2n2/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq - 4 4",
    "8/P6k/8/8/8/8/7p/K5N1 b - - 0 1",
    "8/PP5k/8/8/8/8/7p/K5N1 w - - 0 1",
]


def stirred(network, seed=0):
    """The network with all weights moved, so that no head is left at zero."""
    leaves, structure = jax.tree.flatten(network)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    moved = [
        leaf + 0.3 * jax.random.normal(key, leaf.shape) / max(1, leaf.shape[-1]) ** 0.5
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)


@pytest.fixture(scope="module")
def network():
    return stirred(CONFIG.init(CHESS, jax.random.key(0)))


@pytest.fixture(scope="module")
def seen():
    """Tokens and labels of four positions."""
    records = records_from_fens(FENS)
    tokens = jax.vmap(lambda record: CHESS.tokens(CHESS.history(CHESS.position(record))))(records)
    return tokens, jax.vmap(lambda record: CHESS.moves(CHESS.position(record)).labels)(records)


apply = jax.jit(apply_network, static_argnums=1)


@pytest.mark.fast
def test_the_logits_of_slots_are_those_of_their_labels(network, seen):
    tokens, labels = seen
    slots = apply(network, CHESS, tokens, labels)
    table = jnp.broadcast_to(jnp.arange(CHESS.num_labels, dtype=jnp.int16), (4, CHESS.num_labels))
    full = apply(network, CHESS, tokens, table)
    assert full.logits.shape == (4, 4672)
    gathered = jnp.take_along_axis(full.logits, jnp.maximum(labels, 0).astype(jnp.int32), axis=1)
    legal = np.asarray(labels) >= 0
    np.testing.assert_array_equal(np.asarray(slots.logits)[legal], np.asarray(gathered)[legal])
    np.testing.assert_array_equal(slots.wdl, full.wdl)
    for row in range(4):
        assert len(np.unique(slots.logits[row][legal[row]])) > legal[row].sum() // 2


def test_promotions_to_different_pieces_have_different_logits(network, seen):
    tokens, labels = seen
    squares = CHESS.geometry[np.maximum(labels[3], 0)]
    logits = np.asarray(apply(network, CHESS, tokens, labels).logits[3])
    promoting = (np.asarray(labels[3]) >= 0) & (squares[:, 0] == 6) & (squares[:, 1] == 7)
    assert promoting.sum() == 4
    assert len(set(logits[promoting].tolist())) == 4


def test_another_order_of_moves_is_another_order_of_logits(network, seen):
    tokens, labels = seen
    order = jax.random.permutation(jax.random.key(1), labels.shape[1])
    one, other = (apply(network, CHESS, tokens, x) for x in (labels, labels[:, order]))
    np.testing.assert_array_equal(one.logits[:, order], other.logits)
    np.testing.assert_array_equal(one.wdl, other.wdl)


def test_a_position_is_judged_alike_whatever_stands_beside_it(network, seen):
    tokens, labels = seen
    together = apply(network, CHESS, tokens, labels)
    changed = apply(network, CHESS, tokens.at[1:].set(jnp.nan), labels)
    for name in ("logits", "wdl", "moves_left"):
        np.testing.assert_array_equal(getattr(together, name)[0], getattr(changed, name)[0])
        assert jnp.isfinite(getattr(together, name)).all()
        assert jnp.isnan(getattr(changed, name)[1:]).any()


@pytest.mark.fast
def test_heads_start_out_seeing_from_near_to_far():
    network = dataclasses.replace(CONFIG, heads=4).init(CHESS, jax.random.key(0))
    squares = np.arange(64)
    distance = np.maximum(
        np.abs(squares[:, None] // 8 - squares // 8), np.abs(squares[:, None] % 8 - squares % 8)
    )
    bias = network.blocks.bias[...][:, :, relative_offsets((8, 8))]
    for layer in bias:
        for slope, head in zip((2.0, 1.0, 0.5, 0.25), layer, strict=True):
            np.testing.assert_allclose(head, -slope * distance)


@pytest.mark.fast
@pytest.mark.parametrize(
    "heads",
    [
        lambda logits, wdl, left: (logits[:, :-1], wdl, left),
        lambda logits, wdl, left: (logits, wdl[:, :1], left),
        lambda logits, wdl, left: (logits, wdl, left[:, None]),
        lambda logits, wdl, left: (logits, wdl),
    ],
    ids=["logits", "wdl", "moves left", "two heads"],
)
def test_answers_of_the_wrong_shape_are_named(network, seen, heads):
    with pytest.raises(ValueError, match=r"the network returns arrays of shapes .* must be"):
        apply_network(lambda *x: heads(*network(*x)), CHESS, *seen)


@pytest.mark.parametrize("heads", [1, 4])
def test_every_leaf_is_a_float32_array(heads):
    network = dataclasses.replace(CONFIG, heads=heads).init(CHESS, jax.random.key(0))
    leaves = jax.tree.leaves(network)
    assert {leaf.dtype for leaf in leaves} == {np.dtype("float32")}
    assert num_parameters(network) == sum(leaf.size for leaf in leaves)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(network.blocks)} == {CONFIG.layers}


def test_bfloat16_is_close_to_float32(network, seen):
    tokens, labels = seen
    low = dataclasses.replace(CONFIG, dtype="bfloat16").init(CHESS, jax.random.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves(low)} == {np.dtype("float32")}
    low = jax.tree.unflatten(jax.tree.structure(low), jax.tree.leaves(network))
    one, other = (apply(net, CHESS, tokens, labels) for net in (network, low))
    legal = np.asarray(labels) >= 0
    gap = np.abs(np.asarray(one.logits - other.logits))[legal]
    assert 0 < gap.mean() < 0.02 * np.asarray(one.logits)[legal].std()
    np.testing.assert_allclose(one.wdl, other.wdl, atol=0.02)
    np.testing.assert_allclose(one.moves_left, other.moves_left, rtol=0.1)
    assert other.logits.dtype == other.wdl.dtype == other.moves_left.dtype == jnp.float32


def test_an_untrained_network_calls_every_result_equally_likely(seen):
    tokens, labels = seen
    network = CONFIG.init(CHESS, jax.random.key(0))
    evaluation = apply(network, CHESS, tokens, labels)
    np.testing.assert_allclose(evaluation.wdl, 1 / 3, rtol=1e-6)
    np.testing.assert_allclose(evaluation.value, 0, atol=1e-6)
    assert (evaluation.moves_left > 0).all()


def test_the_evaluator_of_a_network_sees_positions_as_it_should(network, seen):
    tokens, labels = seen
    positions = jax.vmap(CHESS.position)(records_from_fens(FENS))
    moves = jax.vmap(CHESS.moves)(positions)
    keys = jax.random.split(jax.random.key(0), 4)
    found = network_evaluator(CHESS)(network, keys, positions, moves)
    wanted = apply(network, CHESS, tokens, labels)
    legal = np.asarray(labels) >= 0
    np.testing.assert_allclose(
        np.asarray(found.logits)[legal], np.asarray(wanted.logits)[legal], atol=1e-5
    )
    np.testing.assert_allclose(found.wdl, wanted.wdl, atol=1e-6)
    chances = prior(found, moves)
    np.testing.assert_allclose(chances.sum(axis=-1), 1, rtol=1e-6)
    assert (np.asarray(chances)[~legal] == 0).all()
    np.testing.assert_allclose(found.value, found.wdl[:, 0] - found.wdl[:, 2])
    blind = uniform_evaluator(CHESS)(None, keys, positions, moves)
    np.testing.assert_allclose(prior(blind, moves).max(axis=-1), 1 / moves.count, rtol=1e-6)
    assert (blind.value == 0).all()


@pytest.mark.fast
def test_offsets_between_squares_depend_on_the_step_alone():
    table = relative_offsets((3, 4))
    rows, columns = np.divmod(np.arange(12), 4)
    steps = {}
    for one in range(12):
        for other in range(12):
            step = (rows[one] - rows[other], columns[one] - columns[other])
            steps.setdefault(step, set()).add(int(table[one, other]))
    assert all(len(numbers) == 1 for numbers in steps.values())
    assert len(set.union(*steps.values())) == len(steps) == 5 * 7


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "gardner_chess"])
def test_a_network_fits_every_game(name):
    game = pgx_game(name)
    network = CONFIG.init(game, jax.random.key(0))
    evaluate = jax.jit(functools.partial(network_evaluator(game), network))
    keys = jax.random.split(jax.random.key(0), 3)
    positions = jax.vmap(game.init)(keys)
    evaluation = evaluate(keys, positions, jax.vmap(game.moves)(positions))
    assert evaluation.logits.shape == (3, game.num_slots)
    assert jnp.isfinite(evaluation.logits).all()
