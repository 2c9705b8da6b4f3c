//! Places for clients, server connections and pools, under names that are never used again.
//!
//! A place is used again when its owner is gone. Its name is not, since the name includes a count of the owners of the
//! place. So a name that was kept too long finds nothing, where a bare index would find another owner.

use std::marker::PhantomData;

/// The name of one owner of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    index: u32,
    generation: u32,
}

/// Bits of a token that hold the index; the lowest two are the caller's.
pub const INDEX_BITS: u32 = 30;

impl Slot {
    /// The name as one number for the event loop, with two bits of the caller's.
    pub fn token(self, kind: usize) -> usize {
        (self.generation as usize) << 32 | (self.index as usize) << 2 | kind & 3
    }

    /// The name and the two bits in a number from [`Slot::token`].
    pub fn of_token(token: usize) -> (Self, usize) {
        let index = (token >> 2) as u32 & ((1 << INDEX_BITS) - 1);
        (Self { index, generation: (token >> 32) as u32 }, token & 3)
    }
}

/// A place, and the number of its former owners.
#[derive(Debug)]
pub struct Place<T> {
    generation: u32,
    owner: Option<T>,
}

/// Values under names, each kind of which has a type of its own.
#[derive(Debug)]
pub struct Slots<K, T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    count: usize,
    keys: PhantomData<K>,
}

impl<K, T> Default for Slots<K, T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), count: 0, keys: PhantomData }
    }
}

impl<K: From<Slot> + Into<Slot> + Copy, T> Slots<K, T> {
    /// The name that [`Slots::insert`] will give next.
    pub fn vacant(&self) -> K {
        let index = self.free.last().copied().unwrap_or(self.places.len() as u32);
        let generation = self.places.get(index as usize).map_or(0, |place| place.generation);
        Slot { index, generation }.into()
    }

    /// Takes a value in.
    pub fn insert(&mut self, value: T) -> K {
        let key = self.vacant();
        match self.free.pop().and_then(|index| self.places.get_mut(index as usize)) {
            Some(place) => place.owner = Some(value),
            None => self.places.push(Place { generation: 0, owner: Some(value) }),
        }
        self.count += 1;
        key
    }

    /// Takes a value out, if its owner of that name is still there.
    pub fn remove(&mut self, key: K) -> Option<T> {
        let slot: Slot = key.into();
        let place = self.places.get_mut(slot.index as usize).filter(|place| place.generation == slot.generation)?;
        let value = place.owner.take()?;
        self.count -= 1;
        // A place whose names are used up stays empty.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(slot.index);
        }
        Some(value)
    }

    /// The value of this name.
    pub fn get(&self, key: K) -> Option<&T> {
        let slot: Slot = key.into();
        self.places.get(slot.index as usize).filter(|place| place.generation == slot.generation)?.owner.as_ref()
    }

    /// The value of this name, to change.
    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        let slot: Slot = key.into();
        self.places.get_mut(slot.index as usize).filter(|place| place.generation == slot.generation)?.owner.as_mut()
    }

    /// Whether the owner of this name is there.
    pub fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes all values out. Their names are not given again.
    pub fn clear(&mut self) {
        for key in self.keys() {
            self.remove(key);
        }
    }

    /// The names of all values.
    pub fn keys(&self) -> Vec<K> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// The names of the values of which this holds.
    pub fn keys_of(&self, holds: impl Fn(&T) -> bool) -> Vec<K> {
        self.iter().filter(|(_, value)| holds(value)).map(|(key, _)| key).collect()
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.owner.as_ref())
    }

    /// All values with their names.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let slot = Slot { index: index as u32, generation: place.generation };
            place.owner.as_ref().map(|value| (slot.into(), value))
        })
    }

    /// All values with their names, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(index, place)| {
            let slot = Slot { index: index as u32, generation: place.generation };
            place.owner.as_mut().map(|value| (slot.into(), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_given_again() {
        let mut slots = Slots::<Slot, _>::default();
        let first = slots.insert("a");
        let other = slots.insert("b");
        assert_eq!(slots.remove(first), Some("a"));
        let vacant = slots.vacant();
        let second = slots.insert("c");
        assert_eq!(second, vacant);
        assert_ne!(second, first);
        assert_eq!((slots.get(first), slots.get(second), slots.get(other)), (None, Some(&"c"), Some(&"b")));
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.len(), 2);
        slots.clear();
        assert!(slots.is_empty() && slots.get(second).is_none());
        assert_ne!(slots.insert("d"), second);
    }

    #[test]
    fn a_place_whose_names_are_used_up_is_left() {
        let mut slots = Slots::<Slot, _>::default();
        let first = slots.insert(1);
        slots.places[0].generation = u32::MAX;
        let last = Slot { generation: u32::MAX, ..first };
        assert_eq!(slots.remove(last), Some(1));
        assert_ne!(slots.insert(2).index, last.index);
    }

    #[test]
    fn a_token_holds_the_whole_name() {
        for slot in [Slot { index: 0, generation: 0 }, Slot { index: 77, generation: u32::MAX }] {
            assert_eq!(Slot::of_token(slot.token(1)), (slot, 1));
        }
    }
}
