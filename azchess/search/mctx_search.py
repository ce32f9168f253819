"""`search`: mctx's search under mctx's own name and rules, with a faster loop inside.

mctx (Apache-2.0, commit b53073f) maps its backup over the batch, which copies the trees at every
step up. Here one loop climbs all trees together and writes at one place in each of them, so that a
simulation costs what it reads and not what the trees hold.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import mctx
from jaxtyping import Array, Float, Int

MctxTree: TypeAlias = Any
"""An `mctx.Tree`; its fields are described there, but no type checker can read them."""

ROOT = mctx.Tree.ROOT_INDEX
UNVISITED = mctx.Tree.UNVISITED


def search(
    params: Any,
    rng_key: Array,
    *,
    root: Any,
    recurrent_fn: Callable[..., Any],
    root_action_selection_fn: Callable[..., Any],
    interior_action_selection_fn: Callable[..., Any],
    num_simulations: int,
    max_depth: int | None = None,
    invalid_actions: Any = None,
    extra_data: Any = None,
    loop_fn: Callable[..., Any] = jax.lax.fori_loop,
) -> MctxTree:
    """Thinks about many positions at once, exactly as `mctx.search` does.

    Arguments, random keys and the tree that comes back are those of `mctx.search`; its selection
    functions, value transforms and policies work unchanged on it. Numbers differ from mctx's by
    rounding only.
    """
    batch = root.value.shape[0]
    rows = jnp.arange(batch)
    if max_depth is None:
        max_depth = num_simulations
    if invalid_actions is None:
        invalid_actions = jnp.zeros_like(root.prior_logits)

    def simulate(simulation: Array, state: tuple[Array, MctxTree]) -> tuple[Array, MctxTree]:
        key, tree = state
        key, descent_key, expansion_key = jax.random.split(key, 3)
        parent, action = descend(
            jax.random.split(descent_key, batch),
            tree,
            root_action_selection_fn,
            interior_action_selection_fn,
            max_depth,
        )
        known = tree.children_index[rows, parent, action]
        node = jnp.where(known == UNVISITED, simulation + 1, known)
        tree = expand(params, expansion_key, tree, recurrent_fn, parent, action, node)
        return key, back_up(tree, node)

    tree = root_tree(root, num_simulations + 1, invalid_actions, extra_data)
    return loop_fn(0, num_simulations, simulate, (rng_key, tree))[1]


def root_tree(root: Any, size: int, invalid_actions: Any, extra: Any) -> MctxTree:
    """Trees with room for `size` nodes that hold only their root."""
    batch, actions = jnp.shape(root.prior_logits)
    dtype = jnp.asarray(root.value).dtype

    def room(leaf: Array) -> Array:
        leaf = jnp.asarray(leaf)
        return jnp.zeros((batch, size, *leaf.shape[1:]), leaf.dtype).at[:, ROOT].set(leaf)

    nowhere = jnp.full((batch, size), UNVISITED, jnp.int32)
    values = jnp.zeros((batch, size, actions), dtype)
    make: Any = mctx.Tree
    return make(
        node_visits=jnp.zeros((batch, size), jnp.int32).at[:, ROOT].set(1),
        raw_values=room(root.value),
        node_values=room(root.value),
        parents=nowhere,
        action_from_parent=nowhere,
        children_index=jnp.full((batch, size, actions), UNVISITED, jnp.int32),
        children_prior_logits=room(root.prior_logits),
        children_values=values,
        children_visits=jnp.zeros((batch, size, actions), jnp.int32),
        children_rewards=values,
        children_discounts=values,
        embeddings=jax.tree.map(room, root.embedding),
        root_invalid_actions=invalid_actions,
        extra_data=extra,
    )


def descend(
    keys: Array,
    tree: MctxTree,
    root_selection: Callable[..., Any],
    selection: Callable[..., Any],
    max_depth: int,
) -> tuple[Int[Array, "B"], Int[Array, "B"]]:
    """Goes down every tree to an unvisited action or the depth limit: last node and action there.

    Each row has its own keys, split once per step down, so that rows that have arrived may go on
    drawing numbers that nobody reads.
    """
    rows = jnp.arange(keys.shape[0])
    root_choice = jax.vmap(root_selection, (0, 0, None))
    choice = jax.vmap(selection)

    def split(keys: Array) -> tuple[Array, Array]:
        pairs = jax.vmap(jax.random.split)(keys)
        return pairs[:, 0], pairs[:, 1]

    def continues(state: tuple[Array, ...]) -> Array:
        _, node, action, depth = state
        return (tree.children_index[rows, node, action] != UNVISITED) & (depth < max_depth)

    def deeper(state: tuple[Array, ...]) -> tuple[Array, ...]:
        keys, node, action, depth = state
        active = continues(state)
        keys, use = split(keys)
        node = jnp.where(active, tree.children_index[rows, node, action], node)
        chosen = choice(use, tree, node, depth)
        return keys, node, jnp.where(active, chosen, action), jnp.where(active, depth + 1, depth)

    keys, use = split(keys)
    start = jnp.zeros(rows.shape, jnp.int32)
    first = root_choice(use, tree, jnp.int32(ROOT))
    depth = jnp.ones(rows.shape, tree.children_prior_logits.dtype)
    state = jax.lax.while_loop(
        lambda state: continues(state).any(), deeper, (keys, start, first, depth)
    )
    return state[1], state[2]


def expand(
    params: Any,
    key: Array,
    tree: MctxTree,
    recurrent_fn: Callable[..., Any],
    parent: Int[Array, "B"],
    action: Int[Array, "B"],
    node: Int[Array, "B"],
) -> MctxTree:
    """Evaluates the position behind an action and stores it as `node`, or anew if it was known."""
    rows = jnp.arange(parent.shape[0])
    embedding = jax.tree.map(lambda x: x[rows, parent], tree.embeddings)
    step, embedding = recurrent_fn(params, key, action, embedding)

    def put(store: Array, leaf: Array) -> Array:
        return store.at[rows, node].set(leaf)

    def link(store: Array, leaf: Array) -> Array:
        return store.at[rows, parent, action].set(leaf)

    return tree.replace(
        node_visits=tree.node_visits.at[rows, node].add(1),
        raw_values=put(tree.raw_values, step.value),
        node_values=put(tree.node_values, step.value),
        parents=put(tree.parents, parent),
        action_from_parent=put(tree.action_from_parent, action),
        children_prior_logits=put(tree.children_prior_logits, step.prior_logits),
        embeddings=jax.tree.map(put, tree.embeddings, embedding),
        children_index=link(tree.children_index, node),
        children_rewards=link(tree.children_rewards, step.reward),
        children_discounts=link(tree.children_discounts, step.discount),
    )


def back_up(tree: MctxTree, node: Int[Array, "B"]) -> MctxTree:
    """Renews the mean values and the counts between nodes and their roots, one level at a time."""
    rows = jnp.arange(node.shape[0])
    outside = tree.node_visits.shape[1]

    def climb(state: tuple[Array, ...]) -> tuple[Array, ...]:
        node, value, node_values, node_visits, children_values, children_visits = state
        parent, action = tree.parents[rows, node], tree.action_from_parent[rows, node]
        reward = tree.children_rewards[rows, parent, action]
        value = reward + tree.children_discounts[rows, parent, action] * value
        count = node_visits[rows, parent]
        mean = (node_values[rows, parent] * count + value) / (count + 1.0)
        # Rows that have arrived at their root write outside of the tree, that is, nowhere.
        place = jnp.where(node == ROOT, outside, parent)
        children_values = children_values.at[rows, place, action].set(
            node_values[rows, node], mode="drop"
        )
        return (
            jnp.where(node == ROOT, ROOT, parent),
            value,
            node_values.at[rows, place].set(mean, mode="drop"),
            node_visits.at[rows, place].add(1, mode="drop"),
            children_values,
            children_visits.at[rows, place, action].add(1, mode="drop"),
        )

    value: Float[Array, "B"] = tree.node_values[rows, node]
    state = (node, value, tree.node_values, tree.node_visits)
    state = (*state, tree.children_values, tree.children_visits)
    state = jax.lax.while_loop(lambda state: (state[0] != ROOT).any(), climb, state)
    return tree.replace(
        node_values=state[2],
        node_visits=state[3],
        children_values=state[4],
        children_visits=state[5],
    )
