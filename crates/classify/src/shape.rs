//! The shape of a statement: its tokens, with literals reduced to their kinds.
//!
//! One pass writes the tokens into a buffer as *canonical text*, one blank after each, and hashes it to 128 bits.
//! Canonical text is SQL again: a string is `'s'` (never empty: the grammar
//! shows an empty name of a file as none), an integer `1`, another number `1.0`, a bit string `b''` or `x''`, a
//! parameter `$1`; words are folded as PostgreSQL folds them, quoted identifiers stay as written. White space and
//! comments are gone; the routing comment goes into the key beside the text.
//!
//! **Why literals may go.** The verdict is computed from canonical text, not from the statement that happened to come
//! first, so it is a function of the shape by construction. What remains to show is that it holds for every statement
//! of the shape. PostgreSQL's grammar knows of a literal only its kind, and takes its value in a few places that no
//! reading statement is made of (an option of EXPLAIN or COPY: [`crate::judge`] trusts none); what runs is
//! chosen by names: functions, operators, types and relations. Values reach functions, and those that run what they
//! are given as text (`query_to_xml`, `ts_stat`, `dblink`, `crosstab`) are volatile or listed as if they were, whatever
//! the argument. A `SET` is different: its value is its meaning, so its literals are kept, as are those of a `SELECT
//! set_config(...)`, which is a SET too, the text of a `DO` and the name in `current_setting('name')` and
//! `set_config('name', ...)` elsewhere. A `U&"name"` is decoded by
//! the grammar with a literal (`UESCAPE`), so such statements have no shape and are parsed each time.
//!
//! Lists of literals of one kind are as one of it, and equal groups in parentheses beside each other as one, so that
//! `IN (1, 2, 3)` and an INSERT of a thousand rows have one shape each: the verdict knows names, and there is
//! none in what is left out. Should what is left not parse (`(1,2) OVERLAPS (3,4)`), the statement itself is parsed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use siphasher::sip128::{Hasher128, SipHasher13};

/// Routing asked for by a comment of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `/* howdah: primary */`
    Primary,
    /// `/* howdah: replica */`
    Replica,
    /// `/* howdah: any */`
    Any,
    /// `/* howdah: fresh */`: wherever all commits that have been acknowledged are seen.
    Fresh,
    /// `/* howdah: stale */`: wherever reads go, whatever its session has committed.
    Stale,
}

/// Why a text has no tokens that this lexer vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Not lexed to its end: quotes that do not close, a zero byte, numbers that servers of different versions cut
    /// differently (`0x1F`, `1_000`, `12ab`), operators longer than PostgreSQL's.
    Unlexable,
    /// Canonical text beyond [`MAX_CANONICAL`].
    TooLong,
    /// Parentheses or brackets deeper than [`MAX_DEPTH`].
    TooDeep,
}

/// More canonical text than this many bytes is not given to the parser: about two milliseconds of parsing.
pub const MAX_CANONICAL: usize = 16 * 1024;
/// More parentheses and brackets within each other than this are not given to the parser, whose tree is walked by
/// recursion.
pub const MAX_DEPTH: usize = 64;

/// What one pass over a statement found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Equal for statements of one shape within this process, and only for them but for a chance of 2^-64 or so that
    /// nobody can steer, since it is keyed with random numbers.
    pub key: u128,
    /// Routing comment, the first of them.
    pub route: Option<Route>,
    /// False if the canonical text does not stand for the statement (`U&"..."`), so that it must be parsed itself.
    pub canonical: bool,
    /// Whether literals were left out of lists.
    pub collapsed: bool,
}

/// A token as lexed; for comparison with PostgreSQL's scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// Keyword or plain identifier.
    Word,
    /// `"..."`
    Quoted,
    /// `U&"..."`
    UnicodeQuoted,
    /// Any string constant, in quotes or dollars.
    Str,
    /// `U&'...'`
    UnicodeStr,
    /// `B'...'`
    Bits,
    /// `X'...'`
    Hex,
    /// Integer below 2^31.
    Int,
    /// Any other number.
    Float,
    /// `$1`
    Param,
    /// A sequence of operator characters.
    Op,
    /// One of `,()[].;:` or `::`, `:=`, `..`.
    Punct,
}

/// Lexes; keeps its buffers between statements.
#[derive(Debug, Default)]
pub struct Shaper {
    route: Option<Route>,
    text: Vec<u8>,
    groups: Vec<(usize, (usize, usize))>,
}

