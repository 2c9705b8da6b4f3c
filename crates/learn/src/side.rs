//! On which side of the split a row is, as a property of the row: a rule that is stored with the model and can be asked of any
//! row, whenever it was written and wherever it stands.
//!
//! A row, or the key or the group that it belongs to, has a hash of 64 bits, and is held out where this is below the
//! threshold, `test_size` * 2^64: so a row stays on its side while the table grows, moves or is ordered otherwise, and equal
//! rows are on one side. The hash of a row is that of the values of its columns, each with the column's name, in any order
//! ([`in_column`]); it is seeded, so that projects hold out rows of their own. Hashes are the same for ever.
//!
//! * Where a side of a class would be empty, or have less than half of the rows that are wanted, the threshold of this class
//!   is moved to the rank that is wanted, and stored too.
//! * Where the data are so coarse that the same features come again and again with different labels, that there are a
//!   handful of different rows at all, or more than eight equal ones of each in the mean (unless these are a hundred or more
//!   and have fractions, as measurements have and codes have not), holding all equal rows out together would hold out one
//!   answer to a question and train on the other, or hold out whole questions: there each of several equal rows is drawn by
//!   its number ([`Rule::counted`]).
//! * A row whose values change is another row to a rule of its content, perhaps on another side. So some rows of a training are
//!   [remembered](crate::remembered): where the table has a key, the keys of those that were trained on, and no row of such a
//!   key is held out ([`Rule::keys`]); else those that were held out, and where many of them are gone only those that are left are
//!   known not to have been trained on ([`Rule::held_out`]).

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::split::{Split, TestSize};
use crate::{Error, split};

/// Steele, Lea and Flood's mixing function of SplitMix64.
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The hash of NULL.
pub const NULL: u64 = 0x6e75_6c6c_6e75_6c6c;

/// The hash of bytes.
pub fn of_bytes(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    bytes.chunks(8).fold(mix(bytes.len() as u64 ^ 0x7465_7874), |hash, chunk| mix(hash ^ word(chunk)))
}

/// The hash of a whole number.
pub fn of_integer(value: i64) -> u64 {
    mix(value.cast_unsigned() ^ 0x696e_7400_0000_0000)
}

/// The hash of a number: that of the whole number if it is one, whatever its type.
pub fn of_number(value: f64) -> u64 {
    const PAST: f64 = 9.2e18;
    if value.fract() == 0.0 && value.abs() < PAST {
        return of_integer(value as i64);
    }
    let value = if value.is_nan() { f64::NAN } else { value };
    mix(value.to_bits() ^ 0x666c_6f61_7400_0000)
}

/// The hash of a number as a model sees it: as float32, in which a real, a double precision and a numeric are the same, but
/// whole numbers as they are; and NaN is a missing value, as NULL is.
pub fn of_seen(value: f64) -> u64 {
    match value {
        value if value.is_nan() => NULL,
        value if value.fract() == 0.0 => of_number(value),
        value => of_number(f64::from(value as f32)),
    }
}

/// The hash of an array.
pub fn of_elements(values: &[f32]) -> u64 {
    values
        .iter()
        .fold(mix(values.len() as u64 ^ 0x6172_7261_7900), |hash, value| mix(hash ^ of_number(f64::from(*value))))
}

/// What a value adds to the hash of its row: rows are the wrapping sums of their columns, in any order.
pub fn in_column(column: u64, value: u64) -> u64 {
    mix(column ^ value.rotate_left(17)).wrapping_mul(value | 1) ^ mix(value ^ column.rotate_left(31))
}

/// What makes the hashes of a project its own.
pub fn seed(project: &str, random_state: u64) -> u64 {
    mix(of_bytes(project.as_bytes()) ^ mix(random_state))
}

/// Of what the side of a row is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// All rows are trained on.
    Nothing,
    /// The place of the row when the table was read: nobody can tell later.
    Position,
    /// The hash of these columns.
    Content(Vec<String>),
    /// The hash of a column that names the row.
    Key(String),
    /// The hash of a column that names what the row belongs to.
    Group(String),
    /// Whether the time in a column is at least the cutoff, both as numbers of this kind.
    Time {
        /// The column.
        column: String,
        /// What the numbers are.
        unit: String,
        /// The first time that is held out.
        cutoff: i64,
    },
    /// Whether a column says so.
    Test(String),
}

