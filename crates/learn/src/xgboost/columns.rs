//! Names and types of the features.

use std::collections::HashMap;
use std::ffi::CString;

use crate::Error;

/// What the values of a column mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A number; stored in the model as `q`.
    Quantitative,
    /// A whole number; stored in the model as `int`, learnt from like any number.
    Integer,
    /// Yes or no, as 1 and 0; stored in the model as `i`, learnt from like any number.
    Indicator,
    /// The index of a category, split by sets of categories instead of by order; stored in the model as `c`.
    Categorical {
        /// How many categories there are; valid indexes are below it.
        categories: u32,
    },
}

impl ColumnKind {
    /// XGBoost's name of the type.
    pub fn code(self) -> &'static str {
        match self {
            ColumnKind::Quantitative => "q",
            ColumnKind::Integer => "int",
            ColumnKind::Indicator => "i",
            ColumnKind::Categorical { .. } => "c",
        }
    }
}

/// A feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, not empty and unlike all others.
    pub name: String,
    /// What its values mean.
    pub kind: ColumnKind,
}

/// The features of a row, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    columns: Vec<Column>,
    names: Vec<CString>,
    types: Vec<CString>,
    positions: HashMap<String, usize>,
}

/// XGBoost holds the index of a category as a float32, which is exact up to here.
const MOST_CATEGORIES: u32 = 1 << 24;

impl Columns {
    /// Checks and keeps them.
    ///
    /// # Errors
    /// [`Error::Columns`] if there is none, a name is empty, has a zero byte or is there twice, or a categorical column
    /// has no categories or more than 16,777,216.
    pub fn new(columns: Vec<Column>) -> Result<Columns, Error> {
        if columns.is_empty() {
            return Err(Error::Columns("there is no column to learn from".into()));
        }
        let mut names = Vec::with_capacity(columns.len());
        let mut types = Vec::with_capacity(columns.len());
        let mut positions = HashMap::with_capacity(columns.len());
        for (position, Column { name, kind }) in columns.iter().enumerate() {
            if name.is_empty() {
                return Err(Error::Columns(format!("column {} has no name", position + 1)));
            }
            let Ok(c_name) = CString::new(name.as_str()) else {
                return Err(Error::Columns(format!("column {} has a zero byte in its name", position + 1)));
            };
            if positions.insert(name.clone(), position).is_some() {
                return Err(Error::Columns(format!("column \"{name}\" is there twice")));
            }
            if let ColumnKind::Categorical { categories } = *kind
                && (categories == 0 || categories > MOST_CATEGORIES)
            {
                return Err(Error::Columns(format!(
                    "column \"{name}\" has {categories} categories; between 1 and {MOST_CATEGORIES} are possible"
                )));
            }
            names.push(c_name);
            types.push(CString::new(kind.code()).unwrap_or_default());
        }
        Ok(Columns { columns, names, types, positions })
    }

    /// How many there are; never zero.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The first `count` columns.
    pub(super) fn first(&self, count: usize) -> Result<Columns, Error> {
        Columns::new(self.columns.iter().take(count).cloned().collect())
    }

    /// In their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Column> {
        self.columns.iter()
    }

    /// Where the column of this name is.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// The name of a column, or its number where there is none of that number.
    pub(crate) fn name(&self, position: usize) -> String {
        self.columns.get(position).map_or_else(|| format!("#{}", position + 1), |column| column.name.clone())
    }

    pub(crate) fn c_names(&self) -> &[CString] {
        &self.names
    }

    pub(crate) fn c_types(&self) -> &[CString] {
        &self.types
    }

    /// Positions and numbers of categories of those that are categorical.
    pub(crate) fn categorical(&self) -> Vec<(usize, u32)> {
        let kinds = self.columns.iter().enumerate();
        kinds
            .filter_map(|(position, column)| match column.kind {
                ColumnKind::Categorical { categories } => Some((position, categories)),
                _ => None,
            })
            .collect()
    }
}
