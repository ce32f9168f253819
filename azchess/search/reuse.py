"""Trees that live on after a move: what lies below it is the beginning of the next search."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32

from azchess.search.backup import as_seen_above, edge_above, is_ply
from azchess.search.knobs import Knob
from azchess.search.node import Node
from azchess.search.tree import (
    ROOT,
    UNVISITED,
    Tree,
    has_above,
    index_type,
    linked,
    node_fields,
    proven,
)

NOWHERE = -1
"""The mover at the root of a tree that holds nothing."""
SUMS = ("visits", "total", "draws", "plies", "squares")
"""What edges add up over the simulations that went through them."""


def has_root(tree: Tree) -> Bool[Array, "B"]:
    """Whether trees hold anything at all."""
    return tree.mover[:, ROOT] != NOWHERE


def root_visits(tree: Tree) -> Int32[Array, "B"]:
    """Simulations that trees already hold below their roots."""
    return tree.visits[:, ROOT].sum(axis=-1)


def no_trees(like: Any, size: int) -> Tree:
    """Trees of `size` nodes that hold nothing, shaped otherwise as those (or shapes) given."""

    def room(leaf: Array | jax.ShapeDtypeStruct) -> Array:
        return jnp.zeros(
            (leaf.shape[0], size, *leaf.shape[2:]) if leaf.ndim > 1 else leaf.shape, leaf.dtype
        )

    tree: Tree = jax.tree.map(room, like)
    nowhere = jnp.full_like(tree.parent, UNVISITED)
    return dataclasses.replace(
        tree,
        parent=nowhere,
        slot=nowhere,
        mover=tree.mover.at[:, ROOT].set(NOWHERE),
        child=jnp.full(tree.child.shape, UNVISITED, index_type(size)),
    )


def advance(
    tree: Tree, slot: Int32[Array, "B"], size: int, keep: int, discount: Knob = 1.0
) -> Tree:
    """The trees after a move from each root: what was found below it is kept.

    The position behind root slot `slot` becomes the root: see `replant`. A tree whose move was
    never visited, or whose slot is -1, holds nothing then: `has_root` says so.
    """
    rows = jnp.arange(tree.parent.shape[0])
    behind = tree.child[rows, ROOT, jnp.maximum(slot, 0)].astype(jnp.int32)
    return replant(tree, jnp.where(slot >= 0, behind, UNVISITED), size, keep, discount)


def replant(
    tree: Tree, node: Int32[Array, "B"], size: int, keep: int, discount: Knob = 1.0
) -> Tree:
    """The part of each tree below a node, the root itself for all of it, as a tree of its own.

    Its nodes move up, in their old order, to the first `keep` of `size` places; the rest is room
    for new ones (`grow`). Nodes that find no place, the newest ones, are forgotten as if their
    simulations had never been made: visits and totals of all edges above are without them
    (all-moves-as-first counts keep them, and no proof above is taken back). Where the node is -1
    the tree holds nothing then. `discount` is that of the search.
    """
    rows = jnp.arange(tree.parent.shape[0])[:, None]
    top = jnp.arange(tree.size) == node[:, None]
    inside = top | (linked(tree) & (has_above(tree, top) | top[:, :1]))
    place = jnp.cumsum(inside, axis=1, dtype=jnp.int32) - 1
    place = jnp.where(inside & (place < keep), place, UNVISITED)
    count = (place != UNVISITED).sum(axis=1, dtype=jnp.int32)
    taken = jnp.arange(size) < count[:, None]
    source = jnp.zeros(taken.shape, jnp.int32)
    # Places to drop are out of range; -1 would be the last one.
    source = source.at[rows, jnp.where(place < 0, size, place)].set(
        jnp.arange(tree.size), mode="drop"
    )

    def move(leaf: Array) -> Array:
        if leaf.ndim < 2:
            return leaf
        there = taken.reshape(taken.shape + (1,) * (leaf.ndim - 2))
        return jnp.where(there, leaf[rows, source], jnp.zeros((), leaf.dtype))

    def renumbered(index: Int[Array, "B size *s"]) -> Int32[Array, "B size *s"]:
        lanes = rows.reshape(-1, *(1,) * (index.ndim - 1))
        new = jnp.where(index < 0, UNVISITED, place[lanes, jnp.maximum(index, 0)])
        return jnp.where(taken.reshape(taken.shape + (1,) * (index.ndim - 2)), new, UNVISITED)

    moved: Tree = jax.tree.map(move, tree)
    below = taken.at[:, ROOT].set(False)
    lost = taken[..., None] & (moved.child >= 0)
    child = renumbered(moved.child)
    kept = dataclasses.replace(
        moved,
        parent=jnp.where(below, renumbered(moved.parent), UNVISITED),
        slot=jnp.where(below, moved.slot, UNVISITED),
        mover=moved.mover.at[:, ROOT].set(jnp.where(count > 0, moved.mover[:, ROOT], NOWHERE)),
        child=child.astype(index_type(size)),
        lockstep=jnp.zeros_like(tree.lockstep),
    )
    kept = dataclasses.replace(kept, depth=depth_below(kept))
    return forget(kept, lost & (child < 0), count, discount)


def depth_below(tree: Tree) -> Int32[Array, "B"]:
    """The number of edges between the root and the deepest node."""
    rows = jnp.arange(tree.parent.shape[0])[:, None]
    above = jnp.maximum(tree.parent, ROOT)
    far = (tree.parent != UNVISITED).astype(jnp.int32)
    for _ in range(max(1, (tree.size - 1).bit_length())):
        far, above = far + far[rows, above], above[rows, above]
    return far.max(axis=1)


def forget(
    tree: Tree, lost: Bool[Array, "B N S"], count: Int32[Array, "B"], discount: Knob
) -> Tree:
    """Takes the simulations through `lost` edges off these and off all edges above them.

    A finished node's visits all count as having ended there: they stay. One node of each tree at a
    time, so that the order of sums is always the same; no step where nothing was lost. `count` is
    the number of nodes.
    """
    rows = jnp.arange(tree.parent.shape[0])
    state = {name: getattr(tree, name) for name in SUMS if getattr(tree, name) is not None}
    gone = {name: jnp.where(lost, edge, 0).sum(axis=-1) for name, edge in state.items()}
    state = {name: jnp.where(lost, 0, edge) for name, edge in state.items()}

    def climb(carry: tuple[Array, dict, dict]) -> tuple[Array, dict, dict]:
        index, gone, state = carry
        node = jnp.full(rows.shape, index)
        parent, slot = (jnp.maximum(x, 0) for x in edge_above(tree, rows, node)[1:])
        leaves = (tree.parent[rows, node] != UNVISITED) & ~tree.finished[rows, node]
        off = {name: jnp.where(leaves, sums[rows, node], 0) for name, sums in gone.items()}
        factor = as_seen_above(tree, rows, node, parent, discount)
        off["total"] = factor * off["total"]
        if "squares" in off:
            off["squares"] = jnp.square(factor) * off["squares"]
        if "plies" in off:
            off["plies"] = off["plies"] + off["visits"] * is_ply(tree, rows, parent)
        gone = {name: sums.at[rows, parent].add(off[name]) for name, sums in gone.items()}
        state = {name: edge.at[rows, parent, slot].add(-off[name]) for name, edge in state.items()}
        return index - 1, gone, state

    last = jnp.where(lost.any(axis=(1, 2)), count - 1, ROOT).max()
    carry = jax.lax.while_loop(lambda carry: carry[0] > ROOT, climb, (last, gone, state))
    return dataclasses.replace(tree, **carry[2])


def known_root(tree: Tree, fresh: Node) -> Node:
    """The roots as their trees know them, and as they were judged afresh where these hold nothing.

    Whether the game is over is asked anew: a root that was only proven is searched like any other.
    """
    known = has_root(tree)
    facts = {name: getattr(fresh, name) for name in ("value", "wdl", "moves_left", "prior")}

    def choose(name: str, new: Float[Array, "B *s"]) -> Float[Array, "B *s"]:
        old = getattr(tree, name)[:, ROOT]
        return jnp.where(known.reshape(known.shape + (1,) * (new.ndim - 1)), old, new)

    return dataclasses.replace(fresh, **{name: choose(name, new) for name, new in facts.items()})


def with_root(tree: Tree, node: Node) -> Tree:
    """The trees with these nodes as their roots; what lies below stays."""

    def put(store: Array, leaf: Array) -> Array:
        return store.at[:, ROOT].set(leaf.astype(store.dtype))

    fields = node_fields(node)
    if tree.lower is not None and tree.upper is not None:
        known = has_root(tree)
        lower, upper = proven(node)
        fields["lower"] = jnp.where(known, tree.lower[:, ROOT], lower)
        fields["upper"] = jnp.where(known, tree.upper[:, ROOT], upper)
    return dataclasses.replace(
        tree,
        positions=jax.tree.map(put, tree.positions, node.position),
        **{name: put(getattr(tree, name), fact) for name, fact in fields.items()},
    )
