"""Ratios of pairs, with intervals by bootstrap; and what each device's time is."""

import random
import statistics
import time

import torch


def synchronize(device):
    (torch.cuda if device == "cuda" else torch.accelerator).synchronize()


def interval(values, of=statistics.median, draws=2000, seed=1):
    """The statistic, and the middle 95 % of it over samples drawn with replacement."""
    rng = random.Random(seed)
    drawn = sorted(of(rng.choices(values, k=len(values))) for _ in range(draws))
    return of(values), drawn[int(draws * 0.025)], drawn[int(draws * 0.975)]


def host_time(work, device, calls=1):
    """Seconds of the host for these calls, with nothing waiting on the device before them."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(calls):
        work()
    elapsed = time.perf_counter() - start
    synchronize(device)
    return elapsed / calls


def duel(first, second, rounds, seed=0):
    """(first, second) seconds of each round. `first` and `second` take turns, in an order that chance decides: what
    drifts hits both of a pair alike."""
    order, pairs = random.Random(seed), []
    for _ in range(rounds):
        turn = [(0, first), (1, second)]
        order.shuffle(turn)
        times = {which: call() for which, call in turn}
        pairs.append((times[0], times[1]))
    return pairs


def ratios(pairs):
    """second / first of each pair."""
    return [second / first for first, second in pairs]


def text(triple, digits=3):
    middle, low, high = triple
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
