//! The counts of statements by their shape: what their text is without literals. The durations are those of the units
//! that the totals of pools count too, except that each statement of a unit has its own.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use classify::Normalized;
use rustc_hash::FxHashMap;

use crate::model::exchange::Ran;
use crate::model::keys::PoolKey;

/// The most shapes that a worker counts: a new one takes the place of those that took least time.
const MOST: usize = 1000;

/// The most SQLSTATEs that are counted of a shape.
const CODES: usize = 4;

/// The counts of the statements of one shape for one database and user.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// The database.
    pub database: String,
    /// The user of the server connections.
    pub user: String,
    /// The text; none for all the statements whose text the pooler does not read.
    pub text: Option<Arc<Normalized>>,
    /// The key of the last one's fingerprint.
    pub key: Option<u128>,
    /// Why they are not pipelined with those of other clients now, if they are not.
    pub why: Option<&'static str>,
    /// Statements that have ended.
    pub calls: u64,
    /// Those of them that were pipelined with those of other clients.
    pub pipelined: u64,
    /// Those of them that a replica has answered.
    pub on_replica: u64,
    /// The rows that their command tags count.
    pub rows: u64,
    /// Those that failed.
    pub failed: u64,
    /// The failures by SQLSTATE, of the first [`CODES`] codes.
    pub codes: Vec<([u8; 5], u64)>,
    /// The sum of the durations.
    pub total: Duration,
    /// The longest duration.
    pub longest: Duration,
}

impl Shape {
    /// The number of the shape, the same in all poolers; 0 for statements whose text the pooler does not read.
    pub fn id(&self) -> u64 {
        self.text.as_ref().map_or(0, |text| text.id)
    }

    /// Counts a statement that has ended.
    pub fn count(&mut self, ran: &Ran, took: Duration) {
        self.calls += 1;
        self.rows += ran.rows;
        self.total += took;
        self.longest = self.longest.max(took);
        if let Some(code) = ran.error {
            self.failed += 1;
            self.add_code(code, 1);
        }
    }

    fn add_code(&mut self, code: [u8; 5], count: u64) {
        if let Some((_, known)) = self.codes.iter_mut().find(|(known, _)| *known == code) {
            *known += count;
        } else if self.codes.len() < CODES {
            self.codes.push((code, count));
        }
    }

    fn add(&mut self, other: &Self) {
        self.why = self.why.or(other.why);
        self.calls += other.calls;
        self.pipelined += other.pipelined;
        self.on_replica += other.on_replica;
        self.rows += other.rows;
        self.failed += other.failed;
        other.codes.iter().for_each(|&(code, count)| self.add_code(code, count));
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }
}

/// The shapes of a worker.
#[derive(Debug, Default)]
pub struct Shapes(FxHashMap<(PoolKey, u64), Shape>);

impl Shapes {
    /// The shapes with the pools that counted them.
    pub fn iter(&self) -> impl Iterator<Item = (PoolKey, &Shape)> {
        self.0.iter().map(|(&(pool, _), shape)| (pool, shape))
    }

    /// The counts of a shape, and whether they are new.
    pub fn of(&mut self, pool: PoolKey, text: Option<&Arc<Normalized>>) -> (&mut Shape, bool) {
        let key = (pool, text.map_or(0, |text| text.id));
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            let mut times: Vec<Duration> = self.0.values().map(|shape| shape.total).collect();
            let (_, &mut middle, _) = times.select_nth_unstable(MOST / 2);
            self.0.retain(|_, shape| shape.total > middle);
        }
        match self.0.entry(key) {
            Entry::Occupied(known) => (known.into_mut(), false),
            Entry::Vacant(place) => (place.insert(Shape::default()), true),
        }
    }
}

/// The shapes of all workers, each once, those that took most time first.
pub fn whole_shapes<'a>(seen: impl IntoIterator<Item = &'a Shape>) -> Vec<Shape> {
    let mut wholes: BTreeMap<(&str, &str, u64), Shape> = BTreeMap::new();
    for shape in seen {
        match wholes.get_mut(&(&*shape.database, &*shape.user, shape.id())) {
            Some(whole) => whole.add(shape),
            None => drop(wholes.insert((&shape.database, &shape.user, shape.id()), shape.clone())),
        }
    }
    let mut wholes: Vec<Shape> = wholes.into_values().collect();
    wholes.sort_by_key(|shape| std::cmp::Reverse(shape.total));
    wholes
}

#[cfg(test)]
mod tests {
    use classify::Classifier;

    use super::*;
    use crate::model::slots::Slots;

    fn text(sql: &str) -> Option<Arc<Normalized>> {
        Classifier::new(1).classify(sql.as_bytes(), true).normalized.clone()
    }

    #[test]
    fn the_shapes_that_took_most_time_stay() {
        let pool = Slots::default().insert(());
        let mut shapes = Shapes::default();
        for number in 0..3 * MOST as u64 {
            let text = text(&format!("SELECT a{number}"));
            shapes
                .of(pool, text.as_ref())
                .0
                .count(&Ran::default(), Duration::from_micros(if number % 100 == 0 { 9999 } else { number }));
            assert!(shapes.0.len() <= MOST);
        }
        let long = shapes.0.values().filter(|shape| shape.longest.as_micros() == 9999).count();
        assert_eq!(long, 3 * MOST / 100);
    }

    #[test]
    fn workers_add_up_and_users_stay_apart() {
        let shape = |user: &str, sql: &str, millis| {
            let mut shape = Shape { user: user.to_owned(), text: text(sql), ..Shape::default() };
            let ran = Ran { rows: 2, error: Some(*b"23505"), ..Ran::default() };
            shape.count(&ran, Duration::from_millis(millis));
            shape
        };
        let seen = [
            shape("a", "SELECT 1", 1),
            shape("a", "SELECT 2", 5),
            shape("b", "SELECT 1", 9),
            shape("a", "SELECT x", 1),
        ];
        let wholes = whole_shapes(&seen);
        let found: Vec<_> =
            wholes.iter().map(|shape| (&*shape.user, shape.calls, shape.rows, shape.total.as_millis())).collect();
        assert_eq!(found, [("b", 1, 2, 9), ("a", 2, 4, 6), ("a", 1, 2, 1)]);
        assert_eq!((wholes[1].longest.as_millis(), &*wholes[1].codes), (5, &[(*b"23505", 2)][..]));
    }
}