/// The rule of a training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What is asked of a row.
    pub by: By,
    /// What hashes are seeded with.
    pub seed: u64,
    /// Rows are held out whose hash is below it.
    pub threshold: u64,
    /// The threshold of classes that have another one.
    pub classes: BTreeMap<String, u64>,
    /// Whether equal rows are told apart by their number.
    pub counted: bool,
    /// As what the values of each column are hashed, by the column's name. A model of pgml 3.4 and before has none: its
    /// hashes are of numbers as float64, and NaN is not NULL.
    pub types: BTreeMap<String, String>,
    /// How many rows were held out by what they hold, where these are remembered.
    pub held_out: u64,
    /// The columns that together name a row, each with as what its values are hashed, where the keys of the rows that were trained
    /// on are stored.
    pub keys: BTreeMap<String, String>,
}

impl Rule {
    /// One that needs no hash.
    pub fn plain(by: By) -> Rule {
        Rule {
            by,
            seed: 0,
            threshold: 0,
            classes: BTreeMap::new(),
            counted: false,
            types: BTreeMap::new(),
            held_out: 0,
            keys: BTreeMap::new(),
        }
    }

    /// The hash by which a row's side is known, of the hash of its content, key or group.
    pub fn seeded(&self, hash: u64) -> u64 {
        mix(hash ^ self.seed)
    }

    /// Whether a row of that seeded hash and of that class is held out.
    pub fn holds_out(&self, hash: u64, class: Option<&str>) -> bool {
        hash < class.and_then(|class| self.classes.get(class)).copied().unwrap_or(self.threshold)
    }

    /// Whether it holds out the same rows as another one.
    pub fn agrees_with(&self, other: &Rule) -> bool {
        self.shared_json() == other.shared_json()
    }

    /// Whether rows of the training are stored with the model.
    pub fn remembers(&self) -> bool {
        self.held_out > 0 || !self.keys.is_empty()
    }

    /// Whether later rows can be asked.
    pub fn is_known(&self) -> bool {
        self.by != By::Position
    }

    /// Whether it holds anything out.
    pub fn has_tests(&self) -> bool {
        match &self.by {
            By::Nothing => false,
            By::Position | By::Time { .. } | By::Test(_) => true,
            By::Content(_) | By::Key(_) | By::Group(_) => {
                self.threshold > 0 || self.classes.values().any(|threshold| *threshold > 0)
            }
        }
    }

