//! The settings of a session that the crowd changes and watches, and what is believed of their values.

use std::sync::Arc;

/// Text that many share.
pub type Text = Arc<str>;

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    SearchPath,
    Role,
    Authorization,
    TimeZone,
    DateStyle,
    IntervalStyle,
    Encoding,
    Conforming,
    Application,
    WorkMem,
    Timeout,
    ReadOnly,
    Bytea,
    Tag,
}

/// All settings, in the order of [`Vars`].
pub const SETTINGS: [Setting; 14] = [
    Setting::SearchPath,
    Setting::Role,
    Setting::Authorization,
    Setting::TimeZone,
    Setting::DateStyle,
    Setting::IntervalStyle,
    Setting::Encoding,
    Setting::Conforming,
    Setting::Application,
    Setting::WorkMem,
    Setting::Timeout,
    Setting::ReadOnly,
    Setting::Bytea,
    Setting::Tag,
];

/// The path of whoever has set none.
pub const DEFAULT_PATH: &str = "\"$user\", public";
/// The schemas that hold the same tables with different contents.
pub const TENANTS: [&str; 6] = ["public", "tenant_1", "tenant_2", "tenant_3", "role_1", "role_2"];
/// The roles that clients take on.
pub const ROLES: [&str; 2] = ["role_1", "role_2"];
/// The users that clients log in as. The last is a superuser.
pub const USERS: [&str; 2] = ["crowd", "boss"];

impl Setting {
    /// Its name, as the server spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SearchPath => "search_path",
            Self::Role => "role",
            Self::Authorization => "session_authorization",
            Self::TimeZone => "TimeZone",
            Self::DateStyle => "DateStyle",
            Self::IntervalStyle => "IntervalStyle",
            Self::Encoding => "client_encoding",
            Self::Conforming => "standard_conforming_strings",
            Self::Application => "application_name",
            Self::WorkMem => "work_mem",
            Self::Timeout => "statement_timeout",
            Self::ReadOnly => "default_transaction_read_only",
            Self::Bytea => "bytea_output",
            Self::Tag => "my.tag",
        }
    }

    /// Values to choose from, as the server shows them; none where each client makes its own.
    pub fn choices(self) -> &'static [&'static str] {
        match self {
            Self::SearchPath => &["tenant_1", "tenant_2", "tenant_3", "tenant_1, public", "tenant_2, tools"],
            Self::Role => &ROLES,
            Self::Authorization => &["crowd"],
            Self::TimeZone => &["UTC", "Asia/Tokyo", "America/New_York"],
            Self::DateStyle => &["ISO, MDY", "ISO, DMY", "German, DMY", "SQL, MDY"],
            Self::IntervalStyle => &["postgres", "iso_8601", "sql_standard"],
            Self::Encoding => &["UTF8", "LATIN1"],
            Self::Conforming => &["on", "off"],
            Self::Application | Self::Tag => &[],
            Self::WorkMem => &["1MB", "2MB", "3MB"],
            Self::Timeout => &["1ms", "40s", "50s"],
            Self::ReadOnly => &["off", "on"],
            Self::Bytea => &["hex", "escape"],
        }
    }
}

/// What is believed of one value: what it is, or, after an outcome that nobody was told, what it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    first: Text,
    others: Option<Arc<[Text]>>,
}

impl Value {
    /// A value that is known.
    pub fn sure(text: impl Into<Text>) -> Self {
        Self { first: text.into(), others: None }
    }

    /// The value, where it is known.
    pub fn known(&self) -> Option<&str> {
        if self.others.is_none() { Some(&self.first) } else { None }
    }

    /// All that it may be.
    pub fn all(&self) -> impl Iterator<Item = &Text> {
        std::iter::once(&self.first).chain(self.others.iter().flat_map(|others| others.iter()))
    }

    /// Whether it may be this.
    pub fn may_be(&self, text: &str) -> bool {
        self.all().any(|value| &**value == text)
    }

