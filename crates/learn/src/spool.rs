//! Rows as few bytes: what a source writes to a temporary file in the first pass and reads back in the others.
//!
//! A chunk is stored column by column, and each column in the smallest form that gives back every bit:
//!
//! | form | bytes | for |
//! |---|---|---|
//! | constant | 4 | one value throughout |
//! | half bytes, bytes, pairs of bytes | n/2, n, 2n | whole numbers, stored as their distance from the least one |
//! | as is | 4n | everything else |
//!
//! The highest distance can stand for a missing value, as long as all NaN of the column have the same bits. Negative
//! zero, infinities and other NaN make a column be stored as it is. Labels and weights are columns too.
//!
//! A feature may have a rest: what float32 does not hold of numbers as large as epochs. It is a column of its own, where a
//! chunk has any, and takes nothing elsewhere.
//!
//! The layout: a byte `2` (version), a byte that is 1 if there are weights, four bytes of rows, four of width and four of
//! rests (little-endian, as all numbers here); then the columns, labels, weights and rests, each a byte for the form (whose
//! highest bit says that the highest distance is a missing value), the least value and the bits of a missing one (four
//! bytes each; the bits of a constant in place of the least value), and the distances or values; before a rest four bytes
//! with its feature.

use crate::Error;
use crate::rows::Chunk;

/// A chunk that was read back. Reuse it, so that its memory is.
#[derive(Clone, Debug, Default)]
pub struct Block {
    features: Vec<f32>,
    labels: Vec<f32>,
    weights: Vec<f32>,
    weighted: bool,
    rests: Vec<Rest>,
}

/// What float32 does not hold of a feature's values, one for each row.
pub type Rest = (u32, Vec<f32>);

impl Block {
    /// An empty one.
    pub fn new() -> Block {
        Block::default()
    }

    /// What float32 does not hold, of the features of which it is not all.
    pub fn rests(&self) -> &[Rest] {
        &self.rests
    }

    /// What was read back.
    pub fn chunk(&self) -> Chunk<'_> {
        Chunk {
            features: &self.features,
            labels: &self.labels,
            weights: self.weighted.then_some(self.weights.as_slice()),
        }
    }

    /// Takes the origin of a feature off its values, rest and all, which are rounded to float32 only then. `width` is the
    /// number of features.
    pub fn take_off(&mut self, feature: usize, origin: f64, width: usize) {
        let found = self.rests.binary_search_by_key(&feature, |(of, _)| *of as usize);
        let mut rest = found.ok().and_then(|found| self.rests.get(found)).map_or(&[][..], |(_, rest)| rest).iter();
        for value in self.features.iter_mut().skip(feature).step_by(width.max(1)) {
            let whole = f64::from(*value) + rest.next().map_or(0.0, |rest| f64::from(*rest));
            *value = (whole - origin) as f32;
        }
    }
}

const VERSION: u8 = 2;
const HEADER: usize = 14;
const COLUMN_HEADER: usize = 9;
const MISSING: u8 = 0x80;

/// How the values of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Constant,
    Half,
    Byte,
    Pair,
    Plain,
}

impl Form {
    fn from_code(code: u8) -> Option<Form> {
        [Form::Constant, Form::Half, Form::Byte, Form::Pair, Form::Plain].into_iter().find(|form| *form as u8 == code)
    }

    fn bytes(self, rows: usize) -> Option<usize> {
        match self {
            Form::Constant => Some(0),
            Form::Half => Some(rows.div_ceil(2)),
            Form::Byte => Some(rows),
            Form::Pair => rows.checked_mul(2),
            Form::Plain => rows.checked_mul(4),
        }
    }
}

