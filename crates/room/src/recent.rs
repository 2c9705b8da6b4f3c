//! A cache: a map of limited size, which drops the entry that was unused for longest.

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::Hash;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// How many values.
    pub entries: usize,
    /// The sum of what they weigh. One that weighs more is kept alone.
    pub weight: usize,
}

/// Values by key, of which the least recently used go.
#[derive(Debug)]
pub struct Recent<K, V> {
    entries: HashMap<K, Entry<V>>,
    weight: usize,
    /// Counts uses.
    clock: Cell<u64>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    weight: usize,
    used: Cell<u64>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent { entries: HashMap::new(), weight: 0, clock: Cell::new(0) }
    }
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    /// The value of `key`, which is used by that.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let entry = self.entries.get(key)?;
        entry.used.set(self.now());
        Some(&entry.value)
    }

    /// Makes room among those that `may_go`, and keeps the value.
    pub fn insert(&mut self, key: K, value: V, weight: usize, bounds: &Bounds, may_go: impl Fn(&V) -> bool) {
        self.remove(&key);
        while self.entries.len() >= bounds.entries || self.weight.saturating_add(weight) > bounds.weight {
            let idle = self.entries.iter().filter(|(_, entry)| may_go(&entry.value));
            let Some(oldest) = idle.min_by_key(|(_, entry)| entry.used.get()).map(|(key, _)| key.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
        let used = Cell::new(self.now());
        self.weight = self.weight.saturating_add(weight);
        self.entries.insert(key, Entry { value, weight, used });
    }

    /// Drops all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.weight = 0;
    }

    fn remove(&mut self, key: &K) {
        if let Some(gone) = self.entries.remove(key) {
            self.weight = self.weight.saturating_sub(gone.weight);
        }
    }

    fn now(&self) -> u64 {
        let now = self.clock.get() + 1;
        self.clock.set(now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Recent};

    const FEW: Bounds = Bounds { entries: 3, weight: 100 };

    fn kept(recent: &Recent<&'static str, u32>) -> Vec<&'static str> {
        let mut keys: Vec<_> = recent.entries.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let mut recent = Recent::default();
        for key in ["a", "b", "c"] {
            recent.insert(key, 0, 1, &FEW, |_| true);
        }
        assert_eq!(recent.get("a"), Some(&0));
        recent.insert("d", 0, 1, &FEW, |_| true);
        assert_eq!(kept(&recent), ["a", "c", "d"]);
    }

    #[test]
    fn what_may_not_go_stays() {
        let mut recent = Recent::default();
        for (key, value) in [("a", 1), ("b", 0), ("c", 1), ("d", 1), ("e", 1)] {
            recent.insert(key, value, 1, &FEW, |value| *value == 0);
        }
        assert_eq!(kept(&recent), ["a", "c", "d", "e"]);
    }

    #[test]
    fn heavy_ones_make_room_for_each_other() {
        let mut recent = Recent::default();
        recent.insert("a", 0, 60, &FEW, |_| true);
        recent.insert("b", 0, 40, &FEW, |_| true);
        recent.insert("c", 0, 30, &FEW, |_| true);
        assert_eq!(kept(&recent), ["b", "c"]);
        recent.insert("d", 0, 1000, &FEW, |_| true);
        assert_eq!(kept(&recent), ["d"]);
        // Once more counts once.
        recent.insert("d", 0, 10, &FEW, |_| true);
        recent.insert("e", 0, 90, &FEW, |_| true);
        assert_eq!(kept(&recent), ["d", "e"]);
    }
}
