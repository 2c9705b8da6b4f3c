//! `pgml.load_dataset`: small, well-known tables to try things on, compiled into the library.

use pgrx::{IntoDatum, PgLogLevel, pg_sys};
use serde_json::Value;

use crate::access;
use crate::error::{Error, Result};
use crate::registry;
use crate::sql::{Call, LONGEST_NAME, text_datum};
use crate::train::source::Source;

crate::sql_function!(pgml_load_dataset, load_dataset);

struct Dataset {
    name: &'static str,
    /// A header, then a row a line; no value needs quotes.
    csv: &'static str,
    /// Type of the last column.
    label: &'static str,
    /// Type of the others.
    feature: &'static str,
}

static DATASETS: [Dataset; 7] = [
    Dataset {
        name: "air_passengers",
        csv: include_str!("../datasets/air_passengers.csv"),
        label: "integer",
        feature: "date",
    },
    Dataset {
        name: "breast_cancer",
        csv: include_str!("../datasets/breast_cancer.csv"),
        label: "boolean",
        feature: "real",
    },
    Dataset { name: "diabetes", csv: include_str!("../datasets/diabetes.csv"), label: "real", feature: "real" },
    Dataset { name: "digits", csv: include_str!("../datasets/digits.csv"), label: "smallint", feature: IMAGE },
    Dataset { name: "iris", csv: include_str!("../datasets/iris.csv"), label: "integer", feature: "real" },
    Dataset { name: "linnerud", csv: include_str!("../datasets/linnerud.csv"), label: "real", feature: "real" },
    Dataset { name: "wine", csv: include_str!("../datasets/wine.csv"), label: "integer", feature: "real" },
];

/// Type of a column whose values are lines of pixels with blanks between them, each pixel a digit of base 17.
const IMAGE: &str = "smallint[]";

/// `pgml.load_dataset(source, subset, limit, kwargs)`.
fn load_dataset(call: &Call) -> Result<pg_sys::Datum> {
    registry::prevent_if_read_only(c"pgml.load_dataset()");
    let source = call.text(0, "source", LONGEST_NAME)?.ok_or_else(|| Error::null_argument("source"))?;
    let dataset = DATASETS.iter().find(|dataset| dataset.name == source).ok_or_else(|| unknown(&source))?;
    if let Some(subset) = call.text(1, "subset", LONGEST_NAME)? {
        return Err(Error::invalid(format!("data set \"{source}\" has no subset \"{subset}\""))
            .hint("The built-in data sets have no subsets: leave subset out."));
    }
    let limit = match call.i64(2) {
        None => usize::MAX,
        Some(limit) => {
            usize::try_from(limit).map_err(|_| Error::invalid(format!("limit must not be negative: {limit}")))?
        }
    };
    match call.json(3, "kwargs")? {
        None | Some(Value::Null) => {}
        Some(Value::Object(kwargs)) if kwargs.is_empty() => {}
        Some(kwargs) => {
            return Err(Error::invalid(format!("data set \"{source}\" takes no kwargs, and {kwargs} was given")));
        }
    }
    let found = registry::find_locked(dataset.name)?;
    // Another role's may have triggers, or be a view, whose code would run with the rights of this one.
    if let Some(found) = found.as_ref().filter(|found| found.owner != access::user()) {
        let (table, owner) = (format!("pgml.{}", dataset.name), access::role_name(found.owner));
        if !Source::relation(found.relation)?.is_plain_table() {
            let code = pgrx::PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE;
            return Err(Error::new(
                code,
                format!(
                    "{table} of role \"{owner}\" is not a plain table, and is not read: it could run code of its owner"
                ),
            )
            .hint("The table of the data set needs this name: have the relation renamed or dropped."));
        }
        let count = registry::count_as_caller(dataset.name)?;
        pgrx::ereport!(
            PgLogLevel::NOTICE,
            pgrx::PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            format!("table {table} belongs to role \"{owner}\", and stays as it is")
        );
        return call.rows([[Some(text_datum(&table)), count.into_datum()]]);
    }
    let columns = dataset.columns();
    let rows: Vec<String> = dataset.csv.lines().skip(1).take(limit).map(|line| dataset.row(line)).collect();
    let definition: Vec<String> = columns.iter().map(|(name, kind)| format!("\"{name}\" {kind}")).collect();
    let table = registry::remake_table(dataset.name, found.as_ref(), &definition.join(", "), &rows)?;
    let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    call.rows([[Some(text_datum(&table)), count.into_datum()]])
}

fn unknown(source: &str) -> Error {
    let names: Vec<String> = DATASETS.iter().map(|dataset| dataset.name.to_owned()).collect();
    Error::invalid(format!("data set \"{source}\" is not built in")).hint(crate::nearest::hint(source, &names))
}

impl Dataset {
    /// Name and type of each column.
    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let names: Vec<&str> = self.csv.lines().next().unwrap_or("").split(',').collect();
        let last = names.len().saturating_sub(1);
        let kind = |index| if index == last { self.label } else { self.feature };
        names.into_iter().enumerate().map(|(index, name)| (name, kind(index))).collect()
    }

    /// A line of the file as SQL writes a row.
    fn row(&self, line: &str) -> String {
        let (features, label) = line.rsplit_once(',').unwrap_or((line, ""));
        match self.feature {
            IMAGE => format!("('{}', {label})", array_literal(features)),
            "date" => format!("('{features}', {label})"),
            _ => format!("({})", line.replace(',', ", ")),
        }
    }
}

/// `{{0,16},{1,2}}` for `0g 12`.
fn array_literal(image: &str) -> String {
    let lines: Vec<String> = image
        .split(' ')
        .map(|line| {
            let pixels = line.chars().filter_map(|digit| digit.to_digit(17)).map(|pixel| pixel.to_string());
            format!("{{{}}}", pixels.collect::<Vec<_>>().join(","))
        })
        .collect();
    format!("{{{}}}", lines.join(","))
}
