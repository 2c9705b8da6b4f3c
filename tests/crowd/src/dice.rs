//! Chance that comes again with the same seed.

/// A generator of random numbers: SplitMix64, which is plenty for dice.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice of their own for `place`, under a seed.
    pub fn new(seed: u64, place: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place.wrapping_mul(0xd1b5_4a32_d192_ed03));
        dice.roll();
        dice
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }

    /// A number from `first` to `last`.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// True in so many of a thousand cases.
    pub fn permille(&mut self, chance: usize) -> bool {
        self.below(1000) < chance
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of them, each as likely as its weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        for &(weight, what) in from {
            if left < weight {
                return what;
            }
            left -= weight;
        }
        from[0].1
    }
}
