//! What the pooler is told: settings, databases and users, from `howdah.toml`, `pgbouncer.ini` or `pgcat.toml`.

mod configuration;
mod entries;
mod environment;
mod ini;
mod nearest;
mod pgcat;
mod read;
mod reference;
mod server_list;
pub mod servers;
pub mod settings;
#[cfg(test)]
mod tests;
mod toml_file;
mod toml_value;
pub(crate) mod userlist;
pub mod value;

pub use configuration::{Config, Limits, is_console};
pub use entries::{Database, Key, User};
pub use nearest::nearest;
pub use read::Error;
pub use reference::page as reference_page;
pub use servers::{DefaultRole, PrimaryReads, Routing};
pub use settings::{Settings, Shown};
pub use value::{
    AuthType, ChannelBinding, FileMode, HostOrder, List, LogFormat, PoolMode, Seconds, Shutdown, SslMode,
    SyslogFacility, Value,
};
