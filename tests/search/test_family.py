"""The PUCT family against plain searches in float64: the same lines, visits, moves and targets."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int32

from azchess.games.chess import ChessGame, position_from_fen
from azchess.games.game import Game, Moves, Status
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game
from azchess.pytree import pytree
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.lc0 import Lc0
from azchess.search.presets import NN_CHESS
from azchess.search.puct import Puct
from search import reference_family as reference
from search.reference import wander

BATCH = 8
CLOSE = 1e-5


@pytree
class Walk:
    """Two tokens on a ring of five places, and when each placing was last there, by number."""

    places: Int32[Array, "*b 2"]
    ply: Int32[Array, "*b"]
    seen: Int32[Array, "*b 50"]


@dataclasses.dataclass(frozen=True)
class Ring(Game):
    """The mover's token stays or goes one place; who steps onto the other's place wins."""

    name: str = "ring"
    version: str = "1"
    board: tuple[int, int] = (1, 1)
    num_labels: int = 3
    num_slots: int = 3
    num_features: int = 1

    def _number(self, places, ply):
        return 10 * places[0] + 2 * places[1] + ply % 2

    def init(self, key):
        first, ply = jax.random.randint(key, (2,), 0, jnp.array([5, 2]))
        places = jnp.stack([first, (first + 2) % 5]).astype(jnp.int32)
        return Walk(places=places, ply=ply.astype(jnp.int32), seen=jnp.full(50, -1, jnp.int32))

    def step(self, position, label):
        places, ply = position.places, position.ply
        seen = position.seen.at[self._number(places, ply)].set(ply)
        places = places.at[ply % 2].add(label.astype(jnp.int32) - 1) % 5
        return Walk(places=places, ply=ply + 1, seen=seen)

    def moves(self, position):
        over = position.places[0] == position.places[1]
        labels = jnp.where(over, -1, jnp.arange(3)).astype(jnp.int16)
        return Moves(labels=labels, count=jnp.where(over, 0, 3).astype(jnp.int32))

    def status(self, position, moves):
        over = position.places[0] == position.places[1]
        outcome = jnp.where(over, -1, 0).astype(jnp.int8)
        return Status(terminated=over, truncated=jnp.bool_(False), outcome=outcome)

    def mover(self, position):
        return position.ply % 2

    def recurrence(self, position):
        last = position.seen[self._number(position.places, position.ply)]
        return jnp.where(last < 0, 0, position.ply - last)

    def tokens(self, history):
        return history.ply[:1, None].astype(jnp.float32)


TOY = hash_game(6, legal=0.7, ends=0.15)
CONNECT_FOUR = pgx_game("connect_four")
CHESS = ChessGame(num_slots=128)
ENDINGS = [
    "8/8/8/4k3/8/8/4K3/R7 w - - 0 1",
    "8/8/3k4/8/8/3QK3/8/8 b - - 0 1",
    "7k/5K2/8/6Q1/8/8/8/8 w - - 40 90",
    "8/8/8/8/2p5/1k6/8/1K6 b - - 0 1",
    "k7/8/1K6/8/8/8/8/6R1 w - - 0 1",
    "5k2/8/4bK2/8/8/8/8/5R2 w - - 10 60",
    "6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1",
    "8/P6k/8/8/8/8/p6K/8 w - - 0 1",
]

MODES = [
    {"fpu": -1.0},
    {"fpu": 0.0, "c_factor": 0.0, "c_init": 1.5},
    {"fpu": 0.4, "c_base": 20.0},
    {"fpu_parent": 1.0},
    {"fpu_parent": 1.0, "fpu_reduction": 0.33, "c_factor": 3.894, "c_base": 500.0},
    {"fpu_parent": 1.0, "fpu_reduction": 0.2, "root_fpu_reduction": 0.0, "discount": 0.95},
    {"fpu_parent": 1.0, "fpu_reduction": 0.5, "root_fpu": 1.0, "root_fpu_parent": 0.0,
     "root_fpu_reduction": 0.0},
    {"fpu": -1.0, "root_fpu": -0.2, "root_fpu_parent": 0.5, "root_fpu_reduction": 0.1,
     "root_c_init": 3.0, "root_c_base": 50.0, "root_c_factor": 0.5},
]  # fmt: skip
"""A loss, zero, an absolute value, the parent's value, that reduced; others at the root."""

MOVES_LEFT = {
    "moves_left_slope": 0.05,
    "moves_left_most": 0.3,
    "moves_left_threshold": 0.1,
    "moves_left_constant": 0.2,
}
LC0_MODES = [
    MODES[4] | {"policy_temperature": 1.359},
    MODES[0] | {"draw_score": -0.5},
    MODES[4] | {"draw_score": 0.8},
    MODES[6] | {"draw_score": -0.3, **MOVES_LEFT},
    MODES[4] | MOVES_LEFT | {"moves_left_threshold": 0.3, "moves_left_most": 0.1},
    MODES[3] | MOVES_LEFT | {"moves_left_threshold": 0.0},
    MODES[7] | {"draw_score": 1.0, "policy_temperature": 0.7},
    MODES[5] | MOVES_LEFT | {"draw_score": 0.2, "moves_left_quadratic": 0.5},
]


