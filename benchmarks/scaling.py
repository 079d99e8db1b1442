"""On paper: step time and efficiency of DistributedDataParallel on many ranks, and the size of buckets that suits them.

    python benchmarks/scaling.py [--megabytes 100] [--backward 100] [--forward 50]

The cost of an all-reduce of n bytes on p ranks is that of Rabenseifner's algorithm, a reduce-scatter by halving and an all-gather by
doubling: 2 log2(p) a + 2 (p - 1) / p n b, with the latency a of a message and the time b of a byte; Thakur, Rabenseifner and Gropp,
"Optimization of Collective Communication Operations in MPICH", 2005. Buckets start in the order in which the backward pass makes their
gradients, one after the other, so the step takes the forward pass, the longer of backward pass and communication with its last bucket,
and the optimizer. In the simulation each rank's times vary, and each bucket starts when the slowest rank has its gradients.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy

RANKS = 8, 64, 1000
BUCKETS = tuple(2.0**k for k in range(-2, 8))  # MB
JITTER, STEPS = 0.02, 400  # standard deviation of a rank's times, as a share; simulated steps


@dataclass(frozen=True)
class Network:
    """`latency` in seconds for each message, `bandwidth` in bytes per second, `call` the seconds of the backward pass that a call takes."""

    name: str
    latency: float
    bandwidth: float
    call: float = 50e-6

    def all_reduce(self, nbytes: float, ranks: int) -> float:
        """Seconds of an all-reduce."""
        return 2 * math.log2(ranks) * self.latency + 2 * (ranks - 1) / ranks * nbytes / self.bandwidth


NETWORKS = (
    Network("Ethernet, 10 Gb/s", 30e-6, 1.1e9),
    Network("InfiniBand, 100 Gb/s", 5e-6, 12e9),
)


def step(network: Network, ranks: int, nbytes: float, bucket: float, forward: float, backward: numpy.ndarray, optimizer: float) -> float:
    """Seconds of a step in which the ranks' backward passes take these seconds; gradients come evenly during the pass."""
    count = max(1, math.ceil(nbytes / bucket))
    cost, free = network.all_reduce(nbytes / count, ranks), 0.0
    for i in range(count):
        ready = (float(backward.max()) / count + network.call) * (i + 1)
        free = max(free, ready) + cost
    return forward + free + optimizer


def table(network: Network, nbytes: float, forward: float, backward: float, optimizer: float) -> list[tuple]:
    """For each number of ranks: the best bucket, seconds of a step on paper and simulated, and both efficiencies."""
    alone, random, rows = forward + backward + optimizer, numpy.random.default_rng(0), []
    for ranks in RANKS:

        def paper(bucket: float, ranks: int = ranks) -> float:
            return step(network, ranks, nbytes, bucket * 1e6, forward, numpy.array([backward]), optimizer)

        bucket = min(BUCKETS, key=paper)
        times = []
        for _ in range(STEPS):
            varied = 1 + JITTER * random.standard_normal(ranks)
            times.append(step(network, ranks, nbytes, bucket * 1e6, forward * varied.max(), backward * varied, optimizer))
        on_paper, simulated = paper(bucket), float(numpy.mean(times))
        rows.append((ranks, bucket, paper(25), on_paper, alone / on_paper, simulated, alone / simulated))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=100, help="of gradients")
    parser.add_argument("--forward", type=float, default=50, help="ms")
    parser.add_argument("--backward", type=float, default=100, help="ms")
    parser.add_argument("--optimizer", type=float, default=5, help="ms")
    options = parser.parse_args()
    print("| network | ranks | best bucket | step, 25 MB buckets | step | efficiency | simulated | efficiency |")
    print("|---|---|---|---|---|---|---|---|")
    for network in NETWORKS:
        for ranks, bucket, usual, paper, share, simulated, real in table(
            network, options.megabytes * 1e6, options.forward / 1e3, options.backward / 1e3, options.optimizer / 1e3
        ):
            cells = f"{bucket:g} MB | {1e3 * usual:.0f} ms | {1e3 * paper:.0f} ms | {share:.0%} | {1e3 * simulated:.0f} ms | {real:.0%}"
            print(f"| {network.name} | {ranks:,} | {cells} |")


if __name__ == "__main__":
    main()
