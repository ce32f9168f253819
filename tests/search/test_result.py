"""What a search shows a player is what its tree holds."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.dice import dice_game
from azchess.games.toy import hash_game, subtraction
from azchess.search.edges import Carries, best_slot
from azchess.search.first_play import first_play
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.policy import TreeSearch, root_edges
from azchess.search.puct import Puct
from azchess.search.result import analyse
from search.reference import hashed_evaluator, puct

GAME = hash_game(6, legal=0.7, ends=0.15)
BATCH, PLIES = 8, 5
KNOBS = SearchKnobs(c_init=1.7, fpu=-0.2, fpu_reduction=0.3, root_c_init=2.5).greedy()


class Told(Puct):
    """PUCT whose trees are told draws and plies to the end at every backup."""

    carries: ClassVar[Carries] = Carries(draws=True, moves_left=True)


class Solver(Puct):
    """PUCT that proves wins, losses and draws."""

    carries: ClassVar[Carries] = Carries(draws=True, bounds=True)


class ByDefault(Puct):
    """PUCT that does not say itself what it adds to Q."""

    bonus = TreeSearch.bonus


@functools.cache
def compiled(search, game):
    """`(keys, positions, knobs) -> (SearchResult, Tree)`, compiled once."""

    def run(keys, positions, knobs):
        return analyse(search, game, hashed_evaluator(game), 1.0, keys, positions, knobs, PLIES)

    return jax.jit(run)


def roots(game):
    """Positions to search."""
    return jax.vmap(game.init)(jax.random.split(jax.random.key(4), BATCH))


def found(search, game, knobs=KNOBS, positions=None):
    """Searches of `BATCH` positions: what a player is shown, and the trees."""
    keys = jax.random.split(jax.random.key(3), BATCH)
    return compiled(search, game)(keys, roots(game) if positions is None else positions, knobs)


GAMES = {"hash game": GAME, "dice": dice_game(choices=3, moves=3)}


@pytest.mark.fast
@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES)
def test_each_move_has_the_means_that_backups_would_have_told(game):
    result, tree = found(Told(60), game)
    edges = root_edges(tree)
    visited = np.asarray(edges.visits > 0)
    assert visited.sum() > BATCH
    assert tree.finished.any()
    win, draw, loss = np.moveaxis(np.asarray(result.wdl), -1, 0)
    np.testing.assert_allclose(draw, edges.draw, atol=1e-5)
    np.testing.assert_allclose(win - loss, edges.q, atol=1e-5)
    np.testing.assert_allclose((win + draw + loss)[visited], 1.0, atol=1e-5)
    np.testing.assert_allclose(result.moves_left, edges.moves_left, rtol=1e-5)


def test_the_moves_together_make_up_the_whole_search():
    result, _ = found(Told(60), GAME)
    decision = result.decision
    count = 1 + decision.visits.sum(axis=-1, keepdims=True)
    total = (decision.visits[..., None] * result.wdl).sum(axis=1)
    own = decision.wdl * count - total
    np.testing.assert_allclose(own.sum(axis=-1), 1.0, atol=1e-4)
    assert (own > -1e-4).all()
    least = jnp.minimum(decision.moves_left, 0)
    most = jnp.maximum(decision.moves_left, result.moves_left.max(axis=-1))
    assert ((least <= result.plies_left) & (result.plies_left <= most)).all()


def test_proven_moves_have_the_shares_of_what_is_proven():
    game = subtraction(stones=9, most=3, varied=True)
    result, tree = found(Solver(60), game)
    edges = root_edges(tree)
    proven = np.asarray(edges.lower == edges.upper) & np.asarray(edges.visits > 0)
    assert proven.any()
    win, draw, loss = np.moveaxis(np.asarray(result.wdl), -1, 0)
    np.testing.assert_allclose(win - loss, edges.q, atol=1e-5)
    np.testing.assert_allclose(draw, edges.draw, atol=1e-5)
    np.testing.assert_allclose((win - loss)[proven], np.asarray(edges.lower)[proven], atol=1e-5)


def test_q_and_u_add_up_to_the_score_that_the_next_simulation_goes_by():
    before, tree = found(Puct(41), GAME)
    after, _ = found(Puct(42), GAME)
    edges = root_edges(tree)
    unvisited = first_play(edges, columns(per_game(KNOBS, BATCH)).at_root())
    q = jnp.where(edges.visits > 0, before.decision.q, unvisited)
    best = best_slot(q + before.bonus, edges, before.decision.labels)
    went = (after.decision.visits - before.decision.visits).argmax(axis=-1)
    assert (best == went).all()
    assert (before.decision.visits == 0)[before.decision.labels >= 0].any()


def test_a_rule_s_own_bonus_is_its_score_less_q():
    own, _ = found(Puct(41), GAME)
    default, _ = found(ByDefault(41), GAME)
    assert (own.decision.visits == default.decision.visits).all()
    np.testing.assert_allclose(own.bonus, default.bonus, atol=1e-5)
    assert (own.bonus[own.decision.labels < 0] == 0).all()


def test_gumbel_shows_what_moves_fall_short_of_the_improved_policy():
    result, _ = found(Gumbel(40, 6), GAME)
    decision = result.decision
    short = decision.policy - decision.visits / (1 + decision.visits.sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(result.bonus, short, atol=1e-6)


def plain_line(nodes, ranks, plies):
    """The most visited line of a plain search, ties to the prior and then to the rank."""
    line, index = [], 0
    while len(line) < plies and sum(nodes[index].visits) and not nodes[index].finished:
        node = nodes[index]
        order = [
            (-n, -p, ranks[a]) for n, p, a in zip(node.visits, node.prior, node.labels, strict=True)
        ]
        slot = order.index(min(order))
        line.append(node.labels[slot])
        index = node.children[slot]
    return line + [-1] * (plies - len(line))


def test_the_line_and_the_numbers_are_those_of_a_plain_search():
    knobs = SearchKnobs(c_init=1.7, fpu=-0.2).greedy()
    result, _ = found(Puct(41), GAME, knobs)
    for game in range(BATCH):
        position = jax.tree.map(lambda leaf, game=game: leaf[game], roots(GAME))
        nodes, _ = puct(GAME, 1.0, position, knobs, 41)
        root, legal = nodes[0], len(nodes[0].labels)
        assert result.decision.visits[game, :legal].tolist() == root.visits
        assert result.line[game].tolist() == plain_line(nodes, GAME.ranks, PLIES)
        c = (1.7 + np.log((1 + 41 + 19652) / 19652)) * np.sqrt(41)
        bonus = c * np.array(root.prior) / (1 + np.array(root.visits))
        np.testing.assert_allclose(result.bonus[game, :legal], bonus, rtol=1e-5)
    assert (result.line == -1).any()
    assert (result.line[:, 1] >= 0).any()


def test_a_line_stops_where_dice_fall_and_a_finished_game_has_none():
    game = GAMES["dice"]
    result, tree = found(Told(60), game)
    assert tree.chance.any()
    assert ((result.line >= 0).sum(axis=-1) == 1).all()
    heaps = subtraction(stones=9, most=3, varied=True)
    over = dataclasses.replace(roots(heaps), stones=jnp.zeros(BATCH, jnp.int32))
    last, _ = found(Solver(60), heaps, positions=over)
    assert (last.line == -1).all()
    assert (last.wdl == 0).all()
    assert not jnp.isnan(last.bonus).any()
