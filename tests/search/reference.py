"""A search in plain Python and float64, and evaluators that know nothing but are never the same."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azchess.games.game import Game
from azchess.networks.evaluator import Evaluation
from azchess.search.knobs import SearchKnobs
from azchess.search.node import evaluate_node
from azchess.search.puct import Puct


def hashed_evaluator(game: Game) -> Any:
    """Moves and values drawn by a hash of the position, as strong as the parameter says.

    Params is a number: at 0 this is the uniform evaluator, at 1 logits spread over 4 and values
    over most of [-1, 1].
    """
    del game

    def evaluate(params, keys, positions, moves):
        del keys
        leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(positions)]
        code = jnp.uint32(0)
        for leaf in leaves:
            salt = jnp.arange(1, 1 + leaf.shape[1], dtype=jnp.uint32) * jnp.uint32(2654435761)
            words = (leaf.astype(jnp.uint32) + 1) * salt
            code = mix(code + mix(words).sum(axis=1))
        label = mix(code[:, None] + moves.labels.astype(jnp.uint32) * jnp.uint32(40503))
        value = share(mix(code + 7)) * params
        rest = 0.1 * jnp.ones_like(value) * params
        draw = 1.0 - 0.9 * params + rest
        wdl = jnp.stack([0.9 * value, draw, 0.9 * (params - value)], axis=-1)
        return Evaluation(
            logits=4.0 * params * share(label),
            wdl=wdl / wdl.sum(axis=-1, keepdims=True),
            moves_left=10.0 * params * share(mix(code + 9)),
        )

    return evaluate


def mix(code):
    code = (code ^ (code >> 16)) * jnp.uint32(0x85EBCA6B)
    code = (code ^ (code >> 13)) * jnp.uint32(0xC2B2AE35)
    return code ^ (code >> 16)


def share(code):
    return (code >> 8).astype(jnp.float32) / (1 << 24)


def wander(game, count, most, seed=0):
    """Positions `[count]` after up to `most` random moves, none of them finished."""

    def walk(key):
        start = game.init(key)
        length = jax.random.randint(jax.random.fold_in(key, 1), (), 0, most + 1)

        def move(position, index):
            moves = game.moves(position)
            logits = jnp.where(moves.legal, 0.0, -jnp.inf)
            slot = jax.random.categorical(jax.random.fold_in(key, 2 + index), logits)
            after = game.step(position, moves.labels[slot].astype(jnp.int32))
            over = game.status(after, game.moves(after)).over
            stay = over | (index >= length)
            return jax.tree.map(lambda x, y: jnp.where(stay, x, y), position, after), None

        return jax.lax.scan(move, start, jnp.arange(most))[0]

    return jax.jit(jax.vmap(walk))(jax.random.split(jax.random.key(seed), count))


@functools.cache
def compiled(search: Any, game: Game) -> Any:
    """`(params, keys, positions, knobs) -> Decision`, compiled once per test run."""
    evaluate = hashed_evaluator(game)

    def run(params, keys, positions, knobs):
        return search(game, evaluate, params, keys, positions, knobs)

    return jax.jit(run)


@functools.cache
def grown(game: Game, simulations: int, max_depth: int | None = None) -> Any:
    """`(params, keys, positions, knobs) -> Tree` of a PUCT search without noise, compiled."""
    search = Puct(simulations, max_depth=max_depth)
    evaluate = hashed_evaluator(game)

    def run(params, keys, positions, knobs):
        return search.think(game, evaluate, params, keys, positions, knobs.greedy())[1]

    return jax.jit(run)


@functools.cache
def compiled_node(game: Game) -> Any:
    evaluate = hashed_evaluator(game)

    def look(position, params, discount):
        batch = jax.tree.map(lambda leaf: leaf[None], position)
        keys = jax.random.split(jax.random.key(0), 1)
        node = evaluate_node(game, evaluate, params, keys, batch, discount=discount)
        facts = (
            node.moves.labels,
            node.prior,
            node.value,
            node.finished,
            node.mover,
        )
        return jax.tree.map(lambda fact: fact[0], facts)

    def step(position, label, params, discount):
        child = game.step(position, label)
        return child, look(child, params, discount)

    return jax.jit(look), jax.jit(step)


@dataclasses.dataclass
class Node:
    """A node with its edges as Python lists, one entry per legal move."""

    position: Any
    labels: list[int]
    prior: list[float]
    value: float
    finished: bool
    mover: int
    visits: list[int]
    total: list[float]
    children: dict[int, int]


def new_node(position: Any, facts: Any) -> Node:
    labels, priors, value, finished, mover = jax.device_get(facts)
    count = int((labels >= 0).sum())
    return Node(
        position=position,
        labels=labels[:count].tolist(),
        prior=priors[:count].astype(np.float64).tolist(),
        value=float(value),
        finished=bool(finished),
        mover=int(mover),
        visits=[0] * count,
        total=[0.0] * count,
        children={},
    )


@dataclasses.dataclass
class Line:
    """What one simulation did: where it ended, and by how much its closest choice was decided."""

    parent: int
    slot: int
    margin: float


def puct(
    game: Game,
    params: float,
    position: Any,
    knobs: SearchKnobs,
    simulations: int,
    max_depth: int | None = None,
    choose: Any = None,
) -> tuple[dict[int, Node], list[Line]]:
    """AlphaZero's search as its paper says it, without root noise, or one by another choice.

    The node made by simulation i has the number i + 1, the root is 0. `choose` gives the slot that
    is searched next below a node, `(node, knobs, ranks)`, and how close that call was.
    """
    choose = choose or _choose
    look, step = compiled_node(game)
    discount = float(knobs.discount)
    nodes = {0: new_node(position, look(position, params, discount))}
    lines = []
    for simulation in range(simulations):
        path, index, margin = [], 0, math.inf
        while True:
            node = nodes[index]
            slot, gap = choose(node, knobs, game.ranks)
            margin = min(margin, gap)
            path.append((index, slot))
            child = node.children.get(slot)
            if child is None:
                facts = step(node.position, node.labels[slot], params, discount)
                node.children[slot] = child = simulation + 1
                nodes[child] = new_node(*facts)
                break
            if nodes[child].finished or len(path) == max_depth:
                break
            index = child
        value, mover = nodes[child].value, nodes[child].mover
        for index, slot in reversed(path):
            node = nodes[index]
            value = discount * (value if node.mover == mover else -value)
            mover = node.mover
            node.visits[slot] += 1
            node.total[slot] += value
        lines.append(Line(parent=path[-1][0], slot=path[-1][1], margin=margin))
    return nodes, lines


def _choose(node: Node, knobs: SearchKnobs, ranks: np.ndarray) -> tuple[int, float]:
    count = sum(node.visits)
    c = float(knobs.c_init) + math.log((1 + count + float(knobs.c_base)) / float(knobs.c_base))

    def score(slot: int) -> float:
        visits = node.visits[slot]
        q = node.total[slot] / visits if visits else float(knobs.fpu)
        return q + c * node.prior[slot] * math.sqrt(count) / (1 + visits)

    return best([score(slot) for slot in range(len(node.labels))], node, ranks)


def best(scores: list[float], node: Node, ranks: np.ndarray) -> tuple[int, float]:
    """The slot of the highest score, and by how much it is ahead of the next one."""
    order = sorted(
        range(len(scores)), key=lambda s: (-scores[s], -node.prior[s], ranks[node.labels[s]])
    )
    gap = scores[order[0]] - scores[order[1]] if len(order) > 1 else math.inf
    # A tie that the prior decides is as close as the priors are.
    if gap == 0:
        gap = node.prior[order[0]] - node.prior[order[1]]
    return order[0], gap
