//! The configuration: settings, databases and users. The program reads the files.

pub mod by_hand;
pub mod configuration;
pub mod entries;
pub mod servers;
pub mod settings;
pub mod value;

pub use by_hand::{ByHand, DefaultShard, Pattern};
pub use configuration::{Config, Limits, is_console};
pub use entries::{Database, Key, User};
pub use servers::{DefaultRole, PrimaryReads, Routing};
pub use settings::{Settings, Shown};
pub use value::{
    AuthType, ChannelBinding, FileMode, HostOrder, List, LogFormat, PoolMode, Seconds, Shutdown, SslMode,
    SyslogFacility, Value,
};