    /// What it is when it may have become `other`, or not.
    pub fn or(&self, other: &Self) -> Self {
        let mut others: Vec<Text> = self.others.iter().flat_map(|others| others.iter().cloned()).collect();
        others.extend(other.all().filter(|value| !self.may_be(value)).cloned());
        Self { first: self.first.clone(), others: (!others.is_empty()).then(|| others.into()) }
    }
}

/// The values of all settings.
#[derive(Debug, Clone)]
pub struct Vars {
    /// What statements see.
    now: [Value; SETTINGS.len()],
    /// What is left when the transaction has committed.
    kept: [Value; SETTINGS.len()],
}

impl Vars {
    /// Settings with these values.
    pub fn new(values: [Value; SETTINGS.len()]) -> Self {
        Self { now: values.clone(), kept: values }
    }

    /// What statements see.
    pub fn get(&self, setting: Setting) -> &Value {
        &self.now[setting as usize]
    }

    /// SET.
    pub fn set(&mut self, setting: Setting, value: Value) {
        self.now[setting as usize] = value.clone();
        self.kept[setting as usize] = value;
    }

    /// SET LOCAL.
    pub fn set_local(&mut self, setting: Setting, value: Value) {
        self.now[setting as usize] = value;
    }

    /// Whether there is anything that ends with the transaction.
    pub fn has_local(&self) -> bool {
        self.now != self.kept
    }

    /// The transaction has committed.
    pub fn commit(&mut self) {
        self.now = self.kept.clone();
    }

    /// What they are when they may have become `other`, or not.
    pub fn or(&self, other: &Self) -> Self {
        let kept = std::array::from_fn(|at| self.kept[at].or(&other.kept[at]));
        Self::new(kept)
    }

    /// Who statements run as; none where that is not known.
    pub fn user(&self) -> Option<&str> {
        match self.get(Setting::Role).known()? {
            "none" => self.get(Setting::Authorization).known(),
            role => Some(role),
        }
    }

    /// The schema that unqualified names lead to; none where that is not known.
    pub fn tenant(&self) -> Option<&'static str> {
        let path = self.get(Setting::SearchPath).known()?;
        let first = path.split(',').next().unwrap_or_default().trim();
        let schema = if first == "\"$user\"" {
            let user = self.user()?;
            if ROLES.contains(&user) { user } else { "public" }
        } else {
            first
        };
        TENANTS.into_iter().find(|tenant| *tenant == schema)
    }
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_PATH, SETTINGS, Setting, Value, Vars};

    fn vars() -> Vars {
        let mut vars = Vars::new(SETTINGS.map(|_| Value::sure("")));
        vars.set(Setting::SearchPath, Value::sure(DEFAULT_PATH));
        vars.set(Setting::Role, Value::sure("none"));
        vars.set(Setting::Authorization, Value::sure("crowd"));
        vars
    }

    #[test]
    fn the_tenant_follows_path_and_role() {
        let mut vars = vars();
        assert_eq!(vars.tenant(), Some("public"));
        vars.set(Setting::Role, Value::sure("role_1"));
        assert_eq!(vars.tenant(), Some("role_1"));
        vars.set(Setting::SearchPath, Value::sure("tenant_2, tools"));
        assert_eq!(vars.tenant(), Some("tenant_2"));
        vars.set(Setting::SearchPath, Value::sure("tenant_2").or(&Value::sure("tenant_1")));
        assert_eq!(vars.tenant(), None);
    }

    #[test]
    fn what_is_local_ends_with_the_transaction_unless_it_is_set() {
        let mut vars = vars();
        vars.set_local(Setting::Tag, Value::sure("local"));
        assert_eq!(vars.get(Setting::Tag).known(), Some("local"));
        vars.commit();
        assert_eq!(vars.get(Setting::Tag).known(), Some(""));
        vars.set_local(Setting::Tag, Value::sure("local"));
        vars.set(Setting::Tag, Value::sure("set"));
        vars.commit();
        assert_eq!(vars.get(Setting::Tag).known(), Some("set"));
    }
}
