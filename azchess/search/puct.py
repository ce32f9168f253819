"""AlphaZero's search: PUCT with Dirichlet noise at the root."""

import dataclasses
import functools

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from azchess.games.game import Game, Position
from azchess.networks.evaluator import Evaluator, prior
from azchess.search.decision import Decision, decide
from azchess.search.edges import Edges, best_slot, ranks_of
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.root import noisy_prior, split_keys
from azchess.search.tree import edges_of, evaluate_node, grow, root_tree


@dataclasses.dataclass(frozen=True)
class Puct:
    """AlphaZero's PUCT search (Silver et al. 2018, "Search"), static part.

    Score of a move: Q + c(N) P sqrt(N) / (1 + n), with c(N) = c_init + log((1 + N + c_base) /
    c_base), N the sum of the visits of the node's moves, and n the move's own. Choices on which the
    field differs, and where others stand:

    - Q is the mean value in [-1, 1], not rescaled, as in AlphaZero and Lc0 (mctx rescales the Q of
      each node to [0, 1] by default).
    - N is the sum of child visits, as in AlphaZero's paper and Lc0 (mctx and AlphaZero's pseudocode
      count the node's own evaluation too: N + 1).
    - An unvisited move has Q = `fpu`, 0 by default (AlphaZero, as its authors reported: -1, a loss;
      Lc0: the parent's value less a reduction; mctx: the least of the siblings and the parent).
    - Ties go to the higher prior, then to the lower rank of the label (AlphaZero and Lc0 do not
      say; mctx adds random numbers of 1e-7).

    The move played is the most visited one, ties as above; the policy to learn is the share of
    visits.
    """

    simulations: int = 32
    """Positions evaluated below the root per move (AlphaZero: 800)."""
    max_depth: int | None = None
    """Longest line in plies; None for no limit."""

    def __post_init__(self) -> None:
        check_simulations(self.simulations, self.max_depth)

    def __call__(
        self,
        game: Game,
        evaluate: Evaluator,
        params: object,
        keys: Key[Array, "B"],
        positions: Position,
        knobs: SearchKnobs,
    ) -> Decision:
        """Searches positions `[B]`, none of them finished; keys `[B]` are consumed."""
        knobs = per_game(knobs, keys.shape[0])
        root_key, noise_key, search_key = split_keys(keys, 3)
        node = evaluate_node(game, evaluate, params, root_key, positions)
        plain = prior(node.evaluation, node.moves)
        noisy = noisy_prior(
            noise_key, plain, node.moves.legal, knobs.noise_fraction, knobs.noise_alpha
        )
        rule = functools.partial(puct_score, knobs=knobs)
        tree = grow(
            game,
            evaluate,
            params,
            search_key,
            root_tree(node, noisy, knobs.discount, self.simulations + 1),
            simulations=self.simulations,
            root_rule=rule,
            rule=rule,
            discount=knobs.discount,
            max_depth=self.max_depth,
        )
        root = jnp.zeros(keys.shape, jnp.int32)
        edges = edges_of(tree, root, root)
        visits = edges.visits.astype(jnp.float32)
        slot = best_slot(visits, edges, node.moves.labels, ranks_of(game))
        policy = visits / visits.sum(axis=-1, keepdims=True)
        return decide(tree, slot, policy, plain, node.evaluation.moves_left)


def puct_score(edges: Edges, *, knobs: SearchKnobs) -> Float[Array, "B S"]:
    """Q + c(N) P sqrt(N) / (1 + n); see `Puct`. Knobs `[B]`."""
    count = edges.visits.sum(axis=-1, keepdims=True).astype(jnp.float32)
    c_base = jnp.asarray(knobs.c_base)[:, None]
    c = jnp.asarray(knobs.c_init)[:, None] + jnp.log((1.0 + count + c_base) / c_base)
    q = jnp.where(edges.visits > 0, edges.q, jnp.asarray(knobs.fpu)[:, None])
    return q + c * edges.prior * jnp.sqrt(count) / (1.0 + edges.visits)


def check_simulations(simulations: int, max_depth: int | None) -> None:
    """Raises ValueError for a search of no simulations or no depth."""
    if simulations < 1:
        raise ValueError(f"search.simulations = {simulations}: must be at least 1")
    if max_depth is not None and max_depth < 1:
        raise ValueError(f"search.max_depth = {max_depth}: must be at least 1, or None")