def games_knobs(modes):
    """One mode per game, as knobs `[B]`; what one sets for the root, all others set as below it."""
    plain = SearchKnobs().greedy()
    names = sorted({name for mode in modes for name in mode})

    def value(mode, name):
        return mode.get(name, mode.get(name.removeprefix("root_"), default(name)))

    def default(name):
        return getattr(plain, name.removeprefix("root_"))

    columns = {name: jnp.array([value(mode, name) for mode in modes]) for name in names}
    return per_game(dataclasses.replace(plain, **columns), len(modes))


def names_of(tree, row, game):
    """Names of the positions of a tree, equal where it is the same; None where none comes back."""
    if not isinstance(game, ChessGame | Ring):
        return None
    if isinstance(game, ChessGame):
        now = tree.positions.now
        facts = (now.board, now.castling, now.en_passant, now.ply & 1)
    else:
        facts = (tree.positions.places, tree.positions.ply % 2)
    return [b"".join(fact[row, node].tobytes() for fact in facts) for node in range(tree.size)]


@functools.cache
def positions(game, count, most_moves):
    """Positions of a game as a walk meets them; of chess half of them from endings."""
    found = jax.device_get(wander(game, count, most_moves))
    if not isinstance(game, ChessGame):
        return found
    endings = [position_from_fen(fen, game) for fen in ENDINGS]
    endings = jax.device_get(jax.tree.map(lambda *leaves: jnp.stack(leaves), *endings))
    return jax.tree.map(
        lambda walk, end: np.concatenate([end, walk[len(ENDINGS) :]]), found, endings
    )


def compare(game, search, rule, modes, count, most_moves, *, ranks=None, strength=1.0, **options):
    """Compares searches of positions; returns the plain trees, the knobs and the decisions.

    At most one search in fifty may part, and only where two scores were as good as equal.
    """
    knobs = games_knobs(modes)
    ranks = np.stack([game.ranks] * 2) if ranks is None else ranks
    found = positions(game, count, most_moves)
    apart, results = [], []
    for start in range(0, count, BATCH):
        rows = np.arange(start, start + BATCH) % count
        batch = jax.tree.map(lambda leaf, rows=rows: leaf[rows], found)
        keys = jax.random.split(jax.random.key(start), BATCH)
        decision, tree = reference.searched(search, game)(strength, keys, batch, knobs)
        facts = reference.evaluations(game, strength, tree, knobs)
        decision, tree = jax.device_get((decision, tree))
        for row in range(min(BATCH, count - start)):
            names = names_of(tree, row, game) if search.two_fold_draws else None
            grown = reference.grow(facts, tree, row, knobs, rule, ranks, names=names, **options)
            if grown.margin is not None:
                apart.append(grown.margin)
                continue
            root = grown.nodes[0]
            width = len(root.labels)
            assert decision.visits[row, :width].tolist() == root.visits
            np.testing.assert_allclose(tree.total[row, 0, :width], root.total, atol=1e-3)
            if tree.lower is not None:
                same_proofs(tree, row, grown.nodes)
            at_root = reference.knobs_of(knobs, row, root=True)
            own = jax.tree.map(lambda leaf, row=row: leaf[row], decision)
            results.append((grown, at_root, own))
    assert len(apart) <= count // 50, apart
    assert all(margin < CLOSE for margin in apart)
    return results


def same_proofs(tree, row, nodes):
    """All nodes of a tree are proven alike, and their ends are as far away."""
    order = list(nodes)
    for name in ("finished", "lower", "upper"):
        wanted = [getattr(node, name) for node in nodes.values()]
        assert getattr(tree, name)[row, order].tolist() == wanted, name
    wanted = [node.moves_left for node in nodes.values()]
    np.testing.assert_allclose(tree.moves_left[row, order], wanted, atol=1e-4)
    root = nodes[0]
    for name in ("draws", "plies"):
        if getattr(tree, name) is not None:
            found = getattr(tree, name)[row, 0, : len(root.labels)]
            np.testing.assert_allclose(found, getattr(root, name), rtol=1e-4, atol=1e-3)


def check_puct(game, count, most_moves, simulations):
    results = compare(game, Puct(simulations), reference.puct, MODES, count, most_moves)
    for grown, _, decision in results:
        root = grown.nodes[0]
        key = [(n, p) for n, p in zip(root.visits, root.prior, strict=True)]
        assert key[decision.slot] == max(key)
        np.testing.assert_allclose(
            decision.policy[: len(key)], np.array(root.visits) / simulations, atol=1e-6
        )


