//! Random statements: what a shape is judged to be is what each statement of it is, and the lexer cuts as PostgreSQL's
//! scanner does.

use classify::shape::{Shaper, Token};
use classify::{Kind, Reason, Verdict};
use proptest::prelude::*;

use crate::catalog::classifier;

/// Pieces that queries are made of. `{}` is a literal, `[]` an expression, `()` a query.
const EXPRESSIONS: &[&str] = &[
    "{}",
    "{}",
    "{}",
    "id",
    "a.id",
    "a.loud_column",
    "count(*)",
    "lower([])",
    "nextval({})",
    "mixed([], [])",
    "a.mixed([])",
    "random( )",
    "pgml.predict({}, ARRAY[{}, {}])",
    "[] + []",
    "[] <!> []",
    "[] = {}",
    "[] IN ({}, {}, {})",
    "[] IN ([], {})",
    "[]::int",
    "CAST([] AS loud)",
    "({}, {}) = ({}, {})",
    "EXISTS (())",
    "(())",
    "[] BETWEEN {} AND {}",
    "NOT []",
    "CASE [] WHEN {} THEN [] ELSE {} END",
    "ARRAY[{}, {}, {}]",
    "ARRAY[[[], {}], [{}, {}]]",
    "coalesce([], {})",
    "[] LIKE {}",
    "({}, {}) OVERLAPS ({}, {})",
    "unheard_of({}, {})",
    "set_config({}, {}, true)",
    "current_setting({}, true)",
    "current_setting([])",
    "pg_advisory_lock({})",
    "interval '1day'",
    "sum([]) OVER (ORDER BY [])",
    "substring([] FROM {})",
    "-[]",
    "current_user",
];
const QUERIES: &[&str] = &[
    "SELECT []",
    "SELECT [], [] FROM accounts a",
    "SELECT [] FROM accounts a WHERE []",
    "VALUES ({}, {}), ({}, {})",
    "VALUES ([], {}), ([], {})",
    "SELECT * FROM bad",
    "SELECT * FROM better WHERE []",
    "SELECT * FROM far",
    "SELECT * FROM (()) x",
    "() UNION ALL ()",
    "WITH w AS (()) ()",
    "SELECT [] FROM generate_series({}, {}) ORDER BY {}",
    "SELECT * FROM accounts LIMIT {} OFFSET {}",
    "SELECT * FROM accounts FOR UPDATE",
    "WITH w AS (DELETE FROM accounts WHERE [] RETURNING *) ()",
    "SELECT [] GROUP BY GROUPING SETS (([]), ([]))",
];
const STATEMENTS: &[&str] = &[
    "()",
    "()",
    "()",
    "()",
    "()",
    "()",
    "()",
    "()",
    "INSERT INTO accounts VALUES ({}, {}), ({}, {}), ([], {})",
    "UPDATE accounts SET x = [] WHERE []",
    "DELETE FROM accounts WHERE []",
    "INSERT INTO audited SELECT [] ON CONFLICT (id) DO UPDATE SET x = []",
    "MERGE INTO accounts USING history ON [] WHEN MATCHED AND [] THEN UPDATE SET x = []",
    "EXPLAIN (ANALYZE {}) ()",
    "EXPLAIN ()",
    "COPY (()) TO STDOUT",
    "COPY (()) TO 'f'",
    "COPY accounts FROM $$f$$",
    "COPY accounts TO STDOUT (DELIMITER {})",
    "SET a.b = {}",
    "SET LOCAL a.b TO {}, {}",
    "BEGIN READ ONLY",
    "DECLARE c CURSOR WITH HOLD FOR ()",
    "PREPARE p AS ()",
    "EXECUTE p({}, {})",
    "(); ()",
    "SET a.b = {}; ()",
    "BEGIN; (); COMMIT",
    "CREATE TEMP TABLE x AS ()",
    "CREATE VIEW v AS ()",
    "DO {}",
    "NOTIFY c, {}",
];
const LITERALS: &[&str] = &[
    "0",
    "1",
    "42",
    "2147483648",
    "1.5",
    ".5",
    "1e9",
    "''",
    "'x'",
    "'it''s'",
    "E'a\\'b'",
    "$$x$$",
    "$t$ it's $$ $t$",
    "B'01'",
    "X'1f'",
    "$1",
    "$2",
    "NULL",
    "true",
    "N'x'",
    "'a'\n'b'",
    "'nextval(1)'",
    "'transaction_read_only'",
    "'/* howdah: primary */'",
    "U&'\\0061'",
];
const BLANKS: &[&str] = &[" ", " ", " ", "\n", "\t ", " /* c */ ", " -- c\n", " /* a /* b */ ' */ ", "\r\n"];