const BLANK: u8 = 1;
const START: u8 = 2;
const DIGIT: u8 = 4;
const OPERATOR: u8 = 8;
const PUNCT: u8 = 16;
const DOLLAR: u8 = 32;

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = match c {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => BLANK,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xff => START,
            b'0'..=b'9' => DIGIT,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<'
            | b'>' | b'=' => OPERATOR,
            b',' | b'(' | b')' | b'[' | b']' | b'.' | b';' | b':' => PUNCT,
            b'$' => DOLLAR,
            _ => 0,
        };
        byte += 1;
    }
    table
}

static CLASSES: [u8; 256] = classes();

const fn class(byte: u8) -> u8 {
    CLASSES[byte as usize]
}

const fn in_words() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if class(byte as u8) & (START | DIGIT | DOLLAR) != 0 {
            table[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    table
}

/// The bytes of words in lower case; zero for a byte that is in no word. Words are short: looking their letters up one
/// by one costs half of what a loop for long texts does.
static IN_WORDS: [u8; 256] = in_words();

/// The byte at a place, zero beyond the end: no statement has a zero byte, so it stands for the end.
fn at(sql: &[u8], place: usize) -> u8 {
    sql.get(place).copied().unwrap_or(0)
}

impl Shaper {
    /// The shape of `sql`. `scs` is the session's `standard_conforming_strings`: if false, a backslash escapes in
    /// plain strings too. A client encoding in which a byte below 128 can be part of a longer character is not for
    /// this function; see [`crate::lexable_encoding`].
    ///
    /// # Errors
    /// [`Refusal`], if the text has no shape.
    pub fn shape(&mut self, sql: &[u8], scs: bool) -> Result<Shape, Refusal> {
        self.lex(sql, scs, |_, _, _| ())
    }

    /// As [`Shaper::shape`], telling each token with the bytes that it stands at.
    ///
    /// # Errors
    /// As [`Shaper::shape`].
    pub fn lex(&mut self, sql: &[u8], scs: bool, tell: impl FnMut(Token, usize, usize)) -> Result<Shape, Refusal> {
        self.text.clear();
        self.groups.clear();
        self.route = None;
        if memchr::memchr(0, sql).is_some() {
            return Err(Refusal::Unlexable);
        }
        Pass {
            out: self,
            sql,
            scs,
            tell,
            from: 0,
            place: 0,
            first: true,
            begin: 0,
            verbatim: false,
            configures: false,
            closed: (0, 0),
            canonical: true,
            collapsed: false,
        }
        .shape()
    }

    /// The routing comment of the text shaped last; after a refusal, if it was met by then.
    pub fn route(&self) -> Option<Route> {
        self.route
    }

    /// The canonical text of the statement shaped last; undefined after a refusal.
    pub fn canonical(&self) -> &[u8] {
        &self.text
    }
}

/// One pass over a statement.
struct Pass<'a, T> {
    out: &'a mut Shaper,
    sql: &'a [u8],
    scs: bool,
    tell: T,
    /// Where the token begins.
    from: usize,
    /// Where the token ends, once it has been read.
    place: usize,
    /// A statement begins here.
    first: bool,
    /// Where the statement begins in the canonical text.
    begin: usize,
    /// The literals of the statement are its meaning: those of a SET, the text of a DO.
    verbatim: bool,
    /// The statement has named `set_config`: the parameters of its calls are told apart.
    configures: bool,
    /// Where the group that was closed last stands in the canonical text.
    closed: (usize, usize),
    canonical: bool,
    collapsed: bool,
}

