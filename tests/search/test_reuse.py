"""A tree that lives on after a move is the tree that was there before, and grows as if it were."""

import dataclasses
import functools

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, move_to_label, position_from_board
from azchess.games.toy import hash_game
from azchess.search.edges import Carries
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.puct import Puct
from azchess.search.reuse import advance, has_root, replant, root_visits
from search.reference import hashed_evaluator

BATCH = 8
GAME = hash_game(5, legal=0.8, ends=0.15)
MOST = 48
GREEDY = SearchKnobs().greedy()
WIDE = dataclasses.replace(GREEDY, c_init=20.0, fpu=1.0)
EDGES = ("visits", "total", "draws", "plies", "squares")


class Through(Puct):
    """Makes the first move at the root, whatever it is worth."""

    def root_rule(self, edges, knobs, noise):
        return jnp.where(jnp.arange(edges.prior.shape[1]) == 0, 1.0, 0.0) + 0 * edges.prior


class Everything(Puct):
    """PUCT whose trees carry all that trees may carry."""

    carries = Carries(draws=True, moves_left=True, squares=True, amaf=True, bounds=True)


class Loose(Everything):
    """The same without proofs."""

    carries = dataclasses.replace(Everything.carries, bounds=False)


@functools.cache
def compiled(search, game):
    evaluate = hashed_evaluator(game)
    return jax.jit(lambda *given: search.think(game, evaluate, 1.0, *given))


@functools.cache
def nothing(search, game=GAME):
    return search.no_trees(game, hashed_evaluator(game), 1.0, roots()[1])


def think(search, keys, positions, knobs, tree=None, made=MOST, game=GAME):
    """So many simulations, in the given trees or in new ones; one compilation serves all."""
    tree = nothing(search, game) if tree is None else tree
    knobs = per_game(dataclasses.replace(knobs, budget=made), BATCH)
    return jax.device_get(compiled(search, game)(keys, positions, knobs, tree))


def moved_on(tree, slot, keep=MOST, discount=1.0):
    slot, discount = jnp.asarray(slot, jnp.int32), jnp.full(BATCH, discount)
    return jax.device_get(advanced(tree, slot, 2 * MOST, keep, discount))


def stayed(tree):
    root = jnp.zeros(BATCH, jnp.int32)
    return jax.device_get(jax.jit(replant, static_argnums=(2, 3))(tree, root, 2 * MOST, MOST))


advanced = jax.jit(advance, static_argnums=(2, 3))
step = jax.jit(jax.vmap(GAME.step))


def roots(seed=0):
    keys = jax.random.split(jax.random.key(seed), BATCH)
    return keys, jax.vmap(GAME.init)(keys)


def after(positions, decision, slot):
    labels = np.asarray(decision.labels)[np.arange(BATCH), slot]
    return step(positions, jnp.asarray(labels, jnp.int32))


def favourite(decision):
    """The most visited moves."""
    return np.asarray(decision.visits).argmax(axis=-1)


def held(tree):
    return np.asarray(root_visits(jax.tree.map(jnp.asarray, tree)))


def alive(tree):
    return np.asarray(has_root(jax.tree.map(jnp.asarray, tree)))


def lines(tree, row, node=0, path=()):
    """All that a tree says of each of its lines, whatever the order of its nodes."""
    names = ("mover", "value", "wdl", "moves_left", "finished", "labels", "prior", *EDGES)
    names += ("amaf_visits", "amaf_total", "lower", "upper", "in_flight")
    facts = {n: getattr(tree, n)[row, node] for n in names if getattr(tree, n) is not None}
    facts["code"] = tree.positions.code[row, node]
    found = {path: facts}
    for slot, child in enumerate(tree.child[row, node]):
        if child >= 0:
            assert (tree.parent[row, child], tree.slot[row, child]) == (node, slot)
            assert child > node
            found |= lines(tree, row, int(child), (*path, slot))
    return found


def same(one, other, sums=0.0):
    assert one.keys() == other.keys()
    for path, facts in one.items():
        for name, fact in facts.items():
            wanted = other[path][name]
            np.testing.assert_allclose(fact, wanted, rtol=0, atol=sums, err_msg=f"{path} {name}")


