"""The search loop: many games' trees grow in lockstep, one or several positions per step."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int16, Int32, Key

from azchess.games.game import Game
from azchess.networks.evaluator import Evaluator
from azchess.pytree import pytree
from azchess.search.backup import back_up, land
from azchess.search.descent import Choose, descend
from azchess.search.edges import Edges, Rule, best_slot, slot_ranks
from azchess.search.growth import Growth
from azchess.search.knobs import SearchKnobs, columns
from azchess.search.node import evaluate_node, repeated, split_keys
from azchess.search.proof import prefer_proven, prove
from azchess.search.tree import ROOT, UNVISITED, Leaf, Tree, edges_of, expand

TIES = 1 << 30
"""Added to the depth in the keys that break ties, so that they are not those of the dice."""


@dataclasses.dataclass(frozen=True)
class Grower:
    """What one call of `grow` works with, bound together."""

    game: Game
    evaluate: Evaluator
    params: object
    growth: Growth
    root_rule: Rule
    rule: Rule
    knobs: SearchKnobs

    def chooser(self, rows: Int32[Array, "R"], keys: Key[Array, "R"], rule: Rule) -> Choose:
        """How lines choose their moves by a rule; dice fall as they are searched."""
        knobs = columns(self.knobs_of(rows))

        def choose(
            tree: Tree, node: Int32[Array, "R"], depth: Int32[Array, "R"]
        ) -> Int32[Array, "R"]:
            edges = edges_of(tree, rows, node, depth, self.growth.virtual_loss)
            draw = jax.vmap(jax.random.fold_in)(keys, depth)
            edges = dataclasses.replace(edges, keys=draw)
            score = rule(edges, knobs)
            if self.growth.proven_first:
                score = prefer_proven(score, edges)
            if tree.chance is not None:
                fall = edges.prior / (1.0 + edges.started)
                if self.growth.chance == "sampled":
                    noise = jax.vmap(lambda key: jax.random.gumbel(key, fall.shape[1:]))(draw)
                    fall = noise + jnp.log(edges.prior)
                score = jnp.where(tree.chance[rows, node][:, None], fall, score)
            if self.growth.ties == "random":
                draw = jax.vmap(jax.random.fold_in)(keys, depth + TIES)
                share = jax.vmap(lambda key: jax.random.uniform(key, score.shape[1:]))(draw)
                edges = dataclasses.replace(edges, prior=share)
            labels, mover = tree.labels[rows, node], tree.mover[rows, node]
            return best_slot(score, edges, slot_ranks(self.game, self.growth.ties, labels, mover))

        return choose

    def knobs_of(self, rows: Int32[Array, "R"]) -> SearchKnobs:
        """The knobs of lines' games."""
        return jax.tree.map(lambda knob: knob[rows], self.knobs)

    def line(
        self,
        tree: Tree,
        rows: Int32[Array, "R"],
        keys: Key[Array, "R"],
        marks: Bool[Array, "R"],
        first: Int32[Array, "R"] | None = None,
    ) -> tuple[Leaf, Int16[Array, "B N S"] | None]:
        """Lines from the root down, by the rules, or from the given moves of the root on.

        See `descend` for `marks` and what comes back.
        """
        root = jnp.zeros(rows.shape, jnp.int32)
        if first is None:
            first = self.chooser(rows, keys, self.root_rule)(tree, root, root)
        choose = self.chooser(rows, keys, self.rule)
        return descend(tree, rows, first, choose, self.growth.max_depth or tree.size, marks)

    def visit(
        self,
        tree: Tree,
        rows: Int32[Array, "R"],
        keys: Key[Array, "R"],
        leaf: Leaf,
        counts: Bool[Array, "R"],
        index: Int32[Array, "..."],
        apart: bool = False,
    ) -> Tree:
        """Evaluates the positions behind leaves and adds those that count to the trees.

        Lines of a tree that are `apart`, beginning with different moves, share no edge: what they
        found goes up at once, unless something beside the edges is told (proofs, moves as first).
        """
        position = jax.tree.map(lambda x: x[rows, leaf.node], tree.positions)
        knobs = self.knobs_of(rows)
        node = evaluate_node(
            self.game,
            self.evaluate,
            self.params,
            keys,
            jax.vmap(self.game.step)(position, leaf.label),
            discount=knobs.discount,
            policy_temperature=knobs.policy_temperature,
            chance=self.growth.chance,
        )
        if self.growth.two_fold_draws:
            node = repeated(self.game, node, leaf.depth)
        new = counts & (leaf.child == UNVISITED)
        tree = expand(tree, rows, index, leaf, node, new)
        reached = jnp.where(counts, jnp.where(new, index, leaf.child), ROOT)
        played = None
        if tree.amaf_visits is not None:
            played = jnp.zeros((len(rows), 2, self.game.num_labels), bool)
            if node.played is not None:
                played = node.played & new[:, None, None]
        if apart and tree.lower is None and tree.amaf_visits is None:
            return back_up(tree, rows, reached, self.knobs_of(rows).discount, played)
        return self.tell(tree, rows, reached, played)

    def tell(
        self,
        tree: Tree,
        rows: Int32[Array, "R"],
        node: Int32[Array, "R"],
        played: Bool[Array, "R 2 A"] | None,
    ) -> Tree:
        """Carries the values of nodes up, one line per tree after the other."""
        batch = tree.parent.shape[0]

        def turn(tree: Tree, line: tuple) -> tuple[Tree, None]:
            node, played = line
            trees = jnp.arange(batch)
            tree = back_up(tree, trees, node, self.knobs.discount, played)
            if tree.lower is not None:
                tree = prove(tree, trees, node, self.knobs.discount)
            return tree, None

        if len(rows) == batch:
            return turn(tree, (node, played))[0]
        turns = jax.tree.map(lambda x: x.reshape(-1, batch, *x.shape[1:]), (node, played))
        return jax.lax.scan(turn, tree, turns)[0]