impl<T: FnMut(Token, usize, usize)> Pass<'_, T> {
    fn shape(mut self) -> Result<Shape, Refusal> {
        while let Some(&byte) = self.sql.get(self.place) {
            if class(byte) == BLANK {
                self.place += 1;
                continue;
            }
            self.from = self.place;
            match class(byte) {
                START => self.word(byte)?,
                DIGIT => self.number()?,
                DOLLAR => self.dollar()?,
                PUNCT => self.punct(byte)?,
                OPERATOR => self.operator(byte)?,
                _ if byte == b'\'' => self.string()?,
                _ if byte == b'"' => {
                    self.place = quoted(self.sql, self.from + 1)?;
                    self.keep(Token::Quoted);
                    self.configures |= self.raw() == b"\"set_config\"";
                }
                _ => return Err(Refusal::Unlexable),
            }
            if self.out.text.len() > MAX_CANONICAL {
                return Err(Refusal::TooLong);
            }
        }
        let text = &mut self.out.text;
        while text.ends_with(b"; ") {
            text.truncate(text.len() - 2);
        }
        let route = self.out.route;
        // Beside the text, so that it need not be written.
        let key = hash(text, route.map_or(0, |route| route as u64 + 1));
        Ok(Shape { key, route, canonical: self.canonical, collapsed: self.collapsed })
    }

    /// The token's bytes.
    fn raw(&self) -> &[u8] {
        self.sql.get(self.from..self.place).unwrap_or_default()
    }

    fn told(&mut self, token: Token) {
        self.first = false;
        (self.tell)(token, self.from, self.place);
    }

    /// Writes the token as it stands.
    fn keep(&mut self, token: Token) {
        self.told(token);
        keep(&mut self.out.text, b"", self.sql.get(self.from..self.place));
    }

    /// Writes what stands for the token, unless it goes into a list of its like.
    fn stand_in(&mut self, token: Token) {
        self.told(token);
        if self.configures {
            return self.out.text.extend_from_slice(stand(token));
        }
        self.collapsed |= literal(&mut self.out.text, stand(token));
    }

    /// Writes a literal: as it stands, behind `before`, where its value matters.
    fn literal(&mut self, token: Token, before: &[u8]) {
        if self.verbatim || token == Token::Str && names_parameter(&self.out.text) {
            self.out.text.extend_from_slice(before);
            self.keep(token);
        } else {
            self.stand_in(token);
        }
    }

    /// A keyword or identifier, or a string whose quote comes behind a letter.
    fn word(&mut self, byte: u8) -> Result<(), Refusal> {
        match at(self.sql, self.from + 1) {
            b'\'' if matches!(byte | 0x20, b'e' | b'b' | b'x' | b'n') => return self.prefixed(byte | 0x20),
            b'&' if byte | 0x20 == b'u' && matches!(at(self.sql, self.from + 2), b'\'' | b'"') => {
                return self.unicode();
            }
            _ => (),
        }
        let (rest, text) = (self.sql.get(self.from..).unwrap_or_default(), &mut self.out.text);
        let start = text.len();
        text.extend(rest.iter().map(|&byte| IN_WORDS[byte as usize]).take_while(|&folded| folded != 0));
        self.place = self.from + text.len() - start;
        let begins = self.first;
        self.told(Token::Word);
        let text = &mut self.out.text;
        if begins {
            self.begin = start;
            self.verbatim = matches!(text.get(start..), Some(b"set" | b"do"));
            self.configures = false;
        } else if text.get(start..) == Some(b"set_config") {
            let before = text.get(self.begin..start);
            self.verbatim |= matches!(before, Some(b"select " | b"select pg_catalog . "));
            self.configures = true;
        }
        text.push(b' ');
        Ok(())
    }

    /// `E'...'`, `B'...'`, `X'...'` or `N'...'`.
    fn prefixed(&mut self, kind: u8) -> Result<(), Refusal> {
        let escapes = kind == b'e' || kind == b'n' && !self.scs;
        self.place = string(self.sql, self.from + 2, escapes, matches!(kind, b'e' | b'n'))?;
        match kind {
            b'n' => self.national(),
            b'b' => self.literal(Token::Bits, b""),
            b'x' => self.literal(Token::Hex, b""),
            _ => self.literal(Token::Str, b""),
        }
        Ok(())
    }

    /// `N'...'`: to the grammar the word NCHAR before a plain string.
    fn national(&mut self) {
        self.first = false;
        (self.tell)(Token::Word, self.from, self.from + 1);
        (self.tell)(Token::Str, self.from + 1, self.place);
        let text = &mut self.out.text;
        match (self.verbatim, self.scs) {
            (false, _) => text.extend_from_slice(b"nchar 's' "),
            (true, false) => keep(text, b"e", self.sql.get(self.from + 1..self.place)),
            (true, true) => keep(text, b"", self.sql.get(self.from..self.place)),
        }
    }

    /// `U&'...'` or `U&"..."`, which a literal behind may decode otherwise.
    fn unicode(&mut self) -> Result<(), Refusal> {
        let body = self.from + 3;
        let name = at(self.sql, body - 1) == b'"';
        self.place = if name { quoted(self.sql, body)? } else { string(self.sql, body, false, true)? };
        self.canonical = false;
        self.keep(if name { Token::UnicodeQuoted } else { Token::UnicodeStr });
        Ok(())
    }

    fn string(&mut self) -> Result<(), Refusal> {
        self.place = string(self.sql, self.from + 1, !self.scs, true)?;
        self.literal(Token::Str, if self.scs { b"" } else { b"e" });
        Ok(())
    }

    fn number(&mut self) -> Result<(), Refusal> {
        self.place = number(self.sql, self.from)?;
        self.literal(if is_int(self.raw()) { Token::Int } else { Token::Float }, b"");
        Ok(())
    }

    /// A parameter, or a string between dollars.
    fn dollar(&mut self) -> Result<(), Refusal> {
        if class(at(self.sql, self.from + 1)) != DIGIT {
            self.place = dollars(self.sql, self.from)?;
            self.literal(Token::Str, b"");
            return Ok(());
        }
        self.place = run(self.sql, self.from + 1, DIGIT);
        let next = at(self.sql, self.place);
        if self.raw().len() > 10 || class(next) & (START | DOLLAR) != 0 {
            return Err(Refusal::Unlexable);
        }
        if self.configures {
            self.keep(Token::Param);
        } else {
            self.stand_in(Token::Param);
        }
        Ok(())
    }

    fn punct(&mut self, byte: u8) -> Result<(), Refusal> {
        self.place += 1;
        let next = at(self.sql, self.place);
        match byte {
            b'(' | b'[' => self.open()?,
            b'.' if class(next) == DIGIT => {
                self.place = number(self.sql, self.from)?;
                self.literal(Token::Float, b"");
                return Ok(());
            }
            b'.' if next == b'.' => self.place += 1,
            b':' if next == b':' || next == b'=' => self.place += 1,
            b';' if self.out.groups.is_empty() => {
                self.end_statement();
                return Ok(());
            }
            _ => (),
        }
        self.keep(Token::Punct);
        if matches!(byte, b')' | b']') {
            self.close();
        }
        Ok(())
    }

    /// A semicolon outside of all parentheses. One behind nothing is not written.
    fn end_statement(&mut self) {
        if !self.first {
            self.out.text.extend_from_slice(b"; ");
        }
        self.told(Token::Punct);
        (self.first, self.verbatim) = (true, false);
    }

    fn open(&mut self) -> Result<(), Refusal> {
        if self.out.groups.len() >= MAX_DEPTH {
            return Err(Refusal::TooDeep);
        }
        self.out.groups.push((self.out.text.len(), std::mem::take(&mut self.closed)));
        Ok(())
    }

    /// A group has been closed: it is taken back if it is as the one before it in a list.
    fn close(&mut self) {
        let Some((open, before)) = self.out.groups.pop() else { return };
        let text = &mut self.out.text;
        self.closed = (open, text.len());
        if before.1 != 0
            && !(self.verbatim || self.configures)
            && text.get(before.1..open) == Some(b", ")
            && text.get(before.0..before.1) == text.get(open..)
        {
            text.truncate(before.1);
            self.closed = before;
            self.collapsed = true;
        }
    }

    /// An operator or a comment.
    fn operator(&mut self, byte: u8) -> Result<(), Refusal> {
        let (next, body) = (at(self.sql, self.from + 1), self.from + 2);
        let comment = match (byte, next) {
            (b'-', b'-') => {
                self.place = line_end(self.sql, body);
                self.sql.get(body..self.place)
            }
            (b'/', b'*') => {
                self.place = comment(self.sql, body)?;
                self.sql.get(body..self.place - 2)
            }
            _ => {
                self.place = operator(self.sql, self.from)?;
                self.keep(Token::Op);
                return Ok(());
            }
        };
        note(&mut self.out.route, comment.unwrap_or_default());
        Ok(())
    }
}