    /// The name of what is asked.
    pub fn name(&self) -> &'static str {
        match &self.by {
            By::Nothing => "none",
            By::Position => "position",
            By::Content(_) => "content",
            By::Key(_) => "key",
            By::Group(_) => "group",
            By::Time { .. } => "time",
            By::Test(_) => "test",
        }
    }

    /// For the description of a model.
    pub fn to_json(&self) -> Value {
        let mut root = self.shared_json();
        if self.held_out > 0 {
            root.insert("held_out".into(), json!(self.held_out));
        }
        if !self.keys.is_empty() {
            root.insert("keys".into(), json!(self.keys));
        }
        Value::Object(root)
    }

    fn shared_json(&self) -> Map<String, Value> {
        let mut root = Map::new();
        root.insert("by".into(), json!(self.name()));
        match &self.by {
            By::Nothing | By::Position => {}
            By::Content(columns) => drop(root.insert("columns".into(), json!(columns))),
            By::Key(column) | By::Group(column) | By::Test(column) => {
                root.insert("column".into(), json!(column));
            }
            By::Time { column, unit, cutoff } => {
                root.insert("column".into(), json!(column));
                root.insert("unit".into(), json!(unit));
                root.insert("cutoff".into(), json!(cutoff));
            }
        }
        if matches!(self.by, By::Content(_) | By::Key(_) | By::Group(_)) {
            root.insert("seed".into(), json!(self.seed));
            root.insert("threshold".into(), json!(self.threshold));
            if !self.classes.is_empty() {
                root.insert("classes".into(), json!(self.classes));
            }
            if self.counted {
                root.insert("counted".into(), json!(true));
            }
            if !self.types.is_empty() {
                root.insert("types".into(), json!(self.types));
            }
        }
        root
    }

    /// Reads what [`Rule::to_json`] wrote.
    pub fn from_json(json: &Value) -> Option<Rule> {
        let text = |name: &str| Some(json.get(name)?.as_str()?.to_owned());
        let keys = json.get("keys").and_then(Value::as_object).into_iter().flatten();
        let keys = keys.filter_map(|(name, kind)| Some((name.clone(), kind.as_str()?.to_owned())));
        let keys: BTreeMap<String, String> = keys.collect();
        let plain = |by: By| Rule { keys: keys.clone(), ..Rule::plain(by) };
        let by = match json.get("by")?.as_str()? {
            "none" => return Some(plain(By::Nothing)),
            "position" => return Some(plain(By::Position)),
            "test" => return Some(plain(By::Test(text("column")?))),
            "time" => {
                let cutoff = json.get("cutoff")?.as_i64()?;
                return Some(plain(By::Time { column: text("column")?, unit: text("unit")?, cutoff }));
            }
            "content" => {
                let columns = json.get("columns")?.as_array()?.iter().map(|name| name.as_str().map(str::to_owned));
                By::Content(columns.collect::<Option<_>>()?)
            }
            "key" => By::Key(text("column")?),
            "group" => By::Group(text("column")?),
            _ => return None,
        };
        let classes = match json.get("classes") {
            None => BTreeMap::new(),
            Some(classes) => {
                let each = classes.as_object()?.iter().map(|(class, value)| Some((class.clone(), value.as_u64()?)));
                each.collect::<Option<_>>()?
            }
        };
        let types = match json.get("types") {
            None => BTreeMap::new(),
            Some(types) => {
                let each =
                    types.as_object()?.iter().map(|(name, kind)| Some((name.clone(), kind.as_str()?.to_owned())));
                each.collect::<Option<_>>()?
            }
        };
        Some(Rule {
            by,
            seed: json.get("seed")?.as_u64()?,
            threshold: json.get("threshold")?.as_u64()?,
            classes,
            counted: json.get("counted").and_then(Value::as_bool).unwrap_or(false),
            types,
            held_out: json.get("held_out").and_then(Value::as_u64).unwrap_or(0),
            keys,
        })
    }

    /// Decides the thresholds for these rows, given by their seeded hashes, and which of them are held out. Rows have
    /// `classes` where each is to have its share, the numbers of their classes and the names of these. Takes 8 bytes a row
    /// meanwhile where a threshold is moved.
    ///
    /// # Errors
    /// [`Error::Split`] if the test size leaves nothing to train on.
    pub fn divide(
        &mut self,
        hashes: &[u64],
        classes: Option<(&[u32], &[String])>,
        size: TestSize,
    ) -> Result<Split, Error> {
        let rows = hashes.len() as u64;
        let wanted = size.of(rows)?;
        (self.threshold, self.classes) = (0, BTreeMap::new());
        let share = wanted as f64 / rows.max(1) as f64;
        if wanted > 0 {
            self.threshold = match size {
                TestSize::Fraction(share) => (share * 2f64.powi(64)) as u64,
                TestSize::Rows(_) => at_rank(sorted(hashes.iter().copied())?, wanted).unwrap_or(0),
            };
            match classes {
                Some((numbers, names)) => self.move_classes(hashes, numbers, names, share)?,
                None if !balanced(rows, held_out(hashes, self.threshold), share) => {
                    self.threshold = at_rank(sorted(hashes.iter().copied())?, wanted).unwrap_or(0);
                }
                None => {}
            }
        }
        let mut split = Split::marked(std::iter::empty());
        let mark = |rule: &Rule| {
            let threshold = |row: usize| {
                let number = classes.and_then(|(numbers, _)| numbers.get(row).copied());
                let moved = |number: u32| rule.classes.get(classes?.1.get(number as usize)?).copied();
                number.and_then(moved).unwrap_or(rule.threshold)
            };
            Split::marked(hashes.iter().enumerate().map(|(row, hash)| *hash < threshold(row)))
        };
        if wanted > 0 {
            split = mark(self);
        }
        // Classes of so few rows that none of them spares one: any rows then.
        if wanted > 0 && split.test_rows() == 0 {
            self.classes.clear();
            self.threshold = at_rank(sorted(hashes.iter().copied())?, wanted).unwrap_or(0);
            split = mark(self);
        }
        if wanted == 0 {
            split = Split::marked(hashes.iter().map(|_| false));
        }
        Ok(split)
    }

    fn move_classes(&mut self, hashes: &[u64], numbers: &[u32], names: &[String], share: f64) -> Result<(), Error> {
        let mut counts = vec![(0u64, 0u64); names.len()];
        for (hash, number) in hashes.iter().zip(numbers) {
            if let Some((rows, tests)) = counts.get_mut(*number as usize) {
                *rows += 1;
                *tests += u64::from(*hash < self.threshold);
            }
        }
        for ((class, (rows, tests)), name) in (0u32..).zip(counts).zip(names) {
            if rows == 0 || balanced(rows, tests, share) {
                continue;
            }
            let of_class = hashes.iter().zip(numbers).filter(|(_, number)| **number == class).map(|(hash, _)| *hash);
            let rank = (rows as f64 * share).round() as u64;
            self.classes.insert(name.clone(), at_rank(sorted(of_class)?, rank).unwrap_or(0));
        }
        Ok(())
    }
}