/// Appends a chunk of `width` features a row, and the rests of some in their order, to `out`; gives the number of bytes it took.
///
/// # Errors
/// [`Error::Shape`] if the numbers of features, labels, weights and rests do not fit together, or there are more than 2^24
/// values.
pub fn encode(chunk: &Chunk<'_>, rests: &[Rest], width: usize, out: &mut Vec<u8>) -> Result<usize, Error> {
    let rows = chunk.labels.len();
    let weights_fit = chunk.weights.is_none_or(|weights| weights.len() == rows)
        && rests.len() <= width
        && rests.iter().all(|(of, rest)| (*of as usize) < width && rest.len() == rows);
    if Some(chunk.features.len()) != rows.checked_mul(width) || !weights_fit {
        return Err(Error::Shape(format!("{} features for {rows} rows of {width}", chunk.features.len())));
    }
    let fits = rows.checked_mul(width.max(1)).is_some_and(|cells| cells <= MOST_CELLS);
    let (true, Ok(rows_32), Ok(width_32)) = (fits, u32::try_from(rows), u32::try_from(width)) else {
        return Err(Error::Shape(format!("{rows} rows of {width} features are too many for a chunk")));
    };
    let begun = out.len();
    out.extend([VERSION, u8::from(chunk.weights.is_some())]);
    out.extend(rows_32.to_le_bytes());
    out.extend(width_32.to_le_bytes());
    out.extend((rests.len() as u32).to_le_bytes());
    let mut column = Vec::with_capacity(rows);
    for position in 0..width {
        column.clear();
        column.extend(chunk.features.iter().skip(position).step_by(width));
        encode_column(&column, out);
    }
    encode_column(chunk.labels, out);
    if let Some(weights) = chunk.weights {
        encode_column(weights, out);
    }
    for (feature, rest) in rests {
        out.extend(feature.to_le_bytes());
        encode_column(rest, out);
    }
    Ok(out.len() - begun)
}

fn encode_column(values: &[f32], out: &mut Vec<u8>) {
    let first = values.first().copied().unwrap_or(0.0).to_bits();
    if values.iter().all(|value| value.to_bits() == first) {
        out.push(Form::Constant as u8);
        out.extend(first.to_le_bytes());
        out.extend([0; 4]);
        return;
    }
    let Some(Frame { form, least, missing }) = frame(values) else {
        out.push(Form::Plain as u8);
        out.extend([0; 8]);
        out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        return;
    };
    out.push(form as u8 | if missing.is_some() { MISSING } else { 0 });
    out.extend(least.to_le_bytes());
    out.extend(missing.unwrap_or(0).to_le_bytes());
    let distance = |value: f32| if value.is_nan() { -1 } else { value as i32 - least };
    match form {
        Form::Half => {
            let pairs = values.chunks(2);
            out.extend(pairs.map(|pair| match *pair {
                [low, high] => (distance(low) & 15) as u8 | (distance(high) as u8) << 4,
                [low] => (distance(low) & 15) as u8,
                _ => 0,
            }));
        }
        Form::Byte => out.extend(values.iter().map(|&value| distance(value) as u8)),
        _ => out.extend(values.iter().flat_map(|&value| (distance(value) as u16).to_le_bytes())),
    }
}

/// How whole numbers are stored.
struct Frame {
    form: Form,
    least: i32,
    missing: Option<u32>,
}

/// The smallest form for the values, if they are whole numbers near one another, or missing.
fn frame(values: &[f32]) -> Option<Frame> {
    let (mut least, mut greatest, mut missing) = (i32::MAX, i32::MIN, None);
    for &value in values {
        if value.is_nan() {
            if *missing.get_or_insert(value.to_bits()) != value.to_bits() {
                return None;
            }
            continue;
        }
        let whole = value as i32;
        // Also tells -0.0 from 0.0, and saturates where the number is too large.
        if (whole as f32).to_bits() != value.to_bits() {
            return None;
        }
        least = least.min(whole);
        greatest = greatest.max(whole);
    }
    // One more distance than there are values if the highest one stands for a missing value.
    let distances = i64::from(greatest) - i64::from(least) + 1 + i64::from(missing.is_some());
    let forms = [(Form::Half, 1 << 4), (Form::Byte, 1 << 8), (Form::Pair, 1 << 16)];
    let (form, _) = forms.into_iter().find(|(_, most)| distances <= *most)?;
    Some(Frame { form, least, missing })
}

