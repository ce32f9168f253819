"""Laws of the search loop that hold whatever the game and the network are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.toy import HashGame, hash_game, subtraction
from azchess.networks.evaluator import Evaluation
from azchess.search.edges import Carries, Edges, best_slot
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.phases import PhaseGumbel
from azchess.search.puct import Puct, puct_score
from search.reference import compiled, grown, hashed_evaluator

BATCH = 8
GAME = hash_game(7, legal=0.7, ends=0.2)
SEARCHES = (
    Puct(simulations=48),
    Gumbel(simulations=48, considered=5),
    PhaseGumbel(simulations=48, considered=5, narrowing=2),
)
each_search = pytest.mark.parametrize("search", SEARCHES, ids=["puct", "gumbel", "phases"])


def roots(game, seed=0):
    keys = jax.random.split(jax.random.key(seed), BATCH)
    return jax.random.split(jax.random.key(seed + 1), BATCH), jax.vmap(game.init)(keys)


def rows(tree, index):
    return jax.tree.map(lambda leaf: leaf[index] if jnp.ndim(leaf) else leaf, tree)


@pytest.fixture(scope="module")
def tree():
    keys, positions = roots(GAME)
    return jax.device_get(grown(GAME, 48)(1.0, keys, positions, SearchKnobs()))


@pytest.mark.fast
def test_visits_add_up_at_every_node(tree):
    assert (tree.visits[:, 0].sum(axis=-1) == 48).all()
    linked = 0
    for row, node, slot in np.argwhere(tree.child >= 0):
        child = tree.child[row, node, slot]
        assert (tree.parent[row, child], tree.slot[row, child]) == (node, slot)
        through, onward = tree.visits[row, node, slot], tree.visits[row, child].sum()
        assert onward == (0 if tree.finished[row, child] else through - 1)
        linked += 1
    assert linked > 0
    assert (tree.visits[tree.child < 0] == 0).all()


def test_a_finished_position_is_scored_exactly_and_never_left(tree):
    ends = 0
    for row, node, slot in np.argwhere(tree.child >= 0):
        child = tree.child[row, node, slot]
        position = jax.tree.map(lambda leaf, at=(row, child): jnp.asarray(leaf[at]), tree.positions)
        if not tree.finished[row, child]:
            continue
        ends += 1
        status = GAME.status(position, GAME.moves(position))
        assert status.terminated
        assert tree.value[row, child] == status.outcome
        assert (tree.child[row, child] == -1).all()
        assert tree.total[row, node, slot] == -status.outcome * tree.visits[row, node, slot]
    assert ends > 5


def test_values_are_sums_over_the_positions_below(tree):
    """The total of an edge is the evaluations of its subtree, seen from the edge's mover."""
    for row in range(BATCH):
        sums = {}
        for node in range(tree.parent.shape[1] - 1, 0, -1):
            parent, slot = tree.parent[row, node], tree.slot[row, node]
            if tree.child[row, parent, slot] != node:
                continue
            times = tree.visits[row, parent, slot] if tree.finished[row, node] else 1
            below = times * tree.value[row, node] + sums.pop(node, 0.0)
            sums[parent] = sums.get(parent, 0.0) - below
            np.testing.assert_allclose(tree.total[row, parent, slot], -below, atol=1e-4)