fn held_out(hashes: &[u64], threshold: u64) -> u64 {
    hashes.iter().filter(|hash| **hash < threshold).count() as u64
}

/// Whether neither side lacks more than half of what is wanted.
fn balanced(rows: u64, tests: u64, share: f64) -> bool {
    let wanted = rows as f64 * share;
    let least = if wanted <= 0.5 { 0.0 } else { wanted / 2.0 };
    tests as f64 >= least && (rows - tests) as f64 >= ((rows as f64 - wanted) / 2.0).min(rows as f64).max(1.0)
}

fn sorted(hashes: impl Iterator<Item = u64>) -> Result<Vec<u64>, Error> {
    let mut all = split::gathered(hashes)?;
    all.sort_unstable();
    Ok(all)
}

/// The threshold below which about `rank` of these hashes are, equal ones together, and at least one on either side where there
/// are different ones.
fn at_rank(sorted: Vec<u64>, rank: u64) -> Option<u64> {
    if rank == 0 {
        return None;
    }
    let steps = sorted.windows(2).enumerate().filter_map(|(at, pair)| match pair {
        [one, other] if one != other => Some((at as u64 + 1, *other)),
        _ => None,
    });
    steps.min_by_key(|(count, _)| count.abs_diff(rank)).map(|(_, threshold)| threshold)
}

/// Numbers equal rows, in the order in which they come.
#[derive(Debug, Default)]
pub struct Counter(HashMap<u64, u32>);

impl Counter {
    /// The hash of a row as one of those that are equal to it.
    pub fn count(&mut self, hash: u64) -> u64 {
        let number = self.0.entry(hash).or_default();
        let counted = mix(hash ^ (u64::from(*number) << 1 | 1));
        *number += 1;
        counted
    }
}

/// Of fewer different rows than this, equal ones are not kept together.
const FEW: usize = 20;

/// With more copies of each row than this in the mean, a table is one of few possible rows, such as a code and what belongs
/// to it: kept together, whole codes would be held out, of which a model knows nothing.
const COPIES: usize = 8;

/// From this number of different rows with fractions on, rows are measurements, and equal ones are copies.
const MEASURED: usize = 100;

/// Rows that are looked at for whether the same features have different labels.
const LOOKED_AT: u64 = 200_000;

