"""Tree search as a policy: what all searches share, and what each says for itself."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from azchess.games.game import Game, Position
from azchess.networks.evaluator import Evaluator
from azchess.search.decision import Decision, decide
from azchess.search.edges import NOTHING, Carries, Edges, best_slot, slot_ranks
from azchess.search.first_play import first_play
from azchess.search.grow import grow
from azchess.search.growth import Growth
from azchess.search.knobs import Knob, SearchKnobs, columns, per_game
from azchess.search.node import Node, evaluate_node, split_keys
from azchess.search.proof import prefer_proven
from azchess.search.reuse import advance, known_root, no_trees, replant, root_visits, with_root
from azchess.search.tree import ROOT, Tree, edges_of, root_tree


@dataclasses.dataclass(frozen=True)
class TreeSearch(Growth, abc.ABC):
    """A search by one selection rule: a hashable config, called with knobs.

    A search says how it scores moves (`rule`, and `root_rule` where the root differs), how it draws
    noise (`noise`, `root_prior`), what it makes of the finished tree (`conclude`), what its trees
    must carry, and whether it may go on in the tree of the move before (`reuses`).
    """

    carries: ClassVar[Carries] = NOTHING
    reuses: ClassVar[bool] = True

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
        tree: Tree | None = None,
    ) -> tuple[Decision, Tree]:
        """Like a call, and returns the trees as well; their roots hold the prior without noise.

        `tree`: what `advance` or `stay` left of earlier trees for these positions. They grow by as
        many simulations as new ones would: `simulations` and the knob `budget` count what is added
        (Lc0's playouts; for its visits, take `root_visits(tree)` off the budget). Where a tree
        holds nothing its root is judged anew; elsewhere the root keeps its value and prior, on
        which the root's noise and temperature work afresh.
        """
        knobs = per_game(knobs, keys.shape[0])
        root_key, prior_key, noise_key, search_key = split_keys(keys, 4)
        root = self.look(game, evaluate, params, root_key, positions, knobs)
        if tree is not None:
            self.check_reuse()
            if tree.size != 2 * self.simulations:
                raise ValueError(
                    f"a tree of {tree.size} nodes has no room for {self.simulations} simulations "
                    "beside what it keeps: pass what `advance`, `stay` or `no_trees` return"
                )
            root = known_root(tree, root)
        noise = self.noise(noise_key, root)
        searched = dataclasses.replace(root, prior=self.root_prior(prior_key, root, knobs))
        if tree is None:
            tree = root_tree(searched, self.simulations + 1, self.carried, self.leaves)
        else:
            tree = with_root(tree, searched)
        before = root_visits(tree)
        tree = self.grow(game, evaluate, params, search_key, tree, knobs, noise)
        decision = self.decide(game, tree, root.prior, knobs, noise, before)
        clean = tree.prior.at[:, ROOT].set(root.prior)
        return decision, dataclasses.replace(tree, prior=clean)

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

    def look(
        self,
        game: Game,
        evaluate: Evaluator,
        params: object,
        keys: Key[Array, "B"],
        positions: Position,
        knobs: SearchKnobs,
    ) -> Node:
        """Judges positions `[B]` as this search would; keys and knobs are `[B]`."""
        return evaluate_node(
            game,
            evaluate,
            params,
            keys,
            positions,
            discount=knobs.discount,
            policy_temperature=knobs.policy_temperature,
            chance=self.chance,
        )

    def no_trees(
        self,
        game: Game,
        evaluate: Evaluator,
        params: object,
        positions: Position,
    ) -> Tree:
        """Trees for positions `[B]` that hold nothing yet, as `advance` returns them."""
        batch = jax.tree.leaves(positions)[0].shape[0]

        def first() -> Tree:
            keys = jax.random.split(jax.random.key(0), batch)
            knobs = per_game(SearchKnobs(), batch)
            node = self.look(game, evaluate, params, keys, positions, knobs)
            return root_tree(node, 1, self.carried, self.leaves)

        self.check_reuse()
        return no_trees(jax.eval_shape(first), 2 * self.simulations)

    def advance(self, tree: Tree, slot: Int32[Array, "B"], discount: Knob = 1.0) -> Tree:
        """The trees after a move from each root, `slot`, or -1 to begin with nothing.

        They keep as many nodes as a search makes, the oldest ones: see `azchess.search.reuse`.
        """
        return advance(tree, slot, 2 * self.simulations, self.simulations, discount)

    def stay(self, tree: Tree, discount: Knob = 1.0) -> Tree:
        """The trees as they are, with room for another search of the same positions."""
        root = jnp.zeros(tree.parent.shape[:1], jnp.int32)
        return replant(tree, root, 2 * self.simulations, self.simulations, discount)

    @property
    def keeps_trees(self) -> bool:
        """Whether the search can go on in the tree of the move before."""
        return self.reuses and not self.two_fold_draws

    def check_reuse(self) -> None:
        """Raises ValueError where the search cannot go on in the tree of the move before."""
        if not self.reuses:
            raise ValueError(f"{type(self).__name__} begins each search with a new tree")
        if self.two_fold_draws:
            raise ValueError(
                "search.two_fold_draws = True: what is a draw within one search is none in the "
                "next, so that trees cannot be kept"
            )

    def decide(
        self,
        game: Game,
        tree: Tree,
        network_prior: Float[Array, "B S"],
        knobs: SearchKnobs,
        noise: Any,
        before: Int32[Array, "B"] | int = 0,
    ) -> Decision:
        """Reads the move, the policy to learn and the values off grown trees.

        `before` are the visits that the roots had when the search began.
        """
        edges = root_edges(tree)
        score, policy = self.conclude(edges, columns(knobs).at_root(), noise)
        if self.proven_first:
            score = prefer_proven(score, edges)
        ranks = slot_ranks(game, self.ties, tree.labels[:, 0], tree.mover[:, 0])
        slot = best_slot(score, edges, ranks)
        return decide(tree, slot, policy, network_prior, knobs.discount, before)


def root_edges(tree: Tree) -> Edges:
    """The moves of the roots."""
    rows: Int32[Array, "B"] = jnp.arange(tree.parent.shape[0])
    return edges_of(tree, rows, jnp.zeros_like(rows), jnp.zeros_like(rows))