@pytest.mark.parametrize("search", SEARCHES[1:2], ids=["gumbel"])
def test_wdl_and_value_agree_without_discount(search):
    keys, positions = roots(GAME)

    def evaluate(params, keys, positions, moves):
        found = hashed_evaluator(GAME)(params, keys, positions, moves)
        return dataclasses.replace(found, moves_left=jnp.zeros_like(found.moves_left))

    decision = jax.jit(
        lambda keys, positions: search(GAME, evaluate, 1.0, keys, positions, SearchKnobs())
    )(keys, positions)
    np.testing.assert_allclose(decision.wdl.sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(decision.wdl[:, 0] - decision.wdl[:, 2], decision.value, atol=1e-5)


@each_search
def test_a_game_is_searched_alike_whatever_its_neighbours_and_their_knobs_are(search):
    keys, positions = roots(GAME)
    knobs = per_game(SearchKnobs(), BATCH)
    knobs = dataclasses.replace(
        knobs,
        c_init=jnp.linspace(0.5, 3.0, BATCH),
        fpu=jnp.linspace(-1.0, 0.5, BATCH),
        discount=jnp.linspace(0.9, 1.0, BATCH),
        gumbel_scale=jnp.linspace(0.0, 2.0, BATCH),
        c_scale=jnp.linspace(0.1, 1.0, BATCH),
        noise_fraction=jnp.linspace(0.0, 0.5, BATCH),
    )
    run = compiled(search, GAME)
    together = run(1.0, keys, positions, knobs)
    turned = jnp.array([3, 3, 1, 3, 0, 3, 3, 7])
    other = run(1.0, keys[turned], rows(positions, turned), rows(knobs, turned))
    for name in ("slot", "policy", "visits", "q", "prior", "value", "wdl", "depth"):
        np.testing.assert_array_equal(getattr(together, name)[turned], getattr(other, name), name)
    assert len({tuple(row) for row in np.asarray(together.visits).tolist()}) > 4


@each_search
def test_knobs_per_game_equal_separate_runs_and_one_trace_serves_all_values(search):
    keys, positions = roots(GAME)
    traces = []

    @jax.jit
    def run(keys, positions, knobs):
        traces.append(1)
        return compiled(search, GAME)(1.0, keys, positions, knobs)

    c_init, c_scale = jnp.linspace(0.5, 3.0, BATCH), jnp.linspace(0.1, 1.0, BATCH)
    plain = per_game(SearchKnobs(), BATCH)
    together = run(keys, positions, dataclasses.replace(plain, c_init=c_init, c_scale=c_scale))
    for row in (0, 3, 7):
        knobs = per_game(SearchKnobs(c_init=c_init[row], c_scale=c_scale[row]), BATCH)
        alone = run(keys, positions, knobs)
        assert (alone.visits[row] == together.visits[row]).all()
        assert (alone.policy[row] == together.policy[row]).all()
    assert len(traces) == 1


@dataclasses.dataclass(frozen=True)
class Reversed(HashGame):
    """The hash game, with the moves of every position listed from the last to the first."""

    def moves(self, position):
        moves = super().moves(position)
        order = moves.count - 1 - jnp.arange(self.num_slots)
        labels = jnp.where(order >= 0, moves.labels[order], -1)
        return dataclasses.replace(moves, labels=labels)


@each_search
@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_the_order_of_the_slots_does_not_matter(search, strength):
    """At strength 0 all moves are tied, so that ranks alone decide."""
    turned = Reversed(**{f.name: getattr(GAME, f.name) for f in dataclasses.fields(GAME)})
    keys, positions = roots(GAME)
    knobs = SearchKnobs().greedy()
    plain = compiled(search, GAME)(strength, keys, positions, knobs)
    other = compiled(search, turned)(strength, keys, positions, knobs)
    assert (plain.label == other.label).all()
    for row in range(BATCH):
        count = int((plain.labels[row] >= 0).sum())
        assert (plain.visits[row, :count] == other.visits[row, :count][::-1]).all()


def test_a_line_stops_at_the_depth_limit_and_counts_its_last_position_again():
    keys, positions = roots(GAME)
    tree = jax.device_get(grown(GAME, 40, 2)(1.0, keys, positions, SearchKnobs()))
    assert (tree.depth == 2).all()
    assert (tree.visits[:, 0].sum(axis=-1) == 40).all()
    for row in range(BATCH):
        for first in tree.child[row, 0][tree.child[row, 0] >= 0]:
            for second in tree.child[row, first][tree.child[row, first] >= 0]:
                assert (tree.child[row, second] == -1).all()
    assert tree.visits[:, 1:].max() > 1


@dataclasses.dataclass(frozen=True)
class Capped(HashGame):
    """The hash game cut after two moves: truncated, without a result and without a move."""

    def moves(self, position):
        moves = super().moves(position)
        cut = position.ply >= 2
        return dataclasses.replace(
            moves,
            labels=jnp.where(cut, -1, moves.labels),
            count=jnp.where(cut, 0, moves.count),
        )

    def status(self, position, moves):
        status = super().status(position, moves)
        return dataclasses.replace(status, truncated=(position.ply >= 2) & ~status.terminated)


def test_a_line_that_is_cut_ends_with_the_evaluators_value():
    game = Capped(num_labels=3, num_slots=3)
    keys, positions = roots(game)
    tree = jax.device_get(grown(game, 30)(1.0, keys, positions, SearchKnobs()))
    cut = (tree.positions.ply == 2) & (tree.parent > 0)
    assert tree.finished[cut].all()
    assert (np.abs(tree.value[cut]) < 1).all()
    assert len(np.unique(tree.value[cut])) > 10
    assert tree.depth.max() == 2
    assert (tree.visits[:, 0].sum(axis=-1) == 30).all()


def edges(prior, visits=None, legal=None, q=0.0):
    prior = jnp.asarray(prior, jnp.float32)[None]
    visits = jnp.zeros(prior.shape, jnp.int32) if visits is None else jnp.array([visits])
    return Edges(
        legal=jnp.ones(prior.shape, bool) if legal is None else jnp.array([legal]),
        prior=prior,
        visits=visits,
        in_flight=jnp.int32(0),
        q=jnp.broadcast_to(jnp.float32(q), prior.shape),
        value=jnp.zeros(1),
        depth=jnp.zeros(1, jnp.int32),
    )


@pytest.mark.fast
def test_ties_go_to_the_higher_prior_and_then_to_the_lower_rank():
    labels = jnp.array([[30, 10, 20, -1]], jnp.int16)
    legal = [True, True, True, False]
    ranks = 30 - labels
    score = jnp.array([[1.0, 1.0, 1.0, 9.0]])
    likely = edges([0.2, 0.4, 0.4, 0.0], legal=legal)
    assert best_slot(score, likely, labels) == 1
    assert best_slot(score, likely, ranks) == 2
    assert best_slot(score.at[0, 0].set(1.5), likely, labels) == 0
    nothing = jnp.full_like(score, -jnp.inf)
    assert best_slot(nothing, likely, labels) == 1
    assert best_slot(nothing, edges([0.0] * 4, legal=legal), labels) == 1


@pytest.mark.fast
def test_first_play_urgency_is_the_q_of_unvisited_moves_whoever_moves():
    knobs = columns(per_game(SearchKnobs(fpu=-1.0), 1))
    score = puct_score(edges([0.5, 0.5], visits=[3, 0], q=0.25), knobs)[0]
    c = 1.25 + np.log((4 + 19652) / 19652)
    np.testing.assert_allclose(
        score, [0.25 + c * 0.5 * 3**0.5 / 4, -1 + c * 0.5 * 3**0.5], rtol=1e-6
    )
    # Pessimism narrows the search for both sides, so that lines are longer.
    keys, positions = roots(hash_game(7))
    game = hash_game(7)
    narrow = grown(game, 48)(1.0, keys, positions, SearchKnobs(fpu=-1.0))
    wide = grown(game, 48)(1.0, keys, positions, SearchKnobs(fpu=1.0))
    assert (narrow.depth > wide.depth).all()
    for parity in (0, 1):
        tried = [
            ((t.visits > 0).sum(-1) * ((t.visits.sum(-1) >= 7) & (t.mover == parity))).sum()
            / ((t.visits.sum(-1) >= 7) & (t.mover == parity)).sum()
            for t in (narrow, wide)
        ]
        assert tried[0] < tried[1] == 7.0


def test_the_winning_move_of_a_solved_game_is_found():
    game = subtraction(9, 3, varied=True)
    keys, positions = roots(game)
    stones = positions.stones
    decision = compiled(Puct(simulations=200), game)(0.0, keys, positions, SearchKnobs().greedy())
    won = game.worth(stones) == 1
    assert won.any()
    assert (~won).any()
    assert ((decision.label + 1)[won] == (stones % 4)[won]).all()
    assert (jnp.sign(decision.value) == game.worth(stones)).all()


class Widest(Puct):
    """Visits all moves alike."""

    def rule(self, edges, knobs):
        return -edges.visits.astype(jnp.float32)


def test_the_evaluator_gets_a_new_key_for_every_game_and_position():
    game = hash_game(4)

    def evaluate(params, keys, positions, moves):
        value = jax.vmap(jax.random.uniform)(keys)
        return Evaluation(
            logits=jnp.zeros(moves.labels.shape),
            wdl=jnp.stack([value, 1 - value, 0 * value], axis=-1),
            moves_left=jnp.zeros_like(value),
        )

    keys, positions = roots(game)
    tree = Widest(12).think(game, evaluate, None, keys, positions, SearchKnobs())[1]
    assert len(np.unique(tree.value)) == tree.value.size


@each_search
def test_a_search_makes_no_nan(search):
    keys, positions = roots(hash_game(3, ends=0.3))
    small = dataclasses.replace(search, simulations=4)
    run = compiled(small, hash_game(3, ends=0.3))
    with jax.debug_nans(True):
        decision = run(1.0, keys, positions, SearchKnobs(noise_alpha=0.01))
    assert (decision.visits.sum(axis=-1) == 4).all()


@pytest.mark.slow
@each_search
def test_a_search_runs_without_jit(search):
    game = hash_game(3, ends=0.3)
    keys, positions = roots(game)
    small = dataclasses.replace(search, simulations=4)
    knobs = SearchKnobs(noise_alpha=0.01)
    fast = compiled(small, game)(1.0, keys, positions, knobs)
    with jax.disable_jit():
        slow = small(game, hashed_evaluator(game), 1.0, keys[:2], rows(positions, slice(2)), knobs)
    assert (slow.visits == fast.visits[:2]).all()
    np.testing.assert_allclose(slow.policy, fast.policy[:2], atol=1e-5)


class Solver(Puct):
    carries = Carries(bounds=True)


class Amaf(Puct):
    carries = Carries(amaf=True)


class Sums(Puct):
    carries = Carries(draws=True, moves_left=True, squares=True)


@pytest.mark.parametrize(
    ("search", "slot_bytes"),
    [(Puct(), 16), (Puct(leaves=8), 18), (Solver(), 16), (Amaf(), 24), (Sums(), 28)],
    ids=["puct", "leaves", "solver", "amaf", "sums"],
)
def test_more_simulations_need_no_more_scratch_memory(search, slot_bytes):
    """One copy of the tree is all a search holds: nothing of its size is copied on the way."""
    game = hash_game(60)
    keys, positions = roots(game)

    def scratch(simulations):
        run = compiled(dataclasses.replace(search, simulations=simulations), game)
        lowered = run.lower(1.0, keys, positions, SearchKnobs())
        return lowered.compile().memory_analysis().temp_size_in_bytes

    few, many = scratch(64), scratch(256)
    # Of a node: priors, visits and totals of 4 bytes a slot, labels and children of 2, what the
    # rule asks for, and some scalars.
    node = BATCH * (60 * slot_bytes + 64)
    assert many - few < 1.1 * 192 * node


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Puct(simulations=0), "search.simulations = 0"),
        (lambda: Puct(max_depth=0), "search.max_depth = 0"),
        (lambda: Gumbel(simulations=0), "search.simulations = 0"),
        (lambda: Gumbel(considered=0), "search.considered = 0"),
        (lambda: PhaseGumbel(leaves=2), "search.leaves = 2"),
        (lambda: PhaseGumbel(narrowing=1), "search.narrowing = 1"),
    ],
)
def test_a_search_of_nothing_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