/// Whether equal rows are to be told apart by their number: `contents` are the hashes of rows, and `labels` says what the label
/// of each adds to them; `fractions` is whether a feature has any. See the head of this file.
///
/// # Errors
/// [`Error::Memory`] and the like.
pub fn is_coarse(contents: &[u64], fractions: bool, label: impl Fn(usize) -> u64) -> Result<bool, Error> {
    let mut different = HashSet::new();
    let few = !contents.iter().any(|content| {
        different.insert(*content);
        different.len() >= FEW
    });
    if few {
        return Ok(contents.len() >= 2 * different.len());
    }
    // All rows of the same features are among those that are looked at, or none.
    let one_in = (contents.len() as u64 / LOOKED_AT).max(1);
    let features = contents.iter().enumerate().map(|(row, content)| (content.wrapping_sub(label(row)), *content));
    let mut looked_at = split::gathered(features.filter(|(features, _)| mix(*features).is_multiple_of(one_in)))?;
    looked_at.sort_unstable();
    let different = looked_at.chunk_by(|(_, one), (_, other)| one == other).count();
    let measured = fractions && different as u64 * one_in >= MEASURED as u64;
    if different.saturating_mul(COPIES) < looked_at.len() && !measured {
        return Ok(true);
    }
    let mut contradicted = 0;
    for same_features in looked_at.chunk_by(|(one, _), (other, _)| one == other) {
        let mut contents = same_features.chunk_by(|(_, one), (_, other)| one == other);
        if contents.by_ref().nth(1).is_some() {
            let equal = same_features.chunk_by(|(_, one), (_, other)| one == other).filter(|equal| equal.len() > 1);
            contradicted += equal.map(<[_]>::len).sum::<usize>();
        }
    }
    Ok(contradicted * 10 > looked_at.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(by: By) -> Rule {
        Rule { seed: seed("p", 0), ..Rule::plain(by) }
    }

    fn content() -> Rule {
        rule(By::Content(vec!["a".into(), "y".into()]))
    }

    fn hashes(rows: u64) -> Vec<u64> {
        (0..rows).map(|row| mix(row + 12345)).collect()
    }

    #[test]
    fn hashes_are_the_same_for_ever() {
        // Written down: a later version that holds out other rows would make old models and new ones incomparable.
        let column = of_bytes(b"petal width");
        let found = [of_bytes(b""), column, of_integer(-1), of_number(0.1), of_elements(&[1.0, 2.5])];
        assert_eq!(found, FOUND);
        assert_eq!([in_column(column, NULL), seed("iris", 42)], SEEDED);
    }

    const FOUND: [u64; 5] = [
        0x890d_5a73_fb33_be57,
        0x1e68_c386_0029_a918,
        0xb6df_9a9c_3516_c268,
        0xab98_45e2_e09f_7b74,
        0x8150_c8b3_3fda_c0f8,
    ];
    const SEEDED: [u64; 2] = [0xfb5f_0cff_6023_87fc, 0xd43f_8d77_f45c_e850];

    #[test]
    fn a_number_is_the_same_whatever_its_type() {
        assert_eq!(of_number(5.0), of_integer(5));
        assert_eq!(of_number(-0.0), of_integer(0));
        assert_eq!(of_number(f64::NAN), of_number(-f64::NAN));
        assert_ne!(of_number(0.5), of_number(0.25));
        assert_eq!(of_seen(0.1), of_seen(f64::from(0.1f32)));
        assert_eq!([of_seen(f64::NAN), of_seen(16_777_217.0)], [NULL, of_integer(16_777_217)]);
        assert_ne!(of_integer(i64::MAX), of_integer(i64::MAX - 1));
    }

    #[test]
    fn a_rule_that_is_written_reads_back_the_same() {
        let mut moved = content();
        (moved.threshold, moved.counted, moved.held_out) = (u64::MAX, true, 3);
        moved.keys = BTreeMap::from([("shop".into(), "text".into()), ("day".into(), "moment".into())]);
        moved.classes.insert("rare".into(), 7);
        moved.types.insert("y".into(), "number".into());
        let time = By::Time { column: "t".into(), unit: "days".into(), cutoff: i64::MIN };
        let plain = [By::Nothing, By::Position, By::Test("t".into()), time].map(Rule::plain);
        for rule in [moved, rule(By::Key("id".into())), rule(By::Group("g".into()))].into_iter().chain(plain) {
            let text = rule.to_json().to_string();
            assert_eq!(Rule::from_json(&serde_json::from_str(&text).unwrap()), Some(rule), "{text}");
        }
    }

    #[test]
    fn rows_stay_on_their_sides_while_there_are_more() {
        let (few, many) = (hashes(400), hashes(4000));
        let size = TestSize::new(0.25).unwrap();
        let (one, other) = (content().divide(&few, None, size).unwrap(), content().divide(&many, None, size).unwrap());
        assert!((0..400).all(|row| one.is_test(row) == other.is_test(row)));
        assert!(other.test_rows().abs_diff(1000) < 100, "{}", other.test_rows());
    }

    #[test]
    fn a_class_has_both_sides_and_equal_rows_one() {
        let mut all = hashes(1000);
        all.extend((0..10).flat_map(|row| [mix(row); 2]));
        let numbers: Vec<u32> = (0..1020).map(|row| u32::from(row >= 1000)).collect();
        let names = ["often".to_owned(), "rare".to_owned()];
        for state in 0..200 {
            let mut rule = Rule { seed: seed("p", state), ..content() };
            let seeded: Vec<u64> = all.iter().map(|hash| rule.seeded(*hash)).collect();
            let split = rule.divide(&seeded, Some((&numbers, &names)), TestSize::new(0.25).unwrap()).unwrap();
            let rare = (1000..1020).filter(|row| split.is_test(*row)).count();
            assert!((3..=12).contains(&rare), "{rare}");
            assert!((1000..1020).step_by(2).all(|row| split.is_test(row) == split.is_test(row + 1)));
            for row in 0..1020 {
                let class = names.get(numbers[row] as usize).map(String::as_str);
                assert_eq!(rule.holds_out(seeded[row], class), split.is_test(row as u64));
            }
        }
    }

    #[test]
    fn so_many_rows_are_so_many() {
        let mut rule = content();
        let split = rule.divide(&hashes(100), None, TestSize::new(7.0).unwrap()).unwrap();
        assert_eq!((split.test_rows(), split.train_rows()), (7, 93));
        assert!(rule.divide(&hashes(7), None, TestSize::new(7.0).unwrap()).is_err());
        assert_eq!(rule.divide(&hashes(7), None, TestSize::new(0.0).unwrap()).unwrap().test_rows(), 0);
        assert!(!rule.has_tests());
    }

    #[test]
    fn few_rows_have_one_on_either_side() {
        for rows in 2..12u64 {
            for state in 0..50 {
                let mut rule = Rule { seed: seed("p", state), ..content() };
                let seeded: Vec<u64> = (0..rows).map(|row| rule.seeded(row)).collect();
                let numbers: Vec<u32> = (0..rows).map(|row| (row % 2) as u32).collect();
                let names = ["a".to_owned(), "b".to_owned()];
                for classes in [None, Some((numbers.as_slice(), names.as_slice()))] {
                    let split = rule.divide(&seeded, classes, TestSize::new(0.25).unwrap()).unwrap();
                    let wanted = TestSize::new(0.25).unwrap().of(rows).unwrap();
                    assert!(split.train_rows() > 0 && (split.test_rows() > 0) == (wanted > 0), "{rows} {state}");
                }
            }
        }
    }

    #[test]
    fn coarse_rows_are_known() {
        let columns = [of_bytes(b"a"), of_bytes(b"y")];
        let rows = |values: &dyn Fn(i64) -> (i64, i64), rows: i64| {
            let labels: Vec<u64> = (0..rows).map(|row| in_column(columns[1], of_integer(values(row).1))).collect();
            let row = |(row, label): (i64, &u64)| in_column(columns[0], of_integer(values(row).0)).wrapping_add(*label);
            let contents: Vec<u64> = (0..).zip(&labels).map(row).collect();
            is_coarse(&contents, false, |row| labels[row]).unwrap()
        };
        assert!(!rows(&|row| (row / 2, row / 2 % 2), 1000), "every row twice");
        assert!(rows(&|row| (row % 2, row % 2), 1000), "two different rows");
        assert!(rows(&|row| (row % 30, row % 7 % 2), 10_000), "thirty features with either label");
        assert!(!rows(&|row| (row, row % 7 % 2), 1000), "all different");
        assert!(!rows(&|row| (row % 200, row % 200), 1000), "features that tell the label");
        assert!(rows(&|row| (row % 30, row % 30), 1000), "thirty different rows");
        let copies: Vec<u64> = (0..3000).map(|row| mix(row % 300)).collect();
        assert!(is_coarse(&copies, false, |_| 0).unwrap() && !is_coarse(&copies, true, |_| 0).unwrap());
    }
}
