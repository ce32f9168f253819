"""Chess looks the same from both sides of the board, and mates are found without a network."""

import functools

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, label_to_move, records_from_fens
from azchess.networks.evaluator import network_evaluator, uniform_evaluator
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct
from learning.scripted import NETWORK

GAME = ChessGame(num_slots=64, memory=8)
FENS = [
    "r1bqkb1r/pppp1ppp/2n2n2/4p3/2B1P3/5N2/PPPP1PPP/RNBQ1RK1 b kq - 5 4",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "8/5k2/8/2p5/8/1K6/7P/8 w - - 12 40",
    "4k3/P6P/8/8/8/8/p6p/4K3 b - - 0 50",
]


def row(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


@pytest.fixture(scope="module")
def both():
    """Four positions, then their mirror images with colours exchanged."""
    mirrored = [chess.Board(fen).mirror().fen() for fen in FENS]
    return jax.vmap(GAME.position)(records_from_fens(FENS + mirrored))


@pytest.fixture(scope="module")
def network():
    """A small network whose heads are not at zero."""
    leaves, structure = jax.tree.flatten(NETWORK.init(GAME, jax.random.key(0)))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    leaves = [
        leaf + 0.5 * jax.random.normal(key, leaf.shape)
        for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(structure, leaves)


def test_a_position_and_its_mirror_in_the_other_colour_look_and_weigh_the_same(both, network):
    @jax.jit
    def look(positions):
        moves = jax.vmap(GAME.moves)(positions)
        tokens = jax.vmap(lambda position: GAME.tokens(GAME.history(position)))(positions)
        keys = jax.random.split(jax.random.key(0), 8)
        evaluation = network_evaluator(GAME)(network, keys, positions, moves)
        return moves, tokens, evaluation, jax.vmap(GAME.mover)(positions)

    moves, tokens, evaluation, mover = look(both)
    assert mover.tolist() == [1, 0, 0, 1, 0, 1, 1, 0]
    for tree in (moves, tokens, evaluation):
        for leaf in jax.tree.leaves(tree):
            np.testing.assert_array_equal(leaf[:4], leaf[4:])
    assert (moves.count == jnp.array([chess.Board(f).legal_moves.count() for f in FENS] * 2)).all()
    assert len(set(np.asarray(evaluation.value[:4]).tolist())) == 4


@pytest.mark.parametrize(
    "search", [Puct(simulations=16), Gumbel(simulations=16, considered=8)], ids=["puct", "gumbel"]
)
def test_a_search_visits_the_same_moves_for_either_colour(search, both, network):
    keys = jax.random.split(jax.random.key(3), 4)
    run = jax.jit(functools.partial(search, GAME, network_evaluator(GAME)))
    # With noise: the same keys for a position and its mirror.
    decision = run(network, jnp.concatenate([keys, keys]), both, SearchKnobs())
    for leaf in jax.tree.leaves(decision):
        np.testing.assert_array_equal(leaf[:4], leaf[4:])
    assert (decision.visits.sum(axis=-1) == 16).all()
    assert (decision.depth > 1).all()
    for index in range(4):
        white, black = (
            label_to_move(row(both, at), int(decision.label[at])) for at in (index, index + 4)
        )
        assert white.from_square == chess.square_mirror(black.from_square)
        assert white.to_square == chess.square_mirror(black.to_square)
        assert white.promotion == black.promotion


# A back-rank mate, and 1 Qd7+ Kf8 2 Qf7 mate; each for white and for black.
MATES = {
    "6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1": "a1a8",
    "r5k1/5ppp/8/8/8/8/5PPP/6K1 b - - 0 1": "a8a1",
    "4k3/8/8/4N3/8/8/8/3QK3 w - - 0 1": "d1d7",
    "3qk3/8/8/8/4n3/8/8/4K3 b - - 0 1": "d8d2",
}


# With equal priors and every position called a draw, the mate in one needs that each move is tried
# once, and the mate in two that some move is tried as often as there are answers to the only reply:
# at 100 simulations of PUCT it is missed, at 200 of Gumbel as well. Gumbel must consider all moves.
@pytest.mark.parametrize(
    "search",
    [Puct(simulations=400), Gumbel(simulations=400, considered=64)],
    ids=["puct", "gumbel"],
)
def test_mates_in_one_and_in_two_are_found_without_a_network(search):
    positions = jax.vmap(GAME.position)(records_from_fens(list(MATES)))
    keys = jax.random.split(jax.random.key(0), len(MATES))
    run = jax.jit(functools.partial(search, GAME, uniform_evaluator(GAME), None))
    decision = run(keys, positions, SearchKnobs().greedy())
    found = [
        label_to_move(row(positions, index), int(decision.label[index])).uci()
        for index in range(len(MATES))
    ]
    assert found == list(MATES.values())
    best = jnp.take_along_axis(decision.q, decision.slot[:, None], axis=1)[:, 0]
    assert (best[:2] == 1.0).all()
    assert (best[2:] > 0.5).all()
    assert (decision.value > 0).all()