def laws(tree, row, discount=1.0):
    """Visits add up and totals are sums over the positions below, in float64."""
    sums = {}
    for node in sorted(map(int, reachable(tree, row)), reverse=True):
        parent, slot = tree.parent[row, node], tree.slot[row, node]
        edge = {n: float(getattr(tree, n)[row, parent, slot]) for n in EDGES if carried(tree, n)}
        if not tree.finished[row, node] or node == 0:
            value = float(tree.value[row, node])
            own = {
                "visits": 1.0,
                "total": value,
                "draws": float(tree.wdl[row, node, 1]),
                "plies": float(tree.moves_left[row, node]),
                "squares": value**2,
            }
            below = {n: own[n] + sums.get((node, n), 0.0) for n in own}
            sign = 1 if tree.mover[row, parent] == tree.mover[row, node] else -1
            wanted = below | {
                "total": sign * discount * below["total"],
                "plies": below["plies"] + below["visits"],
                "squares": discount**2 * below["squares"],
            }
            if node == 0:
                return below["visits"]
            for name in edge:
                np.testing.assert_allclose(edge[name], wanted[name], rtol=1e-5, atol=1e-4)
        for name, total in edge.items():
            sums[parent, name] = sums.get((parent, name), 0.0) + total
    raise AssertionError("no root")


def carried(tree, name):
    return getattr(tree, name) is not None


def reachable(tree, row):
    nodes, found = [0], []
    while nodes:
        found.append(node := nodes.pop())
        nodes += [child for child in tree.child[row, node] if child >= 0]
    return found


PLAIN, ALL, LOOSE, THROUGH = Puct(MOST), Everything(MOST), Loose(MOST), Through(MOST)


@pytest.mark.parametrize("search", [PLAIN, ALL], ids=["plain", "all carried"])
def test_what_was_found_below_the_move_is_kept_to_the_bit(search):
    decision, tree = think(search, *roots(), GREEDY)
    slot = favourite(decision)
    moved, deepest = moved_on(tree, slot), 0
    for row in range(BATCH):
        kept = lines(moved, row)
        same(kept, lines(tree, row, int(tree.child[row, 0, slot[row]])))
        # Nothing but these nodes, and nothing in the places for new ones.
        assert sorted(reachable(moved, row)) == list(range(len(kept)))
        assert (moved.parent[row, len(kept) :] == -1).all()
        assert (moved.visits[row, len(kept) :] == 0).all()
        assert moved.depth[row] == max(map(len, kept))
        deepest = max(deepest, moved.depth[row])
    assert deepest > 2
    assert (moved.parent[:, 0] == -1).all()


@pytest.mark.fast
def test_a_search_that_goes_on_ends_where_a_longer_one_ends():
    keys, positions = roots(3)
    first, tree = think(THROUGH, keys, positions, GREEDY, made=20)
    slot = np.zeros(BATCH, np.int32)
    kept = moved_on(tree, slot)
    goes_on = np.flatnonzero(~kept.finished[:, 0])
    assert len(goes_on) > 4
    assert (held(kept)[goes_on] == 19).all()
    below = after(positions, first, slot)
    going_on, tree = think(PLAIN, keys, below, GREEDY, kept, made=28)
    fresh, whole = think(PLAIN, keys, below, GREEDY, made=47)
    longer = moved_on(think(THROUGH, keys, positions, GREEDY, made=48)[1], slot)
    for name in ("slot", "policy", "visits", "q", "prior", "network_prior", "value", "depth"):
        one, other = getattr(going_on, name)[goes_on], getattr(fresh, name)[goes_on]
        np.testing.assert_array_equal(one, other, name)
    np.testing.assert_allclose(going_on.wdl[goes_on], fresh.wdl[goes_on], atol=1e-6)
    for row in goes_on:
        same(lines(tree, row), lines(whole, row))
        same(lines(tree, row), lines(longer, row))


@pytest.mark.parametrize("search", [LOOSE, ALL], ids=["no proofs", "proofs"])
def test_nodes_without_a_place_are_forgotten_as_if_never_made(search):
    keys, positions = roots(1)
    knobs = dataclasses.replace(GREEDY, discount=0.9)
    decision, tree = think(search, keys, positions, knobs)
    slot = favourite(decision)
    full, few = (moved_on(tree, slot, keep, 0.9) for keep in (MOST, 7))
    going_on = think(search, keys, after(positions, decision, slot), knobs, few)[1]
    forgotten = 0
    for row in range(BATCH):
        before, kept = lines(full, row), lines(few, row)
        assert sorted(reachable(few, row)) == list(range(min(7, len(before))))
        # They were listed in their old order: the first seven are the oldest seven.
        np.testing.assert_array_equal(few.value[row, : len(kept)], full.value[row, : len(kept)])
        assert kept.keys() <= before.keys()
        for name in EDGES:
            assert (getattr(few, name)[row][few.child[row] < 0] == 0).all()
        forgotten += len(before) - len(kept)
        if not few.finished[row, 0]:
            assert laws(full, row, 0.9) == 1 + full.visits[row, 0].sum()
            assert laws(few, row, 0.9) == 1 + few.visits[row, 0].sum()
            # The tree goes on as soundly as before.
            assert laws(going_on, row, 0.9) == 1 + few.visits[row, 0].sum() + MOST
    assert forgotten > 40


