"""The search loop: many games' trees grow in lockstep, one evaluated position per simulation.

A simulation goes down each tree by a selection rule, makes the move at its end, evaluates the new
position and adds its value to every edge on the way back. Edges live in slots (the legal moves of
a position), so that a tree's memory follows the number of legal moves and not of labels.

`search` is the same loop behind `mctx.search`'s signature, for mctx's own policies and rules.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int16, Int32, Key

from azchess.games.game import Game, Moves, Position, Status, relative_sign
from azchess.networks.evaluator import Evaluation, Evaluator, prior
from azchess.pytree import pytree
from azchess.search.edges import Edges, Rule, best_slot, ranks_of
from azchess.search.knobs import Knob
from azchess.search.mctx_search import search as search

ROOT = 0
UNVISITED = -1


@pytree
class Tree:
    """B search trees of N nodes with S slots each; node 0 is the root.

    Of a node: `parent` and the parent's `slot` that leads to it, `mover` (seat to move), the
    evaluator's `value` for that mover (exact if the game is over), `finished` (no line goes on from
    here), its `positions` and its moves' `labels` (-1 padded). Of an edge: `child` (-1 while
    unvisited), the `prior` probability, `visits`, and the `total` of the values backed up through
    it, seen from the node's mover. `wdl` sums win, draw and loss over all evaluations, seen from
    the root's mover. `depth` is the number of edges of the longest line, and `lockstep` counts the
    steps down of all simulations so far as the slowest game of the batch dictated them.
    """

    positions: Position
    parent: Int32[Array, "B N"]
    slot: Int32[Array, "B N"]
    mover: Int32[Array, "B N"]
    value: Float[Array, "B N"]
    finished: Bool[Array, "B N"]
    labels: Int16[Array, "B N S"]
    child: Int32[Array, "B N S"]
    prior: Float[Array, "B N S"]
    visits: Int32[Array, "B N S"]
    total: Float[Array, "B N S"]
    wdl: Float[Array, "B 3"]
    depth: Int32[Array, "B"]
    lockstep: Int32[Array, ""]


@pytree
class Node:
    """An evaluated position per game, ready to be put into a tree; seen from its mover."""

    position: Position
    moves: Moves
    status: Status
    mover: Int32[Array, "B"]
    evaluation: Evaluation


def evaluate_node(
    game: Game, evaluate: Evaluator, params: object, keys: Key[Array, "B"], positions: Position
) -> Node:
    """Finds the moves, the status and the evaluation of positions `[B]`."""
    moves = jax.vmap(game.moves)(positions)
    return Node(
        position=positions,
        moves=moves,
        status=jax.vmap(game.status)(positions, moves),
        mover=jax.vmap(game.mover)(positions),
        evaluation=evaluate(params, keys, positions, moves),
    )


def finished(node: Node) -> Bool[Array, "B"]:
    """Whether no line goes on from here: over by the rules, or no move left at a ply cap."""
    return node.status.terminated | ~node.moves.legal.any(axis=-1)


def node_value(node: Node, discount: Knob) -> Float[Array, "B"]:
    """What a position is worth to its mover: exact if the game is over, otherwise the evaluator's.

    A win in `m` plies is worth `discount**m`, with `m` the evaluator's plies to the end.
    """
    evaluation = node.evaluation
    estimate = evaluation.value * discount ** jnp.maximum(evaluation.moves_left, 0.0)
    return jnp.where(node.status.terminated, node.status.outcome, estimate)


def node_wdl(node: Node) -> Float[Array, "B 3"]:
    """Win, draw and loss for the mover: exact if the game is over, otherwise the evaluator's."""
    exact = jax.nn.one_hot(1 - node.status.outcome, 3)
    return jnp.where(node.status.terminated[:, None], exact, node.evaluation.wdl)


