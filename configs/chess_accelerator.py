"""How strong does chess from the standard start become on one accelerator of 80 to 141 GB?

Command: azchess train configs/chess_accelerator.py
Hardware: one GPU or TPU with at least 80 GB. Not run to its end yet: there is no strength to
quote. `scripts/device_check` runs a few of its iterations and prints speed and memory.

Memory, as estimated before compiling: state 4.1 GiB (a replay of 8.4 million plies at 0.5 kB,
4,096 games, 8.3 million weights with their averages and moments), trees 0.64 GiB (4,096 x 33 nodes
of 5 kB), and up to 40 GiB for the gradients of a batch of 4,096 through 10 layers of width 256.
"""

from azchess.games.chess import ChessGame
from azchess.learning.iterate import Knobs
from azchess.learning.learner import LearnConfig
from azchess.learning.losses import LearnKnobs
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.transformer import TransformerConfig
from azchess.runs.config import RunConfig
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs

CONFIG = RunConfig(
    game=ChessGame(num_boards=8, max_plies=512),
    network=TransformerConfig(layers=10, width=256, heads=8, hidden=4, dtype="bfloat16"),
    search=Gumbel(simulations=32, considered=16),
    selfplay=SelfPlayConfig(games=4096, plies=32),
    learn=LearnConfig(
        batch=4096, updates=16, warmup=1000, decay=200_000, average=0.999, augment=True, fill=0.05
    ),
    knobs=Knobs(
        search=SearchKnobs(temperature_plies=30.0),
        learn=LearnKnobs(learning_rate=5e-4, weight_decay=1e-2, search_share=0.25),
    ),
    capacity=2048,
    iterations=20_000,
    checkpoint_every=500,
    keep_every=5_000,
)
