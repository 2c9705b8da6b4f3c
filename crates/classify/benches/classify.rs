//! What a statement costs: of a known shape, and of a new one, which is parsed.

use std::hint::black_box;
use std::sync::Arc;

use classify::shape::Shaper;
use classify::{Catalog, Classifier};
use criterion::{Criterion, criterion_group, criterion_main};

const STATEMENTS: &[(&str, &str)] = &[
    ("pgbench", "SELECT abalance FROM pgbench_accounts WHERE aid = 72361;"),
    ("prepared", "SELECT abalance FROM pgbench_accounts WHERE aid = $1;"),
    (
        "orm",
        "SELECT users.id AS users_id, users.name AS users_name, users.email AS users_email, users.created_at AS \
         users_created_at FROM users LEFT OUTER JOIN orders ON orders.user_id = users.id WHERE users.name = \
         'somebody' AND orders.total > 12.50 AND users.id IN (1, 2, 3, 4, 5, 6, 7, 8) ORDER BY users.created_at DESC \
         LIMIT 10 OFFSET 20",
    ),
];

fn classify(criterion: &mut Criterion) {
    let relations = ["pgbench_accounts", "users", "orders"];
    let mut rows =
        vec![["version", "", "180001", "", ""], ["operator", "", "=", "i", ""], ["operator", "", ">", "i", ""]];
    rows.extend(relations.iter().map(|name| ["relation", "public", name, "plain", ""]));
    let catalog = match Catalog::from_rows(rows) {
        Ok(catalog) => Arc::new(catalog),
        Err(error) => return eprintln!("{error}"),
    };
    for (name, sql) in STATEMENTS {
        let mut shaper = Shaper::default();
        criterion.bench_function(&format!("{name}: shape"), |bencher| {
            bencher.iter(|| shaper.shape(black_box(sql.as_bytes()), true).map(|shape| shape.key));
        });
        let mut classifier = Classifier::new(1000);
        classifier.set_catalog(catalog.clone());
        assert!(classifier.classify(sql.as_bytes(), true).pipelinable.is_ok(), "{name} is not what is to be measured");
        criterion.bench_function(&format!("{name}: known"), |bencher| {
            bencher.iter(|| classifier.classify(black_box(sql.as_bytes()), true).read_only);
        });
        criterion.bench_function(&format!("{name}: new"), |bencher| {
            bencher.iter(|| classifier.in_full(black_box(sql.as_bytes()), true).read_only);
        });
    }
}

criterion_group!(benches, classify);
criterion_main!(benches);
