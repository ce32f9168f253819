"""Playing without search: the move that the network likes best."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Key

from azchess.games.game import Game, Position
from azchess.networks.evaluator import Evaluator
from azchess.search.decision import Decision
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.node import evaluate_node


@dataclasses.dataclass(frozen=True)
class NoSearch:
    """The network's likeliest move, one evaluation per move; ties go to the first slot.

    The policy is the prior; no move is visited.
    """

    def __call__(
        self,
        game: Game,
        evaluate: Evaluator,
        params: object,
        keys: Key[Array, "B"],
        positions: Position,
        knobs: SearchKnobs,
    ) -> Decision:
        """Judges positions `[B]`, none of them finished; keys `[B]` are consumed."""
        knobs = per_game(knobs, keys.shape[0])
        node = evaluate_node(game, evaluate, params, keys, positions, discount=knobs.discount)
        chances = node.prior
        none = jnp.zeros(keys.shape, jnp.int32)
        labels = node.moves.labels
        return Decision(
            slot=chances.argmax(axis=-1).astype(jnp.int32),
            policy=chances,
            labels=labels,
            visits=jnp.zeros(labels.shape, jnp.int32),
            q=jnp.zeros(labels.shape, jnp.float32),
            prior=chances,
            network_prior=chances,
            value=node.value,
            wdl=node.wdl,
            moves_left=node.moves_left,
            depth=none,
            lockstep=none.astype(jnp.float32),
        )