def root_tree(node: Node, prior: Float[Array, "B S"], discount: Knob, size: int) -> Tree:
    """Trees with room for `size` nodes that hold only their root, with the given root prior."""
    batch, slots = node.moves.labels.shape

    def room(leaf: Array) -> Array:
        shape = (batch, size, *leaf.shape[1:])
        return jnp.zeros(shape, leaf.dtype).at[:, ROOT].set(leaf)

    return Tree(
        positions=jax.tree.map(room, node.position),
        parent=jnp.full((batch, size), UNVISITED, jnp.int32),
        slot=jnp.full((batch, size), UNVISITED, jnp.int32),
        mover=room(node.mover),
        value=room(node_value(node, discount)),
        finished=room(finished(node)),
        labels=room(node.moves.labels),
        child=jnp.full((batch, size, slots), UNVISITED, jnp.int32),
        prior=room(prior),
        visits=jnp.zeros((batch, size, slots), jnp.int32),
        total=jnp.zeros((batch, size, slots), jnp.float32),
        wdl=node_wdl(node),
        depth=jnp.zeros((batch,), jnp.int32),
        lockstep=jnp.zeros((), jnp.int32),
    )


def grow(
    game: Game,
    evaluate: Evaluator,
    params: object,
    keys: Key[Array, "B"],
    tree: Tree,
    *,
    simulations: int,
    root_rule: Rule,
    rule: Rule,
    discount: Knob,
    max_depth: int | None = None,
) -> Tree:
    """Runs simulations on trees that hold only their roots.

    `root_rule` chooses at the root, `rule` below it. `discount` `[B]` shrinks a value per ply.
    A line stops at a finished position, at an unvisited move, or after `max_depth` moves. What a
    tree holds below a finished root means nothing. Keys `[B]` go to the evaluator, folded by
    simulation. Raises ValueError where the trees have no room for so many simulations.
    """
    if tree.parent.shape[1] <= simulations:
        raise ValueError(
            f"{simulations} simulations need trees of {simulations + 1} nodes, but these have room "
            f"for {tree.parent.shape[1]}"
        )
    depth_limit = max_depth or simulations
    step = jax.vmap(game.step)

    def simulate(simulation: Int32[Array, ""] | int, tree: Tree) -> Tree:
        index = jnp.asarray(simulation, jnp.int32) + 1
        rows = jnp.arange(tree.parent.shape[0])
        leaf = descend(tree, ranks_of(game), root_rule, rule, depth_limit)
        parent, slot = leaf.node, leaf.slot
        known = tree.child[rows, parent, slot]
        position = jax.tree.map(lambda x: x[rows, parent], tree.positions)
        child = step(position, tree.labels[rows, parent, slot].astype(jnp.int32))
        lane_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, simulation)
        node = evaluate_node(game, evaluate, params, lane_keys, child)
        new = known == UNVISITED
        tree = expand(tree, index, parent, slot, new, node, discount)
        node_index = jnp.where(new, index, known)
        tree = back_up(tree, node_index, discount)
        same_side = tree.mover[rows, node_index] == tree.mover[:, ROOT]
        wdl = jnp.where(new[:, None], node_wdl(node), known_wdl(tree, node_index))
        wdl = jnp.where(same_side[:, None], wdl, wdl[:, ::-1])
        return dataclasses.replace(
            tree,
            wdl=tree.wdl + wdl,
            depth=jnp.maximum(tree.depth, leaf.depth),
            lockstep=tree.lockstep + leaf.depth.max(),
        )

    return jax.lax.fori_loop(0, simulations, simulate, tree)


def known_wdl(tree: Tree, node: Int32[Array, "B"]) -> Float[Array, "B 3"]:
    """Win, draw and loss of a node that is visited again, which only a finished one is counted for.

    A line that ended at the depth limit instead adds the node's value as a split of win and loss.
    """
    value = tree.value[jnp.arange(node.shape[0]), node]
    win, loss = jnp.maximum(value, 0.0), jnp.maximum(-value, 0.0)
    return jnp.stack([win, 1.0 - win - loss, loss], axis=-1)


@pytree
class Leaf:
    """Where simulations stopped: the last node, the slot chosen there, and the line's length."""

    node: Int32[Array, "B"]
    slot: Int32[Array, "B"]
    depth: Int32[Array, "B"]