/// Reads back a chunk from exactly the bytes that [`encode`] appended.
///
/// # Errors
/// [`Error::Spool`] if the bytes are not those of a chunk. `block` is then of no use but to be read into again.
pub fn decode(bytes: &[u8], block: &mut Block) -> Result<(), Error> {
    let damaged = Error::Spool;
    let header: &[u8; HEADER] = bytes.first_chunk().ok_or(damaged("the header is cut off"))?;
    let [version, weighted, r0, r1, r2, r3, w0, w1, w2, w3, n0, n1, n2, n3] = *header;
    if version != VERSION || weighted > 1 {
        return Err(damaged("the header is not one"));
    }
    let rows = u32::from_le_bytes([r0, r1, r2, r3]) as usize;
    let width = u32::from_le_bytes([w0, w1, w2, w3]) as usize;
    let with_rest = u32::from_le_bytes([n0, n1, n2, n3]) as usize;
    let mut rest = bytes.get(HEADER..).unwrap_or_default();
    // A column takes its header at the least: a damaged width is found out before memory is taken for it.
    if width.saturating_mul(COLUMN_HEADER) > rest.len() || with_rest > width {
        return Err(damaged("columns are cut off"));
    }
    let mut columns = Vec::with_capacity(width);
    for _ in 0..width {
        columns.push(Stored::take(&mut rest, rows)?);
    }
    let labels = Stored::take(&mut rest, rows)?;
    let weights = if weighted == 1 { Some(Stored::take(&mut rest, rows)?) } else { None };
    let mut rests = Vec::with_capacity(with_rest);
    for _ in 0..with_rest {
        let (feature, after) = rest.split_first_chunk::<4>().ok_or(damaged("a rest is cut off"))?;
        let feature = u32::from_le_bytes(*feature);
        if feature as usize >= width {
            return Err(damaged("a rest belongs to no column"));
        }
        rest = after;
        rests.push((feature, Stored::take(&mut rest, rows)?));
    }
    if !rest.is_empty() {
        return Err(damaged("something follows the last column"));
    }
    // Constants take no bytes a row, so a damaged number of rows could ask for any amount of memory.
    let cells = rows.checked_mul(width.max(1)).filter(|&cells| cells <= MOST_CELLS);
    let cells = cells.ok_or(damaged("there are too many values"))?;

    block.features.clear();
    block.features.resize(if width == 0 { 0 } else { cells }, 0.0);
    if width > 0 {
        // Column by column within a few rows at a time, so that what is written stays in the first cache.
        for (tile, features) in block.features.chunks_mut(TILE * width).enumerate() {
            for (position, column) in columns.iter().enumerate() {
                column.read(tile * TILE, features.get_mut(position..).unwrap_or_default(), width);
            }
        }
    }
    block.weighted = weights.is_some();
    for (stored, values) in [(Some(labels), &mut block.labels), (weights, &mut block.weights)] {
        values.clear();
        if let Some(stored) = stored {
            values.resize(rows, 0.0);
            stored.read(0, values, 1);
        }
    }
    block.rests.clear();
    for (feature, stored) in rests {
        let mut values = vec![0.0; rows];
        stored.read(0, &mut values, 1);
        block.rests.push((feature, values));
    }
    Ok(())
}

/// Rows that are decoded together; even, so that half bytes begin a byte.
const TILE: usize = 256;

/// 64 megabytes of values: more than anybody spools as one chunk.
const MOST_CELLS: usize = 1 << 24;