@pytree
class State:
    """Growing trees: steps so far, and of each game the simulations made and the places taken."""

    tree: Tree
    step: Int32[Array, ""]
    made: Int32[Array, "B"]
    used: Int32[Array, "B"]


def grow(
    game: Game,
    evaluate: Evaluator,
    params: object,
    keys: Key[Array, "B"],
    tree: Tree,
    *,
    growth: Growth,
    root_rule: Rule,
    rule: Rule,
    knobs: SearchKnobs,
) -> Tree:
    """Runs simulations on trees, as many per game as `growth` and the knob `budget` allow.

    `root_rule` chooses at the root, with the knobs it has there, and `rule` below it. New nodes
    take the last places of the trees. What a tree holds below a finished root means nothing. Keys
    `[B]` go to the evaluator and the dice, folded by step. Knobs are one per game `[B]`. Raises
    ValueError where the trees have no room for so many simulations.
    """
    first = tree.size - growth.simulations
    if first < 1:
        raise ValueError(
            f"{growth.simulations} simulations need trees of {growth.simulations + 1} nodes, but "
            f"these have room for {tree.size}"
        )
    budget = budget_of(growth.simulations, knobs)

    def at_root(edges: Edges, knobs: SearchKnobs) -> Float[Array, "R S"]:
        return root_rule(edges, knobs.at_root())

    grower = Grower(game, evaluate, params, growth, at_root, rule, knobs)
    step = one_leaf if growth.leaves == 1 else many_leaves

    def unfinished(state: State) -> Bool[Array, ""]:
        return (state.made < budget).any()

    def simulate(state: State) -> State:
        lane_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, state.step)
        return step(grower, state, lane_keys, budget, first)

    none = jnp.zeros(keys.shape, jnp.int32)
    state = State(tree=tree, step=jnp.int32(0), made=none, used=none)
    return jax.lax.while_loop(unfinished, simulate, state).tree


