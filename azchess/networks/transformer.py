"""A transformer that reads a board square by square and answers move by move."""

import dataclasses
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Int16, PRNGKeyArray

from azchess.games.game import Game


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a `Transformer`.

    The defaults are small enough for two CPU cores; AlphaZero's chess network is a residual tower
    of 20 blocks of 256 filters.
    """

    layers: int = 2
    """Number of blocks (attention and feed-forward)."""
    width: int = 64
    """Features of a square between the blocks."""
    heads: int = 4
    """Attention heads; must divide the width."""
    hidden: int = 2
    """Width of the feed-forward layer, in multiples of the width."""
    summary: int = 8
    """Features per square that the value heads read."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the blocks; parameters stay float32."""

    def __post_init__(self) -> None:
        for name in ("layers", "width", "heads", "hidden", "summary"):
            if getattr(self, name) < 1:
                raise ValueError(f"network.{name} = {getattr(self, name)}: must be at least 1")
        if self.width % self.heads:
            raise ValueError(
                f"network.heads = {self.heads}: must divide network.width = {self.width}"
            )

    def init(self, game: Game, key: PRNGKeyArray) -> "Transformer":
        """A freshly initialised network for a game; every leaf is a float32 array."""
        return Transformer(self, game, rngs=nnx.Rngs(key))


class Block(nnx.Module):
    """Pre-norm attention between the squares with a bias per pair of squares, then a two-layer MLP.

    The bias is learned per head and relative offset (rows, columns) of the two squares. It starts
    as minus the distance in king's moves times a slope per head, from 2 down to 1/4, so that heads
    see near and far from the first update (as in ALiBi, Press et al. 2022, where the slopes of
    language models go from 1/2 to 1/256); from zeros, training does not find the neighbourhood.
    """

    def __init__(self, config: TransformerConfig, board: tuple[int, int], *, rngs: nnx.Rngs):
        self.heads = config.heads
        self.dtype = jnp.dtype(config.dtype)
        self.board = board
        width = config.width
        linear = {"dtype": self.dtype, "rngs": rngs}
        self.attention_norm = nnx.RMSNorm(width, **linear)
        self.qkv = nnx.Linear(width, 3 * width, use_bias=False, **linear)
        self.out = nnx.Linear(width, width, **linear)
        slopes = 2.0 ** jnp.linspace(1.0, -2.0, config.heads)
        self.bias = nnx.Param(-slopes[:, None] * offset_distances(board))
        self.mlp_norm = nnx.RMSNorm(width, **linear)
        self.up = nnx.Linear(width, config.hidden * width, **linear)
        self.down = nnx.Linear(config.hidden * width, width, **linear)

    def __call__(self, x: Float[Array, "B Q D"]) -> Float[Array, "B Q D"]:
        qkv = self.qkv(self.attention_norm(x))
        q, k, v = jnp.split(qkv.reshape(*x.shape[:-1], 3 * self.heads, -1), 3, axis=-2)
        bias = self.bias[...].astype(self.dtype)[:, relative_offsets(self.board)]
        mixed = jax.nn.dot_product_attention(q, k, v, bias=bias[None])
        x = x + self.out(mixed.reshape(x.shape))
        return x + self.down(jax.nn.gelu(self.up(self.mlp_norm(x))))


class Transformer(nnx.Module):
    """Square tokens in; logits of moves, win/draw/loss logits and plies to the end out.

    A move's logit is the attention between its from- and its to-square, plus an offset by its kind
    (promotions) read off the from-square. Both value heads read a few features of every square.
    """

    def __init__(self, config: TransformerConfig, game: Game, *, rngs: nnx.Rngs):
        rows, columns = game.board
        squares, width = rows * columns, config.width
        kinds = int(game.geometry[:, 2].max()) + 1
        self.dtype = jnp.dtype(config.dtype)
        linear = {"dtype": self.dtype, "rngs": rngs}
        self.embed = nnx.Linear(game.num_features, width, **linear)
        self.squares = nnx.Param(0.1 * jax.random.normal(rngs.params(), (squares, width)))
        keys = jax.random.split(rngs.params(), config.layers)
        self.blocks = jax.vmap(lambda key: Block(config, game.board, rngs=nnx.Rngs(key)))(keys)
        self.norm = nnx.RMSNorm(width, **linear)
        self.origin = nnx.Linear(width, width, **linear)
        self.target = nnx.Linear(width, width, **linear)
        self.kinds = nnx.Linear(width, kinds, kernel_init=nnx.initializers.zeros, **linear)
        self.summary = nnx.Linear(width, config.summary, **linear)
        self.hidden = nnx.Linear(squares * config.summary, 2 * width, **linear)
        self.wdl = nnx.Linear(2 * width, 3, kernel_init=nnx.initializers.zeros, **linear)
        self.moves_left = nnx.Linear(2 * width, 1, kernel_init=nnx.initializers.zeros, **linear)

    def __call__(
        self, tokens: Float[Array, "B Q F"], moves: Int[Array, "B S 3"]
    ) -> tuple[Float[Array, "B S"], Float[Array, "B 3"], Float[Array, "B"]]:
        x = self.embed(tokens.astype(self.dtype)) + self.squares[...].astype(self.dtype)

        def layer(x: Float[Array, "B Q D"], block: Block) -> tuple[Float[Array, "B Q D"], None]:
            return block(x), None

        x, _ = jax.lax.scan(layer, x, self.blocks)
        x = self.norm(x)
        summary = jax.nn.gelu(self.summary(x)).reshape(x.shape[0], -1)
        hidden = jax.nn.gelu(self.hidden(summary))
        moves_left = 10.0 * jax.nn.softplus(self.moves_left(hidden)[..., 0].astype(jnp.float32))
        return self.policy(x, moves), self.wdl(hidden).astype(jnp.float32), moves_left

    def policy(self, x: Float[Array, "B Q D"], moves: Int[Array, "B S 3"]) -> Float[Array, "B S"]:
        """Logits of moves given as from-square, to-square and kind."""
        origin, target, kind = moves[..., 0], moves[..., 1], moves[..., 2]
        squares, width = x.shape[1:]
        pairs = jnp.einsum("bqd,bkd->bqk", self.origin(x), self.target(x)) / math.sqrt(width)
        kinds = self.kinds(x)
        rows = jnp.arange(x.shape[0])[:, None]
        pair = pairs.reshape(x.shape[0], -1)[rows, origin * squares + target]
        offset = kinds.reshape(x.shape[0], -1)[rows, origin * kinds.shape[-1] + kind]
        return (pair + offset).astype(jnp.float32)


def relative_offsets(board: tuple[int, int]) -> Int16[np.ndarray, "Q Q"]:
    """Index of the (row, column) offset between every two squares of a board."""
    rows, columns = board
    row, column = np.divmod(np.arange(rows * columns), columns)
    down = row[:, None] - row[None, :] + rows - 1
    right = column[:, None] - column[None, :] + columns - 1
    return (down * (2 * columns - 1) + right).astype(np.int16)


def offset_distances(board: tuple[int, int]) -> Float[np.ndarray, "O"]:
    """King's moves that lead from a square to another, for each index of `relative_offsets`."""
    down, right = (np.abs(np.arange(1 - size, size)) for size in board)
    return np.maximum(down[:, None], right[None, :]).astype(np.float32).ravel()


def num_parameters(network: Any) -> int:
    """How many numbers a network has."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(network))
