//! Products of matrices: rows of activations by weights that were packed for it.
//!
//! A weight matrix has a row for each output. It is packed into panels of 16 outputs: for each input the 16 weights that
//! it is multiplied by, so that a product reads the weights once, in order. The rows are packed too, some at a time, and
//! as many sums as fit into registers are kept there. Each sum is made in the order of the inputs whatever the number of
//! rows, so a row gives the same bits alone and among others.

use room::NoRoom;

/// Outputs of a panel.
pub const LANES: usize = 16;

/// So many values, rounded up to whole panels: how far apart the rows of a result are.
pub const fn padded(count: usize) -> usize {
    count.next_multiple_of(LANES)
}

/// Packs the weights of `outputs` rows with `inputs` values each into panels, behind what `packed` has.
pub fn pack(weights: &[f32], outputs: usize, inputs: usize, packed: &mut Vec<f32>) -> Result<(), NoRoom> {
    room::reserve(packed, padded(outputs) * inputs)?;
    for first in (0..outputs).step_by(LANES) {
        for input in 0..inputs {
            packed.extend((first..first + LANES).map(|output| match output < outputs {
                true => weights[output * inputs + input],
                false => 0.0,
            }));
        }
    }
    Ok(())
}

/// Rows of values, each so far behind the one before.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub values: &'a [f32],
    pub stride: usize,
    pub count: usize,
}

/// What a product needs beside its operands, kept from one to the next.
#[derive(Default)]
pub struct Scratch {
    packed: Vec<f32>,
}

impl Scratch {
    /// The products of rows with `inner` values and packed weights, into rows of `out` that are `stride` apart; `stride`
    /// is at least the number of outputs, [`padded`].
    pub fn product(
        &mut self,
        rows: Rows<'_>,
        inner: usize,
        weights: &[f32],
        out: &mut [f32],
        stride: usize,
    ) -> Result<(), NoRoom> {
        let Rows { count, .. } = rows;
        if count == 0 || inner == 0 {
            return Ok(());
        }
        let panels = weights.len() / (inner * LANES);
        assert!(panels * LANES <= stride && out.len() >= (count - 1) * stride + panels * LANES);
        let kernel = Kernel::best();
        self.pack_rows(rows, inner, kernel.rows)?;
        for first_panel in (0..panels).step_by(kernel.panels) {
            let some = kernel.panels.min(panels - first_panel);
            let weights = &weights[first_panel * inner * LANES..][..some * inner * LANES];
            for first in (0..count).step_by(kernel.rows) {
                let height = kernel.rows.min(count - first);
                let out = &mut out[first * stride + first_panel * LANES..];
                let tile = Tile { rows: &self.packed[first * inner..][..height * inner], inner, weights, out, stride };
                kernel.run(height, some, tile);
            }
        }
        Ok(())
    }

    /// Packs rows in blocks of `height`: for each input the values of all rows of the block.
    fn pack_rows(&mut self, rows: Rows<'_>, inner: usize, height: usize) -> Result<(), NoRoom> {
        self.packed.clear();
        room::reserve(&mut self.packed, rows.count * inner)?;
        self.packed.resize(rows.count * inner, 0.0);
        for first in (0..rows.count).step_by(height) {
            let height = height.min(rows.count - first);
            let block = &mut self.packed[first * inner..][..height * inner];
            for row in 0..height {
                let values = &rows.values[(first + row) * rows.stride..][..inner];
                for (to, value) in block[row..].iter_mut().step_by(height).zip(values) {
                    *to = *value;
                }
            }
        }
        Ok(())
    }
}

/// A block of packed rows, and some panels of weights, and where their products go.
struct Tile<'a> {
    rows: &'a [f32],
    inner: usize,
    weights: &'a [f32],
    out: &'a mut [f32],
    stride: usize,
}

/// How a tile is multiplied on this machine.
#[derive(Clone, Copy)]
struct Kernel {
    /// Rows of a block.
    rows: usize,
    /// Panels at once.
    panels: usize,
    instructions: Instructions,
}

#[derive(Clone, Copy)]
enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Plain,
}

/// Calls a function with the number of rows as a constant.
macro_rules! by_height {
    ($height:expr, $function:ident, $tile:expr, [$($rows:literal)*]) => {
        match $height {
            $($rows => $function::<$rows>($tile),)*
            _ => unreachable!("a tile has as many rows as its kernel says"),
        }
    };
}

impl Kernel {
    fn best() -> Kernel {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            return Kernel { rows: 12, panels: 2, instructions: Instructions::Avx512 };
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Kernel { rows: 6, panels: 1, instructions: Instructions::Avx2 };
        }
        Kernel { rows: 4, panels: 1, instructions: Instructions::Plain }
    }

    fn run(self, height: usize, panels: usize, tile: Tile<'_>) {
        assert!(tile.rows.len() == height * tile.inner && tile.weights.len() == panels * tile.inner * LANES);
        assert!(tile.out.len() >= (height - 1) * tile.stride + panels * LANES);
        match self.instructions {
            // SAFETY: the processor has the instructions; the operands and the results lie in their slices, as was checked.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 if panels == 2 => unsafe {
                by_height!(height, avx512_two, tile, [1 2 3 4 5 6 7 8 9 10 11 12]);
            },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => unsafe {
                by_height!(height, avx512_one, tile, [1 2 3 4 5 6 7 8 9 10 11 12]);
            },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { by_height!(height, avx2, tile, [1 2 3 4 5 6]) },
            Instructions::Plain => by_height!(height, plain, tile, [1 2 3 4]),
        }
    }
}

