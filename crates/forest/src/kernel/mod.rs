//! The kernels, which walk the trees of an image. Every kernel gives the same bits.

pub mod compact;
pub mod keys;
pub mod perfect;
#[cfg(target_arch = "x86_64")]
pub mod rank;
pub mod scalar;
pub mod wide;

use crate::image::View;

/// Which kernel predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Walks: any model, any machine.
    Scalar,
    /// Byte ranks: models of few thresholds and shallow trees, processors with AVX2.
    Rank,
}

impl Kernel {
    /// The fastest that this machine has for the model.
    pub fn best(view: View) -> Self {
        if Self::Rank.can_predict(view) { Self::Rank } else { Self::Scalar }
    }

    /// Whether the model and this machine are such that the kernel can be used.
    pub fn can_predict(self, view: View) -> bool {
        #[cfg(target_arch = "x86_64")]
        let supported = rank::is_supported();
        #[cfg(not(target_arch = "x86_64"))]
        let supported = false;
        match self {
            Self::Scalar => true,
            Self::Rank => supported && !view.rank_groups().is_empty(),
        }
    }

    /// The margins of one row.
    ///
    /// # Safety
    /// The kernel [can predict](Self::can_predict) the checked `view`; `row` has `num_features` values, `out`
    /// `num_outputs`.
    pub unsafe fn margin_row(self, view: View, row: &[f32], out: &mut [f32]) {
        // SAFETY: as this function's contract.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Rank if view.rank_columns() <= rank::row::MAX_ROW_COLUMNS => {
                    rank::row::margin_row(view, row, out);
                }
                _ => scalar::margin_row(view, row, out),
            }
        }
    }

    /// The margins of many rows, into `out`, row by row.
    ///
    /// # Safety
    /// As [`Self::margin_row`], but that `rows` has a multiple of `num_features` values, and `out` `num_outputs` times
    /// as many as there are rows.
    pub unsafe fn margin_batch(self, view: View, rows: &[f32], out: &mut [f32]) {
        // SAFETY: as this function's contract.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Rank => rank::batch::margin_batch(view, rows, out),
                _ => scalar::margin_batch(view, rows, out),
            }
        }
    }
}
