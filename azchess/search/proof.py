"""Proven wins, losses and draws: they go up the trees as in minimax."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int8, Int32

from azchess.games.game import relative_sign
from azchess.search.backup import as_seen_above, edge_above, is_ply
from azchess.search.edges import Edges
from azchess.search.knobs import Knob
from azchess.search.tree import ROOT, UNVISITED, Tree, edge_bounds

WON = 1e32
"""Score of a proven win: above that of any other move."""


def prove(tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"], discount: Knob) -> Tree:
    """Carries what is proven of nodes towards their roots, one line per tree at most.

    MCTS-Solver (Winands, Bjornsson and Saito 2008) with draws, which makes what is proven of a
    node a lower and an upper bound (Cazenave and Saffidine 2010; Lc0's sticky endgames). A node
    whose bounds meet is worth what is proven from then on; below the root it is finished, and the
    visits made through it before are corrected to that. (Winands et al. leave them as they were.)
    Its moves left are those of the shortest way to win or to draw, or of the longest to lose.
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
        solved = changed & (lower == upper)
        return jnp.where(changed, parent, ROOT), settle(tree, rows, parent, solved, lower, discount)

    start = jnp.where(tree.finished[rows, node], node, ROOT)
    return jax.lax.while_loop(lambda carry: (carry[0] != ROOT).any(), climb, (start, tree))[1]


def node_bounds(
    tree: Tree, rows: Int32[Array, "R"], node: Int32[Array, "R"]
) -> tuple[Int8[Array, "R"], Int8[Array, "R"]]:
    """The least and the most that a node is worth to its mover, from the bounds of its moves.

    A player takes the best move; dice may take the worst, or the best, if they can fall so at all.
    """
    player = is_ply(tree, rows, node)
    possible = tree.labels[rows, node] >= 0
    possible &= player[:, None] | (tree.prior[rows, node] > 0)
    lower, upper = edge_bounds(tree, rows, node)
    lowest = jnp.where(possible, lower, 1).min(axis=-1)
    best = jnp.where(possible, lower, -1).max(axis=-1), jnp.where(possible, upper, -1).max(axis=-1)
    return jnp.where(player, best[0], lowest).astype(jnp.int8), best[1].astype(jnp.int8)


def proven_value(
    tree: Tree,
    rows: Int32[Array, "R"],
    node: Int32[Array, "R"],
    outcome: Int8[Array, "R"],
    discount: Knob,
) -> Float[Array, "R"]:
    """What solved nodes are worth to their movers, discounted by the plies to the end.

    Of the moves that lead to the proven outcome the best counts; all throws of the dice do. The
    length of a win is that of the wins found so far, which need not be the shortest.
    """
    child = tree.child[rows, node].astype(jnp.int32)
    below = (rows[:, None], jnp.maximum(child, 0))
    mover = jnp.broadcast_to(tree.mover[rows, node][:, None], child.shape)
    value = relative_sign(tree.mover[below], mover) * tree.value[below]
    lower, upper = edge_bounds(tree, rows, node)
    leads = (child != UNVISITED) & (lower == upper) & (lower == outcome[:, None])
    best = discount * jnp.where(leads, value, -1.0).max(axis=-1)
    mean = jnp.where(leads, tree.prior[rows, node] * value, 0.0).sum(axis=-1)
    return jnp.where(is_ply(tree, rows, node), best, mean)


def settle(
    tree: Tree,
    rows: Int32[Array, "R"],
    node: Int32[Array, "R"],
    solved: Bool[Array, "R"],
    outcome: Int8[Array, "R"],
    discount: Knob,
) -> Tree:
    """Closes nodes that are `solved`, and makes all earlier visits worth the proven outcome.

    Roots stay as they are: their searches go on, by their own evaluations.
    """
    at = (rows, node)
    solved = solved & (node != ROOT)
    wdl = jax.nn.one_hot(1 - outcome, 3)
    value = proven_value(tree, rows, node, outcome, discount)
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
    if tree.squares is not None:
        more["squares"] = through * jnp.square(value) - tree.squares[edge]
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
    """Adds to the totals of all edges above nodes; `more` is for the edges that lead to them.

    Nothing is added above a finished node: its worth is settled (lines of one step may still end
    below a node that another one of them has proven).
    """

    def climb(carry: tuple[Array, dict, dict]) -> tuple[Array, dict, dict]:
        node, more, totals = carry
        below, parent, slot = edge_above(tree, rows, node)
        totals = {
            name: total.at[rows, parent, slot].add(jnp.where(below, more[name], 0.0))
            for name, total in totals.items()
        }
        _, above, _ = edge_above(tree, rows, parent)
        factor = as_seen_above(tree, rows, parent, above, discount)
        factors = {"total": factor, "draws": 1.0, "plies": 1.0, "squares": jnp.square(factor)}
        more = {name: factors[name] * sums for name, sums in more.items()}
        return jnp.where(tree.finished[rows, parent], ROOT, parent), more, totals

    totals = {name: getattr(tree, name) for name in more}
    carry = jax.lax.while_loop(lambda c: (c[0] != ROOT).any(), climb, (node, more, totals))
    return dataclasses.replace(tree, **carry[2])


def prefer_proven(score: Float[Array, "R S"], edges: Edges) -> Float[Array, "R S"]:
    """Scores with proven wins above everything, and at the bottom what need not be looked at.

    That are proven losses, and moves that cannot be better than another is at least (Cazenave and
    Saffidine 2010). Among proven wins the quicker goes first where the discount tells them apart;
    where all moves lose, the scores stay as they are. Nothing changes in trees without proofs.
    """
    if edges.lower is None:
        return score
    assert edges.upper is not None
    sure = jnp.where(edges.legal, edges.lower, -1).max(axis=-1, keepdims=True)
    idle = (edges.upper < 0) | ((edges.upper <= sure) & (edges.lower < sure))
    idle &= ~(idle | ~edges.legal).all(axis=-1, keepdims=True)
    # A rule may exclude moves by -inf; of these, too, it matters which are idle.
    score = jnp.where(idle, -jnp.inf, jnp.maximum(score, jnp.finfo(jnp.float32).min))
    return jnp.where(edges.lower > 0, WON * (1.0 + edges.q), score)