/// A text from a stream of choices; at the end of its depth only leaves are left.
fn grow(out: &mut String, pattern: &str, depth: u32, choices: &mut impl Iterator<Item = usize>) {
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("()") || rest.starts_with("[]") || rest.starts_with("{}") {
            let choice = choices.next().unwrap_or(0);
            match c {
                '{' => out.push_str(LITERALS[choice % LITERALS.len()]),
                '[' if depth == 0 => out.push_str("id"),
                '[' => grow(out, EXPRESSIONS[choice % EXPRESSIONS.len()], depth - 1, choices),
                _ if depth == 0 => out.push_str("SELECT 1"),
                _ => grow(out, QUERIES[choice % QUERIES.len()], depth - 1, choices),
            }
            rest = &rest[2..];
            continue;
        }
        if c == ' ' {
            out.push_str(BLANKS[choices.next().unwrap_or(0) % BLANKS.len()]);
        } else {
            out.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
}

fn statement(choices: Vec<usize>) -> String {
    let mut choices = choices.into_iter();
    let first = choices.next().unwrap_or(0);
    let mut out = String::new();
    grow(&mut out, STATEMENTS[first % STATEMENTS.len()], 4, &mut choices);
    out
}

/// What must be the same however it was found.
fn essence(verdict: &Verdict) -> Verdict {
    let mut essence = Verdict { shape: None, normalized: None, ..verdict.clone() };
    for kind in std::iter::once(&mut essence.kind).chain(&mut essence.each) {
        if let Kind::Set(sets) = kind {
            sets.iter_mut().for_each(|set| set.statement.clear());
        }
    }
    essence
}

/// Random texts prove nothing if few of them are statements.
#[test]
fn most_random_statements_parse() {
    let mut seed = 1usize;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let (mut reads, mut writes) = (0, 0);
    for _ in 0..1000 {
        let sql = statement((0..60).map(|_| next()).collect());
        let verdict = classifier().in_full(sql.as_bytes(), true);
        reads += usize::from(verdict.read_only);
        writes += usize::from(
            !verdict.read_only && !matches!(verdict.pipelinable, Err(Reason::Unparsable | Reason::TooDeep)),
        );
    }
    assert!(reads > 150 && writes > 300, "{reads} reads, {writes} writes of 1000");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_shape_is_judged_as_its_statements(choices in prop::collection::vec(any::<usize>(), 1..120)) {
        let sql = statement(choices);
        let mut classifier = classifier();
        let by_shape = essence(classifier.classify(sql.as_bytes(), true));
        let whole = essence(&classifier.in_full(sql.as_bytes(), true));
        // What is left out of a shape may make it shallow or short enough where the whole was not, or mend what a
        // server refuses as a whole (`f(1), (1)` where no list may stand).
        if !matches!(whole.pipelinable, Err(Reason::TooDeep | Reason::TooLong | Reason::Unparsable)) {
            prop_assert_eq!(by_shape, whole, "{}", sql);
        }
    }

    #[test]
    fn one_shape_has_one_verdict(one in prop::collection::vec(any::<usize>(), 1..60), literals in prop::collection::vec(any::<usize>(), 8)) {
        // The same statement with other integers: same shape, same verdict, no second parse.
        let sql = statement(one);
        let other = sql.replace("42", &literals.first().map_or(7, |n| n % 1000).to_string());
        let mut classifier = classifier();
        let first = classifier.classify(sql.as_bytes(), true).clone();
        let second = classifier.classify(other.as_bytes(), true).clone();
        // Those of a SET and of a DO are its meaning.
        if first.shape.is_some() && !sql.contains("a.b") && !sql.contains("set_config") && !sql.starts_with("DO") {
            prop_assert_eq!(first, second);
        }
    }

    #[test]
    fn any_bytes_get_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..200), scs in any::<bool>()) {
        let mut classifier = classifier();
        let verdict = classifier.classify(&bytes, scs);
        prop_assert!(verdict.read_only || verdict.pipelinable.is_err());
    }

    #[test]
    fn tokens_end_where_the_scanner_says(pieces in prop::collection::vec(prop::sample::select(PIECES), 1..30)) {
        let sql = pieces.concat();
        let mut tokens = Vec::new();
        if Shaper::default().lex(sql.as_bytes(), true, |token, from, to| tokens.push((token, from, to))).is_ok() {
            let scanned = pg_query::scan(&sql);
            // A server refuses bad escapes within a string; where it ends is not in doubt.
            if scanned.is_err() && sql.contains('\\') {
                return Ok(());
            }
            prop_assert!(scanned.is_ok(), "{:?} is lexed but not scanned: {:?}", sql, scanned);
            let scanned: Vec<_> = scanned
                .map(|scan| scan.tokens)
                .unwrap_or_default()
                .into_iter()
                .filter(|token| !matches!(token.token(), pg_query::protobuf::Token::SqlComment | pg_query::protobuf::Token::CComment))
                .map(|token| (token.start as usize, token.end as usize, token.token()))
                .collect();
            let ends = |(_, from, to): &(Token, usize, usize)| (*from, *to);
            let lexed: Vec<_> = tokens.iter().map(ends).collect();
            let expected: Vec<_> = scanned.iter().map(|(from, to, _)| (*from, *to)).collect();
            prop_assert_eq!(&lexed, &expected, "{:?}: {:?}", sql, tokens);
            for ((token, ..), (.., scanned)) in tokens.iter().zip(&scanned) {
                use pg_query::protobuf::Token as Of;
                let kind = match scanned {
                    Of::Iconst => Some(Token::Int),
                    Of::Fconst => Some(Token::Float),
                    Of::Sconst => Some(Token::Str),
                    Of::Usconst => Some(Token::UnicodeStr),
                    Of::Uident => Some(Token::UnicodeQuoted),
                    Of::Bconst => Some(Token::Bits),
                    Of::Xconst => Some(Token::Hex),
                    Of::Param => Some(Token::Param),
                    _ => None,
                };
                if let Some(kind) = kind {
                    prop_assert_eq!(*token, kind, "{:?}", &sql);
                } else {
                    prop_assert!(matches!(token, Token::Word | Token::Quoted | Token::Op | Token::Punct), "{:?}", &sql);
                }
            }
        }
    }
}

/// Pieces of text whose joints are where lexers err.
const PIECES: &[&str] = &[
    " ", "\n", "\t", "\r", "a", "E", "e", "b", "x", "n", "u", "U&", "_", "é", "1", "0", "12", ".", "..", ",", "(", ")",
    "[", "]", ";", ":", "::", ":=", "'", "''", "'a'", "E'", "b'0'", "x'f'", "n'a'", "\"", "\"a\"", "\"\"", "\\", "$",
    "$$", "$1", "$a$", "-", "--", "+", "*", "/", "/*", "*/", "<", ">", "=", "!", "@", "#", "%", "^", "&", "|", "~",
    "?", "`", "<=", "<>", "=>", "select", "e5", "\n'", "-- c\n",
];
