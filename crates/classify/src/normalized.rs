//! The text of a statement for people: without comments, and with `$1`, `$2` ... in place of each literal and parameter.
//! It is made of canonical text, in which lists of literals are as one of it, so statements of one shape have one text.

use crate::shape::{Shaper, Token};

/// The most bytes of a text.
const MOST: usize = 1000;

/// Words before which a parenthesis is none of a call.
const APART: [&str; 20] = [
    "and", "any", "as", "by", "else", "exists", "from", "in", "into", "not", "on", "or", "over", "select", "then",
    "using", "values", "when", "where", "with",
];

/// The text of a statement without its literals.
#[derive(Debug, PartialEq, Eq)]
pub struct Normalized {
    /// A hash of the text, the same in all processes.
    pub id: u64,
    /// The text, cut off behind [`MOST`] bytes.
    pub text: String,
}

impl Normalized {
    /// The text that stands for all statements of this canonical text.
    pub fn of(canonical: &[u8]) -> Self {
        let mut writer = Writer::default();
        // Canonical text is lexed as it was written; what is not would end here, with nothing of it told.
        let _ = Shaper::default().lex(canonical, true, |token, from, to| {
            writer.tell(token, &String::from_utf8_lossy(canonical.get(from..to).unwrap_or_default()));
        });
        let mut text = writer.text;
        // FNV-1a.
        let hash = |id: u64, byte: u8| (id ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let id = text.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
        if text.len() > MOST {
            let end = (0..=MOST).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
            text.truncate(end);
            text.push('…');
        }
        Self { id, text }
    }
}

#[derive(Default)]
struct Writer {
    text: String,
    /// The token before, in this statement.
    last: String,
    /// The words that the statement begins with.
    begins: [String; 2],
    /// The number of the last literal.
    literals: usize,
    /// Whether the statement sets a parameter, and whether its value has begun, which may be written as words.
    sets: bool,
    hides: bool,
}

impl Writer {
    fn tell(&mut self, token: Token, raw: &str) {
        if raw == ";" && token == Token::Punct {
            (self.begins, self.sets, self.hides) = (Default::default(), false, false);
        }
        let is_literal =
            !matches!(token, Token::Word | Token::Quoted | Token::UnicodeQuoted | Token::Op | Token::Punct);
        if self.hides {
            return;
        }
        if is_literal {
            self.literals += 1;
            let written = format!("${}", self.literals);
            return self.write(&written, token);
        }
        self.write(raw, token);
        if let Some(word) = self.begins.iter_mut().find(|word| word.is_empty()) {
            raw.clone_into(word);
        }
        let [first, second] = &self.begins;
        let of_role = first == "alter" && matches!(&**second, "role" | "user" | "database" | "system");
        self.sets |= first == "set" || of_role && raw == "set";
        if self.sets && matches!(raw, "=" | "to") && !second.is_empty() {
            self.literals += 1;
            let written = format!("${}", self.literals);
            self.write(&written, Token::Param);
            self.hides = true;
        }
    }

    fn write(&mut self, written: &str, token: Token) {
        let calls = written == "(" && !self.last.is_empty() && !APART.contains(&&*self.last);
        let calls = calls && self.last.ends_with(|last: char| last.is_alphanumeric() || matches!(last, '_' | '"'));
        let joins = token == Token::Punct && (calls || matches!(written, ")" | "]" | "[" | "," | ";" | "." | "::"));
        let open = matches!(&*self.last, "" | "(" | "[" | "." | "::");
        if !joins && !open {
            self.text.push(' ');
        }
        self.text.push_str(written);
        written.clone_into(&mut self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str, scs: bool) -> String {
        let mut shaper = Shaper::default();
        shaper.shape(sql.as_bytes(), scs).unwrap();
        Normalized::of(shaper.canonical()).text
    }

    #[test]
    fn literals_become_numbers_and_comments_go() {
        for (sql, expected) in [
            ("SELECT  1 -- card 4111\n+ 2.5", "select $1 + $2"),
            ("select /* 'secret' */ 'it''s'::text, $1", "select $1::text, $2"),
            ("SELECT $a$secret$a$, E'x\\'secret', B'1', X'ff', N'secret', -5", "select $1, $2, $3, $4, nchar $5, - $6"),
            (
                "SELECT a.\"B\", count(*) FROM t WHERE id IN (1,2,3) AND b = $2",
                "select a.\"B\", count(*) from t where id in ($1) and b = $2",
            ),
            ("INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y')", "insert into t(a, b) values ($1, $2)"),
            ("SELECT x[1], y -> 'a'; SELECT 2;", "select x[$1], y -> $2; select $3"),
            ("DO $$ BEGIN RAISE 'secret'; END $$", "do $1"),
            ("SET app.key = 'secret'; SELECT 1", "set app.key = $1; select $2"),
            ("SET LOCAL app.key TO secret, more", "set local app.key to $1"),
            ("SELECT set_config('app.key', 'secret', true)", "select set_config($1, $2, true)"),
            ("SELECT current_setting('app.key')", "select current_setting($1)"),
            ("ALTER ROLE bob SET app.key TO secret", "alter role bob set app.key to $1"),
            ("ALTER ROLE bob PASSWORD 'secret'", "alter role bob password $1"),
            ("ALTER TABLE a RENAME TO b", "alter table a rename to b"),
            ("UPDATE t SET a = b WHERE c = 'secret'", "update t set a = b where c = $1"),
            ("SET ROLE bob", "set role bob"),
            ("", ""),
        ] {
            assert_eq!(text(sql, true), expected, "{sql}");
        }
        assert_eq!(text("SELECT 'a\\'secret', 'b'", false), "select $1, $2");
        assert_eq!(text("SET a.b = 'a\\'secret'", false), "set a.b = $1");
    }

    #[test]
    fn one_text_has_one_number_and_a_long_one_is_cut() {
        let of = |sql: &str| {
            let mut shaper = Shaper::default();
            shaper.shape(sql.as_bytes(), true).unwrap();
            Normalized::of(shaper.canonical())
        };
        assert_eq!(of("SET a.b = '1'"), of("SET a.b = '2'"));
        assert_ne!(of("SELECT a"), of("SELECT b"));
        assert_eq!(of("SELECT 1").id, 7_786_952_569_168_090_664, "in all processes");
        let long = |last: &str| of(&format!("SELECT {}, {last}", "ä,".repeat(600).trim_end_matches(',')));
        assert!(long("b").text.len() <= MOST + '…'.len_utf8() && long("b").text.ends_with('…'));
        assert_ne!(long("b").id, long("c").id);
    }
}