/// What stands for a literal of this kind in canonical text.
fn stand(token: Token) -> &'static [u8] {
    match token {
        Token::Bits => b"b'' ",
        Token::Hex => b"x'' ",
        Token::Int => b"1 ",
        Token::Float => b"1.0 ",
        Token::Param => b"$1 ",
        _ => b"'s' ",
    }
}

/// Writes a token as it stands.
fn keep(text: &mut Vec<u8>, before: &[u8], raw: Option<&[u8]>) {
    // Most operators and punctuation.
    if let (Some(&[byte]), true) = (raw, before.is_empty()) {
        return text.extend_from_slice(&[byte, b' ']);
    }
    text.extend_from_slice(before);
    text.extend_from_slice(raw.unwrap_or_default());
    text.push(b' ');
}

/// Whether a string that follows is the name of a parameter.
fn names_parameter(text: &[u8]) -> bool {
    const BEFORE: [&[u8]; 4] =
        [b"current_setting ( ", b"\"current_setting\" ( ", b"set_config ( ", b"\"set_config\" ( "];
    BEFORE.iter().any(|before| text.ends_with(before))
}

/// Writes a literal, unless it follows another of its kind after a comma, which is then taken back. True if so.
fn literal(text: &mut Vec<u8>, stand: &[u8]) -> bool {
    let head = text.len().saturating_sub(2);
    if text.get(head..) == Some(b", ")
        && let Some(before) = text.get(..head).and_then(|text| text.strip_suffix(stand))
        // A token of its own: `1 ` also ends `$1 `, and `'s' ` could end another.
        && before.last().is_none_or(|&byte| byte == b' ')
        // Only within a list: what is before the literal opens it.
        && matches!(before.len().checked_sub(2).and_then(|at| before.get(at)), Some(b'(' | b'['))
    {
        text.truncate(head);
        return true;
    }
    text.extend_from_slice(stand);
    false
}

