//! The files of a configuration: `howdah.toml`, `pgbouncer.ini` or `pgcat.toml`, and those that they name.

mod environment;
mod ini;
mod nearest;
mod pgcat;
mod read;
mod reference;
mod server_list;
#[cfg(test)]
mod tests;
mod toml_file;
mod toml_value;
pub mod userlist;

pub use nearest::nearest;
pub use read::{Error, nobody_can_log_in, parse, prepare, read};
pub use reference::page as reference_page;