def test_a_tree_that_stays_is_thought_on_as_if_it_had_never_stopped():
    keys, positions = roots()
    tree = think(PLAIN, keys, positions, GREEDY, made=20)[1]
    decision, tree = think(PLAIN, keys, positions, GREEDY, stayed(tree), made=28)
    whole, longer = think(PLAIN, keys, positions, GREEDY)
    np.testing.assert_array_equal(decision.visits, whole.visits)
    np.testing.assert_array_equal(decision.slot, whole.slot)
    for row in range(BATCH):
        same(lines(tree, row), lines(longer, row))


def test_values_and_wdl_agree_in_a_tree_that_goes_on():
    keys, positions = roots(2)
    # Without a discount, and with an evaluator whose values are its wins less its losses.
    decision, tree = think(LOOSE, keys, positions, GREEDY)
    for keep in (MOST, 5):
        slot = favourite(decision)
        tree = moved_on(tree, slot, keep)
        positions = after(positions, decision, slot)
        decision, tree = think(LOOSE, keys, positions, GREEDY, tree)
        difference = decision.wdl[:, 0] - decision.wdl[:, 2]
        np.testing.assert_allclose(difference, decision.value, atol=1e-5)
    assert decision.visits.sum(axis=-1).max() > MOST


def test_a_move_that_was_never_tried_begins_a_new_tree():
    keys, positions = roots()
    decision, tree = think(THROUGH, keys, positions, GREEDY)
    last = (decision.labels >= 0).sum(axis=-1) - 1
    unknown = (np.arange(BATCH) % 2 == 0) & (last > 0)
    assert unknown.any()
    slot = np.where(unknown, last, 0)
    kept = moved_on(tree, slot)
    np.testing.assert_array_equal(alive(kept), ~unknown)
    assert not alive(moved_on(tree, np.full(BATCH, -1))).any()
    below = after(positions, decision, slot)
    decision = think(PLAIN, keys, below, GREEDY, kept)[0]
    plain = jax.jit(lambda *given: PLAIN.think(GAME, hashed_evaluator(GAME), 1.0, *given))
    fresh = jax.device_get(plain(keys, below, GREEDY)[0])
    names = ("slot", "policy", "visits", "q", "prior", "value", "depth", "moves_left")
    for name in names:
        one, other = getattr(decision, name)[unknown], getattr(fresh, name)[unknown]
        np.testing.assert_array_equal(one, other, name)
    np.testing.assert_allclose(decision.wdl[unknown], fresh.wdl[unknown], atol=1e-6)
    # The empty trees of a search are such trees, too.
    for one, other in zip(*map(jax.tree.leaves, (nothing(PLAIN), kept)), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    decision = think(PLAIN, keys, below, GREEDY)[0]
    for name in (*names, "lockstep"):
        np.testing.assert_array_equal(getattr(decision, name), getattr(fresh, name), name)


def test_the_noise_of_a_root_is_its_own_and_comes_once():
    keys, positions = roots()
    noisy = SearchKnobs(noise_fraction=0.5, root_temperature=1.5)
    decision, tree = think(PLAIN, keys, positions, noisy)
    assert (np.abs(decision.prior - decision.network_prior).max(axis=-1) > 0.01).all()
    # What is handed back holds the network's priors alone: below the root, and at it.
    quiet = think(PLAIN, keys, positions, GREEDY)[1]
    for row in range(BATCH):
        loud, plain = lines(tree, row), lines(quiet, row)
        assert len(loud.keys() & plain.keys()) > 5
        for path in loud.keys() & plain.keys():
            np.testing.assert_array_equal(loud[path]["prior"], plain[path]["prior"])
    # Thinking on, at the same root or after a move, draws the noise of a first search.
    slot = favourite(decision)
    below = after(positions, decision, slot)
    for kept, now in ((stayed(tree), positions), (moved_on(tree, slot), below)):
        again = think(PLAIN, keys, now, noisy, kept)[0]
        fresh = think(PLAIN, keys, now, noisy)[0]
        np.testing.assert_array_equal(again.prior, fresh.prior)
        np.testing.assert_array_equal(again.network_prior, fresh.network_prior)


def test_a_root_that_is_proven_is_searched_and_its_proof_is_kept():
    game = hash_game(3, ends=0.35)
    keys, positions = roots()
    decision, tree = think(ALL, keys, positions, GREEDY, game=game)
    seen = []
    for slot in range(3):
        below = after(positions, decision, np.full(BATCH, slot))
        over = np.asarray(jax.vmap(game.status)(below, jax.vmap(game.moves)(below)).over)
        kept = moved_on(tree, np.full(BATCH, slot))
        thought, grown = think(ALL, keys, below, GREEDY, kept, game=game)
        for row in np.flatnonzero(alive(kept) & kept.finished[:, 0] & ~over):
            outcome = kept.value[row, 0]
            seen.append(outcome)
            assert kept.lower[row, 0] == kept.upper[row, 0] == outcome
            assert grown.lower[row, 0] == grown.upper[row, 0] == outcome
            assert thought.visits[row].sum() == kept.visits[row, 0].sum() + MOST
            assert thought.policy[row].sum() == pytest.approx(1.0)
            if outcome > 0:  # the winning move is played
                child = grown.child[row, 0, thought.slot[row]]
                assert grown.lower[row, child] == grown.upper[row, child] == -1
    assert {-1.0, 1.0} <= set(seen)


def test_batched_leaves_go_on_with_nothing_in_flight():
    search = Puct(MOST, leaves=4)
    keys, positions = roots()
    decision, tree = think(search, keys, positions, GREEDY)
    slot = favourite(decision)
    kept = moved_on(tree, slot)
    assert (kept.in_flight == 0).all()
    grown = think(search, keys, after(positions, decision, slot), GREEDY, kept)[1]
    assert (grown.in_flight == 0).all()
    for row in np.flatnonzero(~kept.finished[:, 0]):
        assert laws(grown, row) == 1 + kept.visits[row, 0].sum() + MOST


def test_visits_can_be_counted_with_those_that_were_kept():
    """Lc0's `visits`: the budget less what is there."""
    keys, positions = roots()
    decision, tree = think(PLAIN, keys, positions, GREEDY)
    slot = favourite(decision)
    kept = moved_on(tree, slot)
    left = 30 - jnp.asarray(held(kept), jnp.float32)
    decision = think(PLAIN, keys, after(positions, decision, slot), GREEDY, kept, left)[0]
    wanted = np.maximum(30, held(kept))[~kept.finished[:, 0]]
    np.testing.assert_array_equal(decision.visits.sum(axis=-1)[~kept.finished[:, 0]], wanted)
    assert (wanted == 30).any()


@pytest.mark.fast
def test_a_search_that_plans_from_nothing_is_refused_a_tree():
    with pytest.raises(ValueError, match="Gumbel begins each search with a new tree"):
        Gumbel(simulations=4).no_trees(GAME, hashed_evaluator(GAME), 1.0, roots()[1])


def test_a_third_repetition_is_seen_by_a_tree_that_lives_on():
    """Lc0's trees were once blind to it; the history goes with the position."""
    game = ChessGame(num_slots=40, memory=16)
    evaluate = hashed_evaluator(game)
    search = Puct(120)
    board = chess.Board("7k/8/8/8/8/8/8/K5R1 w - - 10 40")
    line = ["Rg2", "Kh7", "Rg1", "Kh8", "Rg2", "Kh7", "Rg1"]
    position, walk = position_from_board(board, game), jax.jit(game.step)
    for san in line[:-1]:
        position = walk(position, jnp.int32(move_to_label(position, board.push_san(san))))
    keys = jax.random.split(jax.random.key(0), 1)

    @jax.jit
    def both(position, label):
        """A search of a position, and one of the next that goes on in its tree."""
        positions = jax.tree.map(lambda leaf: leaf[None], position)
        tree = search.no_trees(game, evaluate, 1.0, positions)

        def think(tree, positions):
            return search.think(game, evaluate, 0.3, keys, positions, WIDE, tree)

        decision, tree = think(tree, positions)
        slot = (decision.labels == label).argmax(axis=-1).astype(jnp.int32)
        kept = search.advance(tree, slot)
        after = jax.vmap(game.step)(positions, label[None])
        return kept, after, *think(kept, after)

    label = move_to_label(position, board.parse_san(line[-1]))
    kept, after, decision, tree = jax.device_get(both(position, jnp.int32(label)))
    board.push_san(line[-1])
    assert held(kept)[0] > 0
    jax.tree.map(
        np.testing.assert_array_equal, jax.tree.map(lambda x: x[:, 0], kept.positions), after
    )
    third = move_to_label(jax.tree.map(lambda x: x[0], after), board.parse_san("Kh8"))
    slot = int((decision.labels[0] == third).argmax())
    assert decision.visits[0, slot] > 0
    assert decision.q[0, slot] == 0.0
    child = tree.child[0, 0, slot]
    assert tree.finished[0, child]
    assert tree.wdl[0, child].tolist() == [0, 1, 0]
    # Any other move of the king is no repetition.
    others = [i for i in tree.child[0, 0] if i not in (-1, child)]
    assert others
    assert not tree.finished[0, others].any()


@pytest.mark.fast
def test_a_tree_without_room_for_the_next_search_is_refused():
    keys, positions = roots()
    evaluate = hashed_evaluator(GAME)
    search = Puct(6)
    _, grown = search.think(GAME, evaluate, 1.0, keys, positions, GREEDY)
    with pytest.raises(ValueError, match="a tree of 7 nodes has no room for 6 simulations"):
        search.think(GAME, evaluate, 1.0, keys, positions, GREEDY, grown)
