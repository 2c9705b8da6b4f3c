//! What all clients share: the schema, and what the server itself says that a session must see.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::admin::{Admin, SUPERUSER};
use crate::mischief::shifty;
use crate::settings::{DEFAULT_PATH, ROLES, SETTINGS, Setting, TENANTS, Text, USERS, Value, Vars};

/// The database of the crowd.
pub const DATABASE: &str = "crowd";

/// Functions and tables that are the same for all tenants.
const TOOLS: &str = "
CREATE SCHEMA tools;
CREATE TABLE tools.mine (owner text, v text);
INSERT INTO tools.mine VALUES ('crowd', 'of crowd'), ('role_1', 'of role_1'), ('role_2', 'of role_2');
ALTER TABLE tools.mine ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON tools.mine USING (owner = current_user);
CREATE TABLE tools.secret (v text);
INSERT INTO tools.secret VALUES ('the secret of role_1');
CREATE FUNCTION tools.note(tag text) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE 'one %', tag; RAISE NOTICE 'two %', tag; RETURN tag; END $$;
CREATE FUNCTION tools.boom(tag text) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'boom %', tag; END $$;
CREATE FUNCTION tools.nap(tag text, seconds float) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(seconds); RETURN tag; END $$;
GRANT USAGE ON SCHEMA tools TO PUBLIC;
GRANT SELECT ON tools.mine TO PUBLIC;
GRANT SELECT ON tools.secret TO role_1;
";

/// What each tenant has under the same names.
const TENANT: &str = "
CREATE TABLE @.item (id int PRIMARY KEY, v text);
INSERT INTO @.item SELECT i, '@ item ' || i FROM generate_series(1, 100) i;
CREATE TABLE @.ledger (k bigint, tag text, who text DEFAULT current_user);
CREATE INDEX ON @.ledger (k);
CREATE TABLE @.dup (k bigint CONSTRAINT dup_k_key UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE FUNCTION @.here() RETURNS text STABLE LANGUAGE sql AS $$ SELECT '@'::text $$;
CREATE FUNCTION @.put(key bigint) RETURNS bigint LANGUAGE sql AS
    $$ INSERT INTO @.ledger (k, tag) VALUES (key, key::text) RETURNING k $$;
GRANT USAGE ON SCHEMA @ TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA @ TO PUBLIC;
";

/// What all clients share.
#[derive(Debug, Default)]
pub struct World {
    /// The settings of a session that asks for none, by user.
    defaults: HashMap<&'static str, Vec<String>>,
    /// The settings that the server reports of itself.
    pub reported: Vec<String>,
    /// A moment, by DateStyle and TimeZone.
    pub moments: HashMap<String, Text>,
    /// A date, by DateStyle.
    pub dates: HashMap<String, Text>,
    /// An interval, by IntervalStyle.
    pub intervals: HashMap<String, Text>,
    /// Bytes, by bytea_output.
    pub bytes: HashMap<String, Text>,
    tables: HashMap<(String, String), u32>,
}

impl World {
    /// Makes the database anew and asks the server what sessions must see.
    pub fn prepare(server: SocketAddr) -> Result<Self, String> {
        let mut admin = Admin::connect(server, "postgres", SUPERUSER)?;
        admin.ask(&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"))?;
        admin.ask(&format!("CREATE DATABASE {DATABASE}"))?;
        // Of a run before, where the server is the same.
        for row in admin.ask("SELECT rolname FROM pg_roles WHERE rolname ~ '^(crowd|boss|role_[12]|doomed_.*)$'")? {
            admin.ask(&format!("DROP ROLE {}", row[0]))?;
        }
        admin.ask("CREATE ROLE crowd LOGIN NOINHERIT; CREATE ROLE boss LOGIN SUPERUSER")?;
        for role in ROLES {
            admin.ask(&format!("CREATE ROLE {role}; GRANT {role} TO crowd"))?;
        }
        admin.ask(&format!("ALTER DATABASE {DATABASE} SET escape_string_warning = off"))?;
        let mut admin = Admin::connect(server, DATABASE, SUPERUSER)?;
        admin.ask(TOOLS)?;
        admin.ask(&shifty(false))?;
        for tenant in TENANTS.into_iter().filter(|tenant| *tenant != "public") {
            admin.ask(&format!("CREATE SCHEMA {tenant}"))?;
        }
        for tenant in TENANTS {
            admin.ask(&TENANT.replace('@', tenant))?;
        }
        let mut world = Self::default();
        world.learn(server, &mut admin)?;
        Ok(world)
    }

    fn learn(&mut self, server: SocketAddr, admin: &mut Admin) -> Result<(), String> {
        for user in USERS {
            let mut session = Admin::connect(server, DATABASE, user)?;
            let mut values = Vec::new();
            for setting in SETTINGS {
                let sql = format!("SELECT coalesce(current_setting('{}', true), '')", setting.name());
                values.push(session.value(&sql)?);
            }
            self.defaults.insert(user, values);
            self.reported = session.reported.drain(..).map(|(name, _)| name).collect();
        }
        for style in Setting::DateStyle.choices() {
            admin.ask(&format!("SET DateStyle = '{style}'"))?;
            self.dates.insert((*style).to_owned(), admin.value("SELECT make_date(2024, 3, 2)")?.into());
            for zone in Setting::TimeZone.choices() {
                admin.ask(&format!("SET TimeZone = '{zone}'"))?;
                let moment = admin.value("SELECT to_timestamp(1709374272)")?;
                self.moments.insert(format!("{style} {zone}"), moment.into());
            }
        }
        for style in Setting::IntervalStyle.choices() {
            admin.ask(&format!("SET IntervalStyle = '{style}'"))?;
            let interval = admin.value("SELECT make_interval(days => 1, hours => 2)")?;
            self.intervals.insert((*style).to_owned(), interval.into());
        }
        for output in Setting::Bytea.choices() {
            admin.ask(&format!("SET bytea_output = '{output}'"))?;
            self.bytes.insert((*output).to_owned(), admin.value("SELECT decode('0102', 'hex')")?.into());
        }
        let sql = "SELECT nspname, relname, c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
             WHERE relkind = 'r' AND nspname <> 'pg_catalog'";
        for row in admin.ask(sql)? {
            let oid = row[2].parse().map_err(|_| format!("not an OID: {}", row[2]))?;
            self.tables.insert((row[0].clone(), row[1].clone()), oid);
        }
        Ok(())
    }

    /// The settings of a session of this user that asks for these.
    pub fn session(&self, user: &str, asked: &[(Setting, Text)]) -> Vars {
        let defaults = self.defaults.get(user).map(Vec::as_slice).unwrap_or_default();
        let mut values =
            SETTINGS.map(|setting| Value::sure(defaults.get(setting as usize).map_or(DEFAULT_PATH, String::as_str)));
        for (setting, value) in asked {
            values[*setting as usize] = Value::sure(value.clone());
        }
        Vars::new(values)
    }

    /// The OID of a table: of the tenant, or of `tools`.
    pub fn table(&self, tenant: &str, table: &str) -> Option<u32> {
        let oid = |schema: &str| self.tables.get(&(schema.to_owned(), table.to_owned())).copied();
        oid("tools").or_else(|| oid(tenant))
    }

    /// Whether the server reports a setting to its clients.
    pub fn reports(&self, setting: Setting) -> bool {
        self.reported.iter().any(|name| name == setting.name())
    }
}