def descend(
    tree: Tree,
    ranks: Int32[np.ndarray, "A"] | None,
    root_rule: Rule,
    rule: Rule,
    max_depth: int,
) -> Leaf:
    """Goes down every tree until its line leaves the tree, ends the game or is `max_depth` long."""
    rows = jnp.arange(tree.parent.shape[0])

    def choose(node: Int32[Array, "B"], depth: Int32[Array, "B"], rule: Rule) -> Int32[Array, "B"]:
        edges = edges_of(tree, node, depth)
        return best_slot(rule(edges), edges, tree.labels[rows, node], ranks)

    def continues(leaf: Leaf) -> Bool[Array, "B"]:
        child = tree.child[rows, leaf.node, leaf.slot]
        open_node = (child != UNVISITED) & ~tree.finished[rows, child]
        return open_node & (leaf.depth < max_depth)

    def deeper(leaf: Leaf) -> Leaf:
        active = continues(leaf)
        node = jnp.where(active, tree.child[rows, leaf.node, leaf.slot], leaf.node)
        slot = choose(node, leaf.depth, rule)
        return Leaf(
            node=node,
            slot=jnp.where(active, slot, leaf.slot),
            depth=jnp.where(active, leaf.depth + 1, leaf.depth),
        )

    root = jnp.zeros(rows.shape, jnp.int32)
    first = Leaf(node=root, slot=choose(root, root, root_rule), depth=root + 1)
    return jax.lax.while_loop(lambda leaf: continues(leaf).any(), deeper, first)


def edges_of(tree: Tree, node: Int32[Array, "B"], depth: Int32[Array, "B"]) -> Edges:
    """The edges of one node of each tree."""
    rows = jnp.arange(node.shape[0])
    visits = tree.visits[rows, node]
    return Edges(
        legal=tree.labels[rows, node] >= 0,
        prior=tree.prior[rows, node],
        visits=visits,
        q=tree.total[rows, node] / jnp.maximum(visits, 1),
        value=tree.value[rows, node],
        depth=depth,
    )


def expand(
    tree: Tree,
    index: Int[Array, ""],
    parent: Int32[Array, "B"],
    slot: Int32[Array, "B"],
    new: Bool[Array, "B"],
    node: Node,
    discount: Knob,
) -> Tree:
    """Puts evaluated nodes at `index` of every tree and links them where they are `new`.

    A game whose line ended at a known node leaves the place empty: nothing links to it.
    """
    rows = jnp.arange(parent.shape[0])

    def put(store: Array, leaf: Array) -> Array:
        return jax.lax.dynamic_update_index_in_dim(store, leaf.astype(store.dtype), index, axis=1)

    known = tree.child[rows, parent, slot]
    return dataclasses.replace(
        tree,
        positions=jax.tree.map(put, tree.positions, node.position),
        parent=put(tree.parent, parent),
        slot=put(tree.slot, slot),
        mover=put(tree.mover, node.mover),
        value=put(tree.value, node_value(node, discount)),
        finished=put(tree.finished, finished(node)),
        labels=put(tree.labels, node.moves.labels),
        prior=put(tree.prior, prior(node.evaluation, node.moves)),
        child=tree.child.at[rows, parent, slot].set(jnp.where(new, index, known)),
    )


def back_up(tree: Tree, node: Int32[Array, "B"], discount: Knob) -> Tree:
    """Adds a node's value to every edge between it and the root, one level of all trees at a time.

    The sign and the discount change at each ply: an edge holds its own node's mover's view.
    """
    rows = jnp.arange(node.shape[0])

    def climb(
        carry: tuple[Array, Array, Array, Array],
    ) -> tuple[Array, Array, Array, Array]:
        node, value, visits, total = carry
        below_root = node != ROOT
        parent = jnp.where(below_root, tree.parent[rows, node], ROOT)
        slot = jnp.where(below_root, tree.slot[rows, node], 0)
        sign = relative_sign(tree.mover[rows, node], tree.mover[rows, parent])
        value = jnp.where(below_root, discount * sign * value, 0.0)
        visits = visits.at[rows, parent, slot].add(below_root.astype(jnp.int32))
        total = total.at[rows, parent, slot].add(value)
        return parent, value, visits, total

    carry = (node, tree.value[rows, node], tree.visits, tree.total)
    _, _, visits, total = jax.lax.while_loop(lambda carry: (carry[0] != ROOT).any(), climb, carry)
    return dataclasses.replace(tree, visits=visits, total=total)
