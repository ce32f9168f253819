"""UCT: the bandit rules UCB1 and UCB1-Tuned in trees."""

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from azchess.search.edges import Carries, Edges
from azchess.search.knobs import SearchKnobs
from azchess.search.policy import TreeSearch

FIRST = 1e30
"""Score of a move that has to be tried before all others."""


@dataclasses.dataclass(frozen=True)
class Uct(TreeSearch):
    """UCT (Kocsis & Szepesvari 2006): each node is a bandit, played by UCB1; static part.

    Score of a move: Q + c sqrt(ln N / n) + c_prior P / (n + 1), with n the visits of the move, N
    those of all moves of the node and c the knob `c_uct`. UCB1 (Auer, Cesa-Bianchi & Fischer 2002,
    figure 1) for values in [-1, 1] has c = sqrt(8), twice its sqrt(2) for rewards in [0, 1]. The
    last term is the progressive bias of Chaslot et al. 2008 (section 4.1) with the prior as the
    heuristic value H of the move; it is off by default. Choices on which the field differs:

    - Q is the mean value in [-1, 1], not rescaled.
    - N is the sum of child visits, as in UCB1, and visits in flight count in N and n (WU-UCT, Liu
      et al. 2020).
    - An unvisited move goes before all visited ones. The texts take any of them (`ties="random"`);
      by default the higher prior goes first, then the lower rank.
    - Other ties are broken in the same way.

    `tuned` is UCB1-Tuned (Auer et al. 2002, section 4): c sqrt(ln N / n min(1, V)) in the place of
    the second term, with V = variance of the move's values + sqrt(32 ln N / n). That is the paper's
    min(1/4, V) for rewards in [0, 1], times 4, and c = 1 is the paper's choice. `bias="depth"` is
    the rule of the experiments of Kocsis & Szepesvari 2006 (section 3.1): c (ln N / n)^e with
    e = (D + d) / (2 D + d), for a node at depth d that the evaluator sees D plies from the end (at
    least 1); c = 2 for values in [-1, 1] is theirs. Both may be combined.

    The move played is the most visited one, or the one of highest mean (`choose="value"`), ties as
    above but never at random; the policy to learn is the share of visits.
    """

    _: dataclasses.KW_ONLY
    tuned: bool = False
    bias: Literal["root", "depth"] = "root"
    choose: Literal["visits", "value"] = "visits"

    @property
    def carried(self) -> Carries:
        carried = super().carried
        return dataclasses.replace(carried, squares=carried.squares or self.tuned)

    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        bonus = knobs.c_uct * confidence(edges, self.tuned, self.bias == "depth")
        progressive = knobs.c_prior * edges.prior / (1.0 + edges.started)
        return jnp.where(edges.started > 0, edges.q + bonus + progressive, FIRST)

    def conclude(
        self, edges: Edges, knobs: SearchKnobs, noise: Any
    ) -> tuple[Float[Array, "B S"], Float[Array, "B S"]]:
        visits, policy = super().conclude(edges, knobs, noise)
        if self.choose == "visits":
            return visits, policy
        return jnp.where(edges.visits > 0, edges.q, -FIRST), policy


def confidence(edges: Edges, tuned: bool = False, deep: bool = False) -> Float[Array, "B S"]:
    """How uncertain each visited move is, sqrt(ln N / n) and its variants; see `Uct`."""
    plays = jnp.maximum(edges.started.sum(axis=-1, keepdims=True), 1)
    rate = jnp.log(plays.astype(jnp.float32)) / jnp.maximum(edges.started, 1)
    if deep:
        assert edges.own_moves_left is not None
        left, depth = jnp.maximum(edges.own_moves_left, 1.0), edges.depth
        width = rate ** ((left + depth) / (2.0 * left + depth))[:, None]
    else:
        width = jnp.sqrt(rate)
    if not tuned:
        return width
    assert edges.square is not None
    variance = jnp.maximum(edges.square - jnp.square(edges.q), 0.0)
    return width * jnp.sqrt(jnp.minimum(1.0, variance + jnp.sqrt(32.0 * rate)))
