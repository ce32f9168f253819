"""What a search found, for people: each move with its numbers, and the line it expects."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int16, Int32, Key

from azchess.games.game import Game, Position
from azchess.networks.evaluator import Evaluator
from azchess.pytree import pytree
from azchess.search.decision import Decision, endings, wdl_from_root
from azchess.search.edges import Ties, best_slot, slot_ranks
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.policy import TreeSearch, root_edges
from azchess.search.proof import prefer_proven
from azchess.search.tree import ROOT, UNVISITED, Tree, edges_of

PLIES = 16
"""Longest line that is read off a tree."""


@pytree
class SearchResult:
    """A search as a player reads it, seen from the player to move.

    `decision`: the move chosen, and N, Q and P of all moves. Beside them, per root move: `bonus`,
    the U that the rule adds to Q in the next simulation (see `TreeSearch.bonus`); `wdl` and
    `moves_left`, win, draw and loss and the plies from here to the end as means over all
    evaluations behind the move, 0 where unvisited. `line` `[D]`: labels of the principal
    variation, the chosen move and then the most visited ones with ties as in the search, -1 behind
    its end; it stops where dice fall. `plies_left`: to the end, a mean over all evaluations.
    """

    decision: Decision
    bonus: Float[Array, "*b S"]
    wdl: Float[Array, "*b S 3"]
    moves_left: Float[Array, "*b S"]
    line: Int16[Array, "*b D"]
    plies_left: Float[Array, "*b"]


def analyse(
    search: TreeSearch,
    game: Game,
    evaluate: Evaluator,
    params: object,
    keys: Key[Array, "B"],
    positions: Position,
    knobs: SearchKnobs,
    plies: int = PLIES,
    tree: Tree | None = None,
) -> tuple[SearchResult, Tree]:
    """Searches positions `[B]` and says what a player wants to know; keys `[B]` are consumed.

    `tree` is one to go on in, as `TreeSearch.think` takes it.
    """
    decision, tree = search.think(game, evaluate, params, keys, positions, knobs, tree)
    return search_result(search, game, decision, tree, knobs, plies), tree


def search_result(
    search: TreeSearch,
    game: Game,
    decision: Decision,
    tree: Tree,
    knobs: SearchKnobs,
    plies: int = PLIES,
) -> SearchResult:
    """Reads off what `search.think` returned; the line has at most so many `plies`."""
    edges = dataclasses.replace(root_edges(tree), prior=decision.prior)
    knobs = columns(per_game(knobs, len(decision.slot))).at_root()
    wdl, moves_left = move_means(tree)
    visits = decision.visits
    plies_left = decision.moves_left + (visits * moves_left).sum(axis=-1)
    return SearchResult(
        decision=decision,
        bonus=jnp.where(edges.legal, search.bonus(edges, knobs), 0.0),
        wdl=jnp.where(visits[..., None] > 0, wdl, 0.0),
        moves_left=jnp.where(visits > 0, moves_left, 0.0),
        line=principal_line(game, search.ties, tree, decision.slot, plies),
        plies_left=plies_left / (1 + visits.sum(axis=-1)),
    )


def move_means(tree: Tree) -> tuple[Float[Array, "B S 3"], Float[Array, "B S"]]:
    """Means over the evaluations behind each root move: win, draw and loss, and plies to the end.

    As the root's mover sees them, from the root on. Every line counts once, at the node where it
    ended.
    """
    batch, slots = tree.parent.shape[0], tree.labels.shape[-1]
    rows = jnp.arange(batch)[:, None]
    slot, plies = branches(tree)
    facts = [
        wdl_from_root(tree),
        (tree.moves_left + plies)[..., None],
        jnp.ones_like(plies)[..., None],
    ]
    ended = jnp.where(slot == UNVISITED, 0, endings(tree))
    sums = (
        jnp.zeros((batch, slots, 5))
        .at[rows, jnp.maximum(slot, 0)]
        .add(ended[..., None] * jnp.concatenate(facts, axis=-1))
    )
    means = sums[..., :4] / jnp.maximum(sums[..., 4:], 1.0)
    return means[..., :3], means[..., 3]


def branches(tree: Tree) -> tuple[Int32[Array, "B N"], Float[Array, "B N"]]:
    """The root's slot that leads to each node, -1 for the root, and the plies on the way to it.

    Ancestors are found by doubling: after k rounds a node knows the one 2^k moves above.
    """
    rows = jnp.arange(tree.parent.shape[0])[:, None]
    parent = jnp.maximum(tree.parent, ROOT)
    ply = jnp.ones(parent.shape) if tree.chance is None else 1.0 - tree.chance[rows, parent]
    below = tree.parent > ROOT
    above = jnp.where(below, parent, jnp.arange(tree.size))
    plies = jnp.where(below, ply, 0.0)
    for _ in range(max(1, (tree.size - 1).bit_length())):
        plies, above = plies + plies[rows, above], above[rows, above]
    first = jnp.where(tree.parent == UNVISITED, 0.0, ply)
    return tree.slot[rows, above], plies + first[rows, above]


def principal_line(
    game: Game, ties: Ties, tree: Tree, slot: Int32[Array, "B"], plies: int
) -> Int16[Array, "B D"]:
    """Labels of the line that goes on from the root's `slot` by the most visited moves."""
    rows = jnp.arange(len(slot))

    def ends(node: Int32[Array, "B"]) -> Bool[Array, "B"]:
        over = tree.finished[rows, node]
        return over if tree.chance is None else over | tree.chance[rows, node]

    def follow(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple, Array]:
        node, slot, runs = carry
        label = jnp.where(runs, tree.labels[rows, node, slot], -1).astype(jnp.int16)
        child = tree.child[rows, node, slot].astype(jnp.int32)
        after = jnp.maximum(child, ROOT)
        edges = edges_of(tree, rows, after, jnp.zeros_like(after))
        score = prefer_proven(edges.visits.astype(jnp.float32), edges)
        runs &= (child != UNVISITED) & ~ends(after) & (edges.count[:, 0] > 0)
        ranks = slot_ranks(game, ties, tree.labels[rows, after], tree.mover[rows, after])
        return (after, best_slot(score, edges, ranks), runs), label

    root = jnp.zeros_like(slot)
    start = (root, slot, ~ends(root))
    return jax.lax.scan(follow, start, length=plies)[1].T
