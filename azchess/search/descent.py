"""How lines go down the trees: from the root, move by move, to a position never seen before."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int16, Int32

from azchess.search.tree import UNVISITED, Leaf, Tree

Choose: TypeAlias = Callable[[Tree, Int32[Array, "R"], Int32[Array, "R"]], Int32[Array, "R"]]
"""`(tree, nodes [R], depths [R]) -> slots [R]`: the move that a line takes at a node."""


def leaf_at(
    tree: Tree,
    rows: Int32[Array, "R"],
    node: Int32[Array, "R"],
    slot: Int32[Array, "R"],
    depth: Int32[Array, "R"],
) -> Leaf:
    """Lines of that many moves that end with a slot of a node."""
    edge = (rows, node, slot)
    child, label = tree.child[edge].astype(jnp.int32), tree.labels[edge].astype(jnp.int32)
    return Leaf(node=node, slot=slot, depth=depth, child=child, label=label)


def descend(
    tree: Tree,
    rows: Int32[Array, "R"],
    first: Int32[Array, "R"],
    choose: Choose,
    max_depth: int,
    marks: Bool[Array, "R"],
) -> tuple[Leaf, Int16[Array, "B N S"] | None]:
    """Follows lines from the `first` slots of their roots until they leave the tree or the game.

    A line stops at a move never made, at a finished position, or after `max_depth` moves. Where the
    tree counts visits in flight, they come back with those of the lines that leave `marks`. The
    child and the label are read on the way: read later, beside the writes of `expand`, they made
    XLA copy whole trees.
    """

    def marked(
        in_flight: Int16[Array, "B N S"] | None, leaf: Leaf, active: Bool[Array, "R"]
    ) -> Int16[Array, "B N S"] | None:
        if in_flight is None:
            return None
        return in_flight.at[rows, leaf.node, leaf.slot].add((active & marks).astype(jnp.int16))

    def continues(leaf: Leaf) -> Bool[Array, "R"]:
        open_node = (leaf.child != UNVISITED) & ~tree.finished[rows, leaf.child]
        return open_node & (leaf.depth < max_depth)

    def deeper(carry: tuple) -> tuple:
        leaf, in_flight = carry
        active = continues(leaf)
        node = jnp.where(active, leaf.child, leaf.node)
        slot = choose(dataclasses.replace(tree, in_flight=in_flight), node, leaf.depth)
        slot = jnp.where(active, slot, leaf.slot)
        leaf = leaf_at(tree, rows, node, slot, jnp.where(active, leaf.depth + 1, leaf.depth))
        return leaf, marked(in_flight, leaf, active)

    root = jnp.zeros_like(first)
    leaf = leaf_at(tree, rows, root, first, root + 1)
    start = (leaf, marked(tree.in_flight, leaf, jnp.ones(rows.shape, bool)))
    return jax.lax.while_loop(lambda carry: continues(carry[0]).any(), deeper, start)