def check_katago(game, count, most_moves, simulations):
    ks = (0.0, 0.5, 2.0, 2.0, 8.0, 2.0, 30.0, 2.0)
    modes = [mode | {"forced_visits": k} for mode, k in zip(MODES, ks, strict=True)]
    search = Puct(simulations, target="pruned")
    forced = 0
    results = compare(game, search, reference.puct, modes, count, most_moves)
    for grown, knobs, decision in results:
        root = grown.nodes[0]
        left, risk = reference.pruned(root, knobs)
        if risk > 1e-4:
            wanted = np.array(left) / sum(left)
            np.testing.assert_allclose(decision.policy[: len(left)], wanted, atol=1e-6)
            forced += left != root.visits
    assert forced > len(results) // 4


def check_lc0(game, count, most_moves, simulations, search=None):
    search = search or Lc0(simulations)
    options = {"bounds": search.sticky_endgames}
    results = compare(game, search, reference.lc0, LC0_MODES, count, most_moves, **options)
    for grown, knobs, decision in results:
        if search.sticky_endgames:
            best = reference.lc0_best(grown.nodes, knobs, game.ranks)
            assert decision.slot == best
    proofs = sum(grown.proofs for grown, _, _ in results)
    return proofs, sum(grown.two_folds for grown, _, _ in results)


@pytest.mark.fast
def test_puct_equals_a_plain_search_for_every_first_play_urgency():
    check_puct(TOY, 16, 5, 64)


@pytest.mark.fast
def test_forced_playouts_and_pruned_targets_equal_those_of_a_plain_search():
    check_katago(TOY, 16, 5, 64)


@pytest.mark.fast
def test_lc0_equals_a_plain_search():
    proofs, two_folds = check_lc0(TOY, 16, 5, 64)
    assert proofs > 10
    assert two_folds == 0


def test_lc0_without_proofs_draws_and_moves_left_equals_a_plain_search():
    plain = Lc0(48, two_fold_draws=False, sticky_endgames=False)
    assert check_lc0(TOY, 16, 5, 48, plain) == (0, 0)


def test_lc0_proves_a_small_game_to_its_end_with_the_lengths_of_minimax():
    proofs, _ = check_lc0(hash_game(3, legal=0.8, ends=0.2, plies=7), 32, 0, 120)
    assert proofs > 100


def test_lc0_takes_a_position_that_comes_back_for_a_draw():
    proofs, two_folds = check_lc0(Ring(), 24, 6, 100)
    assert two_folds > 50
    assert proofs > 10


def check_nn_chess(game, count, most_moves, simulations, strength=1.0):
    search = dataclasses.replace(NN_CHESS.search, simulations=simulations)
    modes = [{"c_init": c, "c_factor": 0.0} for c in (0.25, 0.5, 1.0, 1.5, 1.5, 2.0, 4.0, 0.0)]
    assert float(NN_CHESS.knobs.c_factor) == 0.0
    assert float(NN_CHESS.knobs.c_init) == 1.5
    ranks = game.notation_ranks
    options = {"ranks": ranks, "strength": strength}
    results = compare(game, search, reference.nn_chess, modes, count, most_moves, **options)
    for grown, _, decision in results:
        root = grown.nodes[0]
        order = ranks[root.mover][root.labels]
        key = list(zip(root.visits, root.prior, -order, strict=True))
        assert key[decision.slot] == max(key)


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_nn_chess_equals_a_plain_search(strength):
    check_nn_chess(TOY, 16, 5, 64, strength)


EACH_GAME = pytest.mark.parametrize(
    ("game", "most_moves"),
    [(hash_game(20, legal=0.5, ends=0.05), 5), (CONNECT_FOUR, 25), (CHESS, 60)],
    ids=["toy", "connect four", "chess"],
)


@pytest.mark.slow
@EACH_GAME
def test_puct_equals_a_plain_search_at_400_simulations(game, most_moves):
    check_puct(game, 104, most_moves, 400)


@pytest.mark.slow
@EACH_GAME
def test_forced_playouts_and_pruning_equal_a_plain_search_at_400_simulations(game, most_moves):
    check_katago(game, 104, most_moves, 400)


@pytest.mark.slow
@EACH_GAME
def test_lc0_equals_a_plain_search_at_400_simulations(game, most_moves):
    proofs, two_folds = check_lc0(game, 104, most_moves, 400)
    assert proofs > 10
    assert (two_folds > 10) == isinstance(game, ChessGame)


@pytest.mark.slow
@EACH_GAME
def test_nn_chess_equals_a_plain_search_at_400_simulations(game, most_moves):
    check_nn_chess(game, 104, most_moves, 400)


@pytest.mark.slow
def test_nn_chess_breaks_the_ties_of_a_network_that_knows_nothing_by_uci():
    check_nn_chess(CHESS, 104, 60, 400, strength=0.0)
