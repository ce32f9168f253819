"""Lc0's rule where a plain search says nothing: the move played, proofs, temperature, presets."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, position_from_fen
from azchess.games.chess.notation import label_to_move
from azchess.games.toy import hash_game
from azchess.search.edges import Edges, best_slot
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.lc0 import Lc0, moves_left_utility
from azchess.search.presets import LC0
from search import reference_family as reference
from search.reference import hashed_evaluator

BATCH = 8
GAME = hash_game(6, legal=0.7, ends=0.15)


def roots(game, batch=BATCH):
    keys = jax.random.split(jax.random.key(0), batch)
    return jax.random.split(jax.random.key(1), batch), jax.vmap(game.init)(keys)


def edges(visits, q, **facts):
    visits = jnp.array([visits], jnp.int32)
    count = visits.shape[1]
    facts = {name: jnp.array([fact]) for name, fact in facts.items()}
    own = {"legal": jnp.ones((1, count), bool), "prior": jnp.full((1, count), 1 / count)}
    for name in ("lower", "upper"):
        if name in facts:
            facts[name] = facts[name].astype(jnp.int8)
    return Edges(
        visits=visits,
        in_flight=jnp.int32(0),
        q=jnp.array([q]),
        value=jnp.zeros(1),
        depth=jnp.zeros(1, jnp.int32),
        **(own | facts),
    )


def played(edges, **knobs):
    """The slot that Lc0 plays."""
    own = columns(per_game(SearchKnobs(**knobs), 1))
    score, _ = Lc0().conclude(edges, own, None)
    labels = jnp.arange(edges.visits.shape[1], dtype=jnp.int16)[None]
    return int(best_slot(score, edges, labels)[0])


OPEN = {"lower": [-1, -1, -1, -1], "upper": [1, 1, 1, 1], "moves_left": [9.0, 9.0, 9.0, 9.0]}


@pytest.mark.fast
def test_the_shortest_proven_win_is_played_and_the_longest_loss_if_all_is_lost():
    won = OPEN | {"lower": [-1, 1, 1, -1], "moves_left": [3.0, 7.0, 5.0, 1.0]}
    assert played(edges([90, 20, 3, 5], [0.9, 1.0, 1.0, 0.2], **won)) == 2
    lost = OPEN | {"upper": [-1, -1, 1, -1], "moves_left": [8.0, 2.0, 4.0, 6.0]}
    assert played(edges([90, 9, 1, 5], [-1.0, -1.0, -0.9, -1.0], **lost)) == 2
    lost["upper"] = [-1, -1, -1, -1]
    assert played(edges([9, 90, 1, 5], [-1.0, -1.0, -1.0, -1.0], **lost)) == 0


@pytest.mark.fast
def test_visits_then_q_then_prior_then_rank_decide_among_open_moves():
    assert played(edges([5, 7, 7, 7], [0.9, 0.1, 0.2, 0.1], **OPEN)) == 2
    likely = OPEN | {"prior": [0.1, 0.2, 0.3, 0.4]}
    assert played(edges([5, 7, 7, 7], [0.9, 0.2, 0.2, 0.2], **likely)) == 3
    assert played(edges([5, 7, 7, 7], [0.9, 0.2, 0.2, 0.2], **OPEN)) == 1
    # A draw that is worth something to the mover counts in Q.
    drawn = OPEN | {"draw": [0.0, 0.0, 0.5, 0.9], "own_draw": 0.5, "side": 1.0}
    assert played(edges([5, 7, 7, 7], [0.9, 0.2, 0.1, 0.1], **drawn)) == 1
    assert played(edges([5, 7, 7, 7], [0.9, 0.2, 0.1, 0.1], **drawn), draw_score=0.5) == 3
    assert played(edges([5, 7, 7, 7], [0.9, 0.2, 0.1, 0.1], **drawn), draw_score=-0.5) == 1


@pytest.mark.fast
def test_moves_left_shorten_wins_and_prolong_losses_up_to_a_limit():
    knobs = columns(per_game(LC0.knobs, 1))
    plies = {"moves_left": [31.0, 11.0, 21.0], "own_moves_left": 20.0}
    for sign in (1.0, -1.0):
        node = edges([10, 10, 10], [0.9 * sign, 0.9 * sign, 0.9 * sign], **plies)
        node = dataclasses.replace(node, value=jnp.array([0.9 * sign]))
        utility = moves_left_utility(node, node.q, knobs)[0]
        mean = (20.0 + 10 * 63) / 31
        longer = np.array([30.0, 10.0, 20.0]) - mean
        size = (0.9 - 0.8) / (1 - 0.8)
        weight = 1.6521 * size - 0.6521 * size**2
        wanted = -sign * np.clip(0.0027 * longer, -0.0345, 0.0345) * weight
        np.testing.assert_allclose(utility, wanted, rtol=1e-4, atol=1e-6)
        far = dataclasses.replace(node, moves_left=jnp.array([[900.0, 1.0, 1.0]]))
        assert abs(float(moves_left_utility(far, far.q, knobs)[0, 0])) == pytest.approx(
            0.0345 * weight, rel=1e-4
        )
    calm = dataclasses.replace(node, q=jnp.full((1, 3), 0.7), value=jnp.array([0.7]))
    assert (moves_left_utility(calm, calm.q, knobs) == 0).all()


def test_the_policys_temperature_flattens_the_priors_of_all_nodes():
    keys, positions = roots(GAME)
    knobs = dataclasses.replace(LC0.knobs, policy_temperature=jnp.linspace(0.5, 3.0, BATCH))
    _, tree = reference.searched(Lc0(32), GAME)(1.0, keys, positions, knobs)
    evaluate = hashed_evaluator(GAME)
    checked = 0
    for row in range(BATCH):
        own = jax.tree.map(lambda leaf, row=row: leaf[row], tree.positions)
        moves = jax.vmap(GAME.moves)(own)
        logits = np.asarray(evaluate(1.0, keys, own, moves).logits, np.float64)
        legal = np.asarray(moves.legal)
        power = np.exp(logits / float(knobs.policy_temperature[row])) * legal
        there = legal.any(axis=1) & ((tree.child[row] >= 0).any(axis=1) | (np.arange(33) == 0))
        wanted = power[there] / power[there].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(tree.prior[row][there], wanted, atol=1e-6)
        checked += there.sum()
    assert checked > 50


def test_what_a_search_carries_follows_its_config():
    assert not Lc0(sticky_endgames=False).carries.bounds
    bare = Lc0(sticky_endgames=False, draws=False, moves_left=False).carries
    assert (bare.draws, bare.moves_left) == (False, False)
    # The shortest of several wins needs lengths.
    assert Lc0(draws=False, moves_left=False).carries.moves_left


def test_a_proven_root_move_turns_no_visits_away_unless_asked_to():
    """With `proven_first` a proven loss is not searched again while another move is open."""
    game = hash_game(4, ends=0.4, plies=3)
    keys, positions = roots(game, 32)
    knobs = LC0.knobs
    again = {}
    for first in (False, True):
        search = Lc0(60, proven_first=first)
        _, tree = reference.searched(search, game)(1.0, keys, positions, knobs)
        child = np.maximum(np.asarray(tree.child[:, 0]), 0)
        rows = np.arange(32)[:, None]
        ended = np.asarray(tree.finished)[rows, child] & (child > 0)
        lost = ended & (np.asarray(tree.value)[rows, child] == 1.0)
        once = np.asarray(tree.visits)[rows, child].sum(axis=-1) == 0
        still = (~ended).any(axis=1, keepdims=True)
        again[first] = int(((tree.visits[:, 0] > 1) & lost & once & still).sum())
    assert again[True] < again[False]


MATES = [
    ("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1", "a1a8"),
    ("r5k1/5ppp/8/8/8/8/5PPP/6K1 b - - 0 1", "a8a1"),
]


@pytest.mark.slow
def test_a_mate_in_one_is_proven_and_played():
    game = ChessGame(num_slots=128)
    positions = [position_from_fen(fen, game) for fen, _ in MATES]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[positions[i % 2] for i in range(8)])
    keys = jax.random.split(jax.random.key(0), BATCH)
    knobs = per_game(LC0.knobs, BATCH)
    decision, tree = reference.searched(Lc0(400), game)(0.0, keys, batch, knobs)
    moves = [label_to_move(positions[i], int(decision.label[i])).uci() for i in range(2)]
    assert moves == [move for _, move in MATES]
    assert (np.asarray(tree.lower)[:, 0] == 1).all()