def budget_of(simulations: int, knobs: SearchKnobs) -> Int32[Array, "..."]:
    """Simulations of each game, as the knobs `[B]` or `[B, 1]`: all, or fewer of its own."""
    budget = jnp.full(jnp.shape(knobs.discount), simulations, jnp.int32)
    if knobs.budget is None:
        return budget
    return jnp.minimum(budget, jnp.asarray(knobs.budget).astype(jnp.int32))


def one_leaf(
    grower: Grower,
    state: State,
    keys: Key[Array, "B"],
    budget: Int32[Array, "B"],
    first: int,
) -> State:
    """One simulation of every game that has one left: descend, evaluate, back up."""
    rows = jnp.arange(len(keys))
    counts = state.made < budget
    line_keys, leaf_keys = split_keys(keys, 2)
    leaf, _ = grower.line(state.tree, rows, line_keys, counts)
    tree = grower.visit(state.tree, rows, leaf_keys, leaf, counts, first + state.step)
    tree = deepened(tree, leaf.depth, counts)
    return State(tree=tree, step=state.step + 1, made=state.made + counts, used=state.used)


def many_leaves(
    grower: Grower,
    state: State,
    keys: Key[Array, "B"],
    budget: Int32[Array, "B"],
    first: int,
) -> State:
    """Several lines per game, one after the other, are evaluated together.

    A line leaves visits in flight on its edges, which turn the next ones away. A line that meets
    one of the same step at its end (a collision) is cancelled: it turns away the next ones too, but
    is not counted (Lc0). The first line of a step never collides.
    """
    batch, rows = len(keys), jnp.arange(len(keys))
    assert state.tree.in_flight is not None
    tree = dataclasses.replace(state.tree, in_flight=None)
    lanes = split_keys(keys, 2 * grower.growth.leaves)
    line_keys, leaf_keys = lanes[: grower.growth.leaves], lanes[grower.growth.leaves :]

    def collect(carry: tuple[Array, Array], keys: Key[Array, "B"]) -> tuple[tuple, tuple]:
        in_flight, taken = carry
        active = state.made + taken < budget
        now = dataclasses.replace(tree, in_flight=in_flight)
        leaf, in_flight = grower.line(now, rows, keys, active)
        assert in_flight is not None
        new = leaf.child == UNVISITED
        counts = active & ~(new & (in_flight[rows, leaf.node, leaf.slot] > 1))
        return (in_flight, taken + counts), (leaf, active, counts, counts & new)

    none = jnp.zeros((batch,), jnp.int32)
    (in_flight, taken), found = jax.lax.scan(collect, (state.tree.in_flight, none), line_keys)
    leaf, active, counts, new = found
    index = first + state.used + jnp.cumsum(new, axis=0, dtype=jnp.int32) - 1
    tree = deepened(tree, leaf.depth.max(axis=0), active.any(axis=0))

    def flat(leaf: Array) -> Array:
        return leaf.reshape(-1)

    lines = jax.tree.map(flat, leaf)
    every = jnp.tile(rows, grower.growth.leaves)
    tree = grower.visit(tree, every, flat(leaf_keys), lines, flat(counts), flat(index))
    in_flight = land(in_flight, tree, every, lines, flat(active))
    return State(
        tree=dataclasses.replace(tree, in_flight=in_flight),
        step=state.step + 1,
        made=state.made + taken,
        used=state.used + new.sum(axis=0, dtype=jnp.int32),
    )


def deepened(tree: Tree, depth: Int32[Array, "B"], counts: Bool[Array, "B"]) -> Tree:
    """Trees with the lengths of their last lines taken note of."""
    return dataclasses.replace(
        tree,
        depth=jnp.where(counts, jnp.maximum(tree.depth, depth), tree.depth),
        lockstep=tree.lockstep + depth.max(),
    )