/// A kernel of vectors: `$wide` of them make up the panels of a tile.
macro_rules! kernel {
    ($name:ident, $feature:literal, $wide:literal, $lanes:literal, $zero:ident, $load:ident, $spread:ident, $add:ident,
     $store:ident) => {
        /// # Safety
        /// The processor has the feature, the tile has `ROWS` rows and panels of as many vectors as `$wide`, and its
        /// slices are as long as these say.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $feature)]
        unsafe fn $name<const ROWS: usize>(tile: Tile<'_>) {
            use std::arch::x86_64::{$add, $load, $spread, $store, $zero};
            let Tile { rows, inner, weights, out, stride } = tile;
            // Where a vector's panel begins, and where in each 16 weights of it.
            let place = |vector: usize| (vector * $lanes / LANES) * inner * LANES + vector * $lanes % LANES;
            let mut sums = [[$zero(); $wide]; ROWS];
            // SAFETY: as the caller promises.
            unsafe {
                for input in 0..inner {
                    let weights = weights.as_ptr().add(input * LANES);
                    let weights: [_; $wide] = std::array::from_fn(|vector| $load(weights.add(place(vector))));
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let value = $spread(*rows.as_ptr().add(input * ROWS + row));
                        for (sum, weights) in sums.iter_mut().zip(weights) {
                            *sum = $add(value, weights, *sum);
                        }
                    }
                }
                for (row, sums) in sums.iter().enumerate() {
                    for (vector, sum) in sums.iter().enumerate() {
                        $store(out.as_mut_ptr().add(row * stride + vector * $lanes), *sum);
                    }
                }
            }
        }
    };
}

kernel!(
    avx512_two,
    "avx512f",
    2,
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_storeu_ps
);
kernel!(
    avx512_one,
    "avx512f",
    1,
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_storeu_ps
);
kernel!(avx2, "avx2,fma", 2, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps);

/// For processors without these: the compiler has vectors of its own.
fn plain<const ROWS: usize>(tile: Tile<'_>) {
    let Tile { rows, weights, out, stride, .. } = tile;
    let mut sums = [[0f32; LANES]; ROWS];
    let (weights, _) = weights.as_chunks::<LANES>();
    let (rows, _) = rows.as_chunks::<ROWS>();
    for (values, weights) in rows.iter().zip(weights) {
        for (sums, value) in sums.iter_mut().zip(values) {
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += value * weight;
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        out[row * stride..][..LANES].copy_from_slice(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn products_are_those_of_the_definition_by_every_kernel_and_for_every_shape() {
        for (rows, inner, outputs) in [(1, 1, 1), (5, 7, 16), (12, 32, 33), (13, 26, 48), (25, 100, 17), (31, 3, 64)] {
            let (left, right) = (numbers(rows * inner, 1), numbers(outputs * inner, 2));
            let mut packed = Vec::new();
            pack(&right, outputs, inner, &mut packed).unwrap();
            let stride = padded(outputs);
            let mut out = vec![f32::NAN; rows * stride];
            let given = Rows { values: &left, stride: inner, count: rows };
            Scratch::default().product(given, inner, &packed, &mut out, stride).unwrap();
            for row in 0..rows {
                for output in 0..outputs {
                    let pairs = left[row * inner..][..inner].iter().zip(&right[output * inner..][..inner]);
                    let exact: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let found = f64::from(out[row * stride + output]);
                    assert!((found - exact).abs() < 1e-4, "{rows} {inner} {outputs}: {found} {exact}");
                }
            }
        }
    }

    #[test]
    fn kernels_agree() {
        let (inner, rows) = (50, numbers(4 * 50, 3));
        let mut weights = Vec::new();
        pack(&numbers(32 * 50, 4), 32, inner, &mut weights).unwrap();
        let mut expected = [0.0; 4 * 32];
        for panel in 0..2 {
            let weights = &weights[panel * inner * LANES..][..inner * LANES];
            plain::<4>(Tile { rows: &rows, inner, weights, out: &mut expected[panel * LANES..], stride: 32 });
        }
        #[cfg(target_arch = "x86_64")]
        for (has, instructions, panels) in [
            (is_x86_feature_detected!("avx512f"), Instructions::Avx512, 2),
            (is_x86_feature_detected!("avx512f"), Instructions::Avx512, 1),
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"), Instructions::Avx2, 1),
        ] {
            if !has {
                continue;
            }
            let mut found = [0.0; 4 * 32];
            for first in (0..2).step_by(panels) {
                let weights = &weights[first * inner * LANES..][..panels * inner * LANES];
                let tile = Tile { rows: &rows, inner, weights, out: &mut found[first * LANES..], stride: 32 };
                Kernel { rows: 4, panels, instructions }.run(4, panels, tile);
            }
            for (one, other) in found.iter().zip(expected) {
                assert!((one - other).abs() < 1e-5);
            }
        }
    }
}