/// Where those bytes end that are of these classes, from a place on.
fn run(sql: &[u8], place: usize, classes: u8) -> usize {
    let rest = sql.get(place..).unwrap_or_default();
    place + rest.iter().position(|&byte| class(byte) & classes == 0).unwrap_or(rest.len())
}

/// Where a string ends, its continuations on later lines included; `place` is behind the opening quote. `escapes`: a
/// backslash takes the next byte with it. `doubles`: two quotes are one of its text (not in bit strings).
fn string(sql: &[u8], mut place: usize, escapes: bool, doubles: bool) -> Result<usize, Refusal> {
    loop {
        let rest = sql.get(place..).unwrap_or_default();
        let found = if escapes { memchr::memchr2(b'\'', b'\\', rest) } else { memchr::memchr(b'\'', rest) };
        place += found.ok_or(Refusal::Unlexable)?;
        if at(sql, place) == b'\\' {
            place += 2;
            continue;
        }
        place += 1;
        if doubles && at(sql, place) == b'\'' {
            place += 1;
            continue;
        }
        match continuation(sql, place) {
            Some(next) => place = next,
            None => return Ok(place),
        }
    }
}

/// Behind the quote of a further piece of a string: a line break and nothing but blanks and line comments between.
fn continuation(sql: &[u8], mut place: usize) -> Option<usize> {
    let mut broken = false;
    loop {
        match at(sql, place) {
            b'\n' | b'\r' => {
                broken = true;
                place += 1;
            }
            b' ' | b'\t' | 0x0b | 0x0c => place += 1,
            b'-' if at(sql, place + 1) == b'-' => place = line_end(sql, place + 2),
            b'\'' if broken => return Some(place + 1),
            _ => return None,
        }
    }
}

/// Where a quoted identifier ends; `place` is behind the opening quote.
fn quoted(sql: &[u8], mut place: usize) -> Result<usize, Refusal> {
    let from = place;
    loop {
        place += memchr::memchr(b'"', sql.get(place..).unwrap_or_default()).ok_or(Refusal::Unlexable)?;
        if at(sql, place + 1) == b'"' {
            place += 2;
            continue;
        }
        if place == from {
            return Err(Refusal::Unlexable);
        }
        return Ok(place + 1);
    }
}

/// Where a dollar-quoted string ends; `place` is at its first dollar.
fn dollars(sql: &[u8], place: usize) -> Result<usize, Refusal> {
    let mut end = place + 1;
    if class(at(sql, end)) == START {
        end = run(sql, end, START | DIGIT);
    }
    if at(sql, end) != b'$' {
        return Err(Refusal::Unlexable);
    }
    end += 1;
    let tag = sql.get(place..end).ok_or(Refusal::Unlexable)?;
    let body = sql.get(end..).ok_or(Refusal::Unlexable)?;
    Ok(end + memchr::memmem::find(body, tag).ok_or(Refusal::Unlexable)? + tag.len())
}

