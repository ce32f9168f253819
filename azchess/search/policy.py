"""Tree search as a policy: what all searches share, and what each says for itself."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from azchess.games.game import Game, Position
from azchess.networks.evaluator import Evaluator
from azchess.search.decision import Decision, decide
from azchess.search.edges import NOTHING, Carries, Edges, best_slot, slot_ranks
from azchess.search.first_play import first_play
from azchess.search.grow import Growth, grow
from azchess.search.knobs import SearchKnobs, columns, per_game
from azchess.search.node import Node, evaluate_node, split_keys
from azchess.search.proof import prefer_proven
from azchess.search.tree import Tree, edges_of, root_tree


@dataclasses.dataclass(frozen=True)
class TreeSearch(Growth, abc.ABC):
    """A search by one selection rule: a hashable config, called with knobs.

    A search says how it scores moves (`rule`, and `root_rule` where the root differs), how it draws
    noise (`noise`, `root_prior`), what it makes of the finished tree (`conclude`), and what its
    trees must carry.
    """

    carries: ClassVar[Carries] = NOTHING

    @property
    def carried(self) -> Carries:
        """What the trees of this search carry: what its rule asks for, and what its options do."""
        return dataclasses.replace(self.carries, bounds=self.carries.bounds or self.solver)

    @abc.abstractmethod
    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        """Scores the moves of a node; knobs are `[B, 1]`. The highest is searched next."""

    def root_rule(self, edges: Edges, knobs: SearchKnobs, noise: Any) -> Float[Array, "B S"]:
        """Scores the moves of the root, where knobs hold the root's own values."""
        del noise
        return self.rule(edges, knobs)

    def bonus(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        """What the rule adds to the Q of each move, as a player reads it; knobs are `[B, 1]`.

        By default its score less Q, which is the first-play urgency where a move is unvisited.
        """
        q = jnp.where(edges.visits > 0, edges.q, first_play(edges, knobs))
        return self.rule(edges, knobs) - q

    def noise(self, keys: Key[Array, "B"], root: Node) -> Any:
        """Random numbers of a search that `root_rule` and `conclude` are given; keys `[B]`."""
        del keys, root

    def root_prior(
        self, keys: Key[Array, "B"], root: Node, knobs: SearchKnobs
    ) -> Float[Array, "B S"]:
        """The prior that the root is searched with; keys `[B]` are consumed."""
        del keys, knobs
        return root.prior

    def conclude(
        self, edges: Edges, knobs: SearchKnobs, noise: Any
    ) -> tuple[Float[Array, "B S"], Float[Array, "B S"]]:
        """Of the root at the end: scores, whose highest is played, and the policy to learn.

        By default the most visited move, and the shares of the visits.
        """
        del knobs, noise
        visits = edges.visits.astype(jnp.float32)
        return visits, visits / jnp.maximum(edges.count, 1)

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
        return self.think(game, evaluate, params, keys, positions, knobs)[0]

    def think(
        self,
        game: Game,
        evaluate: Evaluator,
        params: object,
        keys: Key[Array, "B"],
        positions: Position,
        knobs: SearchKnobs,
    ) -> tuple[Decision, Tree]:
        """Like a call, and returns the trees as well."""
        knobs = per_game(knobs, keys.shape[0])
        root_key, prior_key, noise_key, search_key = split_keys(keys, 4)
        root = evaluate_node(
            game,
            evaluate,
            params,
            root_key,
            positions,
            discount=knobs.discount,
            policy_temperature=knobs.policy_temperature,
            chance=self.chance,
        )
        noise = self.noise(noise_key, root)
        searched = dataclasses.replace(root, prior=self.root_prior(prior_key, root, knobs))
        tree = root_tree(searched, self.simulations + 1, self.carried, self.leaves)
        tree = self.grow(game, evaluate, params, search_key, tree, knobs, noise)
        return self.decide(game, tree, root.prior, knobs, noise), tree

    def grow(
        self,
        game: Game,
        evaluate: Evaluator,
        params: object,
        keys: Key[Array, "B"],
        tree: Tree,
        knobs: SearchKnobs,
        noise: Any,
    ) -> Tree:
        """Runs the simulations on trees; knobs are one per game `[B]`, keys `[B]` are consumed."""
        return grow(
            game,
            evaluate,
            params,
            keys,
            tree,
            growth=self,
            root_rule=lambda edges, knobs: self.root_rule(edges, knobs, noise),
            rule=self.rule,
            knobs=knobs,
        )

    def decide(
        self,
        game: Game,
        tree: Tree,
        network_prior: Float[Array, "B S"],
        knobs: SearchKnobs,
        noise: Any,
    ) -> Decision:
        """Reads the move, the policy to learn and the values off grown trees."""
        edges = root_edges(tree)
        score, policy = self.conclude(edges, columns(knobs).at_root(), noise)
        if self.proven_first:
            score = prefer_proven(score, edges)
        ranks = slot_ranks(game, self.ties, tree.labels[:, 0], tree.mover[:, 0])
        slot = best_slot(score, edges, ranks)
        return decide(tree, slot, policy, network_prior, knobs.discount)


def root_edges(tree: Tree) -> Edges:
    """The moves of the roots."""
    rows: Int32[Array, "B"] = jnp.arange(tree.parent.shape[0])
    return edges_of(tree, rows, jnp.zeros_like(rows), jnp.zeros_like(rows))
