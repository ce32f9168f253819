"""Laws of the PUCT family: colours, slots and neighbours change nothing, and knobs are numbers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.toy import HashGame, hash_game
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.lc0 import Lc0
from azchess.search.puct import Puct
from search import reference_family as reference
from search.reference import hashed_evaluator

BATCH = 8
GAME = hash_game(7, legal=0.7, ends=0.15)
SEARCHES = {
    "pruned": Puct(40, target="pruned", ties="notation"),
    "completed_q": Puct(40, target="completed_q"),
    "lc0": Lc0(40),
}
each_search = pytest.mark.parametrize("name", SEARCHES)
KNOBS = SearchKnobs(
    c_init=1.2,
    c_factor=2.0,
    c_base=100.0,
    fpu_parent=1.0,
    fpu_reduction=0.3,
    root_fpu_reduction=0.1,
    forced_visits=2.0,
    noise_fraction=0.0,
    policy_temperature=1.4,
    draw_score=-0.4,
    moves_left_slope=0.05,
    moves_left_most=0.3,
    moves_left_threshold=0.1,
    c_scale=0.2,
)
COMMON = {
    "c_init": (0.5, 3.0),
    "c_base": (20.0, 2000.0),
    "c_factor": (0.0, 4.0),
    "fpu": (-1.0, 1.0),
    "fpu_parent": (0.0, 1.0),
    "fpu_reduction": (0.0, 1.0),
    "root_c_init": (0.5, 3.0),
    "root_c_base": (20.0, 2000.0),
    "root_c_factor": (0.0, 4.0),
    "root_fpu": (-1.0, 1.0),
    "root_fpu_parent": (0.0, 1.0),
    "root_fpu_reduction": (0.0, 1.0),
    "noise_fraction": (0.0, 0.8),
    "noise_alpha": (0.1, 3.0),
    "policy_temperature": (0.3, 3.0),
    "root_temperature": (0.3, 3.0),
    "discount": (0.5, 1.0),
}
OWN = {
    "pruned": {"forced_visits": (0.0, 8.0)},
    "completed_q": {"forced_visits": (0.0, 8.0), "c_visit": (0.0, 50.0), "c_scale": (0.05, 1.0)},
    "lc0": {
        "draw_score": (-1.0, 1.0),
        "moves_left_slope": (0.0, 0.2),
        "moves_left_most": (0.0, 0.5),
        "moves_left_threshold": (0.0, 0.5),
        "moves_left_constant": (0.0, 2.0),
        "moves_left_scaled": (0.0, 5.0),
        "moves_left_quadratic": (-3.0, 3.0),
    },
}


def roots(game, batch=BATCH):
    keys = jax.random.split(jax.random.key(0), batch)
    return jax.random.split(jax.random.key(1), batch), jax.vmap(game.init)(keys)


@each_search
def test_every_knob_is_a_number_that_one_compilation_reads_anew_for_each_game(name):
    """The same position in every game: its knob decides alone, whatever the neighbours' are."""
    keys, positions = (jax.tree.map(lambda x: x[jnp.zeros(BATCH, int)], x) for x in roots(GAME))
    traces = []

    @jax.jit
    def run(knobs):
        traces.append(1)
        decision, _ = reference.searched(SEARCHES[name], GAME)(1.0, keys, positions, knobs)
        return decision.visits, decision.policy, decision.q

    plain = dataclasses.replace(KNOBS, noise_fraction=0.3)
    own = plain.at_root()
    rooted = {n: getattr(own, n[5:]) for n in COMMON if n.startswith(("root_c", "root_f"))}
    plain = per_game(dataclasses.replace(plain, **rooted), BATCH)
    for knob, (low, high) in (COMMON | OWN[name]).items():
        values = jnp.linspace(low, high, BATCH)
        together = run(dataclasses.replace(plain, **{knob: values}))
        results = {np.asarray(row).tobytes() for row in together[1]}
        results |= (
            {np.asarray(row).tobytes() for row in together[0]} if len(results) == 1 else set()
        )
        assert len(results) > 1, f"{knob} changes nothing"
        for row in (0, BATCH - 1):
            alone = run(dataclasses.replace(plain, **{knob: jnp.full(BATCH, values[row])}))
            for one, other in zip(alone, together, strict=True):
                np.testing.assert_array_equal(one[row], other[row], knob)
    assert len(traces) == 1


def colourless(game):
    """The evaluator of tests, blind to who moves."""
    evaluate = hashed_evaluator(game)

    def blind(params, keys, positions, moves):
        return evaluate(params, keys, positions.code, moves)

    return blind


@each_search
def test_colours_do_not_matter(name):
    keys, positions = roots(GAME, 3 * BATCH)
    positions = dataclasses.replace(positions, ply=positions.ply + 2)
    open_ones = ~jax.vmap(GAME.status)(positions, jax.vmap(GAME.moves)(positions)).over
    keys, positions = jax.tree.map(lambda x: x[open_ones][:BATCH], (keys, positions))
    search, evaluate = SEARCHES[name], colourless(GAME)
    run = jax.jit(lambda positions: search(GAME, evaluate, 1.0, keys, positions, KNOBS))
    first = run(positions)
    second = run(dataclasses.replace(positions, ply=positions.ply + 1))
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len({tuple(row) for row in np.asarray(first.visits).tolist()}) > 4


@dataclasses.dataclass(frozen=True)
class Backwards(HashGame):
    """The hash game, with the moves of every position listed from the last to the first."""

    def moves(self, position):
        moves = super().moves(position)
        order = moves.count - 1 - jnp.arange(self.num_slots)
        labels = jnp.where(order >= 0, moves.labels[order], -1)
        return dataclasses.replace(moves, labels=labels)


@each_search
def test_the_order_of_the_slots_does_not_matter(name):
    """With an evaluator that knows nothing all moves are tied, so that ranks alone decide."""
    turned = Backwards(**{f.name: getattr(GAME, f.name) for f in dataclasses.fields(GAME)})
    keys, positions = roots(GAME)
    for strength in (0.0, 1.0):
        plain, _ = reference.searched(SEARCHES[name], GAME)(strength, keys, positions, KNOBS)
        other, _ = reference.searched(SEARCHES[name], turned)(strength, keys, positions, KNOBS)
        assert (plain.label == other.label).all()
        for row in range(BATCH):
            count = int((plain.labels[row] >= 0).sum())
            assert (plain.visits[row, :count] == other.visits[row, :count][::-1]).all()
            np.testing.assert_allclose(
                plain.policy[row, :count], other.policy[row, :count][::-1], atol=1e-5
            )


def test_several_leaves_at_a_time_visit_as_often_and_one_leaf_as_before():
    keys, positions = roots(GAME)
    for search in (SEARCHES["pruned"], SEARCHES["lc0"]):
        batched = dataclasses.replace(search, leaves=4)
        decision, _ = reference.searched(batched, GAME)(1.0, keys, positions, KNOBS)
        assert (decision.visits.sum(axis=1) == 40).all()
        np.testing.assert_allclose(decision.policy.sum(axis=1), 1.0, atol=1e-5)
