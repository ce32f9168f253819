"""Search trees: what they hold, and how lines go down them and values come back up.

A simulation goes down a tree by a rule (`azchess.search.descent`), makes the move at its end and
evaluates the new position (`azchess.search.node`), stores it (`expand`) and adds its value to every
edge on the way back (`azchess.search.backup`); `azchess.search.grow` repeats that. Edges live in
slots (the legal moves of a position), so that a tree's memory follows the number of legal moves and
not of labels.

Everything works on R lines, and line `i` runs in tree `rows[i]`: one line per tree, or several.

`search` is the same loop behind `mctx.search`'s signature, for mctx's own policies and rules.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int8, Int16, Int32

from azchess.games.game import Position, relative_sign
from azchess.pytree import pytree
from azchess.search.edges import NOTHING, Carries, Edges
from azchess.search.mctx_search import search as search
from azchess.search.node import Node

ROOT = 0
UNVISITED = -1


@pytree
class Tree:
    """B search trees of N nodes with S slots each; node 0 is the root.

    Of a node: `parent` and the parent's `slot` that leads to it, `mover` (seat to move), the
    evaluator's `value` and `wdl` for that mover (exact if the game is over) and its `moves_left`,
    `finished` (no line goes on from here), its `positions` and its moves' `labels` (-1 padded). Of
    an edge: `child` (-1 while unvisited), the `prior` probability, `visits`, and the `total` of the
    values backed up through it, seen from the node's mover. `depth` is the number of edges of the
    longest line, and `lockstep` counts the steps down of all simulations so far as the slowest game
    of the batch dictated them.

    What only some trees hold is None elsewhere. `chance`: nodes where dice choose. `lower` and
    `upper`: proven bounds of a node's outcome for its mover. `in_flight`: visits started and not
    yet backed up. `draws`, `plies`, `squares`: totals like `total` of draw probability, moves left
    and squared value. `amaf_visits` and `amaf_total`: see `Edges`.
    """

    positions: Position
    parent: Int32[Array, "B N"]
    slot: Int32[Array, "B N"]
    mover: Int32[Array, "B N"]
    value: Float[Array, "B N"]
    wdl: Float[Array, "B N 3"]
    moves_left: Float[Array, "B N"]
    finished: Bool[Array, "B N"]
    labels: Int16[Array, "B N S"]
    child: Int[Array, "B N S"]
    prior: Float[Array, "B N S"]
    visits: Int32[Array, "B N S"]
    total: Float[Array, "B N S"]
    depth: Int32[Array, "B"]
    lockstep: Int32[Array, ""]
    chance: Bool[Array, "B N"] | None = None
    lower: Int8[Array, "B N"] | None = None
    upper: Int8[Array, "B N"] | None = None
    in_flight: Int16[Array, "B N S"] | None = None
    draws: Float[Array, "B N S"] | None = None
    plies: Float[Array, "B N S"] | None = None
    squares: Float[Array, "B N S"] | None = None
    amaf_visits: Int32[Array, "B N S"] | None = None
    amaf_total: Float[Array, "B N S"] | None = None

    @property
    def size(self) -> int:
        """N, the nodes that each tree has room for."""
        return self.parent.shape[1]


@pytree
class Leaf:
    """Where lines stopped: the last node, the slot chosen there, and the line's length.

    And what the tree holds there: the `child`, -1 while unvisited, and the move's `label`.
    """

    node: Int32[Array, "R"]
    slot: Int32[Array, "R"]
    depth: Int32[Array, "R"]
    child: Int32[Array, "R"]
    label: Int32[Array, "R"]


def root_tree(node: Node, size: int, carries: Carries = NOTHING, leaves: int = 1) -> Tree:
    """Trees with room for `size` nodes that hold only their root."""
    batch, slots = node.moves.labels.shape

    def room(leaf: Array) -> Array:
        shape = (batch, size, *leaf.shape[1:])
        return jnp.zeros(shape, leaf.dtype).at[:, ROOT].set(leaf)

    def edges(carried: bool, dtype: type = jnp.float32) -> Array | None:
        return jnp.zeros((batch, size, slots), dtype) if carried else None

    nowhere = jnp.full((batch, size), UNVISITED, jnp.int32)
    lower, upper = proven(node) if carries.bounds else (None, None)
    return Tree(
        positions=jax.tree.map(room, node.position),
        parent=nowhere,
        slot=nowhere,
        child=jnp.full((batch, size, slots), UNVISITED, index_type(size)),
        visits=jnp.zeros((batch, size, slots), jnp.int32),
        total=jnp.zeros((batch, size, slots), jnp.float32),
        depth=jnp.zeros((batch,), jnp.int32),
        lockstep=jnp.zeros((), jnp.int32),
        lower=None if lower is None else room(lower),
        upper=None if upper is None else room(upper),
        in_flight=edges(leaves > 1, jnp.int16),
        draws=edges(carries.draws),
        plies=edges(carries.moves_left),
        squares=edges(carries.squares),
        amaf_visits=edges(carries.amaf, jnp.int32),
        amaf_total=edges(carries.amaf),
        **{name: room(fact) for name, fact in node_fields(node).items()},
    )


def index_type(size: int) -> type:
    """The smallest integers that tell the nodes of a tree apart."""
    return jnp.int16 if size <= jnp.iinfo(jnp.int16).max else jnp.int32


def proven(node: Node) -> tuple[Int8[Array, "R"], Int8[Array, "R"]]:
    """Bounds of positions as they are put into a tree: exact where the game is over."""
    outcome = jnp.where(node.solved, jnp.round(node.value), 0.0)
    lower = jnp.where(node.solved, outcome, -1).astype(jnp.int8)
    return lower, jnp.where(node.solved, outcome, 1).astype(jnp.int8)


def edges_of(
    tree: Tree,
    rows: Int32[Array, "R"],
    node: Int32[Array, "R"],
    depth: Int32[Array, "R"],
    virtual_loss: bool = False,
) -> Edges:
    """The edges of one node per line; visits in flight count as losses on request."""
    visits, total = tree.visits[rows, node], tree.total[rows, node]
    in_flight = jnp.int32(0)
    if tree.in_flight is not None:
        in_flight = tree.in_flight[rows, node].astype(jnp.int32)
        if virtual_loss:
            visits, total, in_flight = visits + in_flight, total - in_flight, jnp.int32(0)

    def mean(totals: Float[Array, "B N S"] | None) -> Float[Array, "R S"] | None:
        return None if totals is None else totals[rows, node] / jnp.maximum(visits, 1)

    edges = Edges(
        legal=tree.labels[rows, node] >= 0,
        prior=tree.prior[rows, node],
        visits=visits,
        in_flight=in_flight,
        q=total / jnp.maximum(visits, 1),
        value=tree.value[rows, node],
        depth=depth,
        own_draw=tree.wdl[rows, node, 1],
        own_moves_left=tree.moves_left[rows, node],
        draw=mean(tree.draws),
        moves_left=mean(tree.plies),
        square=mean(tree.squares),
    )
    if tree.draws is not None:
        side = relative_sign(tree.mover[rows, node], tree.mover[rows, ROOT])
        edges = dataclasses.replace(edges, side=side)
    if tree.amaf_visits is not None and tree.amaf_total is not None:
        played = tree.amaf_visits[rows, node]
        amaf_q = tree.amaf_total[rows, node] / jnp.maximum(played, 1)
        edges = dataclasses.replace(edges, amaf_visits=played, amaf_q=amaf_q)
    if tree.lower is not None:
        lower, upper = edge_bounds(tree, rows, node)
        edges = dataclasses.replace(edges, lower=lower, upper=upper)
    return edges


def edge_bounds(
    tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"]
) -> tuple[Int8[Array, "R S"], Int8[Array, "R S"]]:
    """What is proven of each move of a node, for its mover: at least, and at most."""
    assert tree.lower is not None
    assert tree.upper is not None
    child = tree.child[rows, node]
    place = (rows[:, None], jnp.maximum(child, 0))
    lower, upper = tree.lower[place], tree.upper[place]
    same = tree.mover[place] == tree.mover[rows, node][:, None]
    known = child != UNVISITED
    return (
        jnp.where(known, jnp.where(same, lower, -upper), -1).astype(jnp.int8),
        jnp.where(known, jnp.where(same, upper, -lower), 1).astype(jnp.int8),
    )


def node_fields(node: Node) -> dict[str, Array]:
    """What trees hold of a node beside its position, its bounds and its place, by their fields."""
    fields = {
        "mover": node.mover,
        "value": node.value,
        "wdl": node.wdl,
        "moves_left": node.moves_left,
        "finished": node.finished,
        "labels": node.moves.labels,
        "prior": node.prior,
    }
    return fields if node.chance is None else fields | {"chance": node.chance}


def expand(
    tree: Tree,
    rows: Int32[Array, "R"],
    index: Int[Array, "..."],
    leaf: Leaf,
    node: Node,
    new: Bool[Array, "R"],
) -> Tree:
    """Puts evaluated nodes at `index` of their trees and links them where they are `new`.

    One index for all trees, which then have one line each and a place of their own even where
    nothing is new, or one per line `[R]`.
    """
    place = jnp.where(new, index, tree.size)

    def put(store: Array, leaf: Array) -> Array:
        leaf = leaf.astype(store.dtype)
        if index.ndim == 0:
            return jax.lax.dynamic_update_index_in_dim(store, leaf, index, axis=1)
        return store.at[rows, place].set(leaf, mode="drop")

    edge = (jnp.where(new, rows, tree.parent.shape[0]), leaf.node, leaf.slot)
    fields = {"parent": leaf.node, "slot": leaf.slot} | node_fields(node)
    if tree.lower is not None:
        fields["lower"], fields["upper"] = proven(node)
    return dataclasses.replace(
        tree,
        positions=jax.tree.map(put, tree.positions, node.position),
        child=tree.child.at[edge].set(jnp.astype(index, tree.child.dtype), mode="drop"),
        **{name: put(getattr(tree, name), fact) for name, fact in fields.items()},
    )


def linked(tree: Tree) -> Bool[Array, "B N"]:
    """Whether a place holds a node that a move leads to: neither the root nor left empty."""
    rows = jnp.arange(tree.parent.shape[0])[:, None]
    above, slot = jnp.maximum(tree.parent, ROOT), jnp.maximum(tree.slot, 0)
    led_to = tree.child[rows, above, slot] == jnp.arange(tree.size)
    return led_to & (tree.parent != UNVISITED)


def has_above(tree: Tree, marked: Bool[Array, "B N"]) -> Bool[Array, "B N"]:
    """Whether a node has a marked node between it and the root, neither of them included."""
    rows = jnp.arange(tree.parent.shape[0])[:, None]
    above = jnp.maximum(tree.parent, ROOT)
    found = (marked & (tree.parent != UNVISITED))[rows, above]
    for _ in range(max(1, (tree.size - 1).bit_length())):
        found, above = found | found[rows, above], above[rows, above]
    return found
