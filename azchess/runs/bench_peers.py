"""One search, several ways: our trees, mctx's loop, and our loop behind mctx's signature.

All of them search a game whose rules and network cost next to nothing, so that trees are measured.
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Container
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Int32, Key, UInt32

from azchess.games.game import Moves, Position, Status
from azchess.games.hashing import draw, share
from azchess.games.toy import Code, HashGame
from azchess.networks.evaluator import Evaluation
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct
from azchess.search.tree import search as our_search

# pyright does not see the constructors of chex's dataclasses.
mctx: Any = importlib.import_module("mctx")


class Found(NamedTuple):
    """Visits of the roots' moves, and steps down per simulation where they are counted."""

    visits: Int32[Array, "B S"]
    lockstep: Float[Array, ""] | None = None


Side: TypeAlias = Callable[[Float[Array, ""], Position], Found]
"""`(params, positions [B]) -> Found`: one way to search."""

SLOTS = 224
"""Legal moves everywhere: as many as any chess position has, and a few."""
LABELS = 4672
"""Labels of chess, which mctx searches where it is not told otherwise."""
PUCT = ("core", "adapter", "mctx.search", "mctx.muzero_policy")


@dataclasses.dataclass(frozen=True)
class Wide(HashGame):
    """A game without end in which every label is legal everywhere."""

    num_labels: int = SLOTS
    num_slots: int = SLOTS
    name: str = "wide"

    def moves(self, position: Code) -> Moves:
        # Of the position, as moves are: what is the same everywhere XLA writes at another time.
        labels = jnp.where(position.ply < 0, -1, jnp.arange(self.num_slots)).astype(jnp.int16)
        return Moves(labels=labels, count=jnp.int32(self.num_slots))

    def status(self, position: Code, moves: Moves) -> Status:
        no = jnp.bool_(False)
        return Status(terminated=no, truncated=no, outcome=jnp.int8(0))


GAME = Wide()


def wide_positions(batch: int) -> Code:
    """Different positions, one per game."""
    return jax.vmap(GAME.init)(jax.random.split(jax.random.key(0), batch))


def wide_logits(code: UInt32[Array, "B"]) -> Float[Array, "B S"]:
    """A prior that differs from move to move."""
    return 4.0 * share(draw(code[:, None], jnp.arange(SLOTS, dtype=jnp.uint32)))


def wide_value(code: UInt32[Array, "B"]) -> Float[Array, "B"]:
    """Values all over [-1, 1]."""
    return 2.0 * share(draw(code, jnp.uint32(1000))) - 1.0


def wide_evaluator(
    params: Float[Array, ""], keys: Key[Array, "B"], positions: Code, moves: Moves
) -> Evaluation:
    """The evaluation by hash; its values are as large as the parameter says."""
    del keys, moves
    value = params * wide_value(positions.code)
    lost, won = jnp.maximum(-value, 0.0), jnp.maximum(value, 0.0)
    return Evaluation(
        logits=wide_logits(positions.code),
        wdl=jnp.stack([won, 1.0 - won - lost, lost], axis=-1),
        moves_left=jnp.zeros_like(value),
    )


def core(search: Puct | Gumbel, knobs: SearchKnobs) -> Side:
    """Our own trees."""

    def run(params: Float[Array, ""], positions: Code) -> Found:
        keys = jax.random.split(jax.random.key(1), len(positions.code))
        decision = search(GAME, wide_evaluator, params, keys, positions, knobs.greedy())
        return Found(visits=decision.visits, lockstep=decision.lockstep[0])

    return run


def recurrent(
    params: Float[Array, ""], key: Any, action: Int[Array, "B"], positions: Code, labels: int
) -> tuple[Any, Code]:
    """The game and its evaluation as mctx asks for them, with room for so many `labels`."""
    del key
    positions = jax.vmap(GAME.step)(positions, action)
    output = mctx.RecurrentFnOutput(
        reward=jnp.zeros(action.shape),
        discount=-jnp.ones(action.shape),
        prior_logits=padded(wide_logits(positions.code), labels),
        value=params * wide_value(positions.code),
    )
    return output, positions


def padded(logits: Float[Array, "B S"], labels: int) -> Float[Array, "B A"]:
    """Logits with as many labels behind them as there are to be, none of them legal."""
    room = ((0, 0), (0, labels - logits.shape[1]))
    return jnp.pad(logits, room, constant_values=jnp.finfo(jnp.float32).min)


def mctx_root(params: Float[Array, ""], positions: Code, labels: int = SLOTS) -> Any:
    """The roots as mctx asks for them."""
    return mctx.RootFnOutput(
        prior_logits=padded(wide_logits(positions.code), labels),
        value=params * wide_value(positions.code),
        embedding=positions,
    )


def loop(search: Callable[..., Any], simulations: int) -> Side:
    """`mctx.search`, or what has its signature, with AlphaZero's rule of `Puct`."""

    def choose(key: Any, tree: Any, node: Int[Array, ""], depth: Any = None) -> Int32[Array, ""]:
        del key, depth
        visits = tree.children_visits[node]
        count = visits.sum().astype(jnp.float32)
        prior = jax.nn.softmax(tree.children_prior_logits[node])
        c = 1.25 + jnp.log((1.0 + count + 19652.0) / 19652.0)
        q = jnp.where(visits > 0, tree.qvalues(node), 0.0)
        score = q + c * jnp.sqrt(count) * prior / (1.0 + visits)
        return jnp.where(score == score.max(), prior, -1.0).argmax().astype(jnp.int32)

    def run(params: Float[Array, ""], positions: Code) -> Found:
        tree = search(
            params,
            jax.random.key(1),
            root=mctx_root(params, positions),
            recurrent_fn=functools.partial(recurrent, labels=SLOTS),
            root_action_selection_fn=choose,
            interior_action_selection_fn=choose,
            num_simulations=simulations,
        )
        return Found(visits=tree.children_visits[:, 0])

    return run


def policy(
    search: Callable[..., Any], simulations: int, labels: int = SLOTS, **options: Any
) -> Side:
    """One of mctx's own policies without noise."""

    def run(params: Float[Array, ""], positions: Code) -> Found:
        root = mctx_root(params, positions, labels)
        output = search(
            params,
            jax.random.key(1),
            root,
            functools.partial(recurrent, labels=labels),
            simulations,
            invalid_actions=jnp.arange(labels) >= jnp.full((len(positions.code), 1), SLOTS),
            **options,
        )
        return Found(visits=output.search_tree.children_visits[:, 0, :SLOTS])

    return run


def puct_sides(simulations: int, wanted: Container[str] = PUCT) -> dict[str, Side]:
    """AlphaZero's search: three ways with one rule, and mctx's own policy with its own."""
    sides = {
        "core": core(Puct(simulations), SearchKnobs()),
        "adapter": loop(our_search, simulations),
        "mctx.search": loop(mctx.search, simulations),
        "mctx.muzero_policy": policy(mctx.muzero_policy, simulations, dirichlet_fraction=0.0),
    }
    return {name: side for name, side in sides.items() if name in wanted}


def gumbel_sides(simulations: int) -> dict[str, Side]:
    """Gumbel search as in mctx, over as many labels as there are moves and as chess has."""
    search = Gumbel(simulations, rescale_values=True)
    theirs = functools.partial(policy, mctx.gumbel_muzero_policy, simulations, gumbel_scale=0.0)
    return {
        "core": core(search, SearchKnobs(c_scale=0.1)),
        f"mctx, {SLOTS} labels": theirs(labels=SLOTS),
        f"mctx, {LABELS:,} labels": theirs(labels=LABELS),
    }
