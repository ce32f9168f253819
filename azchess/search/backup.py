"""What goes back up the trees after a simulation: values and counts."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int16, Int32

from azchess.games.game import relative_sign
from azchess.search.knobs import Knob
from azchess.search.tree import ROOT, Leaf, Tree


def back_up(
    tree: Tree,
    rows: Int32[Array, "R"],
    node: Int32[Array, "R"],
    discount: Knob,
    played: Bool[Array, "R 2 A"] | None = None,
) -> Tree:
    """Adds nodes' values to every edge between them and their roots, one level at a time.

    The sign and the discount change at each ply: an edge holds its own node's mover's view. A root
    adds nothing. `played` holds the labels that each seat played below the nodes. Two lines of one
    tree may share edges, but then the order of their sums is the device's.
    """
    facts = {"total": tree.value[rows, node]}
    if tree.draws is not None:
        facts["draws"] = tree.wdl[rows, node, 1]
    if tree.plies is not None:
        facts["plies"] = tree.moves_left[rows, node]
    if tree.squares is not None:
        facts["squares"] = jnp.square(facts["total"])
    state = {name: getattr(tree, name) for name in ("visits", *facts)}
    if tree.amaf_visits is not None:
        assert played is not None
        state |= {"amaf_visits": tree.amaf_visits, "amaf_total": tree.amaf_total}
        facts["played"] = played

    def climb(carry: tuple[Array, dict[str, Array], dict[str, Array]]) -> tuple[Array, dict, dict]:
        node, facts, state = carry
        below, parent, slot = edge_above(tree, rows, node)
        if tree.lower is not None:
            facts = facts | as_proven(tree, rows, node, facts)
        value = as_seen_above(tree, rows, node, parent, discount) * facts["total"]
        facts = facts | {"total": value}
        if "plies" in facts:
            facts["plies"] = facts["plies"] + is_ply(tree, rows, parent)
        if "squares" in facts:
            facts["squares"] = jnp.square(value)
        if "played" in facts:
            facts["played"], state = add_amaf(tree, rows, (parent, slot), below, facts, state)
        at = (rows, parent, slot)
        sums = {
            name: state[name].at[at].add(jnp.where(below, facts[name], 0))
            for name in ("total", "draws", "plies", "squares")
            if name in facts
        }
        visits = state["visits"].at[at].add(below.astype(jnp.int32))
        return parent, facts, state | sums | {"visits": visits}

    carry = jax.lax.while_loop(lambda carry: (carry[0] != ROOT).any(), climb, (node, facts, state))
    return dataclasses.replace(tree, **carry[2])


def edge_above(
    tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"]
) -> tuple[Bool[Array, "R"], Int32[Array, "R"], Int32[Array, "R"]]:
    """Whether nodes are below their roots, and their parents and slots there (0 for roots)."""
    below = node != ROOT
    parent, slot = tree.parent[rows, node], tree.slot[rows, node]
    return below, jnp.where(below, parent, ROOT), jnp.where(below, slot, 0)


def as_proven(
    tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"], facts: dict[str, Array]
) -> dict[str, Array]:
    """What comes from below a node, replaced where the node was proven since the line went down."""
    over = tree.finished[rows, node]
    known = {"total": tree.value[rows, node], "draws": tree.wdl[rows, node, 1]}
    return {name: jnp.where(over, known[name], facts[name]) for name in known if name in facts}


def is_ply(tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"]) -> Bool[Array, "R"]:
    """Whether nodes' edges are moves of a player, and not throws of the dice."""
    return jnp.ones(rows.shape, bool) if tree.chance is None else ~tree.chance[rows, node]


def as_seen_above(
    tree: Tree,
    rows: Int32[Array, "R"],
    node: Int32[Array, "R"],
    parent: Int32[Array, "R"],
    discount: Knob,
) -> Float[Array, "R"]:
    """What a value of a node is to be multiplied by for the mover of its parent, one ply before."""
    sign = relative_sign(tree.mover[rows, node], tree.mover[rows, parent])
    return jnp.where(is_ply(tree, rows, parent), discount, 1.0) * sign


def add_amaf(
    tree: Tree,
    rows: Int32[Array, "R"],
    edge: tuple[Int32[Array, "R"], Int32[Array, "R"]],
    below: Bool[Array, "R"],
    facts: dict[str, Array],
    state: dict[str, Array],
) -> tuple[Bool[Array, "R 2 A"], dict[str, Array]]:
    """Credits a value to all moves of a node that its mover played there or later in the line.

    All moves as first (Gelly and Silver 2011, section 4.2): the labels played at and below the node
    come back, and the state with the node's counts. Throws of the dice are nobody's moves.
    """
    parent, slot = edge
    seat = tree.mover[rows, parent]
    chosen = below & is_ply(tree, rows, parent)
    labels = jnp.maximum(tree.labels[rows, parent], 0).astype(jnp.int32)
    lines = jnp.arange(len(rows))
    label = jnp.take_along_axis(labels, slot[:, None], axis=1)[:, 0]
    played = facts["played"].at[lines, seat, label].max(chosen)
    hit = jnp.take_along_axis(played[lines, seat], labels, axis=1)
    hit &= (tree.labels[rows, parent] >= 0) & chosen[:, None]
    value = jnp.where(hit, facts["total"][:, None], 0.0)
    return played, state | {
        "amaf_visits": state["amaf_visits"].at[rows, parent].add(hit.astype(jnp.int32)),
        "amaf_total": state["amaf_total"].at[rows, parent].add(value),
    }


def land(
    in_flight: Int16[Array, "B N S"],
    tree: Tree,
    rows: Int32[Array, "R"],
    leaf: Leaf,
    marked: Bool[Array, "R"],
) -> Int16[Array, "B N S"]:
    """Takes the visits in flight of lines that left marks off all their edges."""

    def climb(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        node, slot, amount, in_flight = carry
        in_flight = in_flight.at[rows, node, slot].add(-amount)
        below, parent, above = edge_above(tree, rows, node)
        return parent, above, jnp.where(below, amount, 0).astype(jnp.int16), in_flight

    carry = (leaf.node, leaf.slot, marked.astype(jnp.int16), in_flight)
    return jax.lax.while_loop(lambda carry: (carry[2] != 0).any(), climb, carry)[3]
