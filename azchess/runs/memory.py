"""How much memory a run needs, said before anything is compiled."""

import functools
import math
import os
from typing import Any

import jax

from azchess.games.game import Game
from azchess.learning.iterate import Run
from azchess.networks.evaluator import uniform_evaluator
from azchess.runs.config import RunConfig
from azchess.search.node import evaluate_node
from azchess.search.policy import TreeSearch
from azchess.search.tree import Tree, root_tree

GIB = 2**30
ACTIVATIONS = 12
"""Arrays of the size of a layer's input that one layer keeps for its gradient."""


def tree_bytes(config: RunConfig) -> int:
    """Bytes of all search trees of one move.

    Trees that are reused have twice the nodes, and stand beside those that they are made of.
    """
    nodes = config.search.simulations + 1
    if config.selfplay.reuse:
        nodes = 4 * config.search.simulations
    return config.selfplay.games * nodes * node_bytes(config.game, config.search)


def node_bytes(game: Game, search: TreeSearch) -> int:
    """Bytes of a tree node: its position, its edges, and what the search's trees carry."""

    def trees(nodes: int) -> Tree:
        keys = jax.random.split(jax.random.key(0), 1)
        positions = jax.vmap(game.init)(keys)
        root = evaluate_node(
            game, uniform_evaluator(game), None, keys, positions, chance=search.chance
        )
        return root_tree(root, nodes, search.carried, search.leaves)

    one, two = (size_of(jax.eval_shape(functools.partial(trees, nodes))) for nodes in (1, 2))
    return two - one


def learning_bytes(config: RunConfig, game: Game) -> int:
    """Bytes that the gradient of one batch keeps, as far as the network tells its sizes."""
    width = getattr(config.network, "width", 0)
    layers = getattr(config.network, "layers", 0)
    heads = getattr(config.network, "heads", 0)
    squares = math.prod(game.board)
    layer = squares * (ACTIVATIONS * width + 2 * heads * squares)
    inputs = squares * (game.num_features + squares) + 8 * game.num_slots
    return 4 * config.learn.batch * (layers * layer + inputs)


def size_of(tree: Any) -> int:
    """Bytes of all arrays of a tree."""
    leaves = jax.tree.leaves(tree)
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


def available_bytes() -> int:
    """Bytes of the first device's memory; on a CPU the machine's."""
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(config: RunConfig, run: Run, devices: int = 1) -> str:
    """A line that says what a run will need on each device. Raises ValueError where that is more
    than there is.

    An estimate: state, trees and gradients, with a third more for what XLA keeps beside them. Each
    device has its part of the games, of the replay and of the batches, and all the weights.
    """
    lanes = size_of((run.games, run.replay)) / devices
    state = lanes + size_of(run.learner)
    trees = tree_bytes(config) / devices
    learning = learning_bytes(config, config.game) / devices
    need = state + (trees + learning) * 4 / 3
    have = available_bytes()
    line = (
        f"memory: about {need / GIB:.2f} GiB of {have / GIB:.1f} "
        f"(state {state / GIB:.2f}, trees {trees / GIB:.2f}, gradients {learning / GIB:.2f})"
    )
    if need > have:
        games = config.selfplay.games
        per_game = (lanes + trees * 4 / 3) / games
        rest = have - size_of(run.learner) - learning * 4 / 3
        room = int(rest / per_game)
        room -= room % devices
        advice = (
            f"at most {room} games fit (selfplay.games = {games})"
            if room > 0
            else f"not even one game fits beside a batch of learn.batch = {config.learn.batch}"
        )
        raise ValueError(f"{line}: too much; {advice}")
    return line
