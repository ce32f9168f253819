"""What a search says: the move, the policy to learn from, and what it thinks of each move."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int16, Int32

from azchess.pytree import pytree
from azchess.search.knobs import Knob
from azchess.search.proof import proven_value
from azchess.search.tree import ROOT, Tree, has_above, linked


@pytree
class Decision:
    """The outcome of a search per game, seen from the player to move.

    `slot` `[B]`: the chosen move. `policy` `[B, S]`: the search policy, a target for learning.
    Per root move: `labels` (-1 padded), `visits`, `q` (0 where unvisited), the `prior` searched
    with (root noise included) and the network's own `network_prior`. `value` `[B]`: the search's
    value of the position, discounted per ply; `wdl` `[B, 3]`: mean win, draw and loss over all
    evaluations; `moves_left` `[B]`: the network's plies to the end, unsearched. `depth` `[B]`:
    length of the longest line; `lockstep` `[B]`: steps down per simulation that the slowest game of
    the batch dictated, the same for all of them.
    """

    slot: Int32[Array, "*b"]
    policy: Float[Array, "*b S"]
    labels: Int16[Array, "*b S"]
    visits: Int32[Array, "*b S"]
    q: Float[Array, "*b S"]
    prior: Float[Array, "*b S"]
    network_prior: Float[Array, "*b S"]
    value: Float[Array, "*b"]
    wdl: Float[Array, "*b 3"]
    moves_left: Float[Array, "*b"]
    depth: Int32[Array, "*b"]
    lockstep: Float[Array, "*b"]

    @property
    def label(self) -> Int32[Array, "*b"]:
        """The chosen move's label."""
        label = jnp.take_along_axis(self.labels, self.slot[..., None], axis=-1)[..., 0]
        return label.astype(jnp.int32)


def decide(
    tree: Tree,
    slot: Int32[Array, "B"],
    policy: Float[Array, "B S"],
    network_prior: Float[Array, "B S"],
    discount: Knob,
    before: Int32[Array, "B"] | int = 0,
) -> Decision:
    """Reads a finished search off its roots, given the move chosen and the policy to learn from.

    `before` are the visits that the roots had when the search began. Of a game that is over already
    only its exact value is left: no visits, and a policy of 0. A root that is proven has the proven
    value.
    """
    goes_on = ~tree.finished[:, ROOT]
    visits = jnp.where(goes_on[:, None], tree.visits[:, ROOT], 0)
    total = jnp.where(goes_on[:, None], tree.total[:, ROOT], 0.0)
    policy = jnp.where(goes_on[:, None], policy, 0.0)
    own = tree.value[:, ROOT]
    exact = jnp.stack([own > 0, own == 0, own < 0], axis=-1).astype(jnp.float32)
    made = (tree.visits[:, ROOT].sum(axis=-1) - before).max()
    value = (own + total.sum(axis=-1)) / (1.0 + visits.sum(axis=-1))
    wdl = jnp.where(goes_on[:, None], mean_wdl(tree), exact)
    if tree.lower is not None and tree.upper is not None:
        outcome = tree.lower[:, ROOT]
        solved = goes_on & (outcome == tree.upper[:, ROOT])
        rows = jnp.arange(len(slot))
        proven = proven_value(tree, rows, jnp.zeros_like(rows), outcome, discount)
        value = jnp.where(solved, proven, value)
        wdl = jnp.where(solved[:, None], jax.nn.one_hot(1 - outcome, 3), wdl)
    return Decision(
        slot=slot,
        policy=policy,
        labels=tree.labels[:, ROOT],
        visits=visits,
        q=total / jnp.maximum(visits, 1),
        prior=tree.prior[:, ROOT],
        network_prior=network_prior,
        value=value,
        wdl=wdl,
        moves_left=tree.moves_left[:, ROOT],
        depth=tree.depth,
        lockstep=jnp.full(slot.shape, tree.lockstep / jnp.maximum(made, 1), jnp.float32),
    )


def mean_wdl(tree: Tree) -> Float[Array, "B 3"]:
    """Mean win, draw and loss over all evaluations of a search, as the root's mover sees them."""
    ended = endings(tree).astype(jnp.float32)[..., None]
    return (ended * wdl_from_root(tree)).sum(axis=1) / jnp.maximum(ended.sum(axis=1), 1.0)


def endings(tree: Tree) -> Int32[Array, "B N"]:
    """How many lines ended at each node: once where it was made, a finished one many times.

    The root counts once, for its own evaluation. Below a node that is proven nothing counts.
    """
    rows = jnp.arange(tree.parent.shape[0])[:, None]
    above, slot = jnp.maximum(tree.parent, 0), jnp.maximum(tree.slot, 0)
    onward = jnp.where(tree.finished, 0, tree.visits.sum(axis=-1))
    ended = jnp.where(linked(tree), tree.visits[rows, above, slot] - onward, 0)
    ended = ended.at[:, ROOT].set(1)
    return ended if tree.lower is None else jnp.where(has_above(tree, tree.finished), 0, ended)


def wdl_from_root(tree: Tree) -> Float[Array, "B N 3"]:
    """Win, draw and loss at every node as the root's mover sees them."""
    same = (tree.mover == tree.mover[:, :1])[..., None]
    return jnp.where(same, tree.wdl, tree.wdl[..., ::-1])
