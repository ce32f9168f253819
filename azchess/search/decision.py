"""What a search says: the move, the policy to learn from, and what it thinks of each move."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int16, Int32

from azchess.pytree import pytree
from azchess.search.tree import ROOT, Tree


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
    moves_left: Float[Array, "B"],
) -> Decision:
    """Reads a finished search off its roots, given the move chosen and the policy to learn from.

    Of a game that is over already only its exact value is left: no visits, and a policy of 0.
    """
    goes_on = ~tree.finished[:, ROOT]
    visits = jnp.where(goes_on[:, None], tree.visits[:, ROOT], 0)
    total = jnp.where(goes_on[:, None], tree.total[:, ROOT], 0.0)
    policy = jnp.where(goes_on[:, None], policy, 0.0)
    count = 1.0 + visits.sum(axis=-1)
    own = tree.value[:, ROOT]
    exact = jnp.stack([own > 0, own == 0, own < 0], axis=-1).astype(jnp.float32)
    simulations = tree.parent.shape[1] - 1
    return Decision(
        slot=slot,
        policy=policy,
        labels=tree.labels[:, ROOT],
        visits=visits,
        q=total / jnp.maximum(visits, 1),
        prior=tree.prior[:, ROOT],
        network_prior=network_prior,
        value=(tree.value[:, ROOT] + total.sum(axis=-1)) / count,
        wdl=jnp.where(goes_on[:, None], tree.wdl / count[:, None], exact),
        moves_left=moves_left,
        depth=tree.depth,
        lockstep=jnp.full(slot.shape, tree.lockstep / max(simulations, 1), jnp.float32),
    )
