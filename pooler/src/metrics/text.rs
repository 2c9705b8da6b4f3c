//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};
use std::time::Duration;

use pooling::metrics::Times;

/// The upper ends of the buckets in which lengths of time are told, in microseconds.
const BUCKETS: &[u64] = &[
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Lengths of time in buckets.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The labels of a sample: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of metrics.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    name: String,
}

impl Page {
    /// Begins a metric: the samples that follow are of it.
    pub fn metric(&mut self, name: &str, kind: Kind, help: &str) {
        name.clone_into(&mut self.name);
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {}", help.replace('\\', "\\\\").replace('\n', "\\n"));
        let _ = writeln!(self.text, "# TYPE {name} {}", kind.name());
    }

    /// A value.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, &value);
    }

    /// Lengths of time.
    pub fn times(&mut self, labels: Labels<'_>, times: &Times) {
        for &bucket in BUCKETS {
            let limit = Duration::from_micros(bucket);
            self.line("_bucket", labels, Some(&limit.as_secs_f64().to_string()), &times.within(limit));
        }
        self.line("_bucket", labels, Some("+Inf"), &times.count());
        self.line("_sum", labels, None, &times.sum().as_secs_f64());
        self.line("_count", labels, None, &times.count());
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bucket: Option<&str>, value: &dyn Display) {
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        let labels = labels.iter().copied().chain(bucket.map(|bucket| ("le", bucket)));
        let mut before = '{';
        for (name, value) in labels {
            let _ = write!(self.text, "{before}{name}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// The page.
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_databases_cannot_break_the_page() {
        let mut page = Page::default();
        page.metric("a_total", Kind::Counter, "One\nline.");
        page.sample(&[("database", "x\"y\\z\nw"), ("user", "ü")], 3);
        page.sample(&[], 0.5);
        assert_eq!(
            page.finish(),
            "# HELP a_total One\\nline.\n# TYPE a_total counter\n\
             a_total{database=\"x\\\"y\\\\z\\nw\",user=\"ü\"} 3\na_total 0.5\n"
        );
    }

    #[test]
    fn buckets_are_cumulative() {
        let mut times = Times::default();
        for micros in [50, 300, 300, 700_000_000] {
            times.record(Duration::from_micros(micros));
        }
        let mut page = Page::default();
        page.metric("t_seconds", Kind::Histogram, "Times.");
        page.times(&[("a", "b")], &times);
        let page = page.finish();
        for line in [
            "t_seconds_bucket{a=\"b\",le=\"0.0001\"} 1\n",
            "t_seconds_bucket{a=\"b\",le=\"0.0005\"} 3\n",
            "t_seconds_bucket{a=\"b\",le=\"60\"} 3\n",
            "t_seconds_bucket{a=\"b\",le=\"+Inf\"} 4\n",
            "t_seconds_sum{a=\"b\"} 700.00065\n",
            "t_seconds_count{a=\"b\"} 4\n",
        ] {
            assert!(page.contains(line), "{line}{page}");
        }
    }
}