/// Where a number ends. Only what all servers cut the same way.
fn number(sql: &[u8], mut place: usize) -> Result<usize, Refusal> {
    let digits = |place: usize| run(sql, place, DIGIT);
    place = digits(place);
    if at(sql, place) == b'.' {
        if at(sql, place + 1) == b'.' {
            return Err(Refusal::Unlexable);
        }
        place = digits(place + 1);
    }
    if at(sql, place) | 0x20 == b'e' {
        let mut power = place + 1;
        if matches!(at(sql, power), b'+' | b'-') {
            power += 1;
        }
        if class(at(sql, power)) != DIGIT {
            return Err(Refusal::Unlexable);
        }
        place = digits(power);
    }
    if class(at(sql, place)) & (START | DOLLAR) != 0 {
        return Err(Refusal::Unlexable);
    }
    Ok(place)
}

/// Whether a number is one that the grammar takes as an integer.
fn is_int(raw: &[u8]) -> bool {
    let digits = raw.iter().all(u8::is_ascii_digit);
    // Nine digits are below 2^31, whatever they are.
    digits && (raw.len() <= 9 || str::from_utf8(raw).is_ok_and(|text| text.parse::<i32>().is_ok()))
}

/// Where an operator ends: before a comment, and without the plus and minus signs at its end that may belong to what
/// follows.
fn operator(sql: &[u8], from: usize) -> Result<usize, Refusal> {
    let mut end = from + 1;
    while class(at(sql, end)) == OPERATOR {
        if matches!((at(sql, end - 1), at(sql, end)), (b'/', b'*') | (b'-', b'-')) {
            end -= 1;
            break;
        }
        end += 1;
    }
    let raw = sql.get(from..end).unwrap_or_default();
    if raw.len() > 1
        && matches!(raw.last(), Some(b'+' | b'-'))
        && !raw.iter().any(|c| matches!(c, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%'))
    {
        let tail = raw.iter().rev().take_while(|c| matches!(c, b'+' | b'-')).count();
        end = (end - tail).max(from + 1);
    }
    if end - from >= 64 {
        return Err(Refusal::Unlexable);
    }
    Ok(end)
}

fn line_end(sql: &[u8], place: usize) -> usize {
    let rest = sql.get(place..).unwrap_or_default();
    memchr::memchr2(b'\n', b'\r', rest).map_or(sql.len(), |end| place + end)
}

/// Where a comment ends that may hold others; `place` is behind its opening.
fn comment(sql: &[u8], mut place: usize) -> Result<usize, Refusal> {
    let mut depth = 1;
    loop {
        place += memchr::memchr2(b'*', b'/', sql.get(place..).unwrap_or_default()).ok_or(Refusal::Unlexable)?;
        match (at(sql, place), at(sql, place + 1)) {
            (b'*', b'/') => {
                place += 2;
                depth -= 1;
                if depth == 0 {
                    return Ok(place);
                }
            }
            (b'/', b'*') => {
                place += 2;
                depth += 1;
            }
            _ => place += 1,
        }
    }
}

/// What a comment may ask for.
const ROUTES: [(&str, Route); 5] = [
    ("primary", Route::Primary),
    ("replica", Route::Replica),
    ("any", Route::Any),
    ("fresh", Route::Fresh),
    ("stale", Route::Stale),
];

/// Notes the route that a comment asks for.
fn note(route: &mut Option<Route>, comment: &[u8]) {
    if route.is_some() || comment.len() > 64 {
        return;
    }
    let comment = comment.trim_ascii();
    let Some(colon) = comment.iter().position(|&byte| byte == b':') else { return };
    let (name, value) = comment.split_at(colon);
    let name = name.trim_ascii_end();
    if !name.eq_ignore_ascii_case(b"howdah") && !name.eq_ignore_ascii_case(b"pgdog_role") {
        return;
    }
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    for (word, meant) in ROUTES {
        if value.eq_ignore_ascii_case(word.as_bytes()) {
            *route = Some(meant);
        }
    }
}

/// Random for each process: who could find two statements with one key could pass a write off as a read.
static SECRET: LazyLock<SipHasher13> = LazyLock::new(|| {
    let state = RandomState::new();
    SipHasher13::new_with_keys(state.hash_one(0), state.hash_one(1))
});

/// 128 bits of a text.
fn hash(text: &[u8], seed: u64) -> u128 {
    let mut hasher = *SECRET;
    hasher.write_u64(seed);
    hasher.write(text);
    hasher.finish128().as_u128()
}
