//! The configuration: settings, databases and users. The program reads the files.

pub mod configuration;
pub mod entries;
mod hubless;
pub mod servers;
pub mod settings;
pub mod shards;
pub mod value;

pub use configuration::{Config, Limits, is_console};
pub use entries::{Database, Key, User};
pub use servers::{DefaultRole, PrimaryReads, Routing};
pub use settings::{Settings, Shown};
pub use shards::{DefaultShard, Pattern};
pub use value::{
    AuthType, ChannelBinding, FileMode, HostOrder, List, LogFormat, PoolMode, Seconds, Shutdown, SslMode,
    SyslogFacility, Value,
};
