"""Proven wins, losses and draws: they go up the trees as in minimax."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int8, Int32

from azchess.search.backup import as_seen_above, edge_above, is_ply
from azchess.search.edges import Edges
from azchess.search.knobs import Knob
from azchess.search.tree import ROOT, Tree, edge_bounds


def prove(tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"], discount: Knob) -> Tree:
    """Carries what is proven of nodes towards their roots, one line per tree at most.

    MCTS-Solver (Winands, Bjornsson and Saito 2008), with draws, as bounds (Lc0's sticky endgames).
    A node below the root whose bounds meet is finished: it is worth what is proven from then on,
    and the visits made through it before are corrected to that. Its moves left are those of the
    shortest way to win or to draw, or of the longest to lose.
    """

    def climb(carry: tuple[Array, Tree]) -> tuple[Array, Tree]:
        node, tree = carry
        below, parent, _ = edge_above(tree, rows, node)
        lower, upper = node_bounds(tree, rows, parent)
        assert tree.lower is not None
        assert tree.upper is not None
        old = tree.lower[rows, parent], tree.upper[rows, parent]
        changed = below & ((lower != old[0]) | (upper != old[1]))
        tree = dataclasses.replace(
            tree,
            lower=tree.lower.at[rows, parent].set(jnp.where(changed, lower, old[0])),
            upper=tree.upper.at[rows, parent].set(jnp.where(changed, upper, old[1])),
        )
        solved = changed & (lower == upper) & (parent != ROOT)
        return jnp.where(changed, parent, ROOT), settle(tree, rows, parent, solved, lower, discount)

    start = jnp.where(tree.finished[rows, node], node, ROOT)
    return jax.lax.while_loop(lambda carry: (carry[0] != ROOT).any(), climb, (start, tree))[1]


def node_bounds(
    tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"]
) -> tuple[Int8[Array, "R"], Int8[Array, "R"]]:
    """The least and the most that a node is worth to its mover, from the bounds of its moves.

    A player takes the best move; dice may take the worst, or the best.
    """
    legal = tree.labels[rows, node] >= 0
    lower, upper = edge_bounds(tree, rows, node)
    lowest = jnp.where(legal, lower, 1).min(axis=-1)
    player = is_ply(tree, rows, node)
    best = jnp.where(legal, lower, -1).max(axis=-1), jnp.where(legal, upper, -1).max(axis=-1)
    return jnp.where(player, best[0], lowest).astype(jnp.int8), best[1].astype(jnp.int8)


def settle(
    tree: Tree,
    rows: Int32[Array, "R"],
    node: Int32[Array, "R"],
    solved: Bool[Array, "R"],
    outcome: Int8[Array, "R"],
    discount: Knob,
) -> Tree:
    """Closes nodes that are `solved`, and makes all earlier visits worth the proven outcome."""
    at = (rows, node)
    wdl = jax.nn.one_hot(1 - outcome, 3)
    value = outcome.astype(jnp.float32)
    length = jnp.where(solved, proven_length(tree, rows, node, outcome), tree.moves_left[at])
    tree = dataclasses.replace(
        tree,
        finished=tree.finished.at[at].set(tree.finished[at] | solved),
        value=tree.value.at[at].set(jnp.where(solved, value, tree.value[at])),
        wdl=tree.wdl.at[at].set(jnp.where(solved[:, None], wdl, tree.wdl[at])),
        moves_left=tree.moves_left.at[at].set(length),
    )
    _, parent, slot = edge_above(tree, rows, node)
    edge = (rows, parent, slot)
    through = tree.visits[edge]
    value = as_seen_above(tree, rows, node, parent, discount) * value
    more = {"total": through * value - tree.total[edge]}
    if tree.draws is not None:
        more["draws"] = through * wdl[:, 1] - tree.draws[edge]
    if tree.plies is not None:
        plies = length + is_ply(tree, rows, parent)
        more["plies"] = through * plies - tree.plies[edge]
    return shift(tree, rows, jnp.where(solved, node, ROOT), more, discount)


def proven_length(
    tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"], outcome: Int8[Array, "R"]
) -> Float[Array, "R"]:
    """Plies to a proven end: of the shortest way to win or to draw, of the longest to lose."""
    lower, upper = edge_bounds(tree, rows, node)
    reached = (lower == outcome[:, None]) & (upper == outcome[:, None])
    plies = tree.moves_left[rows[:, None], jnp.maximum(tree.child[rows, node], 0)]
    shortest = jnp.where(reached, plies, jnp.inf).min(axis=-1)
    longest = jnp.where(reached, plies, -jnp.inf).max(axis=-1)
    return jnp.where(outcome < 0, longest, shortest) + is_ply(tree, rows, node)


def shift(
    tree: Tree,
    rows: Int32[Array, "R"],
    node: Int32[Array, "R"],
    more: dict[str, Float[Array, "R"]],
    discount: Knob,
) -> Tree:
    """Adds to the totals of all edges above nodes; `more` is for the edges that lead to them."""

    def climb(carry: tuple[Array, dict, dict]) -> tuple[Array, dict, dict]:
        node, more, totals = carry
        below, parent, slot = edge_above(tree, rows, node)
        totals = {
            name: total.at[rows, parent, slot].add(jnp.where(below, more[name], 0.0))
            for name, total in totals.items()
        }
        _, above, _ = edge_above(tree, rows, parent)
        factor = as_seen_above(tree, rows, parent, above, discount)
        return parent, more | {"total": factor * more["total"]}, totals

    totals = {name: getattr(tree, name) for name in more}
    carry = jax.lax.while_loop(lambda c: (c[0] != ROOT).any(), climb, (node, more, totals))
    return dataclasses.replace(tree, **carry[2])


def prefer_proven(score: Float[Array, "R S"], edges: Edges) -> Float[Array, "R S"]:
    """Scores with proven wins above everything and proven losses below, if the tree has proofs."""
    if edges.lower is None:
        return score
    assert edges.upper is not None
    won, lost = edges.lower > 0, edges.upper < 0
    return jnp.where(won, jnp.inf, jnp.where(lost, jnp.finfo(jnp.float32).min, score))