/// A stored column.
struct Stored<'a> {
    form: Form,
    least: [u8; 4],
    missing: Option<f32>,
    bytes: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Takes the first column of `rest`.
    fn take(rest: &mut &'a [u8], rows: usize) -> Result<Stored<'a>, Error> {
        let header: &[u8; COLUMN_HEADER] = rest.first_chunk().ok_or(Error::Spool("a column's header is cut off"))?;
        let [code, l0, l1, l2, l3, m0, m1, m2, m3] = *header;
        let form = Form::from_code(code & !MISSING).ok_or(Error::Spool("a column has an unknown form"))?;
        let missing = (code & MISSING != 0).then(|| f32::from_bits(u32::from_le_bytes([m0, m1, m2, m3])));
        let body = rest.get(COLUMN_HEADER..).unwrap_or_default();
        let length = form.bytes(rows).filter(|&length| length <= body.len());
        let (bytes, after) = body.split_at(length.ok_or(Error::Spool("a column is cut off"))?);
        *rest = after;
        Ok(Stored { form, least: [l0, l1, l2, l3], missing, bytes })
    }

    /// Writes the values from row `from` on to every `stride`th place.
    fn read(&self, from: usize, out: &mut [f32], stride: usize) {
        let places = out.iter_mut().step_by(stride);
        let least = i32::from_le_bytes(self.least);
        let value = |distance: u16| least.wrapping_add(i32::from(distance)) as f32;
        // A distance that no column has if nothing is missing, so that one loop serves both.
        let missing = self.missing.unwrap_or(0.0);
        let top = |highest: u16| if self.missing.is_some() { u32::from(highest) } else { u32::MAX };
        let pick = |distance: u16, top: u32| if u32::from(distance) == top { missing } else { value(distance) };
        match self.form {
            Form::Constant => places.for_each(|place| *place = f32::from_le_bytes(self.least)),
            Form::Half => {
                let halves = self.bytes.get(from / 2..).unwrap_or_default().iter().flat_map(|b| [b & 15, b >> 4]);
                // Sixteen possible values: a table is faster than arithmetic.
                let mut table = [0.0; 16];
                for (distance, entry) in table.iter_mut().enumerate() {
                    *entry = pick(distance as u16, top(15));
                }
                for (place, half) in places.zip(halves) {
                    *place = table[usize::from(half & 15)];
                }
            }
            Form::Byte => {
                let top = top(0xff);
                for (place, &byte) in places.zip(self.bytes.get(from..).unwrap_or_default()) {
                    *place = pick(u16::from(byte), top);
                }
            }
            Form::Pair => {
                let top = top(0xffff);
                let (pairs, _) = self.bytes.get(from * 2..).unwrap_or_default().as_chunks();
                for (place, pair) in places.zip(pairs) {
                    *place = pick(u16::from_le_bytes(*pair), top);
                }
            }
            Form::Plain => {
                let (values, _) = self.bytes.get(from * 4..).unwrap_or_default().as_chunks();
                for (place, value) in places.zip(values) {
                    *place = f32::from_le_bytes(*value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// Spools and reads back; the number of bytes.
    fn round_trip(features: &[f32], width: usize, labels: &[f32], weights: Option<&[f32]>) -> usize {
        let mut bytes = vec![7, 7];
        let length = encode(&Chunk { features, labels, weights }, &[], width, &mut bytes).unwrap();
        assert_eq!(bytes.len(), length + 2);
        let mut block = Block { features: vec![9.0; 3], weights: vec![1.0], weighted: true, ..Block::default() };
        decode(&bytes[2..], &mut block).unwrap();
        let chunk = block.chunk();
        assert_eq!(bits(chunk.features), bits(features));
        assert_eq!(bits(chunk.labels), bits(labels));
        assert_eq!(chunk.weights.map(bits), weights.map(bits));
        length
    }

    /// The bytes that a column of these values takes, without headers.
    fn column(values: &[f32]) -> usize {
        round_trip(values, 1, &vec![0.0; values.len()], None) - HEADER - 2 * COLUMN_HEADER
    }

    #[test]
    fn every_column_takes_its_smallest_form() {
        let ramp = |from: i32, count: i32| -> Vec<f32> { (0..count).map(|i| (from + i) as f32).collect() };
        for (values, wanted, why) in [
            (vec![0.1; 1000], 0, "a constant"),
            (vec![f32::NAN; 1000], 0, "nothing but missing values"),
            (ramp(2015, 16), 8, "sixteen years"),
            (ramp(-8, 15), 8, "an odd number of small ones"),
            (ramp(2015, 17), 17, "seventeen years"),
            (ramp(-128, 256), 256, "a byte"),
            (ramp(0, 257), 514, "just not a byte"),
            (ramp(1 << 23, 65_536), 131_072, "two bytes, far from zero"),
            (ramp(0, 65_537), 262_148, "just not two bytes"),
            (vec![0.5, 1.0], 8, "a fraction"),
            (vec![-0.0, 1.0], 8, "a negative zero"),
            (vec![f32::INFINITY, 1.0], 8, "an infinity"),
            (vec![3e9, 3e9 + 256.0], 8, "beyond 32 bits"),
        ] {
            assert_eq!(column(&values), wanted, "{why}");
        }
    }

    #[test]
    fn a_missing_value_takes_the_highest_distance() {
        let with_missing = |count: i32| (0..count).map(|i| i as f32).chain([f32::NAN, f32::NAN]).collect::<Vec<_>>();
        assert_eq!(column(&with_missing(15)), 9);
        assert_eq!(column(&with_missing(16)), 18);
        assert_eq!(column(&with_missing(255)), 257);
        assert_eq!(column(&with_missing(256)), 2 * 258);
        assert_eq!(column(&with_missing(65_535)), 2 * 65_537);
        assert_eq!(column(&with_missing(65_536)), 4 * 65_538);
        let odd_nan = f32::from_bits(0x7fc1_2345);
        assert_eq!(column(&[1.0, odd_nan, odd_nan]), 2, "the payload is kept");
        assert_eq!(column(&[1.0, odd_nan, f32::NAN]), 12, "two kinds of NaN");
    }

    #[test]
    fn nothing_at_all_is_spooled_too() {
        round_trip(&[], 3, &[], None);
        round_trip(&[], 0, &[1.0, 2.0], Some(&[0.5, 0.25]));
    }

    #[test]
    fn chunks_that_do_not_fit_are_refused() {
        let chunk = Chunk { features: &[1.0, 2.0, 3.0], labels: &[1.0], weights: None };
        assert!(matches!(encode(&chunk, &[], 2, &mut Vec::new()), Err(Error::Shape(_))));
        let chunk = Chunk { features: &[1.0], labels: &[1.0], weights: Some(&[]) };
        assert!(matches!(encode(&chunk, &[], 1, &mut Vec::new()), Err(Error::Shape(_))));
        let zeros = vec![0.0; MOST_CELLS + 1];
        let chunk = Chunk { features: &zeros, labels: &zeros, weights: None };
        assert!(matches!(encode(&chunk, &[], 1, &mut Vec::new()), Err(Error::Shape(_))));
    }

    #[test]
    fn an_origin_is_taken_off_before_large_numbers_are_rounded() {
        // The second a microsecond after an hour, the third missing: the rest of a second column is nowhere.
        let values = [1_700_000_123.0, 1_700_003_600.000_001, f64::NAN];
        let single = values.map(|value| value as f32);
        let rest = values.iter().zip(single).map(|(value, single)| (value - f64::from(single)) as f32).collect();
        let features: Vec<f32> = single.iter().flat_map(|value| [5.0, *value]).collect();
        let chunk = Chunk { features: &features, labels: &[0.0; 3], weights: None };
        let mut bytes = Vec::new();
        encode(&chunk, &[(1, rest)], 2, &mut bytes).unwrap();
        let mut block = Block::new();
        decode(&bytes, &mut block).unwrap();
        block.take_off(1, 1_700_000_000.0, 2);
        block.take_off(0, 3.0, 2);
        let features = block.chunk().features;
        assert_eq!(features[..4], [2.0, 123.0, 2.0, 3600.0]);
        assert!(features[5].is_nan());
        assert!(encode(&chunk, &[(2, vec![0.0; 3])], 2, &mut bytes).is_err(), "of no feature");
        assert!(encode(&chunk, &[(1, vec![0.0; 2])], 2, &mut bytes).is_err(), "of fewer rows");
    }

    #[test]
    fn few_bytes_do_not_become_a_gigabyte() {
        let column = [0; COLUMN_HEADER];
        for rows in [MOST_CELLS as u32, MOST_CELLS as u32 + 1, 225_000_000, u32::MAX] {
            let header =
                [&[VERSION, 0], rows.to_le_bytes().as_slice(), &1u32.to_le_bytes(), &0u32.to_le_bytes()].concat();
            let bytes = [header.as_slice(), &column, &column].concat();
            assert_eq!(decode(&bytes, &mut Block::new()).is_ok(), rows as usize <= MOST_CELLS, "{rows} rows");
        }
    }

    fn any_column() -> impl Strategy<Value = Vec<f32>> {
        let rows = 0..600usize;
        rows.prop_flat_map(|rows| {
            prop_oneof![
                proptest::collection::vec(any::<u32>().prop_map(f32::from_bits), rows),
                proptest::collection::vec((-9..9i32).prop_map(|i| i as f32), rows),
                proptest::collection::vec((1000..1300i32).prop_map(|i| i as f32), rows),
                proptest::collection::vec(
                    prop_oneof![Just(f32::NAN), (-40_000..25_535i32).prop_map(|i| i as f32)],
                    rows
                ),
                proptest::collection::vec(
                    prop_oneof![Just(-0.0f32), Just(0.0), Just(1e-40), Just(f32::INFINITY), Just(5.0)],
                    rows
                ),
                Just(vec![2.5; rows]),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_bit_comes_back(columns in proptest::collection::vec(any_column(), 1..8), weighted: bool) {
            let rows = columns.iter().map(Vec::len).min().unwrap();
            let features: Vec<f32> =
                (0..rows).flat_map(|row| columns[1..].iter().map(move |column| column[row])).collect();
            let labels = &columns[0][..rows];
            round_trip(&features, columns.len() - 1, labels, weighted.then_some(labels));
        }

        #[test]
        fn damage_is_an_error_or_other_rows_but_never_a_panic(
            columns in proptest::collection::vec(any_column(), 1..4), at: prop::sample::Index, with: u8, cut: bool,
            rested: bool,
        ) {
            let rows = columns.iter().map(Vec::len).min().unwrap();
            let features: Vec<f32> = (0..rows).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
            let mut bytes = Vec::new();
            let labels = vec![0.0; rows];
            let chunk = Chunk { features: &features, labels: &labels, weights: None };
            let rests = if rested { vec![(0, labels.clone())] } else { Vec::new() };
            encode(&chunk, &rests, columns.len(), &mut bytes).unwrap();
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = with;
            }
            // A damaged number of rows where all columns are constant is believed up to a limit; that is no danger, but
            // it takes a while.
            prop_assume!(cut || !(2..10).contains(&at));
            let result = decode(&bytes, &mut Block::new());
            prop_assert!(!cut || result.is_err());
        }
    }
}
