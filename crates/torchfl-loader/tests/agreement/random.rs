//! Numbers from a seed.

/// `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True in `percent` of a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// One of `from`, each by its weight.
    pub(crate) fn weighted<T: Clone>(&mut self, from: &[(u64, T)]) -> T {
        let mut at = self.next() % from.iter().map(|(weight, _)| weight).sum::<u64>();
        for (weight, item) in from {
            if at < *weight {
                return item.clone();
            }
            at -= weight;
        }
        unreachable!("the weights' sum was taken")
    }
}
